"""The commands as a script uses them: one JSON document, exit codes, and what outlives Ctrl-C and kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from wattstep.cli import KEPT
from wattstep.run import load

METRICS = (
    "step_time", "throughput", "cpu_utilization", "cpu_core_utilization", "idle_state_ratio",
    "gpu_utilization", "peak_memory", "system_peak_memory", "energy_per_step",
    "energy_per_sample", "mean_power", "memory_breakdown", "recording_overhead",
    "trace_inflation",
)  # fmt: skip
FIGURE = {
    "value", "unit", "low", "high", "confidence", "n", "method", "systematic", "status", "source",
    "reason",
}  # fmt: skip
STATUSES = {
    "counted", "measured", "attributed", "replayed", "modelled", "predicted", "missing",
}  # fmt: skip


def wattstep(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wattstep", *arguments],
        cwd=cwd, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("commands")


@pytest.fixture(scope="module")
def trained(folder: Path) -> subprocess.CompletedProcess[str]:
    """LeNet at two batch sizes, as JSON."""
    done = wattstep(
        "run", "lenet", "--batch", "2,4", "--steps", "20", "--threads", "1", "--json",
        "--power-model", "linear:1,3", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def test_run_prints_one_document_with_a_run_for_each_batch_size(
    trained: subprocess.CompletedProcess[str], folder: Path
) -> None:
    document = json.loads(trained.stdout)
    assert list(document) == ["runs"]
    assert [run["batch_size"] for run in document["runs"]] == [2, 4]
    for run in document["runs"]:
        assert {"run", "workload", "engine", "device", "metrics", "operations", "rests"} <= set(run)
        assert run["workload"] == "lenet"
        assert (folder / run["run"] / "run.json").is_file()


def test_a_document_holds_every_metric_by_its_name(
    trained: subprocess.CompletedProcess[str],
) -> None:
    for run in json.loads(trained.stdout)["runs"]:
        assert set(METRICS) <= set(run["metrics"])
        for name in ("cpu_core_utilization", "idle_state_ratio"):
            assert isinstance(run["metrics"][name], list)
        assert isinstance(run["metrics"]["memory_breakdown"], dict)


def test_an_operation_holds_what_the_design_says(
    trained: subprocess.CompletedProcess[str],
) -> None:
    fields = {
        "name", "kind", "layer", "phase", "calls", "time", "busy_time", "share", "energy",
        "cpu_utilization", "memory",
    }  # fmt: skip
    for run in json.loads(trained.stdout)["runs"]:
        assert run["operations"]
        for row in run["operations"]:
            assert fields <= set(row)


def test_every_number_of_metrics_operations_and_rests_has_a_unit_and_a_status(
    trained: subprocess.CompletedProcess[str],
) -> None:
    for run in json.loads(trained.stdout)["runs"]:
        for part in ("metrics", "operations", "layers", "phases", "kinds", "rests"):
            for figure in figures(run[part]):
                assert set(figure) == FIGURE
                assert figure["unit"]
                assert figure["status"] in STATUSES
                assert (figure["value"] is None) == (figure["status"] == "missing")
                assert figure["status"] != "missing" or figure["reason"]


def figures(thing: Any) -> list[dict[str, Any]]:
    """All Figures below; any other number fails."""
    if isinstance(thing, dict) and "status" in thing:
        return [thing]
    if isinstance(thing, dict):
        return [found for value in thing.values() for found in figures(value)]
    if isinstance(thing, list):
        return [found for value in thing for found in figures(value)]
    assert isinstance(thing, (str, bool)) or thing is None, f"a bare number: {thing!r}"
    return []


def test_report_writes_html_and_prints_one_document(
    trained: subprocess.CompletedProcess[str], folder: Path
) -> None:
    done = wattstep("report", "runs", "-o", "report.html", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert len(document["runs"]) == 2
    assert document["report"] == "report.html"
    assert (folder / "report.html").read_text().lstrip().lower().startswith("<!doctype html>")


def test_a_report_gives_the_same_document_as_the_run_did(
    trained: subprocess.CompletedProcess[str], folder: Path
) -> None:
    path = json.loads(trained.stdout)["runs"][0]["run"]
    done = wattstep("report", path, "-o", "one.html", "--json", "--quiet", cwd=folder)
    assert json.loads(done.stdout)["runs"] == [json.loads(trained.stdout)["runs"][0]]
    assert done.stderr == ""


def test_a_report_that_cannot_be_written_is_one_line(
    trained: subprocess.CompletedProcess[str], folder: Path
) -> None:
    done = wattstep("report", "runs", "-o", "runs", "--quiet", cwd=folder)
    assert done.returncode == 2
    assert "is a folder" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_run_whose_table_is_cut_is_named(
    trained: subprocess.CompletedProcess[str], folder: Path, tmp_path: Path
) -> None:
    import shutil

    source = folder / json.loads(trained.stdout)["runs"][0]["run"]
    for number, table in enumerate(("steps", "samples", "operations", "memory", "spans")):
        broken = tmp_path / f"broken{number}"
        shutil.copytree(source, broken)
        data = (broken / f"{table}.parquet").read_bytes()
        (broken / f"{table}.parquet").write_bytes(data[: len(data) // 2])
        done = wattstep("report", broken.name, "--quiet", cwd=tmp_path)
        assert done.returncode == 2
        assert f"{table}.parquet" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_runs_lists_and_shows(trained: subprocess.CompletedProcess[str], folder: Path) -> None:
    listed = json.loads(wattstep("runs", "list", "--json", cwd=folder).stdout)
    assert [row["state"] for row in listed["runs"]] == ["closed", "closed"]
    path = listed["runs"][0]["run"]
    shown = json.loads(wattstep("runs", "show", path, "--json", cwd=folder).stdout)
    assert shown["run.json"]["workload"] == "lenet"
    assert "steps.parquet" in shown["files"]


def test_another_processor_is_refused_in_one_line(folder: Path) -> None:
    done = wattstep("run", "lenet", "--processor", "cuda", "--quiet", cwd=folder)
    assert done.returncode == 2
    assert "--processor cuda" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


# --- faults ------------------------------------------------------------------------------------


def started(folder: Path, *more: str) -> subprocess.Popen[str]:
    """A long run, in a process group of its own."""
    return subprocess.Popen(
        [
            sys.executable, "-m", "wattstep", "run", "lenet", "--seconds", "300", "--threads", "1",
            "--name", "r", "--quiet", *more,
        ],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def wait_until(ready: Callable[[], Any]) -> Any:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = ready()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it never happened")


def steps_are_recorded(folder: Path) -> bool:
    marks = folder / "runs" / "r" / "journal" / "operations.bin"
    return marks.exists() and marks.stat().st_size > 0


def trainer_of(parent: int) -> psutil.Process | None:
    for child in psutil.Process(parent).children():
        if any("wattstep.train.training_process:main" in word for word in child.cmdline()):
            return child
    return None


@pytest.mark.parametrize("end", [os.killpg, os.kill])
def test_ctrl_c_ends_a_run_with_130_and_keeps_it(
    tmp_path: Path, end: Callable[[int, int], None]
) -> None:
    """As a terminal sends it, to everything in front, and as `kill -INT` does, to the command alone."""
    with started(tmp_path) as child:
        wait_until(lambda: steps_are_recorded(tmp_path))
        end(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=600)
    assert child.returncode == 130
    assert out == ""
    assert err == f"wattstep: stopped{KEPT}\n"
    run = load(tmp_path / "runs" / "r")
    assert run.info.state == "closed"
    assert not run.metrics()["step_time"].missing


def test_a_killed_trainer_ends_a_run_with_2_and_one_line_and_keeps_it(tmp_path: Path) -> None:
    with started(tmp_path) as child:
        wait_until(lambda: steps_are_recorded(tmp_path))
        trainer = wait_until(lambda: trainer_of(child.pid))
        trainer.kill()
        out, err = child.communicate(timeout=600)
    assert child.returncode == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "killed by signal 9" in err
    assert "wattstep report runs/r" in err
    run = load(tmp_path / "runs" / "r")
    assert run.info.state == "recovered"
    document = run.document()
    assert (document["state"], document["status_notes"]) == ("recovered", [])
    assert not run.metrics()["step_time"].missing


@pytest.mark.parametrize("end", [os.kill, os.killpg])
def test_a_terminated_run_takes_its_trainer_with_it(
    tmp_path: Path, end: Callable[[int, int], None]
) -> None:
    """Also where SIGINT is ignored, as a shell has it for what it runs in the background."""
    ignoring = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        child = started(tmp_path)
    finally:
        signal.signal(signal.SIGINT, ignoring)
    with child:
        wait_until(lambda: steps_are_recorded(tmp_path))
        trainer = wait_until(lambda: trainer_of(child.pid))
        os.killpg(child.pid, signal.SIGINT)  # which stays ignored
        end(child.pid, signal.SIGTERM)
        _, err = child.communicate(timeout=600)
    assert child.returncode == 128 + signal.SIGTERM
    assert len(err.splitlines()) == 1
    assert "SIGTERM" in err
    assert not trainer.is_running()
    run = load(tmp_path / "runs" / "r")
    assert run.info.state == "closed"
    assert not run.metrics()["step_time"].missing


def test_a_killed_command_leaves_a_closed_run_and_no_word(tmp_path: Path) -> None:
    """Its trainer finds that nobody listens any more."""
    with started(tmp_path) as child:
        wait_until(lambda: steps_are_recorded(tmp_path))
        trainer = wait_until(lambda: trainer_of(child.pid))
        child.kill()
        out, err = child.communicate(timeout=600)  # up to the trainer's end
        wait_until(lambda: not trainer.is_running())
    assert (out, err) == ("", "")
    assert load(tmp_path / "runs" / "r").info.state == "closed"


def test_a_run_can_be_read_while_it_records(tmp_path: Path) -> None:
    with started(tmp_path) as child:
        wait_until(lambda: steps_are_recorded(tmp_path))
        run = load(tmp_path / "runs" / "r")
        steps = len(run.series.steps.index)
        document = run.document()
        os.killpg(child.pid, signal.SIGINT)
        child.communicate(timeout=600)
    assert run.info.state == "recording"
    assert steps > 0
    assert document["state"] == "recording"
    assert len(load(tmp_path / "runs" / "r").series.steps.index) >= steps
