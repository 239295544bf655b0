"""Trainer and sampler are killed, and what was recorded can be read."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.faults.conftest import Trainer
from tests.waiting import gone, until
from tests.wording import saying

import wattstep
from wattstep.record.sampling.attendant import LOOK_S, WAITS_S
from wattstep.record.tracing.windows import NOT_LOADED
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


def test_a_killed_sampler_is_started_again_and_the_gap_is_told(
    tmp_path: Path, trainer: Start
) -> None:
    one = trainer(tmp_path / "run", 10**6)
    one.until_sampled({})  # a sampler that is killed earlier leaves some journals without a row
    samplers = [one.sampler()]
    for _ in range(2):
        os.kill(samplers[-1], signal.SIGKILL)
        killed_ns = one.step()[1]
        before = one.sampled()
        samplers.append(one.until_other(samplers[-1]))
        one.until_sampled(before)
    one.process.send_signal(signal.SIGINT)
    _, _, errors = one.finish()
    assert len(set(samplers)) == 3
    words = "the sampler was lost (it ended with signal 9) and started again: nothing was sampled"
    assert errors.count(words) == 2
    run = wattstep.load(one.run)
    assert "sampler" not in run.info.lost
    assert len(run.info.gaps) == 2
    assert all(since < until for since, until in run.info.gaps)
    since, until_ns = run.info.gaps[-1]
    assert since < killed_ns < until_ns
    steps = run.tables.steps()
    for name in run.tables.channels():
        t_ns, value, errno_ = run.tables.samples()[name]
        assert np.all(np.diff(t_ns) > 0)
        assert name != "process.resident_memory" or t_ns[-1] > until_ns  # it goes on
        marked = t_ns[errno_ == errno.EOWNERDEAD]
        assert len(marked) == 2
        assert np.isnan(value[errno_ == errno.EOWNERDEAD]).all()
        for (low, high), at in zip(run.info.gaps, marked, strict=True):
            assert low < at < high + LAST_SECOND_NS
    touched = np.flatnonzero((steps.start_ns < until_ns) & (steps.end_ns > since))
    (note,) = [
        each
        for each in run.document()["status_notes"]
        if f"step {steps.index[touched[0]]} " in each
    ]
    assert f"{len(touched)} steps touch it" in note


def test_cpu_time_goes_on_after_the_sampler_was_killed(tmp_path: Path, trainer: Start) -> None:
    one = trainer(tmp_path / "run", 10**6, "torch")
    one.until(0.7)
    killed = one.sampler()
    os.kill(killed, signal.SIGKILL)
    one.until_other(killed)
    one.until(1.5)
    one.process.send_signal(signal.SIGINT)
    one.finish()
    run = wattstep.load(one.run)
    (until_ns,) = [until for _, until in run.info.gaps]
    after = run.tables.steps().start_ns > until_ns
    for name in ("process.cpu_time", "sampler.cpu_time"):
        if name in run.tables.channels():
            curve = run.series.curve(run.tables.channels()[name])
            used = curve.at(curve.t_ns[-1]) - curve.at(
                curve.t_ns[np.searchsorted(curve.t_ns, until_ns)]
            )
            assert 0 < used < 10
            assert np.all(np.diff(curve.total) >= 0)
    assert after.sum() > 10


def test_a_sampler_that_is_killed_again_and_again_is_given_up(
    tmp_path: Path, trainer: Start
) -> None:
    one = trainer(tmp_path / "run", 10**6)
    one.step()
    seen: set[int] = set()
    while len(seen) < 1 + len(WAITS_S):
        pid = one.until_other(*seen)
        seen.add(pid)
        os.kill(pid, signal.SIGKILL)
    one.until(2 * LOOK_S + 1)
    killed_ns = one.step()[1]
    one.process.send_signal(signal.SIGINT)
    _, _, errors = one.finish()
    # One that was killed after its first rows had been started again as well, and that is told too.
    lost = saying(errors.splitlines(), "RecordingWarning", "sampler was lost", "signal 9")
    assert len(saying(lost, "no samples")) == 1
    run = wattstep.load(one.run)
    assert run.info.state == "closed"
    assert saying(run.info.notes, "sampler was lost", "signal 9", "no samples")
    assert run.info.lost["sampler"] < killed_ns
    assert run.metrics()["step_time"].value > 0.005


def test_a_sampler_that_is_killed_just_before_the_end_is_told(
    tmp_path: Path, trainer: Start
) -> None:
    one = trainer(tmp_path / "run", 60)
    while one.step()[0] < 50:
        pass
    os.kill(one.sampler(), signal.SIGKILL)
    code, _, errors = one.finish()
    assert code == 0
    assert "sampler was lost" in errors
    info = wattstep.load(one.run).info
    assert ("sampler" in info.lost) != bool(info.gaps)


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
    assert run.info.notes == (NOT_LOADED,)
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
