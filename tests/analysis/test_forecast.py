"""Forecasts of a run from its first steps: how often they hold, and when there is none."""

from __future__ import annotations

import numpy as np
import pytest
from tests.refusals import refused

from wattstep.schema.figure import Missing, Status, missing
from wattstep.stats.forecast import begun, energy_left, expected_mean, forecast_time


def held(make, runs=120):
    rng = np.random.default_rng(9)
    count = 0
    for _ in range(runs):
        seconds = make(rng, 1000)
        found = forecast_time(seconds[:100], float(seconds[:100].sum()), 900, 3, "made").time
        count += found.low <= seconds.sum() <= found.high
    return count / runs


def steady(rng, n):
    return 1 + 0.05 * rng.standard_normal(n)


def warming(rng, n):
    return steady(rng, n) + 2 * np.exp(-np.arange(n) / 8)


def drifting(rng, n):
    return steady(rng, n) * (1 + rng.uniform(-0.05, 0.08) * np.arange(n) / n)


def stalling(rng, n):
    return steady(rng, n) + 2 * (rng.random(n) < 0.03)


@pytest.mark.parametrize("make", [steady, warming, drifting, stalling])
def test_nine_of_ten_intervals_hold(make):
    assert held(make) >= 0.9 - 2.6 * np.sqrt(0.09 / 120)  # one campaign in 200 falls below


def test_a_steady_run_is_foretold_within_a_few_per_cent():
    seconds = steady(np.random.default_rng(0), 100)
    found = forecast_time(seconds, 100.0, 900, 3, "made")
    assert found.time_left.value == pytest.approx(900, rel=0.02)
    assert found.time_left.high - found.time_left.low < 0.4 * 900
    assert found.time.value == pytest.approx(found.time_left.value + 100)
    assert found.time.status is Status.PREDICTED
    assert "throttling" in found.time.reason


def test_a_longer_way_ahead_is_less_certain():
    seconds = steady(np.random.default_rng(0), 100)
    widths = [expected_mean(seconds, ahead).error for ahead in (100, 1000, 100_000)]
    assert widths == sorted(widths)


def test_the_beginning_is_left_behind():
    values = np.concatenate([[5.0, 3.0, 2.0], np.ones(97)])
    values += 0.01 * np.random.default_rng(1).standard_normal(100)
    assert 3 <= begun(values) <= 6


def test_energy_is_time_times_power_with_both_errors():
    rng = np.random.default_rng(1)
    time = forecast_time(steady(rng, 100), 100.0, 900, 3, "made").time_left
    found = energy_left(time, expected_mean(10 * steady(rng, 100), 900), "made")
    assert found.value == pytest.approx(9000, rel=0.03)
    assert (found.high - found.low) / found.value > (time.high - time.low) / time.value
    assert energy_left(missing("s", "no"), Missing("no"), "made").reason == "no"
    assert energy_left(time, Missing("no power"), "made").reason == "no power"


def test_what_cannot_be_foretold_says_why():
    assert "too few" in forecast_time(np.ones(1), 1.0, 10, 0, "made").time.reason
    assert "too few" in forecast_time(np.full(50, np.nan), 1.0, 10, 0, "made").time.reason
    assert "nothing" in forecast_time(np.zeros(50), 0.0, 10, 0, "made").time.reason
    assert forecast_time(np.ones(50), 50.0, 0, 0, "made").time_left.value == 0
    with refused("not-finite"):
        expected_mean(np.array([1.0, np.nan]), 5)
    with refused("nothing-to-come"):
        expected_mean(np.ones(10), 0)


def test_equal_steps_are_no_certainty():
    found = forecast_time(np.ones(100), 100.0, 900, 0, "made").time_left
    assert found.low < 900 < found.high


def test_steps_that_get_shorter_are_not_foretold_below_the_shortest() -> None:
    values = np.linspace(1.0, 0.1, 50)
    expected = expected_mean(values, 10_000)
    assert not isinstance(expected, Missing)
    assert 0.1 < expected.mean < values.mean()
