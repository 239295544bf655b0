"""Coincidences: against all permutations, published intervals, other libraries, and nulls that remember themselves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from wattstep.stats.coincidence import (
    MANY,
    Coincidence,
    Coincidences,
    first_call,
)
from wattstep.stats.false_discovery import false_discovery


def pair(slow: np.ndarray, present: np.ndarray, calls: np.ndarray | None = None) -> Coincidence:
    calls = np.ones(len(slow)) if calls is None else calls
    found = Coincidences().test(slow.astype(float), calls, present.astype(float))
    assert isinstance(found, Coincidence), found
    return found


def persistent(random: np.random.Generator, count: int, lag_one: float) -> np.ndarray:
    values = random.standard_normal(count)
    for n in range(1, count):
        values[n] = lag_one * values[n - 1] + np.sqrt(1 - lag_one**2) * values[n]
    return values


def test_shares_are_of_slow_instances_and_of_the_others() -> None:
    """Windows of 4 calls: 6 slow ones, 5 of them with the condition; 34 others, 7 of them."""
    slow = np.array([3, 0, 0, 0, 2, 0, 0, 1, 0, 0])
    present = np.array([1, 0, 0, 0, 1, 0, 0, 0, 1, 0])
    found = pair(slow, present, np.full(10, 4.0))
    assert found.with_slow == pytest.approx(5 / 6)
    assert found.with_others == pytest.approx(7 / 34)
    assert found.difference == pytest.approx(5 / 6 - 7 / 34)
    assert (found.windows, found.slow_windows) == (10, 3)


def test_the_probability_is_that_of_all_permutations() -> None:
    """Nine windows: three slow, four with the condition, all three among these."""
    slow = np.array([1, 0, 0, 1, 0, 0, 0, 1, 0])
    present = np.array([1, 0, 0, 1, 0, 0, 1, 1, 0])
    placed = list(itertools.combinations(range(9), 4))
    as_many = sum(sum(slow[list(at)]) >= 3 for at in placed) / len(placed)
    found = pair(slow, present)
    assert found.inflation == 1.0
    assert found.p == pytest.approx(as_many, abs=0.01)


def test_what_falls_together_in_every_window_is_found_and_what_does_not_is_not() -> None:
    order = np.random.default_rng(0).permutation(40)
    slow = (np.arange(40) < 8)[order]
    # Half of the slow ones, and half of the others.
    both, other = pair(slow, slow), pair(slow, (np.arange(40) % 2 == 0)[order])
    assert both.p < 0.001
    assert both.low > 0.4
    assert other.difference == 0.0
    assert other.p > 0.3
    assert other.low < 0 < other.high


def test_fewer_with_the_condition_among_the_slow_is_no_coincidence() -> None:
    slow = np.arange(30) % 5 == 0
    assert pair(slow, ~slow).p > 0.99


def test_one_episode_is_weaker_evidence_than_as_many_windows_apart() -> None:
    """Ten of sixty windows: in a row they fall together by chance far more easily."""
    row, apart = np.zeros(60), np.zeros(60)
    row[20:30] = 1
    apart[np.random.default_rng(1).permutation(60)[:10]] = 1
    in_a_row, scattered = pair(row, row), pair(apart, apart)
    assert in_a_row.inflation > 4
    assert scattered.inflation < 1.5
    assert in_a_row.p > 3 * scattered.p
    assert in_a_row.low < scattered.low


def test_of_many_windows_the_tail_is_the_hypergeometric_one() -> None:
    random = np.random.default_rng(2)
    count = MANY + 1000
    slow, present = random.random(count) < 0.02, random.random(count) < 0.1
    both = int((slow & present).sum())
    expected = stats.hypergeom.sf(both - 1, count, int(present.sum()), int(slow.sum()))
    found = pair(slow, present)
    assert found.inflation == pytest.approx(1.0, abs=0.05)
    assert found.p == pytest.approx(expected, rel=0.1)


def test_shares_of_a_window_that_had_the_condition_partly_count_partly() -> None:
    slow = np.array([1, 0, 1, 0, 0, 0, 0, 0, 0, 0])
    present = np.array([0.5, 0, 1, 0, 0, 0, 0, 0, 0, 0])
    assert pair(slow, present).with_slow == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("slow", "present", "reason"),
    [
        ([1, 0, 0, 1], [1, 0, 0, 1], "4 windows are"),
        ([0] * 10, [1, 0] * 5, "no instance"),
        ([1] * 10, [1, 0] * 5, "every instance"),
        ([1, 0] * 5, [0] * 10, "never held"),
        ([1, 0] * 5, [1] * 10, "always held"),
        ([1, 0] * 5, [0.3] * 10, "never changed"),
        ([1, 0] * 5, [np.nan] * 10, "0 windows are"),
        ([1, 0] * 5, [1.0, 0.0] * 2 + [np.nan] * 6, "4 windows are"),
    ],
)
def test_what_cannot_be_tested_says_why(
    slow: list[float], present: list[float], reason: str
) -> None:
    found = Coincidences().test(np.array(slow, float), np.ones(len(slow)), np.array(present, float))
    assert isinstance(found, str)
    assert reason in found


def test_a_rhythm_that_both_have_is_weaker_evidence() -> None:
    """Every fifth window: they meet in one of five phases by chance."""
    slow = np.arange(40) % 5 == 0
    assert pair(slow, slow).inflation > 3


def test_windows_in_which_the_condition_is_not_known_are_left_out() -> None:
    random = np.random.default_rng(3)
    slow = random.random(40) < 0.3
    present = np.where(random.random(40) < 0.2, np.nan, slow.astype(float))
    found = pair(slow, present)
    assert found.windows == np.isfinite(present).sum()
    assert found.with_slow == 1.0


def test_nulls_that_remember_themselves_make_few_false_discoveries() -> None:
    """Slowness and condition in episodes of their own; 120 families of 8 pairs at 5 %: at most 11 (0.03 %)."""
    random, tests, false = np.random.default_rng(4), Coincidences(), 0
    for _ in range(120):
        chances = []
        for _ in range(8):
            slow = (persistent(random, 50, 0.8) > 1.0).astype(float)
            present = (persistent(random, 50, 0.8) > 0.7).astype(float)
            found = tests.test(slow, np.ones(50), present)
            chances.append(found.p if isinstance(found, Coincidence) else 1.0)
        false += bool((false_discovery(np.array(chances)) <= 0.05).any())
    assert false <= 11


def test_first_calls_that_are_slow_are_judged_against_any_call_of_the_step() -> None:
    """Three steps of two calls, one slow in each: all three first ones by chance in 1 of 8."""
    ones = np.ones(3)
    assert first_call(ones, 2 * ones, ones) == pytest.approx(1 / 8)
    assert first_call(ones, 2 * ones, np.array([1, 0, 0])) == pytest.approx(7 / 8)
    assert first_call(ones, np.array([2, 4, 4]), ones) == pytest.approx(1 / 32)
    assert first_call(2 * ones, 2 * ones, ones) == pytest.approx(1.0)  # all calls are slow
