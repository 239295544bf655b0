"""Differences of two sides: intervals between processes or within them, and many at once."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from wattstep.errors import InvalidValueError
from wattstep.schema.arrays import FloatArray
from wattstep.stats.student import ENDLESS, NORMAL, critical_value, quantile, two_sided

CONFIDENCE = 0.95
POWER = 0.8  # the chance with which a difference that is there should be shown
MOST_PROCESSES = 50  # beyond this, a plan is none
Basis = Literal["processes", "one against several", "one each"]
Numbers = FloatArray | float


@dataclass(frozen=True, kw_only=True, eq=False)
class Observed:
    """Values of one side's processes for k quantities.

    Attributes:
        values: Shape (processes, k).
        low: Lower end of each process's own 95 % interval, same shape; NaN where it has none.
        high: Upper end, same shape.
    """

    values: FloatArray
    low: FloatArray
    high: FloatArray

    @property
    def processes(self) -> int:
        """Number of processes."""
        return len(self.values)

    @property
    def log(self) -> Observed:
        """Logarithms, on which differences are ratios; all values must be above 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            low = np.log(np.maximum(self.low, 0.0))  # NaN stays NaN; 0 is as low as it gets
            return Observed(values=np.log(self.values), low=low, high=np.log(self.high))

    @property
    def own_variance(self) -> FloatArray:
        """Mean variance of a process's value by its own interval, 0 where none has any, shape (k,).

        An interval that reaches 0 has no lower end as a logarithm; it is wide, not unknown: what it
        reaches upward, relative to the value, stands for both directions. Likewise where it was cut
        at 0.
        """
        with np.errstate(over="ignore"):
            upward = np.expm1(self.high - self.values)
        half = np.where(np.isneginf(self.low), upward, (self.high - self.low) / 2)
        half = np.where(self.low == 0, np.maximum(half, self.high - self.values), half)
        variance = (half / NORMAL) ** 2
        known = np.isfinite(variance)
        sums = np.where(known, variance, 0.0).sum(axis=0)
        result: FloatArray = sums / np.maximum(known.sum(axis=0), 1)
        return result

    @property
    def variance(self) -> FloatArray:
        """Variance between processes, shape (k,), for two processes or more.

        Never less than what the steps of each process leave open: two that agree by luck do not
        make a spread of nothing.
        """
        between: FloatArray = self.values.var(axis=0, ddof=1)
        return np.maximum(between, self.own_variance)


def observed(
    values: ArrayLike, low: ArrayLike | None = None, high: ArrayLike | None = None
) -> Observed:
    """Observations of one quantity by process, with their own intervals where they have some.

    Args:
        values: Shape (processes,).
        low: Shape (processes,), or None.
        high: Shape (processes,), or None.
    """
    array = np.asarray(values, np.float64).reshape(-1, 1)
    ends = [
        np.full_like(array, np.nan) if end is None else np.asarray(end, np.float64).reshape(-1, 1)
        for end in (low, high)
    ]
    return Observed(values=array, low=ends[0], high=ends[1])


@dataclass(frozen=True, kw_only=True, eq=False)
class Mean:
    """The mean over processes of one side, or a sum of such means, each number of shape (k,) or single.

    Attributes:
        value: The mean.
        error: Its standard error by how processes differ; infinite where nothing tells it.
        degrees_of_freedom: Degrees of freedom of that; infinite where it is not told by how processes differ.
        own: Its standard error by the intervals of the processes' own steps; 0 where there are none.
        processes: How many there are; of several sides, those of the smallest.
    """

    value: Numbers
    error: Numbers
    degrees_of_freedom: Numbers
    own: Numbers
    processes: int

    def half_width(self, confidence: float = CONFIDENCE) -> FloatArray:
        """Half of the interval: by how processes differ, or by their own steps, if that is more.

        Processes that happen to agree are no proof. It is never narrower than Student's t over the
        processes, and holds at every confidence at which that does.
        """
        return np.maximum(
            self._between(confidence), critical_value(confidence, math.inf) * self.own
        )

    @property
    def by_steps(self) -> bool:
        """True if the 95 % interval of a single number is that of the processes' own steps."""
        return bool(
            np.isinf(self.degrees_of_freedom) or self.half_width() > self._between(CONFIDENCE)
        )

    @property
    def p(self) -> FloatArray:
        """Probability of a value as far from 0 where there is none: where the interval ends at 0."""
        degrees_of_freedom = np.minimum(self.degrees_of_freedom, ENDLESS)
        by_processes = two_sided(_over(self.value, self.error), degrees_of_freedom)
        return np.maximum(by_processes, two_sided(_over(self.value, self.own), ENDLESS))

    def _between(self, confidence: float) -> FloatArray:
        half_width: FloatArray = (
            quantile(confidence, np.minimum(self.degrees_of_freedom, ENDLESS)) * self.error
        )
        return half_width


def mean_of(side: Observed) -> Mean:
    """The mean of a side's processes; of one process its own value and interval."""
    n, own = side.processes, np.sqrt(side.own_variance / side.processes)
    several = n > 1
    error = np.sqrt(side.values.var(axis=0, ddof=1) / n) if several else own
    degrees_of_freedom = np.full(error.shape, n - 1.0 if several else math.inf)
    value = side.values.mean(axis=0)
    return Mean(
        value=value, error=error, degrees_of_freedom=degrees_of_freedom, own=own, processes=n
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Differences:
    """Of B from A, each array of shape (k,).

    Attributes:
        value: B less A.
        low: Lower end of the 95 % interval; -inf where nothing is known.
        high: Upper end.
        p: Probability of a difference as large where there is none.
        basis: Variation that the interval knows: how "processes" of both sides differ, how those of one side
            do ("one against several"), or only how steps do ("one each").
        method: In words.
    """

    value: FloatArray
    low: FloatArray
    high: FloatArray
    p: FloatArray
    basis: Basis
    method: str


def differences(a: Observed, b: Observed) -> Differences:
    """Of the means of B's processes from those of A's, with 95 % intervals.

    Several processes on each side: Student's t over process means with the variances apart (Welch
    1947), or what their own steps leave open, where that is more. One process against several: it is
    taken to spread as the several do. One each: the intervals of both, each over its own steps, put
    together (Zou and Donner 2008); how processes of one kind differ is then not known, and not in
    the interval.

    Raises:
        InvalidValueError: A side has no process.
    """
    if not (a.processes and b.processes):
        raise InvalidValueError("a side without a process cannot be compared")
    if a.processes == b.processes == 1:
        return _within(a, b)
    difference, m, n = less(mean_of(b), mean_of(a)), a.processes, b.processes
    basis: Basis = "processes"
    method = f"Student's t over the means of {m} and {n} processes, variances apart (Welch)"
    if difference.processes == 1:
        basis = "one against several"
        method = f"Student's t of one process against {max(m, n)}, taken to spread as they do"
    value, half_width = np.asarray(difference.value), difference.half_width()
    return Differences(
        value=value,
        low=value - half_width,
        high=value + half_width,
        p=difference.p,
        basis=basis,
        method=method,
    )


def less(b: Mean, a: Mean) -> Mean:
    """b less a, of independent processes; degrees of freedom as Welch (1947) and Satterthwaite.

    No side spreads by less than its own steps leave open: of two processes against six, those two
    agree by luck often enough that Welch's t alone would be wrong in 8 to 10 % of cases. One process
    against several is taken to spread as they do.
    """
    error_a, error_b = np.maximum(a.error, a.own), np.maximum(b.error, b.own)
    if (a.processes > 1) != (b.processes > 1):
        several, error = (a, error_a) if a.processes > 1 else (b, error_b)
        error, degrees_of_freedom = (
            error * math.sqrt(1 + several.processes),
            several.degrees_of_freedom,
        )
    else:
        error = np.hypot(error_a, error_b)
        with np.errstate(divide="ignore", invalid="ignore"):
            below = error_a**4 / a.degrees_of_freedom + error_b**4 / b.degrees_of_freedom
            degrees_of_freedom = np.where(
                below > 0, error**4 / below, math.inf
            )  # NaN: an error is infinite
    return Mean(
        value=b.value - a.value, error=error, degrees_of_freedom=degrees_of_freedom, own=np.hypot(a.own, b.own),
        processes=min(a.processes, b.processes),
    )  # fmt: skip


def _over(value: Numbers, error: Numbers) -> FloatArray:
    """In standard errors; of what has none, 0 or endless."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(value == 0, 0.0, value / error)


def _within(a: Observed, b: Observed) -> Differences:
    value = b.values[0] - a.values[0]
    below = np.hypot(b.values[0] - b.low[0], a.high[0] - a.values[0])
    above = np.hypot(b.high[0] - b.values[0], a.values[0] - a.low[0])
    below, above = (np.where(np.isnan(distance), np.inf, distance) for distance in (below, above))
    toward = np.where(value > 0, below, above) / NORMAL
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(value == 0, 0.0, np.abs(value) / toward)
    p = np.array([math.erfc(float(each) / math.sqrt(2)) for each in np.atleast_1d(z)])
    return Differences(
        value=value, low=value - below, high=value + above, p=p, basis="one each",
        method="intervals within one process of each: how processes differ is not in it",
    )  # fmt: skip


def pooled_spread(a: Observed, b: Observed) -> FloatArray | None:
    """Standard deviation between processes of one kind, shape (k,); None where no side has two."""
    sides = [side for side in (a, b) if side.processes > 1]
    if not sides:
        return None
    degrees_of_freedom = sum(side.processes - 1 for side in sides)
    sums = sum((side.variance * (side.processes - 1) for side in sides), np.zeros(1))
    return np.asarray(np.sqrt(sums / degrees_of_freedom))


def detectable(spread: float, processes: int) -> float:
    """The smallest difference that so many processes of each side show in 8 of 10 campaigns.

    By the usual sum of two quantiles of Student's t; on the scale of `spread`.

    Args:
        spread: Standard deviation between processes.
        processes: Of each side, from 2 to 50; more are taken as 50.
    """
    return float(spread * _detectable_deviations()[min(processes, MOST_PROCESSES) - 2])


def processes_needed(spread: float, effect: float) -> int | None:
    """Number of processes of each side that show such a difference in 8 of 10 campaigns; None: too many."""
    enough = np.flatnonzero(spread * _detectable_deviations() <= effect)
    return int(enough[0]) + 2 if len(enough) else None


@functools.cache
def _detectable_deviations() -> FloatArray:
    """Smallest difference that 2, 3, ... 50 processes of each side show, in standard deviations between processes."""
    processes = np.arange(2, MOST_PROCESSES + 1)
    degrees_of_freedom = 2.0 * processes - 2
    both: FloatArray = quantile(CONFIDENCE, degrees_of_freedom) + quantile(
        2 * POWER - 1, degrees_of_freedom
    )
    return both * np.sqrt(2 / processes)


def ratio_of(difference: float) -> float:
    """The ratio that a difference of logarithms is; infinite beyond what a number holds."""
    return math.exp(difference) if difference < 700 else math.inf
