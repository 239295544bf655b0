"""When an observation holds: an interval that lies inside what it claims, or outside, or neither."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from wattstep.analysis.student import critical_value
from wattstep.observations.estimates import CONFIDENCE, Estimate

Verdict = Literal["holds", "does not hold", "undecided", "cannot be tested here"]

HOLDS: Final = "holds"
FAILS: Final = "does not hold"
UNDECIDED: Final = "undecided"
UNTESTABLE: Final = "cannot be tested here"
ENOUGH_PROCESSES: Final = 30  # beyond this no more processes are advised
FIRST_PROCESSES: Final = 3  # fewer say too little of how processes differ


@dataclass(frozen=True, kw_only=True)
class Region:
    """Where a number has to lie for a claim to hold: between two ends, or beside them.

    Attributes:
        low: Lower end.
        high: Upper end.
        beside: Whether it has to lie outside of them.
    """

    low: float = -math.inf
    high: float = math.inf
    beside: bool = False

    def verdict(self, inside_at: tuple[float, float], outside_at: tuple[float, float]) -> Verdict:
        """What intervals of a number say.

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


def _between(interval: tuple[float, float], low: float, high: float) -> bool:
    return interval[0] > low and interval[1] < high


@dataclass(frozen=True, kw_only=True)
class Part:
    """One number of a case, and where it has to lie.

    Attributes:
        name: Of its figure.
        estimate: The number, or why it cannot be told.
        region: Where it has to lie.
        unit: Of its figure, also where it is missing.
        needed: Whether the case cannot be tested without it.
        left_open: Whether no case holds without it: where it cannot be told, the case is undecided at
            best.
        picked_from: Of how many numbers it was picked as the most extreme.
        words: What it is, in plain words.
        at_most: The most that the number can be, where noise lowers it: the part fails only where
            this fails as well.
    """

    name: str
    words: str
    estimate: Estimate | str
    region: Region
    unit: str = "ratio"
    needed: bool = True
    left_open: bool = False
    picked_from: int = 1
    at_most: Estimate | None = None

    @property
    def testable(self) -> bool:
        """Whether there is a number."""
        return not isinstance(self.estimate, str)

    def verdict(self, comparisons: int, somewhere: bool = False) -> Verdict:
        """What it says, where as many numbers are judged together.

        What is said of all of them is judged at 95 % each; what is said as soon as one of them
        shows it, at a confidence raised as Bonferroni does.

        Args:
            comparisons: How many numbers are judged.
            somewhere: Whether one of them that holds is enough; else all must.
        """
        if isinstance(self.estimate, str):
            return UNTESTABLE
        verdict = self._verdict(self.estimate, comparisons, somewhere)
        if verdict == FAILS and self.at_most is not None:
            return (
                FAILS if self._verdict(self.at_most, comparisons, somewhere) == FAILS else UNDECIDED
            )
        return verdict

    def _verdict(self, estimate: Estimate, comparisons: int, somewhere: bool) -> Verdict:
        of_all = estimate.interval(_stricter(self.picked_from))
        of_any = estimate.interval(_stricter(comparisons * self.picked_from))
        return self.region.verdict(*((of_any, of_all) if somewhere else (of_all, of_any)))

    def processes_to_decide(self) -> int | None:
        """About how many processes of each configuration would decide it; None: more than many."""
        if isinstance(self.estimate, str) or not self.estimate.error:
            return None
        if self.estimate.processes < 2 or not math.isfinite(self.estimate.error):
            return FIRST_PROCESSES
        apart = self.region.distance(self.estimate.value)
        spread = self.estimate.error * math.sqrt(self.estimate.processes)
        sides = self.estimate.freedom / max(self.estimate.processes - 1, 1)
        for count in range(self.estimate.processes + 1, ENOUGH_PROCESSES + 1):
            reach = _reach(spread / math.sqrt(count), sides * (count - 1), self.picked_from)
            if reach < apart:
                return count
        return None


def _reach(error: float, freedom: float, picked_from: int) -> float:
    return critical_value(_stricter(picked_from), freedom) * error


def _stricter(comparisons: int) -> float:
    return 1 - (1 - CONFIDENCE) / max(comparisons, 1)


def of_parts(verdicts: Sequence[Verdict]) -> Verdict:
    """What holds where all of these must: one that fails is enough to fail."""
    known = [verdict for verdict in verdicts if verdict != UNTESTABLE]
    if not known:
        return UNTESTABLE
    if FAILS in known:
        return FAILS
    return UNDECIDED if UNDECIDED in known else HOLDS


def of_any(verdicts: Sequence[Verdict]) -> Verdict:
    """What holds as soon as one of these does: all must fail for it to fail."""
    known = [verdict for verdict in verdicts if verdict != UNTESTABLE]
    if not known:
        return UNTESTABLE
    if HOLDS in known:
        return HOLDS
    return UNDECIDED if UNDECIDED in known else FAILS
