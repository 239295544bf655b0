"""The parts of a busy stretch in which steps of a period follow one another, and what the rest leaves open of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy import ndimage

from wattstep.recorded.period.seen import NEAR, mean_periods, seen
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.figure import Figure
from wattstep.stats.student import half_width

CONFIDENCE: Final = 0.95
LEVEL_PERIODS: Final = 2  # over which power is averaged, so that a step's own course is not in it
LEVEL_AROUND: Final = 41  # half periods
UNUSUAL: Final = 7.0  # times the median of what mean power is off: beyond 4.7 deviations
LEAST_OFF: Final = 0.05  # of the range of power: less than that is the sampling's
FASTER: Final = 2.0  # where the period does not show, steps may be as many times as fast, or none


@dataclass(frozen=True, kw_only=True, eq=False)
class SteadyParts:
    """Parts of the busy stretch that hold whole steps each, and the others.

    Attributes:
        busy: Begin and end of the stretch in ns.
        runs: Begin and end in ns of where the period shows, shape (r, 2).
        parts: Begin and end in ns of what steps fill of these, shape (p, 2).
        counts: Steps in each, shape (p,).
        others: Begin and end of what lies between, in ns, shape (o, 2).
    """

    busy: tuple[int, int]
    runs: IntArray
    parts: IntArray
    counts: IntArray
    others: IntArray

    @property
    def share(self) -> float:
        """Of the busy stretch, what holds steps."""
        shown, other = (float(np.diff(spans).sum()) for spans in (self.parts, self.others))
        return shown / (shown + other) if shown else 0.0

    @property
    def edges_ns(self) -> tuple[IntArray, IntArray]:
        """Begins and ends of steps of equal length in each part."""
        edges = [
            np.linspace(begin, end, count + 1).astype(np.int64)
            for (begin, end), count in zip(self.parts, self.counts, strict=True)
        ]
        return (
            np.concatenate([each[:-1] for each in edges]),
            np.concatenate([each[1:] for each in edges]),
        )

    def of(self, period_s: float) -> SteadyParts:
        """Copy with steps of another length."""
        return _in_steps(self.runs, self.busy, period_s * 1e9)

    def counted(self, period: Figure) -> tuple[int, int]:
        """The fewest and the most steps that the busy stretch may hold."""
        shown, other = (float(np.diff(spans).sum()) * 1e-9 for spans in (self.parts, self.others))
        low, high = _ends(period)
        return int(shown / high), int(np.ceil((shown + FASTER * other) / low))

    def mean_s(self, period: Figure) -> tuple[float, float]:
        """The shortest and the longest that the mean step may take in s.

        Where the period does not show there may be no step, or slower ones, down to a single one
        all over; or faster ones.
        """
        low, high = _ends(period)
        return low / (self.share + FASTER * (1 - self.share)), high / self.share


def steady_parts(
    t_ns: IntArray,
    total: FloatArray,
    channels: Sequence[FloatArray],
    busy: tuple[int, int],
    full: float | None,
    period_s: float,
) -> SteadyParts:
    """Divides a busy stretch by whether the period shows and the device is at its full power.

    Args:
        t_ns: Times of the samples in ns, increasing, shape (n,).
        total: Power in W, shape (n,).
        channels: Other power at the same times, shape (n,) each, in which the period may show.
        busy: Begin and end of the busy stretch in ns.
        full: Power in W below which the device pauses; None where that is not known.
        period_s: The period in s.
    """
    inside = (t_ns >= busy[0]) & (t_ns <= busy[1])
    steady = seen(t_ns[inside], [each[inside] for each in (total, *channels)], period_s)
    steady &= _level(t_ns[inside], total[inside], full, period_s)
    return _divided(t_ns[inside], steady, period_s * 1e9)


def counted_period(
    t_ns: IntArray, channels: Sequence[FloatArray], steady: SteadyParts, period: Figure
) -> Figure:
    """The period as the mean over all steps of the steady parts, by counting them.

    The likeness that finds a period leans to whole numbers of samples where steps vary. The interval
    holds that of the period that was found, too.
    """
    inside = (t_ns >= steady.busy[0]) & (t_ns <= steady.busy[1])
    times = t_ns[inside]
    nth = np.searchsorted(steady.runs[:, 0], times, side="right") - 1
    held = (nth >= 0) & (times <= steady.runs[np.maximum(nth, 0), 1])
    value = period.value or 0.0
    means = mean_periods(times, [each[inside] for each in channels], held, value)
    if not len(means) or abs(means.mean() / value - 1) > NEAR:
        return period
    mean = float(means.mean())
    half = half_width(means, CONFIDENCE)
    low, high = _ends(period)
    return replace(
        period, value=mean, low=min(low, mean - half), high=max(high, mean + half),
        method=f"{period.method}; mean by counting turns of its line",
    )  # fmt: skip


def _level(t_ns: IntArray, total: FloatArray, full: float | None, period_s: float) -> BoolArray:
    """True for samples around which mean power over whole periods is as it is at the sample, and full.

    A step that lasts several times as long is high, then low, for longer than the others are.
    """
    t_s = (t_ns - t_ns[0]) * 1e-9
    gained = np.concatenate([[0.0], np.cumsum(np.diff(t_s) * (total[1:] + total[:-1]) / 2)])
    at = np.arange(0.0, t_s[-1], period_s / 2)
    ends = np.clip(
        [at - LEVEL_PERIODS / 2 * period_s, at + LEVEL_PERIODS / 2 * period_s], 0, t_s[-1]
    )
    begun, ended = np.interp(ends, t_s, gained)
    level = (ended - begun) / (ends[1] - ends[0])
    off = np.abs(level - ndimage.median_filter(level, LEVEL_AROUND, mode="nearest"))
    steady = off <= max(UNUSUAL * float(np.median(off)), LEAST_OFF * float(np.ptp(total)))
    if full is not None:
        steady &= level >= full
    nearest = np.rint(t_s / (period_s / 2)).astype(np.int64)
    is_steady: BoolArray = steady[np.clip(nearest, 0, len(steady) - 1)]
    return is_steady


def _divided(t_ns: IntArray, steady: BoolArray, period_ns: float) -> SteadyParts:
    """Runs of steady samples, and what lies between them."""
    cuts = np.flatnonzero(np.diff(steady)) + 1
    edges = t_ns[np.concatenate([[0], cuts, [len(t_ns) - 1]])]
    runs = np.stack([edges[:-1], edges[1:]], axis=1)[steady[np.concatenate([[0], cuts])]]
    return _in_steps(runs, (int(t_ns[0]), int(t_ns[-1])), period_ns)


def _in_steps(runs: IntArray, busy: tuple[int, int], period_ns: float) -> SteadyParts:
    """Whole steps of each run, as many as it holds, in its middle, and the gaps between."""
    counts = (np.diff(runs)[:, 0] / period_ns).astype(np.int64)
    held, counts = runs[counts > 0], counts[counts > 0]
    spare = np.diff(held)[:, 0] - np.floor(counts * period_ns).astype(np.int64)
    begins = held[:, 0] + spare // 2
    parts = np.stack([begins, begins + np.diff(held)[:, 0] - spare], axis=1)
    between = np.concatenate([busy[:1], parts.ravel(), busy[1:]]).reshape(-1, 2)
    return SteadyParts(
        busy=busy, runs=runs, parts=parts, counts=counts,
        others=between[np.diff(between)[:, 0] > 0],
    )  # fmt: skip


def _ends(period: Figure) -> tuple[float, float]:
    value = period.value or 0.0
    return period.low or value, period.high or value
