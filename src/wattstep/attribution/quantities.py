"""What is shared out to rows: time, CPU time, energy of a rail; which rows of it take part, and by which other rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wattstep.attribution.codes import Codes
from wattstep.attribution.window_means import CONFIDENCE
from wattstep.recorded.clock_error import ClockError
from wattstep.recorded.power import EnergySource
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.figure import Figure, Status

RAIL = "energy of "  # how quantities that are single rails begin


@dataclass(frozen=True, kw_only=True, eq=False)
class Moved:
    """Costs of rows and rests if the clock of the samples lay beside that of the trace.

    Attributes:
        clock: How far it may lie beside.
        code: A number of each row, not negative, shape (n,); all rows of one number belong to the
            same row of each table.
        sums: What the rows of each number take a window, by shift, shape (shifts, numbers).
        unattributed: What the rests of each phase take a window, shape (shifts, phases).
    """

    clock: ClockError
    code: Codes
    sums: FloatArray
    unattributed: FloatArray

    def by_group(self, group: IntArray, chosen: BoolArray, groups: int) -> FloatArray:
        """Cost of each group of rows in a window, shape (groups, shifts).

        Args:
            group: Of each chosen row.
            chosen: Rows that take part.
            groups: How many there are.
        """
        of_number = np.full(self.sums.shape[1], -1, np.int64)
        of_number[self.code[chosen]] = group
        mine = np.flatnonzero(of_number >= 0)
        table = np.empty((groups, len(self.sums)))
        for shift, sums in enumerate(self.sums):
            table[:, shift] = np.bincount(of_number[mine], sums[mine], minlength=groups)
        return table

    def of_unattributed(self, columns: Sequence[int]) -> FloatArray:
        """Unattributed cost of some phases in a window, shape (shifts,)."""
        sums: FloatArray = self.unattributed[:, columns].sum(axis=1)
        return sums


@dataclass(frozen=True, kw_only=True, eq=False)
class Taking:
    """The rows that a quantity can belong to, where not all can; all others take nothing.

    Attributes:
        chosen: Which they are, shape (n,).
        time_s: What each takes of wall time as if there were no others, 0 for others, shape (n,).
        unattributed_s: What none of them covers, shape (windows, phases).
        off_by_cost: Whether the cost of the tracer's events was taken off them.
        words: Why another row takes nothing.
    """

    chosen: BoolArray
    time_s: FloatArray
    unattributed_s: FloatArray
    off_by_cost: bool
    words: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Bounds:
    """What rows and rests would take by other rules, of which one may be right: intervals hold all.

    Attributes:
        rows: Of each row, by rule, shape (rules, n).
        unattributed: Of the rests, shape (rules, windows, phases).
        known: Rows for which the rules tell something, shape (n,).
        otherwise: What is said of others, which have no interval.
    """

    rows: FloatArray
    unattributed: FloatArray
    known: BoolArray
    otherwise: str


@dataclass(frozen=True, kw_only=True)
class AttributedQuantity:
    """Something that is attributed to rows.

    Attributes:
        unit: SI unit.
        rows: What each row takes in its window, shape (n,).
        unattributed: What the rests take, shape (windows, phases).
        shared: Whether rows and rests are shares of a whole that is known; else each is counted
            by itself.
        status: Of the parts.
        source: Of the whole.
        method: How the parts came about.
        sensor: The source, which may not tell short times apart or go in steps, or None.
        moved: Likewise with the samples moved against the trace; None where they have one clock.
        only_whole: Why what a single row takes is not told by `rows`: only sums of all rows and
            rests are; None where it is.
        taking: The rows that it can belong to; None: all.
        bounds: The same by another rule; None: there is one rule.
    """

    unit: str
    rows: FloatArray
    unattributed: FloatArray
    status: Status
    source: str
    method: str
    shared: bool = True
    sensor: EnergySource | None = None
    moved: Moved | None = None
    only_whole: str | None = None
    taking: Taking | None = None
    bounds: Bounds | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Side:
    """Groups of rows, as far as they take part; shape (groups,) each.

    Attributes:
        takes: Whether any row of the group takes part.
        seconds: What those that do take of wall time, in s.
    """

    takes: BoolArray
    seconds: FloatArray

    @classmethod
    def of(
        cls, taking: Taking, group: IntArray, chosen: BoolArray, groups: int, windows: int
    ) -> Side:
        """The groups of the chosen rows."""
        some = np.bincount(group[taking.chosen[chosen]], minlength=groups) > 0
        time = np.bincount(group, taking.time_s[chosen], minlength=groups) / windows
        return cls(takes=some, seconds=time)


@dataclass(frozen=True, kw_only=True, eq=False)
class Bounded:
    """Groups of rows by other rules; values of shape (rules, groups)."""

    values: FloatArray
    known: BoolArray
    otherwise: str

    @classmethod
    def of(
        cls, bounds: Bounds, group: IntArray, chosen: BoolArray, groups: int, windows: int
    ) -> Bounded:
        """The groups of the chosen rows."""
        return cls(
            values=np.stack(
                [
                    np.bincount(group, rows[chosen], minlength=groups) / windows
                    for rows in bounds.rows
                ]
            ),
            known=np.bincount(group[bounds.known[chosen]], minlength=groups) > 0,
            otherwise=bounds.otherwise,
        )

    def bounded(self, figure: Figure, at: int) -> Figure:
        """The figure of a group, whose interval holds both rules."""
        if figure.missing:
            return figure
        if not self.known[at]:
            return replace(
                figure, low=None, high=None, confidence=None,
                method=f"{figure.method}; {self.otherwise}",
            )  # fmt: skip
        return holding(figure, self.values[:, at])


def holding(figure: Figure, values: FloatArray) -> Figure:
    """The figure, with an interval that holds these values, too, each as loosely as its own."""
    if figure.low is None or figure.high is None or figure.value is None:
        return figure
    below, above = figure.value - figure.low, figure.high - figure.value
    low = min(figure.low, max(float(values.min()) - below, 0.0))
    return replace(figure, low=low, high=max(figure.high, float(values.max()) + above))


def takes_nothing(quantity: AttributedQuantity, taking: Taking, windows: int) -> Figure:
    """The figure of rows that a quantity cannot belong to."""
    return Figure(
        value=0.0, unit=quantity.unit, low=0.0, high=0.0, confidence=CONFIDENCE, n=windows,
        status=quantity.status, source=quantity.source, method=taking.words,
    )  # fmt: skip
