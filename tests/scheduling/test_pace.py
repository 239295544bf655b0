"""Steps that no longer take what they took are noticed; noise and single steps are not taken for it."""

from __future__ import annotations

import numpy as np
import pytest

from wattstep.schedule.pace import FIRST, Pace


def steps(pace: Pace, seconds: float, count: int, *, noise: float, seed: int) -> int:
    """How many steps went by until a change was seen, at most `count`."""
    dice = np.random.default_rng(seed)
    for number in range(count):
        pace.add(seconds * float(np.exp(dice.normal(0, noise))))
        if pace.factor is not None:
            return number + 1
    return count


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("seed", range(8))
def test_steady_steps_are_no_change(noise: float, seed: int) -> None:
    pace = Pace()
    assert steps(pace, 0.01, 2000, noise=noise, seed=seed) == 2000
    assert pace.factor is None


@pytest.mark.parametrize("factor", [0.6, 1.3, 2.0])
@pytest.mark.parametrize("seed", range(8))
def test_a_change_is_seen_within_some_steps_and_by_its_size(factor: float, seed: int) -> None:
    pace = Pace()
    steps(pace, 0.01, FIRST + 40, noise=0.04, seed=seed)
    assert pace.factor is None
    assert steps(pace, 0.01 * factor, 60, noise=0.04, seed=seed + 100) < 60
    assert pace.factor == pytest.approx(factor, rel=0.1)


def test_one_step_in_ten_that_waits_for_a_core_is_no_change() -> None:
    pace = Pace()
    for number in range(1000):
        pace.add(0.5 if number % 10 == 9 else 0.01)
    assert pace.factor is None


def test_a_small_change_is_left_alone() -> None:
    pace = Pace()
    steps(pace, 0.01, FIRST, noise=0.001, seed=1)
    assert steps(pace, 0.0104, 400, noise=0.001, seed=2) == 400
