"""`wattstep ceilings`, and what `wattstep explain` makes of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.explaining.made import ceilings, trained
from tests.refusals import id_in
from tests.wording import assert_says

from wattstep.cli import run_command_line
from wattstep.record.sensors.machine import describe
from wattstep.report.json_document import dump

WORK = {"forward-op": {"kind": "convolution", "flops": 80_000_000, "bytes": 100_000}}


@dataclass
class Ended:
    code: int
    out: str
    err: str


@pytest.fixture
def wattstep(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Ended]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["wattstep", *arguments])
        code = run_command_line()
        out, err = capfd.readouterr()
        return Ended(code, out, err)

    return run


def write(path: Path, *found: object) -> Path:
    with path.open("w") as file:
        dump({"ceilings": [one.to_dict() for one in found]}, file)  # type: ignore[attr-defined]
    return path


def test_ceilings_are_measured_kept_and_written(
    wattstep: Callable[..., Ended], tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    file = tmp_path / "ceilings.json"
    ended = wattstep("ceilings", "--threads", "1", "--seconds", "0.1", "--out", str(file))
    assert ended.code == 0, ended.err
    assert "memory, triad" in ended.out
    assert_says(ended.err, "1 thread", "matrices")
    (one,) = json.loads(file.read_text())["ceilings"]
    assert one["threads"] == 1
    assert one["device"]["cpu"] == describe()["cpu"]
    assert len(list((tmp_path / "cache/wattstep/ceilings").glob("*.json"))) == 1


def test_those_of_another_machine_can_be_added_and_are_then_found(
    wattstep: Callable[..., Ended], tmp_path: Path
) -> None:
    run = str(trained(tmp_path / "run", WORK))
    file = write(tmp_path / "board.json", ceilings())
    assert wattstep("ceilings", "--add", str(file)).code == 0
    ended = wattstep("explain", run, "-s", "roofline", "--json", "-q")
    (section,) = json.loads(ended.out)["runs"][0]["sections"]
    row = next(r for r in section["tables"]["operations"] if r["name"] == "forward-op")
    assert row["of_ceiling"]["value"] == pytest.approx(0.5, rel=0.01)
    assert row["of_ceiling"]["status"] == "attributed"


def test_ceilings_of_a_run_of_another_machine_are_refused(
    wattstep: Callable[..., Ended], tmp_path: Path
) -> None:
    ended = wattstep("ceilings", "--json", "--for", str(trained(tmp_path / "run", WORK)))
    assert (ended.code, id_in(ended.out)) == (2, "ran-elsewhere")
    assert "cpu:" in ended.err
    assert "--add FILE" in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "id", "named"),
    [
        (["--threads", "0"], "malformed-list", "--threads '0'"),
        (["--threads", "many"], "malformed-list", "--threads 'many'"),
        (["--seconds", "0"], "out-of-range", "--seconds 0"),
        (["--threads", "1", "--for", "run"], "excluding-options", "--for"),
        (["--add", "nothing.json"], "unreadable-file", "nothing.json"),
        (["--for", "nothing"], "no-such-run", "nothing"),
    ],
)
def test_what_the_user_can_mend_is_one_line(
    wattstep: Callable[..., Ended], arguments: list[str], id: str, named: str
) -> None:
    ended = wattstep("ceilings", "--json", *arguments)
    assert (ended.code, id_in(ended.out)) == (2, id)
    assert named in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"ceilings": [1]}'])
def test_a_file_of_something_else_is_refused(
    wattstep: Callable[..., Ended], tmp_path: Path, text: str
) -> None:
    file = tmp_path / "file.json"
    file.write_text(text)
    ended = wattstep("ceilings", "--add", str(file))
    assert ended.code == 2
    assert "no measured ceilings" in ended.err


@pytest.mark.parametrize("section", ["roofline", "gaps", "processors", "critical_path", "advice"])
def test_every_section_is_printed_and_written(
    wattstep: Callable[..., Ended], tmp_path: Path, section: str
) -> None:
    run = str(trained(tmp_path / "run", WORK))
    shown = wattstep("explain", run, "-s", section, "-q")
    assert (shown.code, shown.err) == (0, "")
    document = json.loads(wattstep("explain", run, "-s", section, "--json", "-q").out)
    (found,) = document["runs"][0]["sections"]
    assert found["name"] == section
    assert found["title"] in shown.out
    assert found["sentences"] or found["reason"]
