"""The steps of a training so far: how many, how long, and what the last ones took."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wattstep.live.eta import Stretches
from wattstep.live.rows import Array
from wattstep.live.running import BIN_NS
from wattstep.recorded.step_stretches import StepStretches
from wattstep.recorded.steps import exploring
from wattstep.schema.condition_documents import GovernorFacts
from wattstep.schema.figure import CLOCK, Figure, Status, missing
from wattstep.schema.journal import Mark
from wattstep.stats.statistics import median_figure, ratio_figure
from wattstep.store.mark_rows import ended_steps, samples_of_steps

RECENT_NS: Final = 30 * 10**9
MOST_BINS: Final = 128
WORK_OUT_NS: Final = 2 * 10**9
NO_STEP: Final = "no step was done yet"
NONE_COUNTS: Final = (
    "no step that counts was done yet: all were warm-up, traced, or came right after a traced one"
)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class StepRows:
    """Some steps in their order, all arrays of shape (n,).

    Attributes:
        index: Number of the step in its run.
        start_ns: Begin.
        end_ns: End.
        samples: NaN where not known.
        loss: NaN where not known.
        traced: True if it was traced.
    """

    index: Ints
    start_ns: Ints
    end_ns: Ints
    samples: Floats
    loss: Floats
    traced: npt.NDArray[np.bool_]

    def behind(self, number: int) -> StepRows:
        """Those behind a step; times of a table may be of a device, where it had not come to it yet."""
        later = self.index > number
        return StepRows(**{each.name: getattr(self, each.name)[later] for each in fields(self)})


def steps_of(marks: Array) -> tuple[StepRows | None, Array]:
    """The steps that ended, and the marks behind the last of them, which belong to the next."""
    kind = marks["kind"]
    ends = np.flatnonzero(kind == Mark.STEP_END)
    starts = np.flatnonzero(kind == Mark.STEP_START)
    if not len(ends):
        # What came before the last begin belongs to no step that will end.
        return None, marks[starts[-1] :] if len(starts) else marks[:0]
    rest = marks[ends[-1] + 1 :]
    starts, ends = ended_steps(marks)
    first, last = marks[starts], marks[ends]
    rows = StepRows(
        index=first["index"].astype(np.int64),
        start_ns=first["t"].astype(np.int64),
        end_ns=last["t"].astype(np.int64),
        samples=samples_of_steps(marks, starts, ends, first["value"]),
        loss=last["value"].astype(np.float64),
        traced=first["code"] == 1,
    )
    return rows, rest


def with_thinned(rows: StepRows | None, thinned: StepStretches | None) -> Iterator[StepRows]:
    """Steps in order, with those of stretches that stand for thinned ones among them, all of a stretch alike.

    Args:
        rows: Single steps; None: there are none.
        thinned: Stretches; None: there are none.
    """
    if thinned is None or not len(thinned.steps):
        if rows is not None and len(rows.index):
            yield rows
        return
    before = 0
    for row in range(len(thinned.steps)):
        if rows is not None:
            at = int(np.searchsorted(rows.start_ns, thinned.begin_ns[row]))
            yield from _part(rows, before, at)
            before = max(at, before)
        yield _alike(thinned, row)
    if rows is not None:
        yield from _part(rows, before, len(rows.index))


def _part(rows: StepRows, first: int, last: int) -> Iterator[StepRows]:
    if last > first:
        columns = {each.name: getattr(rows, each.name)[first:last] for each in fields(rows)}
        yield StepRows(**columns)


def _alike(thinned: StepStretches, row: int) -> StepRows:
    """The steps of a stretch, each as long as their mean, spread evenly over its time."""
    count, begin = int(thinned.steps[row]), int(thinned.begin_ns[row])
    lasting = float(thinned.sum_ns[row]) / count
    period = (float(thinned.end_ns[row] - begin) - lasting) / max(count - 1, 1)
    number = np.arange(count)
    start_ns = begin + np.rint(period * number).astype(np.int64)
    return StepRows(
        index=int(thinned.index[row]) + number,
        start_ns=start_ns,
        end_ns=start_ns + round(lasting),
        samples=np.full(count, thinned.samples[row] / count),
        loss=np.full(count, thinned.loss_last[row]),
        traced=np.zeros(count, bool),
    )


@dataclass(kw_only=True)
class StepsSoFar:
    """Statistics of all steps until now, in bounded memory.

    Args:
        warmup: First steps that do not count.
        governor: What capped clocks, as far as it is known by now: steps in which it looked do not
            count.
        all_count: True if the forecast rests on all steps after the warm-up, traced ones as well.

    Attributes:
        done: Steps that ended.
        clean: Those that count: no warm-up, not traced, not the one behind a traced one.
        first_ns: Begin of the first step; None before it.
        begun_ns: End of the warm-up; None before it.
        last_ns: End of the last step.
        last: Its number; -1 before it.
        loss: Of the last step; NaN where it said none.
        stretches: Time of steps that count, with what lay between but for rests, in s.
    """

    warmup: int
    all_count: bool = False
    governor: GovernorFacts | None = None
    done: int = 0
    clean: int = 0
    first_ns: int | None = None
    begun_ns: int | None = None
    last_ns: int = 0
    last: int = -1
    loss: float = float("nan")
    last_s: float | None = None
    stretches: Stretches = field(default_factory=Stretches)

    def __post_init__(self) -> None:
        self._after_traced = False
        self._counted_ns: int | None = None  # end of the last that counted
        self._rests: list[tuple[int, int]] = []
        none = np.empty(0)
        self._end, self._seconds, self._gap, self._samples = none.astype(np.int64), none, none, none
        self._bins: dict[int, tuple[float, int]] = {}
        self._worked_out: dict[str, Figure] = {}
        self._worked_out_ns = 0

    def rest(self, start_ns: int, end_ns: int) -> None:
        """So long something else than training took the time, between two steps."""
        self._rests.append((start_ns, end_ns))

    def add(self, rows: StepRows) -> None:
        """Takes in steps that ended."""
        self.done += len(rows.index)
        if self.first_ns is None:
            self.first_ns = int(rows.start_ns[0])
        warm = rows.index < self.warmup
        if (looking := exploring(self.governor, rows.index)) is not None:
            warm |= looking
        after = np.concatenate([[self._after_traced], rows.traced[:-1]])
        self._after_traced = bool(rows.traced[-1])
        clean = ~(warm | rows.traced | after)
        self.clean += int(clean.sum())
        if self.begun_ns is None and not warm.all():
            first = int(np.argmin(warm))
            self.begun_ns = int(rows.end_ns[first - 1] if first else rows.start_ns[0])
            self._counted_ns = self.begun_ns
        self._keep_recent(rows, clean)
        self._keep_periods(rows.end_ns[~warm if self.all_count else clean])
        self.last_ns, self.loss = int(rows.end_ns[-1]), float(rows.loss[-1])
        self.last = int(rows.index[-1])
        self.last_s = float(rows.end_ns[-1] - rows.start_ns[-1]) * 1e-9

    def _keep_periods(self, ends: Ints) -> None:
        if not len(ends) or self._counted_ns is None:
            return
        edges = np.concatenate([[self._counted_ns], ends])
        periods = np.diff(edges) * 1e-9
        left = []
        for start, end in self._rests:
            nth = int(np.searchsorted(ends, end))
            if nth < len(periods):
                periods[nth] -= (end - start) * 1e-9
            else:
                left.append((start, end))
        self._rests = left
        self._counted_ns = int(ends[-1])
        for period in np.maximum(periods, 0.0).tolist():
            self.stretches.add(period)

    def _keep_recent(self, rows: StepRows, clean: npt.NDArray[np.bool_]) -> None:
        seconds: Floats = (rows.end_ns - rows.start_ns).astype(np.float64) * 1e-9
        before = np.concatenate([[self.last_ns or rows.start_ns[0]], rows.end_ns[:-1]])
        # What lies before a step belongs to its period, but for what was no training.
        gap: Floats = np.maximum(rows.start_ns - before, 0).astype(np.float64) * 1e-9
        for start, end in self._rests:
            gap[np.searchsorted(rows.start_ns, end) :][:1] -= (end - start) * 1e-9
        self._fill_bins(rows.end_ns[clean], seconds[clean])
        recent = self._end > rows.end_ns[-1] - RECENT_NS
        new = clean & (rows.end_ns > rows.end_ns[-1] - RECENT_NS)
        self._end = np.concatenate([self._end[recent], rows.end_ns[new]])
        self._seconds = np.concatenate([self._seconds[recent], seconds[new]])
        self._gap = np.concatenate([self._gap[recent], np.maximum(gap, 0.0)[new]])
        self._samples = np.concatenate([self._samples[recent], rows.samples[new]])

    def _fill_bins(self, ends: Ints, seconds: Floats) -> None:
        numbers, inverse = np.unique(ends // BIN_NS, return_inverse=True)
        sums = np.bincount(inverse, seconds, len(numbers))
        counts = np.bincount(inverse, minlength=len(numbers))
        for number, total, count in zip(
            numbers[-MOST_BINS:].tolist(),
            sums[-MOST_BINS:].tolist(),
            counts[-MOST_BINS:].tolist(),
            strict=True,
        ):
            old = self._bins.get(number, (0.0, 0))
            self._bins[number] = old[0] + total, old[1] + count
        for number in sorted(self._bins)[:-MOST_BINS]:
            del self._bins[number]

    @property
    def history(self) -> dict[int, float]:
        """Mean time of a clean step in s, by the number of its half second."""
        return {number: total / count for number, (total, count) in self._bins.items()}

    def figures(self) -> dict[str, Figure]:
        """`step_time` and `throughput` of the last 30 s, `last_step_time`, `loss`."""
        if not self.done:
            names = {"step_time": "s", "last_step_time": "s", "throughput": "samples/s", "loss": ""}
            return {name: missing(unit, NO_STEP) for name, unit in names.items()}
        figures: dict[str, Figure] = {"last_step_time": _measured(self.last_s, "s", CLOCK)}
        if np.isfinite(self.loss):
            figures["loss"] = _measured(self.loss, "", "the training")
        else:
            figures["loss"] = missing("", "the training does not tell its loss")
        if not len(self._seconds):
            return figures | {
                "step_time": missing("s", NONE_COUNTS),
                "throughput": missing("samples/s", NONE_COUNTS),
            }
        # Intervals take milliseconds to work out: not at every look.
        if not self._worked_out or self.last_ns - self._worked_out_ns >= WORK_OUT_NS:
            self._worked_out_ns = self.last_ns
            time = median_figure(self._seconds, "s", CLOCK, Status.MEASURED)
            self._worked_out = {"step_time": time, "throughput": self._throughput()}
        return figures | self._worked_out

    def _throughput(self) -> Figure:
        if not np.isfinite(self._samples).all():
            return missing("samples/s", "how many samples a step takes is not known")
        periods = self._seconds + self._gap
        return ratio_figure(self._samples, periods, "samples/s", CLOCK, Status.MEASURED)


def _measured(value: Any, unit: str, source: str) -> Figure:
    return Figure(value=float(value), unit=unit, status=Status.MEASURED, source=source)
