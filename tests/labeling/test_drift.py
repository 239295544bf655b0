"""The test of rates against streams whose change is known."""

from __future__ import annotations

import numpy as np

from wattstep.labeling.drift import watch


def test_a_raised_rate_is_seen_within_a_few_dozen_values_and_dated() -> None:
    random = np.random.default_rng(1)
    one = watch(np.array([0.1]), 0.25, 1e-3)
    quiet = random.random((300, 1)) < 0.03
    assert not one.see(quiet, np.ones_like(quiet)).any()
    loud = random.random((60, 1)) < 0.6
    assert one.see(loud, np.ones_like(loud)).all()
    assert abs(one.since[0] - 60) <= 15


def test_false_alarms_are_as_rare_as_stated() -> None:
    # 100 streams of 100 values at a rate of 1e-3 a value: at most ten alarms are expected, by Lorden's bound.
    random = np.random.default_rng(2)
    many = watch(np.full(100, 0.1), 0.25, 1e-3)
    events = random.random((100, 100)) < 0.1
    assert many.see(events, np.ones_like(events)).sum() <= 10


def test_values_that_are_missing_count_for_nothing() -> None:
    one = watch(np.array([0.1]), 0.25, 1e-3)
    events = np.ones((50, 1), dtype=bool)
    assert not one.see(events, np.zeros_like(events)).any()
    assert one.sums[0] == 0


def test_values_one_by_one_give_the_same_as_at_once() -> None:
    random = np.random.default_rng(3)
    events, observed = random.random((200, 3)) < 0.2, random.random((200, 3)) < 0.7
    at_once, one_by_one = watch(np.full(3, 0.1), 0.2, 1e-3), watch(np.full(3, 0.1), 0.2, 1e-3)
    at_once.see(events, observed)
    for row in range(200):
        one_by_one.see(events[row : row + 1], observed[row : row + 1])
    np.testing.assert_allclose(at_once.sums, one_by_one.sums)
    np.testing.assert_array_equal(at_once.since, one_by_one.since)
