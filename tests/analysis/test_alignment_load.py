"""Clocks brought together by load: the truth is known, and lies within what is claimed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import ArrayLike
from tests.refusals import refused

from wattstep.importing.clocks.alignment import ClockMap
from wattstep.importing.clocks.alignment_load import (
    Load,
    from_load,
    load_of_intervals,
)

SECOND = 1e9
EPOCH = 1_790_000_000 * 10**9


def training(seed: int, step_s: float = 0.12, seconds: float = 40.0) -> tuple[np.ndarray, ...]:
    """Busy intervals in s: steps of about one length, and now and then a pause."""
    random = np.random.default_rng(seed)
    lengths = step_s * np.exp(random.normal(0, 0.05, int(seconds / step_s)))
    lengths[random.integers(0, len(lengths), 6)] += random.uniform(0.3, 2, 6)
    ends = np.cumsum(lengths)
    return ends - 0.75 * step_s, ends


def seen(
    starts: np.ndarray,
    ends: np.ndarray,
    hertz: float,
    seed: int,
    window_s: float = 0.0,
    power: ArrayLike = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Moments and values of a sensor, by counting in a fine table of power, relative to 3 W."""
    random = np.random.default_rng(seed)
    fine = np.zeros(round((ends[-1] + 20) * 1000), np.float64)  # from 10 s before, in ms
    for start, end, level in zip(starts, ends, np.broadcast_to(power, len(ends)), strict=True):
        fine[round((start + 10) * 1000) : round((end + 10) * 1000)] = level
    fine[:9000:2000] = 1
    width = max(1, round(window_s * 1000))
    total = np.concatenate([np.zeros(width), np.cumsum(fine)])
    mean = (total[width:] - total[:-width]) / width
    at = np.arange(1, len(fine) - 1, 1000 / hertz) + random.uniform(0, 0.3, 1)
    return at / 1000 - 10, 2 + 3 * mean[at.astype(int)] + random.normal(0, 0.5, len(at))


def clock(t: np.ndarray, offset_s: float, ppm: float) -> np.ndarray:
    said: np.ndarray = EPOCH + np.rint((t * (1 + ppm * 1e-6) + offset_s) * SECOND).astype(np.int64)
    return said


def load_of(starts: np.ndarray, ends: np.ndarray) -> Load:
    return load_of_intervals(
        np.rint(starts * SECOND).astype(np.int64), np.rint(ends * SECOND).astype(np.int64)
    )


def worst(found: ClockMap, offset_s: float, ppm: float, last: float) -> tuple[float, float]:
    moments = np.linspace(1, last - 1, 7)
    at = clock(moments, offset_s, ppm)
    errors = np.abs(found.map(at) * 1e-9 - moments)
    return float(errors.max()), float((errors - found.uncertainty_at(at) * 1e-9).max())


@pytest.mark.parametrize(
    ("hertz", "offset_s", "ppm"), [(100, 7300.0, 80), (100, -0.4, -100), (1000, 12.3, 0)]
)
def test_offset_and_rate_are_found_within_20_ms_and_within_the_interval(
    hertz: float, offset_s: float, ppm: float
) -> None:
    starts, ends = training(1)
    t, value = seen(starts, ends, hertz, 2)
    found = from_load(load_of(starts, ends), clock(t, offset_s, ppm), value)
    error, beyond = worst(found, offset_s, ppm, ends[-1])
    assert error < 0.020
    assert beyond <= 0
    assert found.uncertainty_at(found.from_ns).max() <= 20_000_000
    assert found.facts["correlation"] > 0.8


@pytest.mark.parametrize(("hertz", "window_s"), [(4, 0.0), (50, 0.422)])
def test_what_is_worse_than_20_ms_says_so(hertz: float, window_s: float) -> None:
    starts, ends = training(5, seconds=80)
    t, value = seen(starts, ends, hertz, 6, window_s)
    found = from_load(load_of(starts, ends), clock(t, 3.0, 50), value)
    error, beyond = worst(found, 3.0, 50, ends[-1])
    assert beyond <= 0
    assert found.uncertainty_at(found.from_ns).min() > 20_000_000
    assert error < 0.25


def test_a_documented_window_is_taken_off() -> None:
    starts, ends = training(5, seconds=80)
    t, value = seen(starts, ends, 50, 6, 0.2)
    found = from_load(load_of(starts, ends), clock(t, 3.0, 50), value, window_s=0.2)
    assert found.facts["lag_s"]["value"] == 0.1  # half of it
    error, beyond = worst(found, 3.0, 50, ends[-1])
    assert error < 0.020
    assert beyond <= 0


def test_regular_steps_are_ambiguous_and_refused() -> None:
    ends = np.arange(0.09, 40, 0.09)
    starts = ends - 0.06
    t, value = seen(starts, ends, 100, 1)
    inside = (t > 0) & (t < 39)
    with refused("ambiguous-load", "marks:FILE"):
        from_load(load_of(starts, ends), clock(t, 1.0, 0)[inside], value[inside])


@pytest.mark.parametrize("kinds", [1, 2])
def test_noise_that_follows_no_load_is_refused_however_kinds_of_work_are_weighted(
    kinds: int,
) -> None:
    starts, ends = training(0, seconds=20)
    t, value = seen(starts, ends, 50, 0)
    noise = np.random.default_rng(0).normal(5, 1, len(value))
    middle = (starts + ends) / 2
    groups = (load_of(starts, middle), load_of(middle, ends))
    load = replace(load_of(starts, ends), groups=groups if kinds == 2 else ())
    with refused("load-not-followed", "marks:FILE"):
        from_load(load, clock(t, 1.0, 0), noise)


def test_kinds_of_work_of_one_power_are_placed_as_one() -> None:
    starts, ends = training(1, seconds=20)
    t, value = seen(starts, ends, 100, 2)
    middle = (starts + ends) / 2
    groups = (load_of(starts, middle), load_of(middle, ends))
    alike = load_of(starts, ends)
    at = clock(t, 7300.0, 80)
    several, one = from_load(replace(alike, groups=groups), at, value), from_load(alike, at, value)
    assert several.to_ns.tolist() == one.to_ns.tolist()
    assert several.uncertainty_ns.tolist() == one.uncertainty_ns.tolist()


@pytest.mark.parametrize(
    ("lengths_ms", "relative", "hertz", "most_s"),
    [
        ([23, 4, 4, 3, 22, 4], [0.7, 2.2, 1.0], 100, 0.02),
        ([10, 7, 30, 7, 6, 2, 11, 1, 16, 2], [1.3, 3.3, 0.7, 2.0, 0.3], 10, 0.2),
    ],
)
def test_stretches_of_a_step_that_differ_in_power_do_not_mislead(
    lengths_ms: list[float], relative: list[float], hertz: float, most_s: float
) -> None:
    """Work and pause in turn, nothing named: taken for one power, the first lies 40 ms off."""
    random = np.random.default_rng(2)
    count = round(30e3 / sum(lengths_ms))
    parts = np.outer(np.exp(random.normal(0, 0.04, count)), lengths_ms) / 1000
    parts[random.integers(0, count, 6), -1] += random.uniform(0.3, 2, 6)
    edges = np.append(0.0, np.cumsum(parts))
    starts, ends = edges[:-1:2], edges[1::2]
    t, value = seen(starts, ends, hertz, 2, power=np.tile(relative, count))
    found = from_load(load_of(starts, ends), clock(t, 7300.0, 80), value)
    error, beyond = worst(found, 7300.0, 80, ends[-1])
    assert beyond <= 0
    assert error < most_s
    assert found.uncertainty_at(found.from_ns).max() <= most_s * SECOND


def test_what_never_changes_cannot_be_aligned_by() -> None:
    starts, ends = training(1)
    t, value = seen(starts, ends, 100, 1)
    whole = load_of(starts[:1], ends[-1:])
    with refused("constant-load", "trace"):
        from_load(whole, clock(t, 0, 0), value)
    with refused("constant-load", "sensor"):
        from_load(load_of(starts, ends), clock(t, 0, 0), np.full(len(t), 3.0))
    with refused("too-few-values", "10 values", "24"):
        from_load(load_of(starts, ends), clock(t[:10], 0, 0), value[:10])
    with refused("no-load"):
        load_of_intervals([5, 6], [5, 6])


def test_intervals_that_overlap_and_touch_are_one_stretch() -> None:
    load = load_of_intervals([0, 5, 10, 30], [8, 10, 20, 40])
    covered = [
        (int(a), int(b), level)
        for a, b, level in zip(load.t_ns[:-1], load.t_ns[1:], load.level, strict=True)
    ]
    assert sum(b - a for a, b, level in covered if level == 1) == 30
    assert sum(b - a for a, b, level in covered if level == 0) == 10
