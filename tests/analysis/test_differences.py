"""Differences between sides, against textbook answers and scipy's tests; many tests at once; plans."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from wattstep.errors import InvalidValueError
from wattstep.insight.compare.metrics import of_side
from wattstep.insight.observe.estimates import of_processes
from wattstep.schema.figure import Figure, Status
from wattstep.stats.differences import (
    Observed,
    detectable,
    differences,
    less,
    mean_of,
    observed,
    pooled_spread,
    processes_needed,
)

A, B = [10.1, 9.8, 10.4, 10.0], [11.0, 12.1, 10.9]


def test_several_processes_are_compared_as_welch_does() -> None:
    found = differences(observed(A), observed(B))
    expected = stats.ttest_ind(B, A, equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert found.basis == "processes"
    assert found.p[0] == pytest.approx(expected.pvalue, rel=1e-6)
    assert found.low[0] == pytest.approx(interval.low, rel=1e-6)
    assert found.high[0] == pytest.approx(interval.high, rel=1e-6)


def test_an_interval_that_was_cut_at_0_is_no_narrower() -> None:
    # 2 ± 12.7 without a cut; what is left, 0 to 14.7, must not pass for 2 ± 7.35.
    cut, whole = (observed([2.0, 2.0], [low] * 2, [14.7] * 2) for low in (0.0, 2 - 12.7))
    assert cut.variance[0] == pytest.approx(whole.variance[0])


def test_one_process_is_held_against_the_spread_of_the_several() -> None:
    found = differences(observed(A), observed([11.0]))
    error = np.std(A, ddof=1) * math.sqrt(1 + 1 / 4)
    assert found.basis == "one against several"
    assert found.high[0] - found.value[0] == pytest.approx(stats.t.ppf(0.975, 3) * error, rel=1e-6)
    back = differences(observed([11.0]), observed(A))
    assert back.low[0] == pytest.approx(-found.high[0])


def test_one_each_joins_their_own_intervals() -> None:
    found = differences(observed([10.0], [9.7], [10.4]), observed([12.0], [11.6], [12.3]))
    assert found.basis == "one each"
    assert found.value[0] == 2
    assert found.low[0] == pytest.approx(2 - math.hypot(0.4, 0.4))
    assert found.high[0] == pytest.approx(2 + math.hypot(0.3, 0.3))
    assert found.p[0] < 0.05


def test_one_each_without_an_interval_shows_nothing() -> None:
    found = differences(observed([10.0]), observed([12.0], [11.6], [12.3]))
    assert found.low[0] == -math.inf
    assert found.high[0] == math.inf
    assert found.p[0] == 1


def test_processes_that_agree_by_luck_are_as_uncertain_as_their_steps() -> None:
    lucky = observed([10.0, 10.0], [9.0, 9.0], [11.0, 11.0])
    found = differences(lucky, observed([10.5, 10.5], [9.5, 9.5], [11.5, 11.5]))
    # Each mean has a standard error of 1 / 1.96; four of them, two a side.
    error = 1 / 1.96 * math.sqrt(2 / 2)
    assert found.high[0] - 0.5 == pytest.approx(stats.t.ppf(0.975, 2) * error, rel=1e-3)
    assert found.p[0] > 0.05


def test_equal_values_do_not_differ_and_exact_ones_that_are_not_equal_do() -> None:
    assert differences(observed([5.0, 5.0]), observed([5.0, 5.0])).p[0] == 1
    assert differences(observed([5.0, 5.0]), observed([6.0, 6.0])).p[0] == 0


def test_a_lower_end_of_nothing_leaves_a_ratio_without_a_limit() -> None:
    side = observed([1.0], [0.0], [2.0]).log
    found = differences(side, observed([2.0], [1.9], [2.1]).log)
    assert found.high[0] == math.inf
    assert math.isfinite(found.low[0])


def test_a_side_without_processes_is_refused() -> None:
    with pytest.raises(InvalidValueError):
        differences(observed([]), observed(A))


def test_the_spread_of_both_sides_is_pooled() -> None:
    spread = pooled_spread(observed(A), observed(B))
    assert spread is not None
    expected = math.sqrt((3 * np.var(A, ddof=1) + 2 * np.var(B, ddof=1)) / 5)
    assert spread[0] == pytest.approx(expected)
    assert pooled_spread(observed([1.0]), observed([2.0])) is None


def test_a_plan_keeps_its_promise() -> None:
    spread = 0.02
    needed = processes_needed(spread, 0.03)
    assert needed is not None
    assert detectable(spread, needed) <= 0.03 < detectable(spread, needed - 1)
    random, shown = np.random.default_rng(1), 0
    for _ in range(1000):
        a, b = (random.normal(mean, spread, needed) for mean in (0, 0.03))
        shown += differences(observed(a), observed(b)).p[0] < 0.05
    assert 0.76 < shown / 1000 < 0.9  # 8 of 10, and a little more by whole processes


def test_a_plan_that_needs_more_than_fifty_is_none() -> None:
    assert processes_needed(1.0, 0.02) is None
    assert processes_needed(0.0, 0.02) == 2


def test_many_quantities_are_compared_at_once() -> None:
    nan = np.full((3, 2), math.nan)
    a = Observed(values=np.array([[1.0, 5], [2, 6], [3, 7]]), low=nan, high=nan)
    b = Observed(values=np.array([[2.0, 5], [3, 6], [4, 7]]), low=nan, high=nan)
    found = differences(a, b)
    assert found.value.tolist() == [1, 0]
    single = differences(observed([1, 2, 3]), observed([2, 3, 4]))
    assert found.p[0] == pytest.approx(single.p[0])


def test_an_interval_that_reaches_nothing_is_wide_and_not_unknown() -> None:
    a = observed([1.0, 1.001], [-1.0, -1.0], [3.0, 3.0]).log
    b = observed([1.2, 1.201], [-0.8, -0.8], [3.2, 3.2]).log
    found = differences(a, b)
    # Each value is known to some 200 % of itself: 20 % between them are nothing.
    assert found.high[0] - found.low[0] > 4
    assert found.p[0] > 0.5


# Held of 1000 trials: fewer have a probability below 0.1 % (binomial) where the confidence is true.
@pytest.mark.parametrize(("confidence", "least"), [(0.95, 928), (0.995, 987)])
@pytest.mark.parametrize("processes", [2, 3, 5])
@pytest.mark.parametrize("between", [0.0, 1.0, 3.0])
def test_means_and_differences_are_held_as_often_as_they_say_and_agreement_by_luck_is_no_proof(
    processes: int, between: float, confidence: float, least: int
) -> None:
    random = np.random.default_rng(processes)
    values = random.normal(0, math.hypot(between, 1), (processes, 1000))
    found = mean_of(Observed(values=values, low=values - 1.96, high=values + 1.96))
    other = replace(found, value=found.value[::-1], error=found.error[::-1])  # type: ignore[index]
    half_width = found.half_width(confidence)
    assert (np.abs(found.value) <= half_width).sum() >= least
    apart = less(other, found)
    assert (np.abs(apart.value) <= apart.half_width(confidence)).sum() >= least
    assert ((np.abs(apart.value) <= apart.half_width()) == (apart.p >= 0.05)).all()
    # Never narrower than the steps of these processes leave open.
    assert (half_width >= 0.99 * stats.norm.ppf((1 + confidence) / 2) / math.sqrt(processes)).all()


def test_two_processes_that_agree_by_luck_do_not_carry_six() -> None:
    """Steps leave open 0.4 of the spread of processes; Welch's t alone holds in 928 of 1000."""

    def side(processes: int) -> Observed:
        values = random.normal(0, math.hypot(1, 0.4), (processes, 4000))
        return Observed(values=values, low=values - 1.96 * 0.4, high=values + 1.96 * 0.4)

    random = np.random.default_rng(1)
    found = less(mean_of(side(6)), mean_of(side(2)))
    assert (np.abs(found.value) <= found.half_width()).mean() > 0.94


def test_compare_and_observe_give_the_mean_over_processes_the_same_interval() -> None:
    for value, half in (([10.0, 10.01, 10.02], 0.3), ([9.0, 10.0, 11.5], 0.1)):
        figures = [
            Figure(
                value=each, low=each - half, high=each + half, confidence=0.95, unit="s", n=50,
                status=Status.MEASURED, source="made",
            )
            for each in value
        ]  # fmt: skip
        estimate = of_processes(figures)
        assert not isinstance(estimate, str)
        side = of_side(figures, "s")
        assert (side.low, side.high) == pytest.approx(estimate.interval())
