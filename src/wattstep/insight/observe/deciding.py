"""When an observation holds: an interval that lies inside what it claims, or outside, or neither."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from wattstep.insight.observe.estimates import Estimate
from wattstep.schema.figure import Missing
from wattstep.stats.differences import CONFIDENCE
from wattstep.stats.student import critical_value

Verdict = Literal["holds", "does not hold", "undecided", "cannot be tested here"]

HOLDS: Final = "holds"
FAILS: Final = "does not hold"
UNDECIDED: Final = "undecided"
UNTESTABLE: Final = "cannot be tested here"
ENOUGH_PROCESSES: Final = 30  # beyond this no more processes are advised
FIRST_PROCESSES: Final = 3  # fewer say too little of how processes differ


@dataclass(frozen=True, kw_only=True)
class Region:
    """Region in which a number has to lie for a claim to hold: between two ends, or beside them.

    Attributes:
        low: Lower end.
        high: Upper end.
        beside: True if it has to lie outside of them.
    """

    low: float = -math.inf
    high: float = math.inf
    beside: bool = False

    def verdict(self, inside_at: tuple[float, float], outside_at: tuple[float, float]) -> Verdict:
        """Verdict of the intervals of a number.

        Args:
            inside_at: The interval at the confidence that "holds" asks for.
            outside_at: The interval at the confidence that "does not hold" asks for.
        """
        if self.beside:
            if inside_at[0] > self.high or inside_at[1] < self.low:
                return HOLDS
            return FAILS if _between(outside_at, self.low, self.high) else UNDECIDED
        if _between(inside_at, self.low, self.high):
            return HOLDS
        disjoint = outside_at[0] >= self.high or outside_at[1] <= self.low
        return FAILS if disjoint else UNDECIDED

    def distance(self, value: float) -> float:
        """From a number to the nearest end."""
        return min(abs(value - end) for end in (self.low, self.high) if math.isfinite(end))


ANYWHERE: Final = Region()


def above(margin: float) -> Region:
    """Everything above a margin."""
    return Region(low=margin)


def apart(margin: float) -> Region:
    """Everything further from 0 than a margin."""
    return Region(low=-margin, high=margin, beside=True)


def _between(interval: tuple[float, float], low: float, high: float) -> bool:
    return interval[0] > low and interval[1] < high


@dataclass(frozen=True, kw_only=True)
class Part:
    """Number of a case, and the region in which it has to lie.

    Attributes:
        name: Of its figure.
        estimate: The number, or why it cannot be determined.
        region: Where it has to lie.
        unit: Of its figure, also where it is missing.
        needed: True if the case cannot be tested without it.
        left_open: True if no case holds without it: where it cannot be determined, the case is undecided at
            best.
        picked_from: Of how many numbers it was picked as the most extreme.
        words: Name of the number in plain words.
        at_most: The most that the number can be, where noise lowers it: the part fails only where
            this fails as well.
    """

    name: str
    words: str
    estimate: Estimate | Missing
    region: Region
    unit: str = "ratio"
    needed: bool = True
    left_open: bool = False
    picked_from: int = 1
    at_most: Estimate | None = None

    @property
    def testable(self) -> bool:
        """True if there is a number."""
        return not isinstance(self.estimate, Missing)

    def verdict(self, comparisons: int, somewhere: bool = False) -> Verdict:
        """Verdict of the number, where as many numbers are judged together.

        What is said of all of them is judged at 95 % each; what is said as soon as one of them
        shows it, at a confidence raised as Bonferroni does.

        Args:
            comparisons: Number of numbers that are judged.
            somewhere: True if one of them that holds is enough; else all must.
        """
        if isinstance(self.estimate, Missing):
            return UNTESTABLE
        verdict = self._verdict(self.estimate, comparisons, somewhere)
        if verdict != FAILS or self.at_most is None:
            return verdict
        return UNDECIDED if self._verdict(self.at_most, comparisons, somewhere) != FAILS else FAILS

    def _verdict(self, estimate: Estimate, comparisons: int, somewhere: bool) -> Verdict:
        of_all = estimate.interval(_stricter(self.picked_from))
        of_any = estimate.interval(_stricter(comparisons * self.picked_from))
        return self.region.verdict(*((of_any, of_all) if somewhere else (of_all, of_any)))

    def processes_to_decide(self) -> int | None:
        """About how many processes of each configuration would decide it; None: more than many."""
        if isinstance(self.estimate, Missing) or self.estimate.exact:
            return None
        if self.estimate.processes < 2 or not math.isfinite(self.estimate.error):
            return FIRST_PROCESSES
        apart, confidence = self.region.distance(self.estimate.value), _stricter(self.picked_from)
        processes, (error, degrees) = self.estimate.processes, self.estimate.standard
        for count in range(processes + 1, ENOUGH_PROCESSES + 1):
            t = critical_value(confidence, degrees * (count - 1) / (processes - 1))
            if t * error * math.sqrt(processes / count) < apart:
                return count
        return None


def _stricter(comparisons: int) -> float:
    return 1 - (1 - CONFIDENCE) / max(comparisons, 1)


def of_parts(verdicts: Sequence[Verdict]) -> Verdict:
    """Verdict over parts that must all hold: one that fails is enough to fail."""
    return _first(verdicts, (FAILS, UNDECIDED, HOLDS))


def of_any(verdicts: Sequence[Verdict]) -> Verdict:
    """Verdict over parts of which one is enough: all must fail for it to fail."""
    return _first(verdicts, (HOLDS, UNDECIDED, FAILS))


def _first(verdicts: Sequence[Verdict], order: Sequence[Verdict]) -> Verdict:
    """The first of these that there is."""
    return next((verdict for verdict in order if verdict in verdicts), UNTESTABLE)
