"""Short and killed runs as anybody makes them, then every command: whole answers, every figure with unit and status."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.matrix.answers import Caller, ask_all, check
from tests.matrix.recording import record, record_killed

from wattstep.serve.store_view import StoreView
from wattstep.serve.worker import answer

SHORT: dict[str, dict[str, object]] = {
    "one-step": {"workload": "lenet", "batch_size": 1, "steps": 1},
    "two-steps": {"workload": "ds-cnn", "batch_size": 4, "steps": 2, "power_model": "vcpu"},
    "five-untraced": {"workload": "autoencoder", "batch_size": 16, "steps": 5, "trace": "none"},
    "eight-often-traced": {"workload": "lenet", "batch_size": 4, "steps": 8, "trace": "every:4"},
    "twenty-rarely-read": {
        "workload": "lenet", "batch_size": 16, "steps": 20, "power_model": "vcpu",
        "interval": "200ms", "canary": False,
    },
    "a-second": {
        "workload": "lenet", "batch_size": 16, "seconds": 1.0, "power_model": "vcpu",
        "interval": "50ms",
    },
}  # fmt: skip
KILLED_AFTER_S = (0.0, 0.7)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, settings in SHORT.items():
        record(folder, name, **settings)
    for path in record_killed(folder, KILLED_AFTER_S, "--batch", "16"):
        assert (path / "journal").is_dir()
    return folder


def test_killed_runs_stand_in_every_list_before_anything_recovered_them(
    runs: Path, call: Caller
) -> None:
    rows = call("runs", "list", runs, "--json").document["runs"]
    assert len(rows) == len(SHORT) + len(KILLED_AFTER_S)
    assert all(row["problem"] is None for row in rows)
    found = StoreView(runs).look()
    assert {entry.state for entry in found.values()} == {"closed", "not closed"}


def test_every_command_answers_on_a_folder_of_ordinary_runs(
    runs: Path, call: Caller, tmp_path: Path
) -> None:
    ask_all(call, runs, tmp_path)


@pytest.mark.parametrize("pair", [("one-step", "twenty-rarely-read"), ("two-steps", "a-second")])
def test_runs_of_different_kinds_are_compared_or_refused_in_a_line(
    runs: Path, call: Caller, pair: tuple[str, str]
) -> None:
    a, b = (runs / name for name in pair)
    told = call("compare", a, b, "--json", "-q", code=2)
    assert told.err.startswith("wattstep: ")
    assert "differ in" in told.err
    call("compare", a, b, "--across", "workload,batch,options,data", "--json", "-q")


def test_a_killed_run_is_compared_with_a_whole_one(runs: Path, call: Caller) -> None:
    for name in (f"killed-after-{moment:g}-s" for moment in KILLED_AFTER_S):
        document = call("compare", runs / "a-second", runs / name, "--json", "-q").document
        assert "metrics" in document


@pytest.mark.parametrize("task", ["figures", "document", "report"])
def test_the_server_works_out_each_of_them(runs: Path, task: str, tmp_path: Path) -> None:
    for name in ("one-step", "twenty-rarely-read", f"killed-after-{KILLED_AFTER_S[0]:g}-s"):
        asked = {"paths": [str(runs / name)], "output": str(tmp_path / name), "left_out": []}
        assert "error" not in answer({"task": task, **asked}), name


def test_a_run_alone_is_told_like_one_of_many(runs: Path, call: Caller, tmp_path: Path) -> None:
    run = runs / "one-step"
    call("explain", run, "-q")
    call("observe", run, "-q")
    check(call("report", run, "-o", tmp_path / "page.html", "-q", "--json").document)
