"""Samples folded onto the mean step give back the shape of the step, and lose nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattstep.attribution.folding import fold, mean_gain
from wattstep.recorded.curves import curve_of_counter, curve_of_gauge

MS = 1_000_000
STEPS = 2000
LENGTH = 5 * MS


def steps(length: int = LENGTH, count: int = STEPS) -> tuple[np.ndarray, np.ndarray]:
    start = np.arange(count, dtype=np.int64) * length
    return start, start + length


def watts(t_ns: np.ndarray, length: int = LENGTH) -> np.ndarray:
    """1 W in the first two fifths of a step, 3 W in the rest: 2.2 W on average."""
    return np.where(t_ns % length < 0.4 * length, 1.0, 3.0)


def sampled(every: int, length: int = LENGTH) -> tuple[np.ndarray, np.ndarray]:
    t_ns = np.arange(0, STEPS * length + every, every, dtype=np.int64)
    return t_ns, watts(t_ns, length)


@pytest.mark.parametrize(
    "every", [MS // 10, 3_210_000, 9_870_001], ids=["long steps", "short", "shorter than a sample"]
)
def test_a_gauge_gives_back_the_shape_of_the_step(every: int) -> None:
    t_ns, power = sampled(every)
    start, end = steps()
    curve = curve_of_gauge(t_ns, power)
    folded = fold(curve, start, end, LENGTH * 1e-9, (t_ns, power))
    assert folded is not None
    at = np.interp(0.4 * LENGTH, folded.t_ns, folded.total)
    assert folded.total[-1] == pytest.approx(0.011, rel=0.03)  # 2.2 W for 5 ms
    assert at == pytest.approx(0.002, rel=0.1)  # 1 W for 2 ms


def test_samples_in_step_with_the_steps_see_one_moment_only_and_say_nothing_more() -> None:
    """Every tenth step at its beginning: why ticks are dithered."""
    t_ns, power = sampled(50 * MS)
    start, end = steps()
    folded = fold(curve_of_gauge(t_ns, power), start, end, LENGTH * 1e-9, (t_ns, power))
    assert folded is not None
    assert folded.total[-1] == pytest.approx(0.005, rel=0.01)


def test_a_counter_that_is_read_less_than_thrice_a_step_gains_evenly() -> None:
    t_ns = np.arange(0, 5_000 * MS, 4 * MS, dtype=np.int64)
    curve = curve_of_counter(t_ns, t_ns * 2.2e-9, unit="J")
    folded = fold(curve, *steps(), LENGTH * 1e-9)
    assert folded is not None
    half = np.interp(LENGTH / 2, folded.t_ns, folded.total)
    assert folded.total[-1] == pytest.approx(0.011)
    assert half == pytest.approx(0.0055)


def test_a_long_step_is_folded_as_finely_as_it_was_sampled() -> None:
    """3 steps of 20 s, sampled each ms: 50 W for 20 ms in the middle of each, else 1 W."""
    length = 20_000 * MS
    t_ns = np.arange(0, 3 * length + MS, MS, dtype=np.int64)
    within = t_ns % length
    power = np.where((within >= 10_000 * MS) & (within < 10_020 * MS), 50.0, 1.0)
    start, end = steps(length, 3)
    folded = fold(curve_of_gauge(t_ns, power), start, end, 20.0, (t_ns, power))
    assert folded is not None
    at = np.interp([9_995 * MS, 10_025 * MS], folded.t_ns, folded.total)
    assert at[1] - at[0] == pytest.approx(0.020 * 50.0 + 0.010 * 1.0, rel=0.01)


def test_nothing_sampled_is_nothing_known() -> None:
    curve = curve_of_gauge(np.array([0, 1]), np.array([1.0, 1.0]))
    assert fold(curve, np.array([10 * MS]), np.array([20 * MS]), 0.01) is None
    assert mean_gain(curve, np.array([10 * MS]), np.array([20 * MS])) is None


@given(
    st.lists(st.floats(0, 100), min_size=50, max_size=200),
    st.integers(100_000, 20 * MS),
    st.integers(MS, 50 * MS),
)
def test_the_folded_curve_gains_what_a_step_gains_on_average(
    values: list[float], every: int, length: int
) -> None:
    t_ns = np.arange(len(values), dtype=np.int64) * every
    count = max(int(t_ns[-1] // length), 1)
    start, end = steps(length, count)
    curve = curve_of_gauge(t_ns, np.array(values))
    folded = fold(curve, start, end, length * 1e-9, (t_ns, np.array(values)))
    assert folded is not None
    span = min(count * length, int(t_ns[-1]))
    whole = float(np.interp(span, curve.t_ns, curve.total))
    expected = whole / (span * 1e-9) * length * 1e-9
    assert folded.total[-1] == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert (np.diff(folded.total) >= -1e-12).all()
