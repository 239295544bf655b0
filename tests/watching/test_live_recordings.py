"""Real recordings in other processes, watched, killed, and compared with what they were closed as."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.faults.conftest import Trainer, trainer  # noqa: F401 - a fixture
from tests.refusals import refused
from tests.waiting import gone, until

import wattstep
from wattstep.live import so_far
from wattstep.live.finding import find_run
from wattstep.live.journals import News
from wattstep.live.monitor import LiveMonitor
from wattstep.live.tables import news_of_tables

Start = Callable[..., Trainer]


def test_what_was_seen_of_a_run_is_what_it_is_closed_as(tmp_path: Path, trainer: Start) -> None:  # noqa: F811
    one = trainer(tmp_path / "run", 300)
    watcher = LiveMonitor(one.run)
    seen = until(lambda: (found := watcher.look()).steps > 150 and found)
    assert seen.state == "recording"
    assert seen.stage == "training"
    assert find_run(tmp_path) == one.run
    one.finish()
    last = until(lambda: (found := watcher.look()).over and found)
    assert last.state == "closed"
    run = wattstep.load(one.run)
    steps = run.tables.steps()
    # Another process made it: the same steps, the same clock.
    seconds = (steps.end_ns - steps.start_ns)[steps.clean][: seen.steps - 3] * 1e-9
    assert seconds.min() <= seen.figures["step_time"].value <= seconds.max()
    whole = LiveMonitor(one.run).look()
    assert (whole.state, whole.steps) == ("closed", 300)
    recent = steps.end_ns > steps.end_ns[-1] - 30 * 10**9
    expected = np.median((steps.end_ns - steps.start_ns)[steps.clean & recent]) * 1e-9
    assert whole.figures["step_time"].value == pytest.approx(expected)
    metrics = run.metrics()
    rate = metrics["throughput"]
    assert whole.figures["throughput"].value == pytest.approx(rate.value, rel=0.02)
    # The highest sample may lie below the kernel's own high-water mark, and never far above it.
    resident = run.tables.samples()["process.resident_memory"][1]
    assert whole.figures["peak_memory"].value >= np.nanmax(resident)
    cores = [figure.value for figure in whole.cores]
    assert len(cores) == len(metrics["cpu_core_utilization"])
    assert all(0 <= value <= 1 for value in cores)


@pytest.mark.parametrize("later_ns", [0, 10**9])
def test_what_was_written_after_the_last_look_is_taken_from_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later_ns: int
) -> None:
    """50 steps of which 20 were seen, and an evaluation: once each, be they later in tables, as a device's are."""

    def tables(*args: Any) -> Iterator[News]:
        for news in news_of_tables(*args):
            yield replace(news, steps=[
                replace(each, start_ns=each.start_ns + later_ns, end_ns=each.end_ns + later_ns)
                for each in news.steps
            ])  # fmt: skip

    monkeypatch.setattr(so_far, "news_of_tables", tables)
    with wattstep.Recorder(tmp_path / "run", trace="none", warmup=0) as recorder:
        watcher = LiveMonitor(recorder.path)
        for index in range(50):
            with recorder.step(samples=4):
                pass
            if index == 19:
                assert watcher.look().steps == 20
        recorder.evaluation("accuracy", 0.75)
    last = watcher.look()
    assert (last.state, last.steps) == ("closed", 50)
    assert last.evaluations["accuracy"].value == 0.75
    assert watcher.look().steps == 50


def test_joules_of_the_view_are_those_of_the_closed_run(tmp_path: Path) -> None:
    import time

    with wattstep.Recorder(
        tmp_path / "run", power_model="linear:1,5", trace="none", total_steps=60
    ) as recorder:
        watcher = LiveMonitor(recorder.path)
        for _ in range(60):
            with recorder.step(samples=2):
                time.sleep(0.02)
            looked = watcher.look()
    assert looked.total == 60
    assert looked.figures["energy"].status.value == "modelled"
    whole = LiveMonitor(tmp_path / "run").look()
    run = wattstep.load(tmp_path / "run")
    curve = run.series.energy.curve
    # One part a core here, cut to what all cores share there: a read at either end may be missing.
    assert whole.figures["energy"].value == pytest.approx(float(curve.total[-1]), rel=0.05)
    assert looked.figures["energy"].value <= whole.figures["energy"].value


def test_a_trainer_that_is_killed_has_ended_and_its_run_is_kept(
    tmp_path: Path,
    trainer: Start,  # noqa: F811
) -> None:
    one = trainer(tmp_path / "run", 10**6)
    one.until(0.5)
    watcher = LiveMonitor(one.run)
    assert watcher.look().state == "recording"
    sampler = one.sampler()
    one.process.send_signal(signal.SIGKILL)
    one.process.wait()
    until(lambda: gone(sampler))
    seen = watcher.look()
    assert seen.state == "ended"
    assert seen.over
    assert "not close the" in seen.problems[0]
    assert seen.steps > one.last[0]
    assert (one.run / "journal").is_dir()  # looking recovers nothing
    with refused("nothing-recording"):
        find_run(tmp_path)


def test_a_sampler_that_hangs_is_said_and_the_steps_go_on(
    tmp_path: Path,
    trainer: Start,  # noqa: F811
) -> None:
    one = trainer(tmp_path / "run", 10**6)
    one.until(0.5)
    watcher = LiveMonitor(one.run)
    watcher.look()
    sampler = one.sampler()
    os.kill(sampler, signal.SIGSTOP)
    try:
        before = one.step()[0]
        seen = until(lambda: (found := watcher.look()).problems and one.step() and found)
        assert "has written nothing" in seen.problems[0]
        assert seen.state == "recording"
        assert until(lambda: one.step() and watcher.look().steps > before + 10)
    finally:
        os.kill(sampler, signal.SIGKILL)


def test_samples_go_on_after_a_sampler_that_was_killed(
    tmp_path: Path,
    trainer: Start,  # noqa: F811
) -> None:
    one = trainer(tmp_path / "run", 10**6)
    one.until(0.5)
    watcher = LiveMonitor(one.run)
    watcher.look()
    killed = one.sampler()
    os.kill(killed, signal.SIGKILL)
    one.until_other(killed)
    ticks = one.run / "journal" / "ticks.bin"
    size = ticks.stat().st_size
    assert until(lambda: one.step() and ticks.stat().st_size > size)
    assert until(lambda: one.step() and not watcher.look().problems)


def test_steps_in_all_must_be_at_least_one(tmp_path: Path) -> None:
    with refused("out-of-range", "--total-steps 0"):
        wattstep.Recorder(tmp_path / "run", total_steps=0)
