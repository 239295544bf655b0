"""From samples to observations: mean power over stretches of time, only from values that are new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wattstep.attribution.regression.problem import Sampled
from wattstep.recorded.refresh import refresh, resolution_of
from wattstep.schema.arrays import FloatArray, IntArray

CLEARLY = 1.25  # sample spacings: new values that are this far apart are fewer than reads
CLOSE = 0.3  # of the spacing of reads of a counter
MOST_UPDATES = 5.5  # between two changes that are looked at
BY_CHANCE = 2.5  # times the repeats that values drawn at random would have
LEAST_UPDATES = 10
HARDLY = 2.0  # reads: updates that are no farther apart leave no more than one value out
IN_A_ROW = 8
STEADY, MOSTLY = (
    1.1,
    0.95,
)  # of the time between reads: how far that many updates vary, and how often
NEARLY_ALL = 0.98
EVEN = 0.25  # of the interval: updates are no farther than this from its multiples
MOST_SPACINGS = 2.5  # a difference of counts over more than this has a gap in it


@dataclass(frozen=True, kw_only=True, eq=False)
class Readings:
    """Observations of one process, before its sensor's delay and window are known.

    Attributes:
        end_s: When each was taken, in s since `origin_ns`, shape (n,).
        lasted_s: How long before that it began, for differences of a counter; None for a gauge,
            whose averaging window is to be found.
        watts: Mean power over it, shape (n,).
        spacing_s: Median time from one to the next.
        resolution: Smallest step of the values in W, or 0.
        early_s: By how much values may have come before their time here.
        slow_w: What slow change of all power was taken off `watts`, shape (n,).
        memory_s: Time constant in s with which what was read forgets, over `lasted_s`; 0: the mean
            over it is plain.
        averaged_s: What was averaged plainly before, in s, where it has a memory.
    """

    end_s: FloatArray
    lasted_s: FloatArray | None
    watts: FloatArray
    spacing_s: float
    resolution: float
    early_s: float
    slow_w: FloatArray
    memory_s: float = 0.0
    averaged_s: float | FloatArray = 0.0


def readings(process: Sampled) -> Readings:
    """Readings of a process, gaps and repeated values left out.

    Args:
        process: Its samples; NaN is a gap.
    """
    origin = int(process.start_ns[0]) if len(process.start_ns) else 0
    known = np.isfinite(process.value)
    at: FloatArray = (process.t_ns[known] - origin).astype(np.float64) * 1e-9
    value = process.value[known]
    # Nobody knows what came between two samples with a gap between them.
    stretch = np.cumsum(~known)[known]
    resolution = resolution_of(value) or 0.0 if len(value) > 3 else 0.0
    early = 0.0
    if len(value) > 3 and _repeats(process.t_ns[known], value, stretch):
        # Only the first read of each value counts. It was made some time since the read before.
        new = np.flatnonzero((np.diff(value) != 0) & (np.diff(stretch) == 0)) + 1
        early = float(np.median(np.diff(at))) / 2
        at, value, stretch = (at[new] + at[new - 1]) / 2, value[new], stretch[new]
        even = _even_times(at, early)
        if even is not None:
            at, early = even, 0.0
    if process.counter:
        return _differences(at, value, stretch, origin, resolution, early)
    return Readings(
        end_s=at, lasted_s=None, watts=value, spacing_s=_spacing(at),
        resolution=resolution, early_s=early, slow_w=np.zeros(len(at)),
    )  # fmt: skip


def _repeats(t_ns: IntArray, value: FloatArray, stretch: IntArray) -> bool:
    """True if values come more slowly than they are read, rather than being equal by chance.

    Updates of a sensor are multiples of its interval apart; an operation that stands still makes
    equal values of any number. What lies between two stretches of samples is not known.
    """
    refreshed = refresh(t_ns, value, "")
    length = refreshed.interval.value or 0.0
    if (refreshed.interval.low or 0.0) <= 0 or length < CLEARLY * refreshed.spacing_s:
        return False
    _, counts = np.unique(value, return_counts=True)
    if refreshed.repeated < BY_CHANCE * float(((counts / len(value)) ** 2).sum()):
        return False
    changed = np.flatnonzero((np.diff(value) != 0) & (np.diff(stretch) == 0)) + 1
    if length < HARDLY * refreshed.spacing_s and len(changed) > IN_A_ROW:
        # Operations that stand still repeat a value now and then, too, but not in turn.
        lasted = (t_ns[changed[IN_A_ROW:]] - t_ns[changed[:-IN_A_ROW]]) * 1e-9
        steady = np.abs(lasted - np.median(lasted)) <= STEADY * refreshed.spacing_s
        if float(np.mean(steady)) < MOSTLY:
            return False
    gaps = np.diff(t_ns[changed]) * 1e-9
    gaps = gaps[(gaps < MOST_UPDATES * length) & (np.diff(stretch[changed]) == 0)]
    return bool(len(gaps) and np.std(gaps - np.rint(gaps / length) * length) < EVEN * length)


def _even_times(at: FloatArray, early: float) -> FloatArray | None:
    """Times of updates that come evenly, made exact by all of them; None where they do not.

    Args:
        at: When each came, to half the time between reads, in s.
        early: That half.
    """
    if len(at) < LEAST_UPDATES:
        return None
    interval = float(np.median(np.diff(at)))
    for _ in range(4):
        # From one to the next, so that no error of the interval adds up.
        number = np.concatenate([[0.0], np.cumsum(np.rint(np.diff(at) / interval))])
        slope, begin = np.polyfit(number, at, 1)
        interval = float(slope)
    even = begin + slope * number
    off = np.abs(at - even)
    return even if float(np.mean(off <= 1.2 * early)) > NEARLY_ALL else None


def _differences(
    at: FloatArray,
    value: FloatArray,
    stretch: IntArray,
    origin: int,
    resolution: float,
    early: float,
) -> Readings:
    # Between reads that nearly coincide there is more rounding than energy.
    apart = np.append(True, np.diff(at) >= CLOSE * _spacing(at)) if len(at) else np.zeros(0, bool)
    at, value, stretch = at[apart], value[apart], stretch[apart]
    lasted = np.diff(at)
    gained = np.diff(value)
    spacing = _spacing(at)
    # A counter that falls was reset; a difference over a gap says nothing of what ran when.
    whole = (gained >= 0) & (lasted > 0) & (lasted <= MOST_SPACINGS * spacing)
    whole &= np.diff(stretch) == 0
    lasted = np.where(whole, lasted, 1.0)
    return Readings(
        end_s=at[1:][whole], lasted_s=lasted[whole], watts=(gained / lasted)[whole],
        spacing_s=spacing,
        resolution=resolution / spacing if spacing > 0 else 0.0, early_s=early,
        slow_w=np.zeros(int(whole.sum())),
    )  # fmt: skip


def since_before(each: Readings) -> Readings:
    """Values of a gauge as means since the value before, as a log of mean powers has them.

    Args:
        each: Of a gauge; its first value, and those after a gap, are left out.
    """
    lasted = np.diff(each.end_s)
    whole = (lasted > 0) & (lasted <= MOST_SPACINGS * each.spacing_s)
    return replace(
        each, end_s=each.end_s[1:][whole], lasted_s=lasted[whole], watts=each.watts[1:][whole],
        slow_w=each.slow_w[1:][whole],
    )  # fmt: skip


def _spacing(at: FloatArray) -> float:
    return float(np.median(np.diff(at))) if len(at) > 1 else 0.0


def common_spacing(all_readings: Sequence[Readings]) -> float:
    """Median time between observations over all processes, in s; 0 where there are none."""
    spacings = [each.spacing_s for each in all_readings if each.spacing_s > 0]
    return float(np.median(spacings)) if spacings else 0.0
