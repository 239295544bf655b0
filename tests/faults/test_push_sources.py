"""Runs with push sources: the collector is killed, the trainer is, and what was recorded can be read."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.faults.conftest import Trainer
from tests.faults.test_killed import gone
from tests.waiting import until
from tests.wording import assert_says

import wattstep

Start = Callable[..., Trainer]
SPACING_NS = 20_000_000


@pytest.fixture
def target(tmp_path: Path) -> str:
    """A minute of power that grows by 1 mW each 20 ms."""
    path = tmp_path / "minute.csv"
    rows = (f"{n * 0.02:.2f},{1 + n / 1000}\n" for n in range(3000))
    path.write_text("t_s,power [W]\n" + "".join(rows))
    return f"replay:{path}"


def test_a_killed_collector_loses_its_own_channels_and_nothing_else(
    tmp_path: Path, trainer: Start, target: str
) -> None:
    one = trainer(tmp_path / "run", 500, target=target)
    one.until(0.7)
    os.kill(one.collector(), signal.SIGKILL)
    killed_ns = one.step()[1]
    code, last, errors = one.finish()
    assert (code, last) == (0, "done None")
    assert errors.count("RecordingWarning: replay was lost") == 1
    assert "Traceback" not in errors
    run = wattstep.load(one.run)
    assert_says(run.info.notes[-1], "replay", "collector", "signal 9", "no samples")
    samples = run.tables.samples()
    t_ns, value, _ = samples["power"]
    assert run.info.lost["replay"] == t_ns[-1]
    assert killed_ns - 10**9 < t_ns[-1] < killed_ns
    np.testing.assert_allclose(value, 1 + np.arange(len(value)) / 1000)
    # The sampler went on to the end.
    assert samples["process.resident_memory"][0][-1] > run.tables.steps().end_ns[-1] - 10**8
    assert len(run.tables.steps().index) == 500


def test_a_killed_training_takes_the_collector_with_it_and_is_recovered(
    tmp_path: Path, trainer: Start, target: str
) -> None:
    one = trainer(tmp_path / "run", 10**6, target=target)
    one.until(1.2)
    collector = one.collector()
    one.process.send_signal(signal.SIGKILL)
    one.process.wait()
    until(lambda: gone(collector))
    run = wattstep.load(one.run)
    assert run.info.state == "recovered"
    t_ns, value, _ = run.tables.samples()["power"]
    assert t_ns[-1] > one.last[1] - 10**9
    np.testing.assert_array_equal(np.diff(t_ns), SPACING_NS)
    np.testing.assert_allclose(value, 1 + np.arange(len(value)) / 1000)
    assert not (one.run / "journal").exists()


def test_a_run_with_push_sources_is_read_while_it_records(
    tmp_path: Path, trainer: Start, target: str
) -> None:
    one = trainer(tmp_path / "run", 10**6, target=target)
    one.until(1.0)
    run = wattstep.load(one.run)
    assert run.info.state == "recording"
    assert len(run.tables.samples()["power"][0]) > 20


def test_ctrl_c_loses_no_row_of_a_feed(tmp_path: Path, trainer: Start, target: str) -> None:
    one = trainer(tmp_path / "run", 10**6, target=target)
    one.until(0.5)
    one.process.send_signal(signal.SIGINT)
    _, _, errors = one.finish()
    assert "Warning" not in errors
    run = wattstep.load(one.run)
    t_ns, _, _ = run.tables.samples()["power"]
    assert t_ns[-1] >= run.tables.steps().end_ns[-1] - 2 * SPACING_NS
    assert "replay" not in run.info.lost
