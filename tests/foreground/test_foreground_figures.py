"""Figures of frames and steps that were made up, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from wattstep.run.foreground import PERIOD_NS, frame_figures, slowdown_figure
from wattstep.schema.figure import Status

MS = 1_000_000


def test_delay_is_the_difference_of_the_means() -> None:
    alone = np.array([4.0, 6.0, 4.0, 6.0]) * MS
    beside = np.array([10.0, 12.0, 14.0, 12.0]) * MS
    found = frame_figures(alone, beside)
    assert found["alone"].value == pytest.approx(5e-3)
    assert found["beside"].value == pytest.approx(12e-3)
    assert found["delay"].value == pytest.approx(7e-3)
    assert {figure.status for figure in found.values()} == {Status.MEASURED}
    delay = found["delay"]
    assert delay.low is not None
    assert delay.high is not None
    assert delay.low < 7e-3 < delay.high


def test_late_and_skipped_frames_are_missed() -> None:
    late = PERIOD_NS + 1.0
    beside = np.array([float(PERIOD_NS), late, np.nan, 4.0 * MS])
    found = frame_figures(np.full(4, 4.0 * MS), beside)
    assert found["missed_alone"].value == 0
    assert found["missed_beside"].value == 0.5
    assert found["missed_beside"].low is not None
    assert found["missed_beside"].low >= 0
    # A skipped frame has no completion: the mean is over the three others.
    assert found["beside"].value == pytest.approx((PERIOD_NS + late + 4 * MS) / 3 * 1e-9)


def test_the_99th_percentile_is_over_played_frames() -> None:
    frames = np.arange(1.0, 102.0) * MS  # 1 to 101 ms: 99 % of the way is 100 ms
    found = frame_figures(np.append(frames, np.nan), frames)
    assert found["p99_alone"].value == pytest.approx(0.1)


def test_a_machine_that_plays_no_frame_has_no_delay_and_says_so() -> None:
    found = frame_figures(np.full(3, 4.0 * MS), np.full(3, np.nan))
    assert found["delay"].missing
    assert found["delay"].reason == "all were skipped"
    assert found["missed_beside"].value == 1


def test_slowdown_is_a_ratio_of_mean_steps() -> None:
    found = slowdown_figure(np.array([10.0, 10.0, 10.0]), np.array([11.0, 13.0, 12.0]))
    assert found.value == pytest.approx(1.2)
    assert slowdown_figure(np.array([10.0]), np.array([])).missing
