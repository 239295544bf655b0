"""Kinds of steps: told where steps take turns, and invented in at most one run of a hundred where they are alike."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from wattstep.attribution.step_kinds import (
    kinds_of_windows,
    rotation_of,
    rotation_of_times,
    rotation_with_times,
)

Random = np.random.Generator
RUNS = 300
CALLS = np.array([1, 4, 2, 8, 1, 3, 6, 2, 1, 12])  # of each operation that every step runs
INCIDENTAL = 8  # operations that run now and then


def machine(random: Random, count: int) -> np.ndarray:
    """Factors by which a busy machine lengthens steps: slowly varying, of two modes, heavy-tailed."""
    slow, level = np.empty(count), 0.0
    for n in range(count):
        level = 0.95 * level + 0.1 * random.standard_normal()
        slow[n] = level
    modes, stays = np.empty(count), random.uniform(0.2, 0.99)
    mode = 0
    for n in range(count):
        mode = mode if random.random() < stays else 1 - mode
        modes[n] = mode
    tail = random.standard_t(2, count) ** 2 * 0.1
    which = random.integers(0, 2, 3)
    return np.exp(which[0] * slow) * (1 + 2 * which[1] * modes) + which[2] * tail


def traced(random: Random, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Windows of steps that are alike, but for operations that come now and then and take 2 %."""
    index = np.cumsum(random.integers(4, 12, count))
    often = random.uniform(0.02, 0.6, INCIDENTAL)
    now_and_then = random.random((count, INCIDENTAL)) < often
    calls = np.concatenate([np.tile(CALLS, (count, 1)), now_and_then], axis=1).astype(np.int64)
    calls[:, 1] += random.random(count) < 0.3  # a copy more among others of its shape
    each = np.concatenate([np.linspace(0.02, 0.2, len(CALLS)), np.full(INCIDENTAL, 0.02)])
    seconds = calls * each * np.exp(0.2 * random.standard_normal(calls.shape))
    return index, calls, seconds / seconds.sum(axis=1, keepdims=True)


def invented(tell: Callable[[Random], bool]) -> int:
    return sum(tell(np.random.default_rng(seed)) for seed in range(RUNS))


@pytest.mark.parametrize("windows", [4, 10, 40])
def test_traced_steps_that_differ_by_incidental_operations_are_of_one_kind(windows: int) -> None:
    found = invented(lambda random: kinds_of_windows(*traced(random, windows)).max() > 0)
    assert found <= RUNS * 0.01


@pytest.mark.parametrize("steps", [16, 60, 200, 600])
def test_a_busy_machine_makes_no_turn_of_times(steps: int) -> None:
    def tell(random: Random) -> bool:
        index = np.arange(steps)[random.random(steps) < 0.9]
        return rotation_of_times(index, 1e-3 * machine(random, len(index))) is not None

    assert invented(tell) <= RUNS * 0.01


@pytest.mark.parametrize("windows", [6, 10, 30])
def test_kinds_by_chance_follow_no_turn(windows: int) -> None:
    def tell(random: Random) -> bool:
        index = np.cumsum(random.integers(4, 12, windows))
        return rotation_of(index, random.integers(0, 2, windows)) is not None

    assert invented(tell) <= RUNS * 0.02


@pytest.mark.parametrize("turn", ["AB", "AAB", "AAAAB", "ABBA"])
def test_two_networks_in_turn_are_found_on_a_busy_machine(turn: str) -> None:
    """Each has half of its operations to itself; others come now and then."""

    def tell(random: Random) -> bool:
        index, calls, share = traced(random, 40)
        second = np.array([turn[n % len(turn)] == "B" for n in index])
        calls[:, :5] *= ~second[:, None]
        calls[:, 5:10] *= second[:, None]
        found = kinds_of_windows(index, calls, share * (calls > 0))
        same = ((found == found[0]) == (second == second[0])).all()
        return bool(same) and rotation_of(index, found) is not None

    assert invented(tell) >= RUNS * 0.97


def test_what_takes_little_tells_kinds_where_it_comes_in_turn() -> None:
    index = np.arange(0, 120, 3)
    calls = np.stack([np.ones(40), index % 2], axis=1).astype(np.int64)
    share = calls * [0.97, 0.03]
    assert (kinds_of_windows(index, calls, share) == index % 2).all()


def test_times_alone_tell_a_turn_that_repeats() -> None:
    random = np.random.default_rng(3)
    index = np.arange(240)
    seconds = np.where(index % 3 == 2, 7e-3, 3e-3) * np.exp(0.03 * random.standard_normal(240))
    seconds[random.random(240) < 0.02] *= 3.0
    turn = rotation_of_times(index, seconds)
    assert turn is not None
    assert turn.tolist() == [0, 0, 1]


def test_few_steps_that_are_long_and_short_in_turn_without_an_exception_are_two_kinds() -> None:
    """25 steps of 2.2 to 2.6 s and 2.9 to 3.3 s: too few and too uneven to be foretold by medians."""
    index = np.array([*range(3, 6), *range(8, 28, 4), *range(9, 29, 4), *range(28, 40)])
    index.sort()
    within = np.arange(len(index)) * 7 % 5 * 0.1
    seconds = np.where(index % 2 == 0, 2.9, 2.2) + within
    turn = rotation_of_times(index, seconds)
    assert turn is not None
    assert turn[index % 2].tolist() == (index % 2 != index[0] % 2).astype(int).tolist()
    seconds[7] = 5.1 - seconds[7]  # one step out of turn
    assert rotation_of_times(index, seconds) is None


def test_a_turn_of_times_in_one_half_of_the_steps_is_none() -> None:
    index = np.arange(240)
    seconds = np.where((index % 2 == 1) & (index < 120), 7e-3, 3e-3)
    assert rotation_of_times(index, seconds) is None


def test_few_traced_steps_of_two_networks_in_turn_are_enough_with_the_times_of_all() -> None:
    """Eight of the one and two of the other: chance would do so once in 22."""

    def tell(random: Random, ratio: float) -> bool:
        index = 2 * np.sort(random.choice(90, 10, replace=False))
        index[[3, 7]] += 1
        others = np.setdiff1d(np.arange(180), index)
        seconds = np.where(others % 2 == 1, ratio, 1.0) * machine(random, len(others))
        return rotation_with_times(index, index % 2, others, seconds) is not None

    assert invented(lambda random: tell(random, 3.0)) >= RUNS * 0.97
    assert (
        invented(lambda random: tell(random, 1.0)) <= RUNS * 0.05
    )  # and no kind is invented by it
