"""`wattstep observe` on the command line: what it takes, what it prints, how it refuses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from tests.command_line import wattstep
from tests.refusals import id_in
from tests.run.made import MS, make_run
from tests.wording import assert_says

from wattstep.insight.observe.deciding import UNTESTABLE
from wattstep.store.files import read_info, write_info


def observed(*arguments: object, code: int = 0) -> CompletedProcess[str]:
    done = wattstep("observe", *arguments, env={"COLUMNS": "80"})
    assert done.returncode == code, done.stderr
    return done


def made(folder: Path, batch: int, milliseconds: int) -> Path:
    """A run whose steps of four samples take so long."""
    path = folder / f"batch-{batch}"
    phases = (("forward", milliseconds * MS // 2), ("backward", milliseconds * MS // 2))
    make_run(path, [], phases=phases, trace="none", steps=40)
    write_info(path, replace(read_info(path), workload="lenet", batch_size=batch))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Throughput of 200 and of 400 samples a second."""
    runs = tmp_path / "runs"
    runs.mkdir()
    made(runs, 4, 20)
    made(runs, 64, 10)
    return runs


def document(text: str) -> dict[str, Any]:
    return {str(each["number"]): each for each in json.loads(text)["observations"]}


def test_json_has_verdict_figures_runs_criterion_and_the_papers_numbers(folder: Path) -> None:
    told = observed(folder, "--json")
    found = document(told.stdout)
    assert list(found) == [str(n) for n in range(1, 13)]
    ten = found["10"]
    assert ten["verdict"] == "undecided"  # twice as much by one process of each
    assert ten["one_process"] is True
    (case,) = ten["cases"]
    assert case["figures"]["growth"]["value"] == pytest.approx(2.0)
    assert case["figures"]["exponent"]["value"] == pytest.approx(0.25)
    assert len(ten["runs"]) == 2
    assert ten["paper"]["published"][0]["value"] == 0.653
    assert ten["metrics"] == ["throughput"]
    assert found["1"]["verdict"] == UNTESTABLE


def test_only_tests_what_is_asked_for_and_progress_goes_to_standard_error(folder: Path) -> None:
    told = observed(folder, "--only", "10, 8", "--json")
    assert list(document(told.stdout)) == ["8", "10"]
    assert all(
        line.startswith("reading: ") for line in told.stderr.splitlines()
    )  # of two seconds or more


def test_the_terminal_fits_into_80_columns(folder: Path) -> None:
    told = observed(folder, "--quiet")
    assert told.stderr == ""
    assert max(map(len, told.stdout.splitlines())) <= 80
    assert "Throughput grows with" in told.stdout
    assert_says(
        " ".join(told.stdout.split()),
        "12 observations on 2 runs",
        "1 is undecided",
        f"11 {UNTESTABLE}",
    )


def test_the_same_run_named_twice_counts_once(folder: Path) -> None:
    told = observed(folder, folder / "batch-4", "--json", "--only", "10")
    assert len(document(told.stdout)["10"]["runs"]) == 2


@pytest.mark.parametrize(
    ("arguments", "id", "named"),
    [
        (["nowhere"], "no-such-run", "nowhere"),
        (["{folder}", "--only", "13"], "unknown-observation", "'13'"),
        (["{folder}", "--only", "x,4"], "unknown-observation", "'x'"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(
    folder: Path, arguments: Sequence[str], id: str, named: str
) -> None:
    given = [argument.format(folder=folder) for argument in arguments]
    told = observed(*given, "--json", code=2)
    assert id_in(told.stdout) == id
    assert named in told.stderr
    assert len(told.stderr.strip().splitlines()) == 1


# --- sweeps and daily trainings -------------------------------------------------------------------


def outcome(batch: int, status: str, run: str | None) -> dict[str, Any]:
    return {
        "configuration": {"workload": "lenet", "batch_size": batch},
        "status": status, "evidence": {"notes": []}, "run": run, "limit": "1 GiB",
    }  # fmt: skip


def test_a_sweep_brings_its_runs_and_what_did_not_fit(folder: Path) -> None:
    rows = [
        outcome(4, "trained", "batch-4"),
        outcome(64, "trained", "batch-64"),
        outcome(128, "out of memory", None),
    ]
    sweep = {"schema": 1, "settings": {}, "axes": {"workloads": ["lenet"]}, "machine": {},
             "sessions": [1.0]}  # fmt: skip
    (folder / "sweep.json").write_text(json.dumps(sweep))
    (folder / "sweep.jsonl").write_text("\n".join(map(json.dumps, rows)))
    told = observed(folder, "--json", "--only", "9,10")
    found = document(told.stdout)
    assert found["9"]["cases"][-1]["verdict"] == "holds"
    assert found["9"]["verdict"] == "undecided"  # what took the memory was not counted
    assert any("batch 64 trains under 1 GiB" in note for note in found["9"]["notes"])


def daily(path: Path, first: str, last: str) -> Path:
    (path / "batch-4").mkdir(parents=True)
    settings = {
        "workload": "lenet", "images_per_day": 64, "days": 5, "epochs_per_day": 1,
        "pretrain": "accuracy=0.6", "pretrain_seconds": 60.0, "judged": len(first),
        "threads": None, "precision": "fp32", "rate_rule": "linear", "seed": 0,
    }  # fmt: skip
    (path / "daily.json").write_text(json.dumps(settings))
    days = [{"day": 0, "held_out": first}, {"day": 5, "held_out": last}]
    (path / "batch-4" / "days.json").write_text(json.dumps({"days": days}))
    return path


def test_a_daily_training_tells_observation_12(tmp_path: Path) -> None:
    """200 of 1,000 held-out samples are right on day 0, 300 on day 5; none was lost."""
    first, last = "1" * 200 + "0" * 800, "1" * 300 + "0" * 700
    told = observed(daily(tmp_path / "d", first, last), "--json")
    found = document(told.stdout)["12"]
    assert found["verdict"] == "undecided"  # ten points are what one day is off by
    assert found["one_process"] is True
    assert found["cases"][0]["figures"]["gain"]["value"] == pytest.approx(0.1)


def test_a_daily_training_whose_days_are_damaged_is_refused(tmp_path: Path) -> None:
    path = daily(tmp_path / "d", "10", "1")
    assert "damaged" in observed(path, code=2).stderr
