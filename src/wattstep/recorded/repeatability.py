"""Repeatability of a channel's course within a step, from step to step.

Every sample is folded onto the phase of its step. What the samples of different steps have in common
at the same phase is the profile of the step; its share of the variance is the correlation of one
step's course with that of any other. No step needs a full course of its own for that, so that steps
shorter than the time between samples are folded by phase all the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from wattstep.recorded.power import spoken
from wattstep.recorded.refresh import refresh
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import Figure, Missing, Status, missing
from wattstep.stats.student import critical_value

LEAST_STEPS = 5
LEAST_BINS = 5
MOST_BINS = 50
OWN_COURSE = 10.0  # samples of a step, from which on its own mean level is taken off
LEAST_SAMPLES = 60  # inside of steps
MOST_BLOCKS = 30  # of steps, left out one after the other for the interval
_ROUNDS = 10
_NOTHING = 1e-9  # of the range of the samples: what rounding leaves where a step is level
_CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Repeatability:
    """Repeatability of a channel.

    Attributes:
        correlation: Of the course of one step with that of another, level apart.
        corrected: The most that it can be: what differs from one sample to the next, and not
            from one step to the next, taken as noise of the sensor.
        bins: Phases that the profile has.
        folded: Whether steps were too short to have a course each.
    """

    correlation: Figure
    corrected: Figure
    bins: int = 0
    folded: bool = False


def repeatability(
    t_ns: IntArray,
    value: FloatArray,
    starts_ns: IntArray,
    ends_ns: IntArray,
    source: str,
    status: Status = Status.MEASURED,
) -> Repeatability:
    """The correlation of a channel's course in one step with that in the others.

    Args:
        t_ns: Times of the samples in ns, increasing, shape (n,). Of a counter give its rates.
        value: The samples, shape (n,); NaN: failed read.
        starts_ns: Begin of each step that counts, in ns, increasing, shape (s,).
        ends_ns: Their ends, shape (s,).
        source: What the samples were read from.
        status: Of the samples.
    """
    levelled = _sampled_courses(t_ns, value, starts_ns, ends_ns, source)
    if isinstance(levelled, Missing):
        return _none(levelled)
    return _figures(levelled, source, status)


def _none(reason: str) -> Repeatability:
    absent = missing("1", reason)
    return Repeatability(correlation=absent, corrected=absent)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Levelled:
    """Samples by step and phase; all arrays have shape (n,).

    Attributes:
        step: Number of the step, from 0.
        bin: Of its phase.
        value: Level of the step, or of the steps about it, taken off.
        noise: Variance of what differs from one sample to the next; None: not known.
        lost: Part of what differs between steps that went with the levels.
        bins: Phases.
        folded: Whether levels are those of several steps.
    """

    step: IntArray
    bin: IntArray
    value: FloatArray
    noise: float | None
    lost: float
    bins: int
    folded: bool


def _sampled_courses(
    t_ns: IntArray, value: FloatArray, starts: IntArray, ends: IntArray, source: str
) -> _Levelled | Missing:
    """The samples inside of steps by phase, or why there is no profile."""
    whole = ends > starts
    starts, ends = starts[whole], ends[whole]
    if len(starts) < LEAST_STEPS:
        return Missing(f"{len(starts)} steps are too few: {LEAST_STEPS} are needed")
    known = np.isfinite(value)
    if not known.any():
        return Missing("no value was read" if len(value) else "the channel is empty")
    t_ns, value = t_ns[known], value[known]
    step = np.searchsorted(starts, t_ns, side="right") - 1
    inside = (step >= 0) & (t_ns < ends[np.maximum(step, 0)])
    t_ns, value, step = t_ns[inside], value[inside], step[inside]
    if len(value) < LEAST_SAMPLES:
        return Missing(f"{len(value)} samples lie in steps that count: {LEAST_SAMPLES} are needed")
    if (seen := len(np.unique(step))) < LEAST_STEPS:
        return Missing(f"samples lie in {seen} of {len(starts)} steps: {LEAST_STEPS} are needed")
    if not np.ptp(value):
        return Missing(f"the channel is constant ({value[0]:.4g} at every read)")
    lasts = float(np.median(ends - starts)) * 1e-9
    updates = refresh(t_ns, value, source)
    if updates.slower and float(updates.interval.low or 0.0) > lasts / LEAST_BINS:
        return Missing(
            f"it gives a new value every {spoken(float(updates.interval.value or 0.0))}, and a step "
            f"lasts {spoken(lasts)}: no course within a step can be seen"
        )
    phase = (t_ns - starts[step]) / (ends[step] - starts[step])
    return _levelled(phase, value, step)


def _levelled(phase: FloatArray, value: FloatArray, step: IntArray) -> _Levelled | Missing:
    # Steps in a row among those that were sampled at all: ten short ones may hold one sample.
    seen, group = np.unique(step, return_inverse=True)
    a_step = len(value) / len(seen)
    folded = a_step < OWN_COURSE
    if folded:
        group = group // math.ceil(OWN_COURSE / a_step)
    bins = int(np.clip(a_step if not folded else len(value) / 60, LEAST_BINS, MOST_BINS))
    number = np.minimum((phase * bins).astype(np.int64), bins - 1)
    occupied = len(np.unique(number))
    if occupied < LEAST_BINS:
        return Missing(
            f"the samples always fall on the same {occupied} phases of a step: it lasts a multiple of "
            "the sampling interval; sample with dither"
        )
    size = np.bincount(group)
    centred = value - value.mean()
    profile = np.zeros(bins)
    # Steps that show a few phases only have their level beside that of the profile there.
    for _ in range(_ROUNDS):
        level = np.bincount(group, centred - profile[number]) / size
        left = centred - level[group]
        profile = np.bincount(number, left, bins) / np.maximum(
            np.bincount(number, minlength=bins), 1
        )
        profile -= profile[number].mean()
    centred = centred - level[group]
    if np.ptp(centred) < _NOTHING * np.ptp(value):
        return Missing("it differs from step to step only: no course within a step can be seen")
    return _Levelled(
        step=step, bin=number, value=centred, noise=_noise(centred, number, step, bins),
        lost=len(size) / len(value), bins=bins, folded=folded,
    )  # fmt: skip


def _noise(value: FloatArray, number: IntArray, step: IntArray, bins: int) -> float | None:
    """The variance of neighbouring samples about the profile: half of their differences' squares.

    None where hardly a step holds two of them.
    """
    profile = np.bincount(number, value, bins) / np.maximum(np.bincount(number, minlength=bins), 1)
    left = value - profile[number]
    beside = step[1:] == step[:-1]
    if beside.sum() < LEAST_SAMPLES / 2:
        return None
    return float((np.diff(left)[beside] ** 2).mean()) / 2


def _shares(levelled: _Levelled, left_out: int | None, blocks: IntArray) -> tuple[float, float]:
    """The variance that steps have in common, and all of it; one block of steps left out."""
    chosen = slice(None) if left_out is None else blocks != left_out
    step, number, value = levelled.step[chosen], levelled.bin[chosen], levelled.value[chosen]
    # A step with several samples in a bin counts once there, with their sum.
    cell = step * levelled.bins + number
    cells, where = np.unique(cell, return_inverse=True)
    size, total = np.bincount(where), np.bincount(where, value)
    of_bin = cells % levelled.bins
    n = np.bincount(of_bin, size, levelled.bins)
    sums = np.bincount(of_bin, total, levelled.bins)
    pairs = n**2 - np.bincount(of_bin, size.astype(np.float64) ** 2, levelled.bins)
    products = sums**2 - np.bincount(of_bin, total**2, levelled.bins)
    common = np.divide(products, pairs, out=np.zeros(levelled.bins), where=pairs > 0)
    shared = float((common * n).sum() / n.sum())
    return shared, shared + (float((value**2).mean()) - shared) / (1 - levelled.lost)


def _figures(levelled: _Levelled, source: str, status: Status) -> Repeatability:
    steps = np.unique(levelled.step)
    count = min(MOST_BLOCKS, len(steps))
    blocks = np.searchsorted(steps, levelled.step) * count // len(steps)
    common, whole = _shares(levelled, None, blocks)
    without = np.array([_shares(levelled, each, blocks) for each in range(count)])
    how = "folded by phase over steps" if levelled.folded else "over the phases of each step"
    method = (
        f"correlation of the course of one step with that of another, {how}, {levelled.bins} phases; "
        f"jackknife over {count} blocks of steps"
    )
    plain = _interval(common / whole, _ratios(without))
    n = len(steps)
    return Repeatability(
        correlation=_figure(plain, n, source, status, method),
        corrected=_at_most(levelled, common, whole, without, plain, (source, status, method)),
        bins=levelled.bins,
        folded=levelled.folded,
    )


def _at_most(
    levelled: _Levelled, common: float, whole: float, without: FloatArray,
    plain: tuple[float, float, float], words: tuple[str, Status, str],
) -> Figure:  # fmt: skip
    """The correlation with the noise of single samples taken out of the variance."""
    source, status, method = words
    if levelled.noise is None:
        return missing("1", "hardly a step holds two samples: their noise is not known")
    if plain[1] <= 0:
        return missing("1", "no course that repeats is seen: its ceiling is not known")
    noise = min(levelled.noise, max(whole - common, 0.0))
    interval = _interval(common / (whole - noise), _ratios(without, noise))
    most = f"{method}; the most it can be: what differs from sample to sample taken as noise"
    return _figure(interval, len(np.unique(levelled.step)), source, status, most)


def _ratios(without: FloatArray, noise: float = 0.0) -> FloatArray:
    """The correlation without each block; 0 where nothing is left to correlate."""
    common, whole = without.T
    whole = whole - np.minimum(noise, np.maximum(whole - common, 0.0))
    ratios: FloatArray = np.divide(common, whole, out=np.zeros(len(common)), where=whole > 0)
    return ratios


def _interval(value: float, without: FloatArray) -> tuple[float, float, float]:
    """The value and its interval, on Fisher's scale where it lies within."""
    count = len(without)
    bound = 0.9999
    centre = math.atanh(max(-bound, min(value, bound)))
    others = np.arctanh(np.clip(without, -bound, bound))
    error = math.sqrt((count - 1) / count * float(((others - others.mean()) ** 2).sum()))
    half_width = critical_value(_CONFIDENCE, count - 1) * error
    low, high = math.tanh(centre - half_width), math.tanh(centre + half_width)
    value = min(max(value, -1.0), 1.0)
    return value, min(low, value), max(high, value)


def _figure(
    interval: tuple[float, float, float], n: int, source: str, status: Status, method: str
) -> Figure:
    value, low, high = interval
    return Figure(
        value=value, low=low, high=high, unit="1", confidence=_CONFIDENCE, n=n, status=status,
        source=source, method=method,
    )  # fmt: skip
