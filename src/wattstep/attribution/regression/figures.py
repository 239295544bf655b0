"""From a fit and its spread to figures: intervals, groups, and what the reader must know."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from wattstep.attribution.regression.fit import Fit
from wattstep.attribution.regression.merging import Merged, merge
from wattstep.attribution.regression.observed import Observed
from wattstep.attribution.regression.outcome import Group, Regression
from wattstep.attribution.regression.problem import Kinds
from wattstep.attribution.regression.spread import Spread
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import Figure, Status, missing

METHOD = "regression of samples on operation times (non-negative, ridge)"
ROUNDING = 2e-4  # of the mean power: times are whole nanoseconds, and the delay is found in steps
NEVER = "takes no time in the traced steps"


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """A fit and its spread, with one delay and window.

    Attributes:
        fit: The fit.
        spread: How far off it may be.
        other: What energies in J would be more or less if something else were so, one row each,
            shape (m, k); None: nothing else.
    """

    fit: Fit
    spread: Spread
    other: FloatArray | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Interval:
    """Of the energy of some kinds together, in J."""

    value: float
    low: float
    high: float


class Intervals:
    """Intervals of sums of kinds, over all delays and windows that are likely.

    Args:
        answers: The likeliest first.
        seconds: Of each kind in the mean clean step, shape (k,).
        confidence: Of the intervals.
    """

    def __init__(self, answers: Sequence[Answer], seconds: FloatArray, confidence: float) -> None:
        self.answers = answers
        self.seconds = seconds
        self.normal = float(special.ndtri((1 + confidence) / 2))
        self.typical = float(answers[0].fit.watts @ seconds) / float(seconds.sum())
        self._known: dict[bytes, Interval] = {}  # each is asked for twice, to tell and to show it

    def energy(self, members: IntArray) -> Interval:
        """Of kinds together.

        Args:
            members: Their numbers.
        """
        key = members.tobytes()
        if key not in self._known:
            self._known[key] = self._energy(members)
        return self._known[key]

    def _energy(self, members: IntArray) -> Interval:
        lows, highs = [], []
        seconds = self.seconds[members]
        pairs = members[:, None], members
        value = float(self.answers[0].fit.watts[members] @ seconds)
        for each in self.answers:
            middle = float(each.fit.free[members] @ seconds)
            bounded = float(each.fit.watts[members] @ seconds)
            half = math.sqrt(max(float(each.spread.energy[pairs].sum()), 0.0))
            half += ROUNDING * self.typical * float(seconds.sum())
            less, more = _range(each.other, members)
            lows.append(max(0.0, min(middle - half, bounded) + less))
            highs.append(max(middle + half, bounded, self._from_zero(middle, half)) + more)
        return Interval(value=value, low=min(lows), high=max(highs))

    def _from_zero(self, middle: float, half: float) -> float:
        """Upper end of a normal that is cut at zero: where noise is all there is below it."""
        if half <= 0 or middle >= half:
            return middle + half
        scale = half / self.normal
        below = special.ndtr(-middle / scale)
        tail = special.ndtr(-self.normal) * (1 - below)
        return float(middle - scale * special.ndtri(tail)) if tail > 0 else half

    def power(self, members: IntArray, energy: Interval) -> Interval:
        """Mean power of kinds together, in W: the time that they take is uncertain as well.

        Args:
            members: Their numbers.
            energy: That of their energy.
        """
        seconds = self.seconds[members]
        whole = float(seconds.sum())
        times = self.answers[0].spread.times[members]
        off = self.normal * math.sqrt(float((seconds**2) @ times)) / whole
        value = energy.value / whole
        below = math.hypot(value - energy.low / whole, value * off)
        # Time that is shorter by a share makes power larger by more than that.
        above = math.hypot(energy.high / whole - value, value * off / max(1 - off, 0.2))
        return Interval(value=value, low=max(0.0, value - below), high=value + above)


def _range(other: FloatArray | None, members: IntArray) -> tuple[float, float]:
    """By how much kinds together may take less or more, in J."""
    if other is None or not len(other):
        return 0.0, 0.0
    sums = other[:, members].sum(axis=1)
    return min(float(sums.min()), 0.0), max(float(sums.max()), 0.0)


def answer(
    answers: Sequence[Answer],
    observed: Observed,
    seconds: FloatArray,
    kinds: Kinds,
    *,
    target: float,
    confidence: float,
    source: str,
    status: Status,
    locked: str,
) -> Regression:
    """Figures of the regression.

    Args:
        answers: Fits, the likeliest delay and window first.
        observed: The samples.
        seconds: Of each kind in the mean clean step, shape (k,).
        kinds: What was to be told apart.
        target: Half of an interval over its value, at most.
        confidence: Of the intervals.
        source: Sensor or model.
        status: Of the figures.
        locked: How step and sampler are locked.
    """
    intervals = Intervals(answers, seconds, confidence)
    best = answers[0]
    count = len(best.fit.left)
    method = f"{METHOD}; block bootstrap over steps (blocks of up to {best.spread.block})"

    def figure(interval: Interval, unit: str) -> Figure:
        return Figure(
            value=interval.value, low=interval.low, high=interval.high, unit=unit,
            confidence=confidence, n=count, method=method, status=status, source=source,
        )  # fmt: skip

    def together(members: IntArray) -> tuple[Figure, Figure]:
        if seconds[members].sum() <= 0:
            return missing("W", NEVER), missing("J", NEVER)
        energy = intervals.energy(members)
        return figure(intervals.power(members, energy), "W"), figure(energy, "J")

    def is_resolved(members: IntArray) -> bool:
        energy_interval = intervals.energy(members)
        return (
            energy_interval.value > 0
            and (energy_interval.high - energy_interval.low) / 2 <= target * energy_interval.value
        )

    def group(merged: Merged) -> Group:
        energy = intervals.energy(merged.members)
        lasting = float(seconds[merged.members].sum())
        if lasting <= 0:
            nothing = missing("J", NEVER), missing("W", NEVER)
            return Group(
                members=merged.members, level=merged.level, seconds=0.0, energy=nothing[0],
                power=nothing[1], resolved=False,
            )  # fmt: skip
        return Group(
            members=merged.members, level=merged.level, seconds=lasting,
            energy=figure(energy, "J"), power=figure(intervals.power(merged.members, energy), "W"),
            resolved=merged.resolved,
        )  # fmt: skip

    return Regression(
        groups=[group(each) for each in _groups(kinds, seconds, is_resolved)],
        kinds=[
            figure(intervals.energy(np.array([k])), "J") if seconds[k] > 0 else missing("J", NEVER)
            for k in range(len(seconds))
        ],
        step_energy=figure(intervals.energy(np.arange(len(seconds))), "J"),
        delay=_sensor_figure(answers, 0, intervals.normal, confidence, source),
        window=missing("s", "a counter has no averaging window")
        if observed.counter
        else _sensor_figure(answers, 1, intervals.normal, confidence, source),
        locked=locked, notes=(), observations=count, time_error=best.fit.time_error, together=together,
    )  # fmt: skip


def _groups(
    kinds: Kinds, seconds: FloatArray, is_told: Callable[[IntArray], bool]
) -> Sequence[Merged]:
    """Groups of kinds that take time; those that take none are left by themselves."""
    taking = np.flatnonzero(seconds > 0)
    fewer = Kinds(
        names=[kinds.names[int(k)] for k in taking], levels=[level[taking] for level in kinds.levels],
        level_names=kinds.level_names,
    )  # fmt: skip
    merged = [
        Merged(members=taking[each.members], level=each.level, resolved=each.resolved)
        for each in merge(fewer, lambda members: is_told(taking[members]))
    ]
    idle = [
        Merged(members=np.array([k]), level=0, resolved=False) for k in np.flatnonzero(seconds <= 0)
    ]
    return merged + idle


def _sensor_figure(
    answers: Sequence[Answer], which: int, normal: float, confidence: float, source: str
) -> Figure:
    """Delay or window, over all that are likely."""
    pairs = [
        ((each.fit.sensor.delay, each.fit.sensor.window)[which], each.fit.sensor_spread[which])
        for each in answers
    ]
    return Figure(
        value=pairs[0][0], unit="s", low=min(at - normal * off for at, off in pairs),
        high=max(at + normal * off for at, off in pairs), confidence=confidence,
        n=len(answers[0].fit.left), status=Status.ATTRIBUTED, source=source,
        method="delay and window that make the samples likeliest",
    )  # fmt: skip
