"""A run of somebody else is read, and nothing of the user's is touched: neither by links in it nor within it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

import pytest
from tests.faults.foreign import MALICE, TABLES, closed_run, outside, state_of, unclosed_run
from tests.fleet.made import opened, outcome, plan
from tests.refusals import refused

from wattstep.cli import run_command_line
from wattstep.errors import DamagedRunError, WattstepError
from wattstep.importing.recorded import prepare
from wattstep.report.html.page import write_at_once
from wattstep.run import load
from wattstep.schema.outcome import Outcome
from wattstep.serve.store_view import StoreView
from wattstep.serve.worker import answer
from wattstep.store.convert import convert
from wattstep.store.folder import Folder
from wattstep.sweep.folder import read_outcomes, read_sweep
from wattstep.train.daily.folder import read as read_daily

PATIENCE_S = (
    60  # in which a command that does not wait for ever works a little, however busy the machine
)
HEAVY = [name for name in MALICE if "journal/" not in name or name.endswith("marks.bin")]


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    used = time.process_time()

    def late(number: int, frame: FrameType | None) -> None:
        nonlocal used
        before, used = used, time.process_time()
        if used < before + 0.1:
            raise TimeoutError("it waits for ever")
        signal.alarm(PATIENCE_S)

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """Where the files of the user lie."""
    return outside(tmp_path / "home")


def ended(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of a command."""
    monkeypatch.setattr(sys, "argv", ["wattstep", *arguments])
    return run_command_line()


@pytest.mark.parametrize("malice", MALICE)
def test_a_run_that_leads_out_is_read_or_refused_and_changes_nothing(
    tmp_path: Path, theirs: Path, malice: str
) -> None:
    run = unclosed_run(tmp_path / "run")
    MALICE[malice](run, theirs)
    before, of_run = state_of(theirs), state_of(run)
    with contextlib.suppress(DamagedRunError):
        assert len(load(run).tables.steps().index) in (0, 60)
    assert state_of(theirs) == before
    assert state_of(run) == of_run


@pytest.mark.parametrize("name", ["samples.parquet", "steps.parquet", "run.json"])
@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_a_closed_run_that_waits_for_ever_is_refused(
    tmp_path: Path, theirs: Path, name: str, kind: str
) -> None:
    run = closed_run(tmp_path / "run")
    MALICE[f"{kind} at {name}"](run, theirs)
    with refused("unreadable-run-file" if name == "run.json" else "unreadable-table", name):
        load(run).document()


# What a command ends with: 2 where it refuses (a run of somebody else is never calibrated).
COMMANDS = {
    "report": (0, "report", "theirs", "-o", "page.html"),
    "explain": (0, "explain", "theirs/links"),
    "compare": (0, "compare", "theirs/links", "theirs/hard_links"),
    "observe": (0, "observe", "theirs/links", "theirs/dangling"),
    "query": (0, "query", "SELECT * FROM runs, steps LIMIT 3", "--runs", "theirs"),
    "query-samples": (0, "query", "SELECT * FROM samples LIMIT 3", "--runs", "theirs"),
    "query-figures": (0, "query", "SELECT * FROM metrics", "--runs", "theirs"),
    "export-chrome": (0, "export", "theirs/links", "--to", "chrome", "-o", "out.json"),
    "export-csv": (0, "export", "theirs/hard_links", "--to", "csv", "-o", "out"),
    "runs-list": (0, "runs", "list", "theirs"),
    "runs-show": (0, "runs", "show", "theirs/links"),
    "live": (0, "live", "theirs/links", "--once"),
    "import": (2, "import", "--agent", "theirs/links", "-o", "joined"),
    "replay": (
        0,
        "run",
        "lenet",
        "--seconds",
        "0.5",
        "--trace",
        "none",
        "--target",
        "replay:theirs/links",
        "--out",
        "replayed",
    ),
    "calibrate": (2, "calibrate", "theirs/links", "--meter", "meter.csv"),
}
LONG = ("query-figures",)  # `report` computes the same figures
EACH = [pytest.param(each, marks=pytest.mark.long) if each in LONG else each for each in COMMANDS]


@pytest.mark.parametrize("command", EACH)
def test_no_command_touches_anything_through_somebody_elses_runs(
    tmp_path: Path, theirs: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    for malice in HEAVY:
        MALICE[malice](unclosed_run(tmp_path / "theirs" / malice.replace("/", "-")), theirs)
    (tmp_path / "meter.csv").write_text("time,W\n0,1\n1,1\n2,1\n")
    before, of_runs = state_of(theirs), state_of(tmp_path / "theirs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code, *arguments = COMMANDS[command]
    assert ended(monkeypatch, *map(str, arguments)) == code
    assert state_of(theirs) == before
    assert state_of(tmp_path / "theirs") == of_runs


@pytest.mark.parametrize("malice", MALICE)
def test_a_run_of_somebody_else_is_replayed_or_refused_and_changes_nothing(
    tmp_path: Path, theirs: Path, malice: str
) -> None:
    run = unclosed_run(tmp_path / "run")
    MALICE[malice](run, theirs)
    (tmp_path / "journal").mkdir()
    before, of_run = state_of(theirs), state_of(run)
    with contextlib.suppress(WattstepError):
        found = prepare(run, {}, False, tmp_path / "journal")
        assert [part["channels"][0]["name"] for part in found["parts"]] == ["power"]
    assert state_of(theirs) == before
    assert state_of(run) == of_run


@pytest.mark.parametrize("at", ["", "run.json"])
@pytest.mark.parametrize("kind", ["fifo", "device", "dangling"])
def test_what_never_ends_is_not_replayed(tmp_path: Path, kind: str, at: str) -> None:
    run = tmp_path / "run"
    if at:
        run.mkdir()
    {
        "fifo": os.mkfifo,
        "device": lambda path: path.symlink_to("/dev/zero"),
        "dangling": lambda path: path.symlink_to("nowhere"),
    }[kind](run / at)
    if kind == "dangling":
        id = "not-a-recording" if at else "unreadable-recording"
    else:
        id = "unreadable-run-file" if at else "not-a-recording"
    with refused(id, run):
        prepare(run, {}, False, tmp_path)


@pytest.mark.parametrize("task", ["figures", "document", "report", "recover"])
def test_serve_touches_nothing_through_somebody_elses_runs(
    tmp_path: Path, theirs: Path, task: str
) -> None:
    run = unclosed_run(tmp_path / "store" / "run")
    MALICE["hard_links"](run, theirs)
    assert StoreView(tmp_path / "store").look()
    before, of_run = state_of(theirs), state_of(run)
    output = str(tmp_path / "page")
    told = answer({"task": task, "paths": [str(run)], "left_out": [], "output": output})
    assert ("error" in told) == (task == "recover"), told
    assert state_of(theirs) == before
    assert state_of(run) == of_run


def test_a_run_of_ones_own_is_closed_in_its_place(tmp_path: Path) -> None:
    run = unclosed_run(tmp_path / "run")
    assert load(run).info.state == "recovered"
    assert sorted(path.name for path in run.iterdir()) == sorted(
        ["run.json", *(f"{name}.parquet" for name in TABLES)]
    )


def test_a_run_that_belongs_to_another_user_is_never_written_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = unclosed_run(tmp_path / "run")
    before = state_of(run)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    found = load(run)
    assert (found.info.state, len(found.tables.steps().index)) == ("recovered", 60)
    assert state_of(run) == before


def test_a_folder_that_becomes_a_link_while_it_is_closed_is_not_followed(
    tmp_path: Path, theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = unclosed_run(tmp_path / "run")
    making = Folder.make

    def swapped(folder: Folder, name: str) -> BinaryIO:
        if not run.is_symlink():
            run.rename(tmp_path / "moved")
            run.symlink_to(theirs / "own-run")
        return making(folder, name)

    monkeypatch.setattr(Folder, "make", swapped)
    before = state_of(theirs)
    convert(run)
    assert state_of(theirs) == before
    assert (tmp_path / "moved" / "steps.parquet").exists()


# --- sweeps, daily trainings, reports ------------------------------------------------------------


@pytest.mark.parametrize("kind", ["symlink_to", "hardlink_to"])
@pytest.mark.parametrize("name", ["sweep.json", "sweep.json.tmp", "sweep.jsonl", "sweep.lock"])
def test_a_sweep_that_goes_on_writes_through_no_link(
    tmp_path: Path, theirs: Path, name: str, kind: str
) -> None:
    folder = tmp_path / "sweep"
    folder.mkdir()
    getattr(folder / name, kind)(theirs / "run.json")
    before = {path: path.read_bytes() for path in theirs.iterdir() if path.is_file()}
    with contextlib.suppress(WattstepError):
        opened(folder, plan()).close()
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("kind", ["symlink_to", "hardlink_to"])
def test_a_report_takes_the_place_of_a_link_and_is_not_written_through_it(
    tmp_path: Path, theirs: Path, kind: str
) -> None:
    before = state_of(theirs)
    page = tmp_path / "report.html"
    getattr(page, kind)(theirs / "run.json")
    write_at_once("a page", page)
    assert page.read_text() == "a page"
    assert not page.is_symlink()
    assert state_of(theirs) == before


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
@pytest.mark.parametrize("read", [read_sweep, lambda path: read_outcomes(path, str), read_daily])
def test_a_description_that_never_ends_is_refused(
    tmp_path: Path, make: Callable[[Path], None], read: Callable[[Path], Any]
) -> None:
    for name in ("sweep.json", "sweep.jsonl", "daily.json"):
        make(tmp_path / name)
    daily = read is read_daily
    with refused("unreadable-daily" if daily else "unreadable-sweep"):
        read(tmp_path / "daily.json" if daily else tmp_path)


def test_a_sweep_names_no_run_outside_of_itself() -> None:
    for run in ("../own", "/etc", "..", "", "a/b"):
        with refused("foreign-run"):
            Outcome.from_dict({**outcome().to_dict(), "run": run})
