"""`wattstep report` on the command line: runs, sweeps and daily trainings among its folders."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.command_line import wattstep
from tests.run.made import MS, make_run

from wattstep.schema.failures import STRICT
from wattstep.store.files import read_info, write_info


def reported(*arguments: object, code: int = 0) -> CompletedProcess[str]:
    done = wattstep("report", *arguments)
    assert done.returncode == code, done.stderr
    return done


def made(folder: Path, batch: int) -> Path:
    path = folder / f"batch-{batch}"
    phases = (("forward", 10 * MS), ("backward", 10 * MS))
    make_run(path, [], phases=phases, trace="none", steps=40)
    write_info(path, replace(read_info(path), workload="lenet", batch_size=batch))
    return path


def sweep(folder: Path) -> Path:
    """A sweep of two runs, of which one is not there any more."""
    folder.mkdir()
    made(folder, 4)
    made(folder, 64)
    rows = [outcome(4, "batch-4"), outcome(64, "batch-64"), outcome(128, "batch-128")]
    facts = {"schema": 1, "settings": {}, "machine": {}, "sessions": [1.0],
             "axes": {"workloads": ["lenet"], "batches": [4, 64, 128], "threads": [1],
                      "precisions": ["fp32"], "devices": [None], "repeats": [1]}}  # fmt: skip
    (folder / "sweep.json").write_text(json.dumps(facts))
    (folder / "sweep.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def outcome(batch: int, run: str) -> dict[str, object]:
    return {
        "configuration": {"workload": "lenet", "batch_size": batch, "threads": 1,
                          "precision": "fp32", "repeat": 1},
        "status": "trained", "evidence": {"notes": []}, "run": run, "limit": "1 GiB",
    }  # fmt: skip


def daily(folder: Path) -> Path:
    (folder / "batch-4").mkdir(parents=True)
    settings = {
        "workload": "lenet", "images_per_day": 64, "days": 5, "epochs_per_day": 1,
        "pretrain": "accuracy=0.6", "pretrain_seconds": 60.0, "judged": 10,
        "threads": None, "precision": "fp32", "rate_rule": "linear", "seed": 0,
    }  # fmt: skip
    (folder / "daily.json").write_text(json.dumps(settings))
    zero = {"day": 0, "held_out": "1100000000", "remembered": "11", "weights_sha256": "0"}
    (folder / "batch-4" / "days.json").write_text(json.dumps({"days": [zero]}))
    return folder


def test_of_no_run_the_newest_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "wattstep report RUN" in reported(code=2).stderr
    for age, batch in ((9, 4), (0, 64), (5, 16)):
        folder = made(tmp_path / "runs", batch)
        stamp = 1_700_000_000 - age
        os.utime(folder / "run.json", (stamp, stamp))
    reported()
    page = (tmp_path / "report.html").read_text()
    assert "batch 64" in page
    assert "batch 16" not in page


def test_a_sweep_among_runs_brings_the_runs_that_are_there(tmp_path: Path) -> None:
    found = sweep(tmp_path / "sweep")
    runs = tmp_path / "runs"
    runs.mkdir()
    made(runs, 16)
    page = tmp_path / "r.html"
    words = (found, runs, "-o", page, "--json", "-q")
    reported(*words)
    assert 'id="paper"' not in page.read_text()
    told = reported(*words, "--paper")
    batches = {one["batch_size"] for one in json.loads(told.stdout)["runs"]}
    assert batches == {4, 16, 64}
    assert 'id="paper-figure-8" open' in page.read_text()


def test_a_sweep_alone_has_its_table_and_the_papers_figures_where_they_are_asked_for(
    tmp_path: Path,
) -> None:
    page = tmp_path / "r.html"
    found = sweep(tmp_path / "sweep")
    reported(found, "-o", page, "-q")
    assert "Does it train?" in page.read_text()
    assert 'id="paper"' not in page.read_text()
    reported(found, "-o", page, "-q", "--paper")
    assert 'id="paper-figure-8" open' in page.read_text()


def test_a_damaged_run_of_a_sweep_is_listed_and_the_others_are_shown(tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    found = sweep(tmp_path / "sweep")
    (found / "batch-4" / "steps.parquet").write_bytes(b"PAR1")
    told = reported(found, "-o", page, "--json", "-q")
    document = json.loads(told.stdout)
    (damaged,) = document["damaged"]
    assert (damaged["run"], document["failures"]) == ("batch-4", [])
    assert "left out" in told.stderr
    assert 'class="unreadable"' in page.read_text()
    assert "Batch 64" in page.read_text()


def test_a_part_of_a_sweeps_report_that_fails_takes_no_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.delenv(STRICT)
    page = tmp_path / "r.html"
    monkeypatch.setattr("wattstep.report.html.sweep.paper_section", fail)
    monkeypatch.setattr("wattstep.report.html.sweep.fronts", fail)
    told = reported(sweep(tmp_path / "s"), "-o", page, "--json", "-q")
    parts = {each["part"] for each in json.loads(told.stdout)["failures"]}
    assert parts == {"time and energy", "the paper's figures"}
    assert "2 parts failed inside" in told.stderr
    assert "Parts that failed: 2" in page.read_text()
    assert "What fits" in page.read_text()


def test_a_daily_training_alone_makes_a_report_of_figure_10(tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    told = reported(daily(tmp_path / "d"), "-o", page, "--json")
    found = json.loads(told.stdout)
    assert found["runs"] == []
    assert found["daily"][0]["batches"][0]["days"][0]["accuracy"]["value"] == 0.2
    assert "paper-figure-10" in page.read_text()
    assert "paper-figure-3" not in page.read_text()  # not asked for
    assert 'id="paper-figure-10" open' in page.read_text()


def test_a_daily_training_whose_days_are_damaged_is_refused(tmp_path: Path) -> None:
    found = daily(tmp_path / "d")
    (found / "batch-4" / "days.json").write_text('{"days": [{"day": 0}]}')
    assert "damaged" in reported(found, code=2).stderr


def test_a_run_that_is_given_twice_is_told_once(tmp_path: Path) -> None:
    run = made(tmp_path, 4)
    page = tmp_path / "r.html"
    told = reported(run, tmp_path, "-o", page, "--json")
    assert len(json.loads(told.stdout)["runs"]) == 1


def test_the_papers_figures_stand_where_they_are_asked_for(tmp_path: Path) -> None:
    """One run without power draws only some of them."""
    run, page = made(tmp_path, 4), tmp_path / "r.html"
    reported(run, "-o", page, "-q")
    assert "paper-figure-" not in page.read_text()
    reported(run, "-o", page, "-q", "--paper")
    assert 'id="paper-figure-3"' in page.read_text()
