"""One metric of two sides: ratios with the right interval, what is not compared and why, and plans."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from tests.comparison.made import canary, figure, process, timed
from tests.wording import assert_says

from wattstep.insight.compare.drift import Drift, drift_between
from wattstep.insight.compare.metrics import compare_metric
from wattstep.schema.figure import Status, missing

STILL = Drift(parts={})


def test_a_ratio_is_that_of_geometric_means_with_welchs_interval() -> None:
    a, b = [0.10, 0.11, 0.105], [0.08, 0.085, 0.083]
    found = compare_metric("step_time", timed(*a), timed(*b), STILL)
    expected = stats.ttest_ind(np.log(b), np.log(a), equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert found.ratio.value == pytest.approx(math.exp(np.log(b).mean() - np.log(a).mean()))
    assert found.ratio.low == pytest.approx(math.exp(interval.low))
    assert found.ratio.high == pytest.approx(math.exp(interval.high))
    assert found.p == pytest.approx(expected.pvalue)
    assert found.verdict == found.of_these == "lower"
    assert found.difference.value == pytest.approx(np.mean(b) - np.mean(a))
    assert found.difference.unit == "s"


def test_a_sides_own_interval_does_not_reach_below_0() -> None:
    # Times of 0.1 and 0.3 s: 0.2 ± 12.706 * 0.1; a time of -1 s cannot be.
    found = compare_metric("step_time", timed(0.1, 0.3), timed(10.0, 10.1), STILL)
    assert (found.a.low, found.a.high) == (0.0, pytest.approx(0.2 + 1.2706, rel=1e-3))
    assert "cut at 0" in (found.a.method or "")
    assert found.b.low == pytest.approx(10.05 - 12.706 * 0.05, rel=1e-3)
    assert "cut" not in (found.b.method or "")


def test_one_process_of_each_never_shows_anything_of_the_configurations() -> None:
    found = compare_metric("step_time", timed(0.1, reach=0.001), timed(0.2, reach=0.001), STILL)
    assert found.of_these == "higher"
    assert found.verdict == "differs here"
    assert found.plan is None
    assert "how processes differ" in (found.ratio.method or "")


def test_one_step_has_no_interval_and_shows_nothing() -> None:
    found = compare_metric("step_time", timed(0.1), timed(0.2), STILL)
    assert found.ratio.value == pytest.approx(2)
    assert found.ratio.low is None
    assert found.of_these == found.verdict == "not shown"


def test_one_process_against_several_is_shown_where_it_lies_outside_of_their_spread() -> None:
    several = timed(0.100, 0.101, 0.099, 0.1005)
    assert compare_metric("step_time", several, timed(0.12), STILL).verdict == "higher"
    assert compare_metric("step_time", several, timed(0.1015), STILL).verdict == "not shown"


def test_what_is_missing_on_a_side_is_not_compared() -> None:
    none = process({"step_time": missing("s", "no clean step was recorded")})
    found = compare_metric("step_time", timed(0.1), [none], STILL)
    assert found.verdict == "not compared"
    assert_says(found.ratio.reason, "missing in B", "no clean step")


def test_steps_of_different_sizes_are_compared_by_sample_only() -> None:
    figures = {"step_time": figure(0.1, 0.01), "throughput": figure(40, 1, "samples/s")}
    a = [process(figures, samples=4.0)]
    b = [process({**figures, "throughput": figure(60, 1, "samples/s")}, samples=8.0)]
    assert_says(compare_metric("step_time", a, b, STILL).ratio.reason, "4 and 8 samples")
    assert compare_metric("throughput", a, b, STILL).ratio.value == pytest.approx(1.5)


def energy(value: float, systematic: float | None = None, **more: object) -> dict[str, object]:
    return {
        "energy_per_step": figure(value, value / 1000, "J", systematic=systematic, **more),
        "mean_power": figure(5.0, 0.01, "W", systematic=systematic, **more),
    }


def test_measured_energy_is_not_held_against_modelled_energy() -> None:
    modelled = energy(2.0, status=Status.MODELLED)
    found = compare_metric("energy_per_step", [process(energy(1.0))], [process(modelled)], STILL)
    assert_says(found.ratio.reason, "A is measured", "B modelled")


def test_energies_of_different_models_are_not_compared() -> None:
    sides = [
        [process(energy(1.0, status=Status.MODELLED), info={"power_model": {"name": name}})]
        for name in ("vcpu", "linear")
    ]
    found = compare_metric("energy_per_step", sides[0], sides[1], STILL)
    assert_says(found.ratio.reason, "A and B", "different models")


def test_the_calibration_error_of_one_sensor_cancels_and_its_rounding_does_not() -> None:
    a, b = ([process(energy(value, 0.08), rounding=0.03)] for value in (1.0, 1.2))
    found = compare_metric("energy_per_step", a, b, STILL)
    assert found.ratio.systematic == pytest.approx(math.hypot(0.03, 0.03))
    assert found.of_these == "higher"
    exact = [[process(energy(value, 0.08))] for value in (1.0, 1.2)]
    assert compare_metric("energy_per_step", *exact, STILL).ratio.systematic is None


def test_the_errors_of_two_sensors_add_and_may_hide_a_difference() -> None:
    a, b = [process(energy(1.0, 0.08))], [process(energy(1.1, 0.06), sensors="another")]
    found = compare_metric("energy_per_step", a, b, STILL)
    assert found.ratio.systematic == pytest.approx(0.10)
    assert found.of_these == "not shown"
    assert_says(found.ratio.reason, "different sensors")
    unknown = [process(energy(1.1), sensors="another")]
    reason = compare_metric("energy_per_step", a, unknown, STILL).ratio.reason
    assert reason is not None
    assert_says(reason, "not known")


def test_energy_of_nothing_has_a_difference_and_no_ratio() -> None:
    a, b = ([process({"energy_per_step": figure(value, 0.1, "J")})] for value in (0.0, 1.0))
    found = compare_metric("energy_per_step", a, b, STILL)
    assert found.ratio.missing
    assert found.difference.value == 1.0
    assert found.verdict == "not compared"


def test_a_machine_that_changed_widens_times_and_not_memory() -> None:
    slow, fast = canary((1.2, 1.2)), canary((1.0, 1.0))
    drift = drift_between([fast, fast, fast], [slow, slow, canary((1.21, 1.21))])
    sides = []
    for base in (0.100, 0.115):
        sides.append([
            process({"step_time": figure(base + at), "throughput": figure(4 / (base + at), unit="samples/s"),
                     "peak_memory": figure(1e9 * (base + at), unit="B")})
            for at in (0, 0.001, 0.002)
        ])  # fmt: skip
    still = compare_metric("step_time", *sides, STILL)
    moved = compare_metric("step_time", *sides, drift)
    assert still.verdict == "higher"
    assert moved.verdict == "not shown"  # the machine alone may have done it
    assert moved.ratio.high == still.ratio.high
    assert moved.ratio.low == pytest.approx(still.ratio.low / math.exp(drift.high))  # type: ignore[operator]
    assert "canary" in (moved.ratio.method or "")
    throughput = compare_metric("throughput", *sides, drift)
    assert throughput.verdict == "not shown"
    assert throughput.ratio.low == compare_metric("throughput", *sides, STILL).ratio.low
    assert compare_metric("peak_memory", *sides, drift).verdict == "higher"


def test_a_plan_says_what_more_processes_would_show() -> None:
    found = compare_metric("step_time", timed(0.100, 0.103), timed(0.101, 0.104), STILL)
    plan = found.plan
    assert plan is not None
    assert plan.spread == pytest.approx(0.0207, rel=0.02)  # of 100 and 103: 3 % / sqrt(2)
    assert plan.processes == 2
    assert plan.shows is not None
    assert plan.shows > 0.02
    assert plan.needs is not None
    assert plan.needs > 10


def test_the_difference_is_widened_by_what_the_canary_saw_as_the_ratio_is() -> None:
    drift = drift_between([canary((1.0, 1.0))], [canary((1.5, 1.5))])
    found = compare_metric("step_time", timed(0.1, reach=0.001), timed(0.14, reach=0.001), drift)
    assert found.of_these == "not shown"
    assert found.difference.low is not None
    assert found.difference.low < 0
    a, b = (
        [process({"throughput": figure(value, 0.1, unit="samples/s")})] for value in (10.0, 8.0)
    )
    slower = compare_metric("throughput", a, b, drift).difference
    assert slower.high == pytest.approx(8.0 * 1.5 - 10.0, abs=0.2)  # on the faster machine: 12
