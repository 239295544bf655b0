"""Whether two sides differ: intervals of differences between processes or within them, and many at once."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from wattstep.analysis.steps import FloatArray
from wattstep.analysis.student import quantile, two_sided
from wattstep.errors import InvalidValueError

CONFIDENCE = 0.95
POWER = 0.8  # the chance with which a difference that is there should be shown
NORMAL = 1.959963984540054  # 97.5 % quantile
MOST_PROCESSES = 50  # beyond this, a plan is none
Basis = Literal["processes", "one against several", "one each"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Observed:
    """What the processes of one side gave for k quantities.

    Attributes:
        values: Shape (processes, k).
        low: Lower end of each process's own 95 % interval, same shape; NaN where it has none.
        high: Upper end, likewise.
    """

    values: FloatArray
    low: FloatArray
    high: FloatArray

    @property
    def processes(self) -> int:
        """How many there are."""
        return len(self.values)

    @property
    def log(self) -> Observed:
        """The same as logarithms, on which differences are ratios; all values must be above 0."""
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
    """One quantity of some processes, with their own intervals where they have some.

    Args:
        values: Shape (processes,).
        low: Shape (processes,), or None.
        high: Likewise.
    """
    array = np.asarray(values, np.float64).reshape(-1, 1)
    ends = [
        np.full_like(array, np.nan) if end is None else np.asarray(end, np.float64).reshape(-1, 1)
        for end in (low, high)
    ]
    return Observed(values=array, low=ends[0], high=ends[1])


@dataclass(frozen=True, kw_only=True, eq=False)
class Differences:
    """Of B from A, each array of shape (k,).

    Attributes:
        value: B less A.
        low: Lower end of the 95 % interval; -inf where nothing is known.
        high: Upper end.
        p: Probability of a difference as large where there is none.
        basis: What the interval knows: how "processes" of both sides differ, how those of one side
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
    1947). One process against several: it is taken to spread as the several do. One each: the
    intervals of both, each over its own steps, put together (Zou and Donner 2008); how
    processes of one kind differ is then not known, and not in the interval.

    Raises:
        InvalidValueError: A side has no process.
    """
    if not (a.processes and b.processes):
        raise InvalidValueError("a side without a process cannot be compared")
    if a.processes > 1 and b.processes > 1:
        return _welch(a, b)
    if a.processes == b.processes == 1:
        return _within(a, b)
    return _one_against_several(a, b)


def _welch(a: Observed, b: Observed) -> Differences:
    m, n = a.processes, b.processes
    part_a, part_b = a.variance / m, b.variance / n
    whole = part_a + part_b
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = whole**2 / (part_a**2 / (m - 1) + part_b**2 / (n - 1))
    freedom = np.where(whole > 0, freedom, m + n - 2)
    return _by_t(
        a, b, np.sqrt(whole), freedom, "processes",
        f"Student's t over the means of {m} and {n} processes, variances apart (Welch)",
    )  # fmt: skip


def _one_against_several(a: Observed, b: Observed) -> Differences:
    several = a if a.processes > 1 else b
    n = several.processes
    error = np.sqrt(several.variance * (1 + 1 / n))
    return _by_t(
        a, b, error, np.full(error.shape, n - 1.0), "one against several",
        f"Student's t of one process against {n}, taken to spread as they do",
    )  # fmt: skip


def _by_t(
    a: Observed, b: Observed, error: FloatArray, freedom: FloatArray, basis: Basis, method: str
) -> Differences:
    value = b.values.mean(axis=0) - a.values.mean(axis=0)
    reach = quantile(CONFIDENCE, freedom) * error
    with np.errstate(divide="ignore", invalid="ignore"):
        p = two_sided(value / error, freedom)
    p = np.where(error > 0, p, np.where(value == 0, 1.0, 0.0))
    return Differences(
        value=value, low=value - reach, high=value + reach, p=p, basis=basis, method=method
    )


def _within(a: Observed, b: Observed) -> Differences:
    value = b.values[0] - a.values[0]
    below = np.hypot(b.values[0] - b.low[0], a.high[0] - a.values[0])
    above = np.hypot(b.high[0] - b.values[0], a.values[0] - a.low[0])
    below, above = (np.where(np.isnan(reach), np.inf, reach) for reach in (below, above))
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
    freedom = sum(side.processes - 1 for side in sides)
    sums = sum((side.variance * (side.processes - 1) for side in sides), np.zeros(1))
    return np.asarray(np.sqrt(sums / freedom))


def detectable(spread: float, processes: int) -> float:
    """The smallest difference that so many processes of each side show in 8 of 10 campaigns.

    By the usual sum of two quantiles of Student's t; on the scale of `spread`.

    Args:
        spread: Standard deviation between processes.
        processes: Of each side, from 2 to 50; more are taken as 50.
    """
    return float(spread * _reaches()[min(processes, MOST_PROCESSES) - 2])


def processes_needed(spread: float, effect: float) -> int | None:
    """How many processes of each side show such a difference in 8 of 10 campaigns; None: too many."""
    enough = np.flatnonzero(spread * _reaches() <= effect)
    return int(enough[0]) + 2 if len(enough) else None


@functools.cache
def _reaches() -> FloatArray:
    """What 2, 3, ... 50 processes of each side show, in standard deviations between processes."""
    processes = np.arange(2, MOST_PROCESSES + 1)
    freedom = 2.0 * processes - 2
    both: FloatArray = quantile(CONFIDENCE, freedom) + quantile(2 * POWER - 1, freedom)
    return both * np.sqrt(2 / processes)


def ratio_of(difference: float) -> float:
    """The ratio that a difference of logarithms is; infinite beyond what a number holds."""
    return math.exp(difference) if difference < 700 else math.inf
