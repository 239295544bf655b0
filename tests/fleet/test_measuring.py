"""Real trainings in real children: what a limit does, what kill -9 does, and that a sweep goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from tests.fleet.made import Watched, opened, plan
from tests.waiting import PATIENCE_S, until
from tests.wording import assert_says

from wattstep.cli import KEPT
from wattstep.errors import WattstepError
from wattstep.schema.journal import JOURNAL, OPERATIONS
from wattstep.schema.outcome import Configuration
from wattstep.sweep.folder import read_outcomes
from wattstep.sweep.sweep import sweep_here
from wattstep.train.child.limits import MemoryLimit
from wattstep.train.child.local import train_in_child
from wattstep.train.child.measuring import Listener, measure
from wattstep.train.progress import Progress
from wattstep.train.settings import TrainingSettings

MIB = 1024**2
QUIET = Listener(on_progress=lambda progress: None, on_warning=lambda text: None)


def settings(out: Path, **more: object) -> TrainingSettings:
    given = {"workload": "lenet", "steps": 2, "warmup": 1, "threads": 1, "trace": "none"}
    return TrainingSettings(**{**given, **more, "out": str(out)})  # type: ignore[arg-type]


def test_a_training_under_a_generous_limit_has_its_figures(tmp_path: Path) -> None:
    limit = MemoryLimit(size=4096 * MIB, means="data segments", why_not="a test")
    one = Configuration(workload="lenet", batch_size=2, threads=1)
    outcome = measure(one, settings(tmp_path / one.name, batch_size=2), limit, QUIET)
    assert outcome.status == "trained"
    assert outcome.run == one.name
    assert outcome.figures["step_time"]["value"] > 0
    assert outcome.finite is True
    assert outcome.versions["torch"] == torch.__version__
    assert outcome.machine["cores"] == len(os.sched_getaffinity(0))
    assert outcome.figures["peak_memory"]["value"] > 50e6
    assert "RLIMIT_DATA" in outcome.limit
    assert not (tmp_path / f"{one.name}.txt").exists()


def test_an_export_is_made_before_the_memory_is_bounded(tmp_path: Path) -> None:
    """MNN trains within what does not suffice to load torch, which exports."""
    pytest.importorskip("MNN")
    limit = MemoryLimit(size=150 * MIB, means="data segments", why_not="a test")
    one = Configuration(workload="lenet", batch_size=2, threads=1, engine="mnn")
    bounded = settings(tmp_path / one.name, batch_size=2, engine="mnn")
    outcome = measure(one, bounded, limit, QUIET)
    assert (outcome.status, outcome.reason) == ("trained", "")
    plain = measure(one, settings(tmp_path / "torch", batch_size=2), limit, QUIET)
    assert plain.status == "out of memory"


def test_a_batch_that_cannot_be_allocated_is_out_of_memory_with_the_allocators_words(
    tmp_path: Path,
) -> None:
    limit = MemoryLimit(size=500 * MIB, means="data segments", why_not="a test")
    one = Configuration(workload="lenet", batch_size=60000, threads=1)
    outcome = measure(one, settings(tmp_path / one.name, batch_size=60000), limit, QUIET)
    assert outcome.status == "out of memory"
    assert "memory" in (outcome.evidence.said or "")
    assert (outcome.evidence.peak_resident or 0) > 50e6


def test_a_sweep_outlives_a_killed_training_and_goes_on(tmp_path: Path) -> None:
    killed: list[str] = []

    def kill(configuration: Configuration, progress: Progress) -> None:
        if configuration.batch_size == 1 and progress.steps and not killed:
            killed.append(configuration.name)
            me = psutil.Process()
            child = next(
                c for c in me.children() if "wattstep.train.child.guard" in str(c.cmdline())
            )
            os.kill(child.pid, signal.SIGKILL)

    chosen = plan(more={"steps": None, "seconds": 2.0})
    watched = Watched(on_progress=kill)
    folder = opened(tmp_path, chosen)
    sweep_here(chosen, folder, watched)
    first, second = folder.outcomes.values()
    assert (first.status, first.evidence.signal, first.evidence.exit_code) == ("killed", 9, None)
    assert first.evidence.steps > 0
    assert first.run == "lenet-b1-t1-fp32-r1"  # what was recorded up to then is kept
    assert second.status == "trained"
    folder.close()


LONG_S = 600.0  # for two trainings beside everything else that a machine does
SWEEP = """
import sys
from pathlib import Path
from wattstep.cli import run_command_line
sys.argv[0] = "wattstep"
raise SystemExit(run_command_line())
"""


def test_a_sweep_that_is_killed_takes_its_training_along_and_continues(tmp_path: Path) -> None:
    arguments = [  # of a batch that takes seconds, so that it is killed in the middle
        "sweep", "--workloads", "lenet", "--batch", "1,256", "--threads", "1", "--steps", "60",
        "--warmup", "1", "--cooldown", "none", "--out", "swept", "--quiet",
    ]  # fmt: skip
    command = [sys.executable, "-c", SWEEP, *arguments]
    first = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    out = tmp_path / "swept"
    until((out / "lenet-b256-t1-fp32-r1").exists, LONG_S)
    children = psutil.Process(first.pid).children()
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    _, alive = psutil.wait_procs(children, timeout=PATIENCE_S)
    assert children
    assert not alive
    before = read_outcomes(out, pytest.fail)
    assert list(before) == ["lenet-b1-t1-fp32-r1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LONG_S)
    assert done.returncode == 0, done.stderr
    after = read_outcomes(out, pytest.fail)
    assert after["lenet-b1-t1-fp32-r1"] == before["lenet-b1-t1-fp32-r1"]  # not run again
    assert after["lenet-b256-t1-fp32-r1"].status == "trained"
    assert "successful training?" in done.stdout
    assert (out / "report.html").exists()


def test_a_single_training_under_a_limit_says_what_it_was_killed_for(tmp_path: Path) -> None:
    # Room for torch itself, whose import would fail in ways of its own; none for the feature maps
    # of 60,000 images (6 maps of 28×28 each: 1.1 GB).
    limit = MemoryLimit(size=900 * MIB, means="data segments", why_not="a test")
    with pytest.raises(WattstepError, match="memory"):
        train_in_child(
            settings(tmp_path / "run", batch_size=60000),
            QUIET.on_progress,
            QUIET.on_warning,
            limit=limit,
        )


def test_ctrl_c_stops_the_sweep_keeps_what_there_is_and_leaves_the_rest_for_later(
    tmp_path: Path,
) -> None:
    arguments = [
        "sweep", "--workloads", "lenet", "--batch", "1", "--seconds", "60", "--trace", "every:5",
        "--json",
    ]  # fmt: skip
    swept = subprocess.Popen(
        [sys.executable, "-c", SWEEP, *arguments],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    end = time.monotonic() + 60
    run = tmp_path / "sweep/lenet-b1-tauto-fp32-r1"
    traced = run / JOURNAL / OPERATIONS  # written once steps have been
    while not (traced.exists() and traced.stat().st_size) and time.monotonic() < end:
        time.sleep(0.05)
    os.killpg(swept.pid, signal.SIGINT)  # as a terminal does
    printed, said = swept.communicate(timeout=600)
    assert swept.returncode == 130
    assert said.splitlines()[-1] == f"wattstep: stopped{KEPT}"
    assert [one["status"] for one in json.loads(printed)["outcomes"]] == ["interrupted"]
    assert (run / "run.json").exists()


def test_a_training_that_says_nothing_for_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wattstep.train.child.child.SILENT_S", 0.1)  # loading torch takes longer
    one = Configuration(workload="lenet", batch_size=1, threads=1)
    outcome = measure(one, settings(tmp_path / one.name), None, QUIET)
    assert outcome.status == "killed"
    assert_says(outcome.reason, "it hung", "the first step")
