"""The steps of a run as arrays, and which of them count as clean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from wattstep.recorded.step_stretches import Counted, Line, StepStretches
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.condition_documents import GovernorFacts
from wattstep.schema.figure import CLOCK, Status

ALONE_NS: Final = 1_000_000_000  # steps that stay for a window or a rest are of more time
SINGLE_GONE: Final = "this needs every step, and single ones were not kept (--keep)"
SINGLE_STEPS: Final = "steps that were throttled or disturbed are counted among the single ones that were kept (--keep)"
THINNED: Final = (
    "{:,} of {:,} steps were thinned (--keep): their number, samples, times and losses, and what steps take "
    "on average are those of all, with intervals over stretches of up to 10 s, which are fewer than steps, and so "
    "wider; what single steps tell (phases, kinds of steps, percentiles, slow steps, "
    "which were throttled or disturbed) rests on those that were kept"
)
MOST_SLICES: Final = 4_000_000  # of 0.2 s in nine days


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """Training steps in the order of time; all arrays have shape (n,).

    Where single steps were not kept, arrays are of those that were; what is of all of them is in `line`,
    `counted`, `stretches` and `slices`.

    Attributes:
        index: Number of the step in its run.
        start_ns: Begin.
        end_ns: End.
        samples: Samples of the step; NaN where not known.
        loss: NaN where not known.
        warmup: Whether it is one of the first steps, which do not count.
        traced: Whether it was traced.
        window_ns: Begin and end of tracing windows, shape (w, 2).
        rest_ns: Begin and end of stretches with a name (evaluation), by name, each shape (r, 2).
        looking: Steps in which a governor looked what caps of the clocks do; None: none.
        excluded: Steps that are left out on request (throttled, disturbed); None: none.
        excluded_as: What they were asked to be left out as.
        only_traced: Whether all of them were traced by another tool: they are what there is, and
            count as clean.
        whole_ns: Begin and end of a recording without steps, of which figures are then made; None
            where there are steps.
        absent: Why there are no steps.
        waited_s: Of traced steps, how long the thread that waited longest was kept from running;
            NaN where that is not known, None where it is of no step.
        host_ns: Where the steps lie on the timeline of a device, when the host began each and had
            asked for all of it, NaN for those that it did itself, shape (n, 2); None: all of them.
        settled: Steps that count as warm-up beyond those that were asked for: until then the device's
            step time had not settled; 0: none.
        device: The device on whose timeline steps lie, as rows of operations name it; "": the host.
        slowed: Whether an emulated board paused the training for its lowered clocks: then no time of
            a step is measured.
        thinned: What stands for steps that were not kept as single ones (`--keep steps=1h`), all of
            which are clean; None: all steps are here.
    """

    index: IntArray
    start_ns: IntArray
    end_ns: IntArray
    samples: FloatArray
    loss: FloatArray
    warmup: BoolArray
    traced: BoolArray
    window_ns: IntArray
    rest_ns: Mapping[str, IntArray]
    looking: BoolArray | None = None
    excluded: BoolArray | None = None
    excluded_as: str = ""
    only_traced: bool = False
    whole_ns: tuple[int, int] | None = None
    absent: str = ""
    waited_s: FloatArray | None = None
    host_ns: FloatArray | None = None
    settled: int = 0
    device: str = ""
    slowed: bool = False
    thinned: StepStretches | None = None

    @property
    def figures_of(self) -> str:
        """Basis of figures in words: clean steps, traced ones, or the recording as a whole."""
        if self.absent:
            return "recording"
        return "traced steps" if self.only_traced else "clean steps"

    @property
    def source(self) -> str:
        """Clock of the times of the steps."""
        return f"events in the queue of {self.device}" if self.device else CLOCK

    @property
    def status(self) -> Status:
        """Status of times of steps."""
        return Status.MODELLED if self.slowed else Status.MEASURED

    @property
    def span_ns(self) -> tuple[int, int] | None:
        """From the first step to the last, or the whole recording; None where there is neither."""
        if len(self.index):
            return int(self.start_ns[0]), int(self.end_ns[-1])
        return self.whole_ns

    @property
    def seconds(self) -> FloatArray:
        """Durations in s."""
        seconds: FloatArray = np.multiply(self.end_ns - self.start_ns, 1e-9)
        return seconds

    @property
    def after_traced(self) -> BoolArray:
        """The step after a traced one: caches and allocator find back to their habits in it."""
        after = np.zeros(len(self.index), bool)
        if not self.only_traced:
            after[1:] = self.traced[:-1]
        return after

    @property
    def none_clean(self) -> str:
        """Reason why there is no clean step, where there is none."""
        if self.absent:
            return self.absent
        if not len(self.index):
            return "no step was recorded"
        if self.only_traced and self.warmup.all():
            return "no step is left: all that were traced count as warm-up"
        if self.looking is not None and (self.warmup | self.looking).all():
            return "no clean step was recorded: it ended before the governor had decided"
        if (self.warmup | self.traced | self.after_traced).all():
            return "no clean step was recorded: all were warm-up, traced, or came right after a traced one"
        return f"no clean step is left: all were left out as {self.excluded_as} (--exclude)"

    @property
    def clean(self) -> BoolArray:
        """Steps that time, throughput and energy rest on.

        Where others were not kept as single ones, without those that stayed alone among them: for what
        lay beside them, which is not how most are.
        """
        clean = self._clean
        if (others := self.thinned) is not None:
            short = others.begin_ns[1:] - others.end_ns[:-1] < ALONE_NS
            behind = np.searchsorted(self.start_ns, others.begin_ns[:-1][short])
            ahead = np.searchsorted(self.start_ns, others.begin_ns[1:][short])
            for first, last in zip(behind.tolist(), ahead.tolist(), strict=True):
                clean[first:last] = False
        return clean

    @property
    def _clean(self) -> BoolArray:
        left_out = self.warmup | (self.traced & (not self.only_traced)) | self.after_traced
        if self.looking is not None:
            left_out |= self.looking
        return ~left_out if self.excluded is None else ~(left_out | self.excluded)

    @property
    def follows(self) -> BoolArray:
        """Mask of steps that follow a clean step directly, with nothing named between."""
        follows: BoolArray = self._of_single(self.line.follows)
        return follows

    @property
    def gap_s(self) -> FloatArray:
        """Time since the step before in s, for steps that follow; 0 for the others."""
        gaps: FloatArray = self._of_single(self.line.gap_s)
        return gaps

    def _of_single(self, values: Any) -> Any:
        """Of values along the line those of single steps."""
        if self.thinned is None:
            return values
        single = np.ones(len(values), bool)
        single[self._places + np.arange(len(self._places))] = False
        return values[single]

    def of_line(self, values: Any, otherwise: Any) -> Any:
        """Values of single steps along the line, with another for all stretches or each."""
        if self.thinned is None:
            return values
        return np.insert(values, self._places, otherwise)

    @property
    def _places(self) -> IntArray:
        """How many single steps are before each stretch."""
        assert self.thinned is not None
        return np.searchsorted(self.start_ns, self.thinned.begin_ns, side="right")

    @cached_property
    def line(self) -> Line:
        """All steps, where single ones were not kept many in one."""
        line = Line(
            start_ns=self.start_ns, end_ns=self.end_ns, single=self.index,
            single_samples=self.samples, clean=self._clean, follows=np.zeros(len(self.index), bool),
        )  # fmt: skip
        if (others := self.thinned) is not None:
            line = replace(
                line,
                start_ns=self.of_line(self.start_ns, others.begin_ns),
                end_ns=self.of_line(self.end_ns, others.end_ns),
                clean=self.of_line(line.clean, True),
                many=self._places + np.arange(len(others.index)),
                first_of_many=others.index,
                samples_of_many=others.samples,
                steps_of_many=others.steps,
                sums_of_many_ns=others.sum_ns,
            )
        return replace(line, follows=self._follows(line))

    def _follows(self, line: Line) -> BoolArray:
        clean = line.clean
        follows = np.zeros(len(clean), bool)
        follows[1:] = clean[1:] & clean[:-1] & (line.first[1:] == line.last[:-1] + 1)
        windows = () if self.only_traced else (self.window_ns,)
        for spans in (*windows, *self.rest_ns.values()):
            if len(spans):
                # A span between the end of the step before and the start of this one.
                nth = np.searchsorted(spans[:, 0], line.start_ns, side="right") - 1
                begin = spans[np.maximum(nth, 0), 0]
                before = np.concatenate([[0], line.end_ns[:-1]])
                follows &= ~((nth >= 0) & (begin >= before))
        return follows

    @property
    def counted(self) -> Counted:
        """The clean steps, where single ones were not kept many in one: what totals and means are of."""
        line = self.line
        return Counted(line=line, at=np.flatnonzero(line.clean))

    @property
    def recorded(self) -> int:
        """How many steps were recorded, be they kept singly or not."""
        return len(self.index) + (0 if self.thinned is None else int(self.thinned.steps.sum()))

    @property
    def with_left_out(self) -> Steps:
        """The same, none left out on request."""
        return self if self.excluded is None else replace(self, excluded=None)

    @property
    def single_alone(self) -> Steps:
        """Single steps that stand for all, none of them left out on request, and nothing of others."""
        if self.thinned is None:
            return self.with_left_out
        return replace(self, thinned=None, excluded=~self.clean)

    @property
    def thinned_note(self) -> str | None:
        """That steps were thinned, where some were."""
        if self.thinned is None:
            return None
        return THINNED.format(int(self.thinned.steps.sum()), self.recorded)

    @property
    def beside_stretches_s(self) -> FloatArray:
        """Time in s between each end of a stretch of clean steps and the next step, clean or not.

        Infinite where there is no step; shape (s, 2).
        """
        line = self.line
        clean, follows = line.clean, line.follows
        gap = np.full(len(clean) + 1, np.inf)
        gap[1:-1] = (line.start_ns[1:] - line.end_ns[:-1]) * 1e-9
        begins = clean & ~follows
        ends = clean & ~np.append(follows[1:], False)
        gaps: FloatArray = np.maximum(np.stack([gap[:-1][begins], gap[1:][ends]], axis=1), 0.0)
        return gaps

    def stretches(self) -> IntArray:
        """Runs of clean steps without anything between: begin and end in ns, shape (s, 2).

        Without steps, the recording as a whole.
        """
        if self.whole_ns is not None:
            return np.array([self.whole_ns], dtype=np.int64)
        line = self.line
        clean = np.flatnonzero(line.clean)
        if not len(clean):
            return np.empty((0, 2), np.int64)
        first = np.flatnonzero(~line.follows[clean])
        last = np.append(first[1:] - 1, len(clean) - 1)
        return np.stack([line.start_ns[clean[first]], line.end_ns[clean[last]]], axis=1)

    def slices(self, least_ns: int) -> IntArray:
        """Clean time cut into slices of whole steps and the gaps between them, in ns, shape (s, 2).

        A slice that begins or ends within a step has the power of a part of it.

        Args:
            least_ns: How long a slice is at least, but for the last of a stretch.
        """
        line = self.line
        clean = np.flatnonzero(line.clean)
        if self.whole_ns is not None or not len(clean):
            return slices(self.stretches(), least_ns)
        start, end, begins = line.start_ns[clean], line.end_ns[clean], ~line.follows[clean]
        since = start - start[begins][np.cumsum(begins) - 1]
        first = np.flatnonzero(begins | (np.diff(since // least_ns, prepend=-1) != 0))
        last = np.append(first[1:], len(clean)) - 1
        goes_on = np.append(~begins[first[1:]], False)
        until = np.where(goes_on, np.append(start[first[1:]], 0), end[last])
        return np.stack([start[first], until], axis=1)


def exploring(governor: GovernorFacts | None, index: IntArray) -> BoolArray | None:
    """Mask of the steps in which a governor looked what caps do; None where nothing was governed.

    Args:
        governor: What the run's description says of it.
        index: Numbers of the steps, shape (n,).
    """
    if governor is None:
        return None
    mask = np.zeros(len(index), bool)
    for look in governor.get("looks", ()):
        last = look["last_step"]
        mask |= (index >= look["first_step"]) & (last is None or index <= last)
    return mask


def slices(stretches: IntArray, least_ns: int) -> IntArray:
    """Stretches cut into slices of at least `least_ns`; what is shorter stays one slice.

    Of stretches that last for weeks the slices are longer: there are `MOST_SLICES` at most.
    """
    parts = []
    whole_ns = sum(int(end) - int(begin) for begin, end in stretches)
    least_ns = max(least_ns, whole_ns // MOST_SLICES)
    for begin, end in stretches:
        count = max(1, int((end - begin) // least_ns))
        edges = np.linspace(begin, end, count + 1).astype(np.int64)
        parts.append(np.stack([edges[:-1], edges[1:]], axis=1))
    return np.concatenate(parts) if parts else np.empty((0, 2), np.int64)
