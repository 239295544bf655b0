"""Trainer and sampler are killed, and what was recorded can be read."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.faults.conftest import Trainer
from tests.waiting import gone, until

import wattstep
from wattstep.store.lock import is_recording

Start = Callable[..., Trainer]
LAST_SECOND_NS = 10**9


@pytest.mark.parametrize("kind", ["sleep", "torch"])
def test_a_killed_training_is_recovered_up_to_its_last_second(
    tmp_path: Path, trainer: Start, kind: str
) -> None:
    one = trainer(tmp_path / "run", 10**6, kind)
    one.until(1.2)
    sampler = one.sampler()
    one.process.send_signal(signal.SIGKILL)
    one.process.wait()
    until(lambda: gone(sampler))
    assert not is_recording(one.run)
    run = wattstep.load(one.run)
    assert run.info.state == "recovered"
    index, ended_ns = one.last
    steps = run.tables.steps()
    # Marks are in the page cache at once: every step that was told is there.
    assert list(steps.index[: index + 1]) == list(range(index + 1))
    for name, (t_ns, _, _) in run.tables.samples().items():
        if name in ("process.resident_memory", "sampler.lateness"):
            assert t_ns[-1] > ended_ns - LAST_SECOND_NS
    assert run.metrics()["step_time"].value > 0.002
    if kind == "torch":
        assert len(run.tables.table("operations")) > 0
    assert not (one.run / "journal").exists()
    assert wattstep.load(one.run).info.state == "recovered"


def test_a_killed_sampler_is_a_warning_and_the_run_says_from_when(
    tmp_path: Path, trainer: Start
) -> None:
    one = trainer(tmp_path / "run", 500)
    one.until(0.7)
    os.kill(one.sampler(), signal.SIGKILL)
    killed_ns = one.step()[1]
    code, last, errors = one.finish()
    assert (code, last) == (0, "done None")  # the training itself knows no problem
    assert errors.count("RecordingWarning: the sampler was lost") == 1
    assert "Traceback" not in errors
    run = wattstep.load(one.run)
    assert run.info.state == "closed"
    assert run.info.notes[-1] == (
        "the sampler was lost: it ended with signal 9; no samples from then on"
    )
    lost_ns = run.info.lost["sampler"]
    assert killed_ns - LAST_SECOND_NS < lost_ns < killed_ns
    samples = run.tables.samples()
    assert max(samples[name][0][-1] for name in run.tables.channels()) == lost_ns
    assert len(run.tables.steps().index) == 500
    assert run.metrics()["step_time"].value > 0.005


def test_a_sampler_that_is_killed_just_before_the_end_is_said_to_be_lost(
    tmp_path: Path, trainer: Start
) -> None:
    one = trainer(tmp_path / "run", 60)
    while one.step()[0] < 50:
        pass
    os.kill(one.sampler(), signal.SIGKILL)
    code, _, errors = one.finish()
    assert code == 0
    assert "the sampler was lost: it ended with signal 9" in errors
    assert "sampler" in wattstep.load(one.run).info.lost


def test_ctrl_c_closes_the_run(tmp_path: Path, trainer: Start) -> None:
    one = trainer(tmp_path / "run", 10**6)
    one.until(0.4)
    one.process.send_signal(signal.SIGINT)
    code, _, errors = one.finish()
    assert code == -signal.SIGINT  # Python's own end after Ctrl-C: the script did not catch it
    assert "KeyboardInterrupt" in errors
    assert "Warning" not in errors
    run = wattstep.load(one.run)
    assert run.info.state == "closed"
    assert run.info.notes == ("no operations: torch was not loaded when the steps began",)
    steps = run.tables.steps()
    assert len(steps.index) >= one.last[0] + 1
    assert np.all(np.diff(steps.index) == 1)
    assert np.all(steps.end_ns - steps.start_ns >= 5_000_000)  # the one that was cut is left out
    assert not (one.run / "journal").exists()


def test_a_run_is_read_while_its_process_records(tmp_path: Path, trainer: Start) -> None:
    one = trainer(tmp_path / "run", 10**6)
    one.until(0.8)
    told = one.last[0]
    run = wattstep.load(one.run)
    assert run.info.state == "recording"
    assert len(run.tables.steps().index) > told
    assert run.metrics()["step_time"].value >= 0.005
    later = one.step()[0]
    one.process.send_signal(signal.SIGINT)
    one.finish()
    final = wattstep.load(one.run)
    assert final.info.state == "closed"
    assert len(final.tables.steps().index) > later
