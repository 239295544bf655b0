"""Stretches that stand for steps which were thinned (`--keep steps=1h`), and clean time as a whole with them in it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wattstep.recorded.curves import Curve
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.figure import Figure, Status
from wattstep.stats.statistics import mean_figure, ratio_figure
from wattstep.store.thinning import STRETCH_NS

if TYPE_CHECKING:
    import pyarrow as pa

NS: Final = 1e-9
STRETCHES: Final = "over stretches of steps of up to 10 s"  # of which figures' intervals are


@dataclass(frozen=True, kw_only=True, eq=False)
class StepStretches:
    """Stretches of clean steps in the order of time; all arrays have shape (s,).

    Attributes:
        begin_ns: Begin of the first step.
        end_ns: End of the last.
        index: Number of the first; they are numbered on from there.
        steps: How many.
        marks: How many marks lay within them.
        sum_ns: Sum of their times.
        least_ns: Time of the shortest.
        most_ns: Time of the longest.
        squares: Sum of the squares of their times, in s².
        samples: Of all of them; NaN where not known.
        samples_least: Of the one with fewest.
        samples_most: Of the one with most.
        losses: How many have a loss: all or none.
        loss_sum: Sum of the losses.
        loss_last: Of the last step; NaN where not known.
    """

    begin_ns: IntArray
    end_ns: IntArray
    index: IntArray
    steps: IntArray
    marks: IntArray
    sum_ns: IntArray
    least_ns: IntArray
    most_ns: IntArray
    squares: FloatArray
    samples: FloatArray
    samples_least: FloatArray
    samples_most: FloatArray
    losses: IntArray
    loss_sum: FloatArray
    loss_last: FloatArray

    @property
    def last(self) -> IntArray:
        """Number of the last step of each."""
        return self.index + self.steps - 1


def step_stretches_of(
    table: pa.Table, start_ns: IntArray, index: IntArray
) -> tuple[StepStretches | None, str]:
    """Stretches, and what is wrong with the table: "" where nothing is.

    Args:
        table: `thinned_steps` of a run.
        start_ns: Begin of the single steps.
        index: Numbers of them.
    """
    columns = {
        field.name: table[field.name].to_numpy(zero_copy_only=False)
        for field in fields(StepStretches)
    }
    order = np.argsort(columns["begin_ns"], kind="stable")
    found = StepStretches(**{name: column[order] for name, column in columns.items()})
    lasting = found.end_ns - found.begin_ns
    if (lasting < 0).any() or (found.begin_ns[1:] < found.end_ns[:-1]).any():
        return None, "rows of it overlap, or end before they begin"
    if (found.steps < 1).any() or (found.steps > lasting + 1).any():
        return None, "a row of it stands for no step, or for more than it lasts ns"
    # Least first: none of the products fits otherwise.
    wrong = (
        (found.least_ns < 0)
        | (found.marks < 0)
        | (found.most_ns < found.least_ns)
        | (found.sum_ns > lasting)
    )
    wrong |= found.sum_ns.astype(float) > found.steps * found.most_ns.astype(float)
    wrong |= found.sum_ns.astype(float) < found.steps * found.least_ns.astype(float)
    if wrong.any():
        return None, "a row of it has times of steps that cannot be"
    if not (np.isfinite(found.squares) & np.isfinite(found.loss_sum)).all():
        return None, "a row of it has sums that are no numbers"
    if ((found.losses != 0) & (found.losses != found.steps)).any():
        return None, "a row of it has other losses than steps"
    at = np.searchsorted(start_ns, found.begin_ns)
    inside = np.searchsorted(start_ns, found.end_ns) > at
    before, behind = np.append(-1, index)[at], np.append(index, np.iinfo(np.int64).max)[at]
    if inside.any() or (found.index <= before).any() or (found.last >= behind).any():
        return None, "a row of it stands for a step that is there"
    return found, ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """All steps in the order of time, where single ones were not kept many in one; all arrays have shape (n,).

    Attributes:
        start_ns: Begin.
        end_ns: End.
        single: Number of each single step, shape (m,).
        single_samples: Samples of each; NaN where not known.
        clean: Whether they count.
        follows: Whether each follows a clean one directly, with nothing named between.
        many: Positions of those that are many in one; None: each is a single one.
        first_of_many: Number of the first step of these.
        samples_of_many: Samples of these.
        steps_of_many: How many these stand for.
        sums_of_many_ns: Sum of the times of these.
    """

    start_ns: IntArray
    end_ns: IntArray
    single: IntArray
    single_samples: FloatArray
    clean: BoolArray
    follows: BoolArray
    many: IntArray | None = None
    first_of_many: IntArray | None = None
    samples_of_many: FloatArray | None = None
    steps_of_many: IntArray | None = None
    sums_of_many_ns: IntArray | None = None

    @property
    def first(self) -> IntArray:
        """Number of the first step of each; made anew, as few ask for it and it is as large as times are."""
        first: IntArray = self._along(self.single, self.first_of_many)
        return first

    @property
    def samples(self) -> FloatArray:
        """Of all of them; NaN where not known."""
        samples: FloatArray = self._along(self.single_samples, self.samples_of_many)
        return samples

    def _along(self, single: Any, of_many: Any) -> Any:
        if self.many is None:
            return single
        return np.insert(single, self.many - np.arange(len(self.many)), of_many)

    @property
    def steps(self) -> IntArray | None:
        """How many each stands for; None: each is a single one."""
        if self.many is None or self.steps_of_many is None:
            return None
        steps = np.ones(len(self.start_ns), np.int64)
        steps[self.many] = self.steps_of_many
        return steps

    @property
    def last(self) -> IntArray:
        """Number of the last step of each."""
        steps = self.steps
        return self.first if steps is None else self.first + steps - 1

    @property
    def in_steps_ns(self) -> IntArray:
        """Sum of the times of the steps that each stands for."""
        lasting = self.end_ns - self.start_ns
        if self.many is not None and self.sums_of_many_ns is not None:
            lasting[self.many] = self.sums_of_many_ns
        return lasting

    @property
    def gap_s(self) -> FloatArray:
        """Time between steps in s: within each, and since the one before where it follows that."""
        gaps = np.zeros(len(self.start_ns))
        np.multiply(self.start_ns[1:] - self.end_ns[:-1], NS, out=gaps[1:])
        gaps[~self.follows] = 0.0
        if (many := self.many) is not None and self.sums_of_many_ns is not None:
            lasting = self.end_ns[many] - self.start_ns[many]
            gaps[many] += (lasting - self.sums_of_many_ns) * NS
        return gaps


@dataclass(frozen=True, kw_only=True, eq=False)
class Counted:
    """Some of the steps of a line, the clean ones: what totals and means are of; all arrays have shape (n,).

    Attributes:
        line: All steps.
        at: Which of them.
    """

    line: Line
    at: IntArray

    @property
    def start_ns(self) -> IntArray:
        """Begin."""
        return self.line.start_ns[self.at]

    @property
    def end_ns(self) -> IntArray:
        """End."""
        return self.line.end_ns[self.at]

    @property
    def steps(self) -> IntArray:
        """How many each stands for."""
        every = self.line.steps
        return np.ones(len(self.at), np.int64) if every is None else every[self.at]

    @property
    def seconds(self) -> FloatArray:
        """Sum of the times of steps in s."""
        seconds: FloatArray = np.multiply(self.line.in_steps_ns[self.at], NS)
        return seconds

    @property
    def in_steps_ns(self) -> IntArray:
        """Sum of the times of steps in ns."""
        return self.line.in_steps_ns[self.at]

    @property
    def gap_s(self) -> FloatArray:
        """Time between steps, and since the step before where they follow it, in s."""
        return self.line.gap_s[self.at]

    @property
    def samples(self) -> FloatArray:
        """Samples; NaN where not known."""
        return self.line.samples[self.at]

    @property
    def count(self) -> int:
        """How many steps."""
        every = self.line.steps
        return len(self.at) if every is None else int(every[self.at].sum())

    def within(self, chosen: BoolArray) -> Counted:
        """Some of them."""
        return Counted(line=self.line, at=self.at[chosen])

    def together(self, *values: FloatArray | IntArray) -> list[FloatArray]:
        """Values of each as observations of alike lengths, sums of those that begin in the same stretch of time.

        Where all steps are single ones, each is an observation.
        """
        if self.line.many is None or not len(self.at):
            return [np.asarray(each, np.float64) for each in values]
        stretch = self.start_ns // STRETCH_NS
        first = np.flatnonzero(np.append(True, stretch[1:] != stretch[:-1]))
        return [np.add.reduceat(np.asarray(each, np.float64), first) for each in values]

    def mean(self, sums: FloatArray, unit: str, source: str, status: Status) -> Figure:
        """Mean over steps of what these come to.

        Args:
            sums: Of each, shape (n,).
            unit: Of the values.
            source: The sensor or clock behind them.
            status: How they came about.
        """
        if self.line.many is None:
            return mean_figure(sums, unit, source, status)
        above, below = self.together(sums, self.steps)
        figure = ratio_figure(above, below, unit, source, status)
        method = (figure.method or "").replace("sum by sum", "mean")
        return self.figure(replace(figure, method=method))

    def figure(self, figure: Figure) -> Figure:
        """A figure of observations by `together`, with how many steps it is of."""
        if self.line.many is None or figure.missing:
            return figure
        method = (figure.method or "").replace("over steps", STRETCHES)
        return replace(figure, n=self.count, method=method)

    @property
    def _share(self) -> FloatArray | float:
        """The part of the time of each that lies within steps."""
        if self.line.many is None:
            return 1.0
        lasting = (self.line.end_ns - self.line.start_ns)[self.at]
        inside = self.line.in_steps_ns[self.at]
        share: FloatArray = np.ones(len(lasting))
        np.divide(inside, lasting, out=share, where=lasting > 0)
        return share

    def gains(self, curve: Curve) -> tuple[FloatArray, FloatArray]:
        """What each gained of a curve within steps, and the part of it that was sampled.

        Of many in one what lies between steps takes as much a second as they do.
        """
        gains, covered = curve.difference(self.start_ns, self.end_ns)
        return gains * self._share, covered

    def mean_gain(self, curve: Curve, by_ns: int = 0) -> float | None:
        """Gain of a curve in a step, mean over the time that was sampled; None if none was.

        Args:
            curve: The cumulative curve.
            by_ns: By how much later it is looked at.
        """
        start_ns, end_ns = self.start_ns, self.end_ns
        gains, covered = curve.difference(start_ns + by_ns, end_ns + by_ns)
        share = self._share
        lengths = (end_ns - start_ns) * NS * share
        known = covered > 0
        sampled = float((lengths * covered)[known].sum())
        if sampled <= 0:
            return None
        gained = float((gains * share)[known].sum())
        return gained / sampled * (float(lengths.sum()) / self.count)
