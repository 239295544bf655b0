"""What changes can save, against arithmetic by hand."""

from __future__ import annotations

import numpy as np
import pytest

from wattstep.errors import InvalidValueError
from wattstep.stats.speedup import (
    amdahl,
    fixed_cost,
    per_sample_with_batch,
    with_fewer_threads,
    with_higher_ceilings,
)

NAN = float("nan")


def test_amdahl_on_four_cores() -> None:
    # 60 ms of a step can be cut in four: 45 ms are saved.
    assert amdahl(0.060, 4) == pytest.approx(0.045)


def test_a_slowdown_is_no_speedup() -> None:
    with pytest.raises(InvalidValueError):
        amdahl(1.0, 0.5)


def test_higher_ceilings_help_what_is_near_them_and_little_else() -> None:
    # Three operations of 10 ms: near its ceiling (8 ms at it), far below (1 ms), not concerned.
    found = with_higher_ceilings(
        np.array([0.010, 0.010, 0.010]),
        np.array([0.008, 0.001, 0.008]),
        np.array([2.0, 2.0, 2.0]),
        np.array([True, False, True]),
        np.array([True, True, False]),
        4.0,
    )
    assert found.value == pytest.approx(0.010 / 2 + 0.001 / 2)
    assert found.low == pytest.approx(0.008 / 2 + 0.001 / 2)
    assert found.high == pytest.approx(0.020 * 3 / 4)


def test_ceilings_that_are_not_known_promise_nothing() -> None:
    one = np.array([0.01])
    found = with_higher_ceilings(one, np.array([NAN]), np.array([NAN]), one > 0, one > 0, 2.0)
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(0.005)


def test_a_ceiling_that_is_lower_promises_nothing() -> None:
    one = np.array([0.01])
    found = with_higher_ceilings(one, one, np.array([0.5]), one > 0, one > 0, 2.0)
    assert found.value == 0.0


def test_fewer_threads_save_what_undisturbed_steps_show() -> None:
    found = with_fewer_threads(0.241, 0.0041, 0.001)
    assert found is not None
    assert found.value == pytest.approx(0.2369)
    assert found.high == pytest.approx(0.240)


def test_without_undisturbed_steps_nothing_is_promised() -> None:
    assert with_fewer_threads(0.241, None, 0.001) is None


def test_twice_the_batch_halves_the_fixed_cost_of_a_sample() -> None:
    # 4 ms fixed of 10: a sample costs 10/B, then (4 + 12)/2B = 8/B: a fifth less.
    assert per_sample_with_batch(0.004, 0.010, 2) == pytest.approx(0.2)


def test_a_line_through_batches_gives_the_fixed_cost() -> None:
    fixed, each = fixed_cost(np.array([1.0, 4.0, 16.0]), np.array([0.005, 0.008, 0.020])) or (0, 0)
    assert fixed == pytest.approx(0.004)
    assert each == pytest.approx(0.001)


def test_one_batch_gives_no_line() -> None:
    assert fixed_cost(np.array([4.0, 4.0]), np.array([0.01, 0.011])) is None


def test_a_line_below_zero_is_none() -> None:
    assert fixed_cost(np.array([1.0, 2.0]), np.array([0.001, 0.010])) is None
