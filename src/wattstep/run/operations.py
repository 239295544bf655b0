"""Operations of a run: traced rows laid onto its clean steps, with time, energy and CPU time shared out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from wattstep.analysis.breakdown import (
    RAIL,
    Breakdown,
    Codes,
    Moved,
    Quantity,
    compact,
    rest_columns,
)
from wattstep.analysis.clock_error import ClockError, shifted
from wattstep.analysis.curves import Curve
from wattstep.analysis.folding import fold, mean_gain, stand_alone
from wattstep.analysis.laying import LaidRows, Phases, Sharing, TracedRows, lay, match_layers
from wattstep.analysis.power import EnergySource
from wattstep.analysis.statistics import mean_figure
from wattstep.analysis.steps import BoolArray, FloatArray, IntArray
from wattstep.records.figure import Figure, Status, missing, weakest
from wattstep.records.journal import Mark
from wattstep.run.below_sampling import Kind
from wattstep.run.filled import FilledTables
from wattstep.run.imported import TRACED, UNKNOWN, WHOLE_TRACE, Alignment
from wattstep.run.instances import TracedInstances
from wattstep.run.layouts import Labelled
from wattstep.run.naming import Combined, Names, combined
from wattstep.run.reading import Tables
from wattstep.run.series import Series, clock_of, real_cores
from wattstep.run.totals import total_rows
from wattstep.run.traced import COLUMNS, TracedColumns

PROCESS_CPU = ("process_cpu_time", "process_cpu_time_coarse", "children_cpu_time")
NO_LAYER = "(no single layer)"
OWN_TRACE = "torch profiler, monotonic clock"
WHOSE = " of the machine that trained, not of that of the sensors"
Shares = tuple[FloatArray, FloatArray]  # of rows and rests
BESIDE = 4  # clean steps on either side of a window that it is compared with
PHASE_RESTS = ("data", "game", "evaluation")  # what is uncovered there is no framework's work
Row = dict[str, Any]


class RunBreakdown:
    """What the traced steps of a run say of its clean ones.

    `reason` says why there are no operations, and is None where there are.

    Args:
        tables: Of the run.
        series: Its samples.
        shared: What is shared out among operations beside time: "energy", "cpu_time", rails; None:
            everything. Each takes as long as laying the rows out.
    """

    def __init__(
        self, tables: Tables, series: Series, shared: Collection[str] | None = None
    ) -> None:
        self._tables = tables
        self._shared = shared
        self._series = series
        self.steps = series.steps
        self.clean = np.flatnonzero(self.steps.clean)
        self._labelled: dict[str, tuple[Combined, Codes | None]] = {}
        self._plain: dict[str, list[Row]] = {}

    @cached_property
    def step_time(self) -> Figure:
        """Mean clean step; of an imported run without clean ones the mean traced step."""
        source = self._traced_by if self.steps.only_traced else "monotonic clock"
        return mean_figure(self.steps.seconds[self.clean], "s", source, Status.MEASURED)

    @property
    def _traced_by(self) -> str:
        return self._tables.imported.traced_by

    @cached_property
    def reason(self) -> str | None:
        """Why there are no operations."""
        if self.steps.absent:
            return self.steps.absent
        if self._tables.info.trace == "none" and not self.steps.only_traced:
            return "tracing was off (--trace none)"
        if not len(self.clean):
            return self.steps.none_clean
        if not len(self._columns.steps) or not len(self._windows):
            return "no step was traced to its end"
        return None

    @cached_property
    def _columns(self) -> TracedColumns:
        return TracedColumns(self._tables.table("operations", columns=COLUMNS))

    @cached_property
    def _windows(self) -> IntArray:
        """Rows of the traced steps that have operations, in order.

        Where nothing but traced steps is known, they are all that the figures are of, those
        without an operation too.
        """
        if self.steps.only_traced:
            recorded = np.isin(self.steps.index[self.clean], self._columns.steps)
            return self.clean if recorded.any() else self.clean[:0]
        traced = np.flatnonzero(self.steps.traced)
        return traced[np.isin(self.steps.index[traced], self._columns.steps)]

    @cached_property
    def _phases(self) -> tuple[Phases, IntArray, FloatArray]:
        """Phases of traced steps, the rows of those steps, and the shares of clean steps."""
        marks = self._tables.marks
        clean, rows = marks.phases(self.steps, self.clean, None)
        if self.steps.only_traced and len(rows) < len(self.clean):
            rows = rows[:0]  # all steps take part, or their mean would not be the mean step
        if not len(rows):  # no marks of phases: the step is one phase
            return self._whole(self._windows), self._windows, np.ones(1)
        traced, windows = marks.phases(self.steps, self._windows, clean.names)
        if not len(windows):
            return self._whole(self._windows), self._windows, np.ones(1)
        durations = clean.durations_s.sum(axis=0)
        return traced, windows, durations / durations.sum()

    def _whole(self, rows: IntArray) -> Phases:
        edges = np.stack([self.steps.start_ns[rows], self.steps.end_ns[rows]], axis=1)
        return Phases(names=("step",), edges_ns=edges)

    @cached_property
    def _chosen(self) -> TracedColumns:
        """Operations of the windows that take part, in the order of windows."""
        _, windows, _ = self._phases
        return self._columns.of_steps(self.steps.index[windows])

    def label(self, name: str) -> Names:
        """A column of names, one for each traced row; "" for none."""
        return self._chosen.names(name)

    def numbers(self, name: str) -> FloatArray:
        """A column of numbers ("flops", "bytes"), one for each traced row; NaN where not known."""
        return self._chosen.numbers(name)

    @property
    def allocated(self) -> FloatArray | None:
        """Bytes that each traced row allocated less what it freed; None where that is not told."""
        return self._chosen.allocated if self._chosen.tells_allocations else None

    @property
    def launch(self) -> IntArray:
        """The traced row that asked for each one's work on a GPU, or -1."""
        return self._chosen.launch

    @property
    def outer(self) -> Codes:
        """The outermost operation that each traced row belongs to; itself for scopes without one."""
        return self._outer

    @property
    def is_operation(self) -> BoolArray:
        """Whether a traced row is a part of an operation (not a scope's own time)."""
        return self._operation

    @property
    def alike(self) -> Combined:
        """The row of `operations` that each traced row belongs to."""
        return self._labels("operations")[0]

    @property
    def processor(self) -> Names:
        """Where each traced row ran: "cpu", "gpu0", ..."""
        return self._processor

    @cached_property
    def rows(self) -> TracedRows:
        """The traced rows, windows counted from 0."""
        _, windows, _ = self._phases
        return self._chosen.rows(self.steps.index[windows])

    @property
    def window_steps(self) -> IntArray:
        """Of each window, the position of its step among all steps."""
        return self._phases[1]

    @property
    def outermost(self) -> BoolArray:
        """Whether a traced row is an operation's own, not one inside another."""
        return self._chosen.outermost

    def quantity(self, name: str) -> Quantity | None:
        """What was shared out among the traced rows ("cpu_time", "energy"); None where it was not."""
        return self._quantities[0].get(name)

    def thread(self, row: int) -> int:
        """The number that the operating system, or the GPU's driver, gave to a row's thread."""
        return int(self._chosen.threads[self.rows.thread[row]])

    @cached_property
    def laid(self) -> LaidRows:
        """The rows on the mean clean step."""
        traced, windows, share = self._phases
        beside = None if self.steps.only_traced else self._beside(windows)
        laid = lay(self.rows, traced, beside, share, self._step_s)
        return match_layers(self.rows, laid, traced.names, self._layer_shares(traced.names))

    @property
    def _of_totals(self) -> bool:
        return self.reason is not None and bool(self._tables.summaries)

    @property
    def operations_of(self) -> str:
        """What the times of operations are of: a mean "step", or the whole "recording"."""
        of_one = self._tables.imported.trace_is_one_step and self.steps.only_traced
        return "recording" if self._of_totals or self.steps.absent or of_one else "step"

    @property
    def _step_s(self) -> float:
        value = self.step_time.value
        assert value is not None
        return value

    def _layer_shares(self, names: Sequence[str]) -> dict[str, float]:
        """Share of the forward phase of each top-level layer, in clean steps that carry marks."""
        marks = self._tables.marks
        marked = np.intersect1d(self.clean, marks.step[marks.kind == Mark.LAYER_START])
        if not len(marked) or "forward" not in names:
            return {}
        phases, rows = marks.phases(self.steps, marked, tuple(names))
        if not len(rows):
            return {}
        forward = list(names).index("forward")
        begin, end = phases.edges_ns[:, forward], phases.edges_ns[:, forward + 1]
        length = float(phases.durations_s[:, forward].mean())
        times = marks.layers(rows, begin, end)
        return {name: value / length for name, value in times.items()}

    def _beside(self, windows: IntArray) -> FloatArray:
        """Median of the clean steps around each window in s."""
        seconds = self.steps.seconds
        at = np.searchsorted(self.clean, windows)
        return np.array(
            [
                float(np.median(seconds[self.clean[max(0, n - BESIDE) : n + BESIDE]]))
                if len(self.clean[max(0, n - BESIDE) : n + BESIDE])
                else self._step_s
                for n in at
            ]
        )

    # --- quantities -------------------------------------------------------------------------

    def fold(self, curve: Curve, gauge: tuple[IntArray, FloatArray] | None = None) -> Curve | None:
        """A curve over the mean clean step, or None where nothing was sampled in clean steps."""
        start, end = self.steps.start_ns[self.clean], self.steps.end_ns[self.clean]
        return fold(curve, start, end, self._step_s, gauge)

    @cached_property
    def _quantities(self) -> tuple[dict[str, Quantity], dict[str, str]]:
        laid = self.laid
        spread = self.step_time
        relative = 0.0
        if spread.low is not None and spread.high is not None:
            relative = (spread.high - spread.low) / 2 / self._step_s
        time = Quantity(
            unit="s",
            rows=laid.time_s,
            rests=laid.rest_s,
            relative=relative,
            status=Status.ATTRIBUTED,
            source=OWN_TRACE,
            method="traced time less the cost of its events, laid onto clean steps",
        )
        if self.steps.only_traced:
            time = replace(time, source=self._traced_by, method=f"wall time; {self._scope}")
        quantities = {"time": time}
        if self._shared is None:
            rests = np.zeros_like(laid.rest_s)
            quantities["busy_time"] = replace(time, rows=laid.busy_s, rests=rests)
        sharing = Sharing(self.rows, laid)
        absent: dict[str, str] = {}
        energy = self._series.energy
        if isinstance(energy, str):
            absent["energy"] = energy
        else:
            self._share("energy", energy, time, sharing, quantities, absent)
        for name, rail in self._series.rails.items():
            self._share(f"{RAIL}{name}", rail, time, sharing, quantities, absent)
        if self._series.process_cpu is None:
            absent["cpu_time"] = self._series.without("the CPU time of the process was not sampled")
        else:
            curve, source = self._series.process_cpu
            clock = clock_of(self._alignment_of("cpu_time"))
            cpu = EnergySource(curve=curve, status=Status.MEASURED, source=source, clock=clock)
            self._share("cpu_time", cpu, time, sharing, quantities, absent)
        return quantities, absent

    def _share(
        self,
        name: str,
        source: EnergySource,
        time: Quantity,
        sharing: Sharing,
        quantities: dict[str, Quantity],
        absent: dict[str, str],
    ) -> None:
        """Shares a sampled quantity out among the rows, or says why it cannot be."""
        if self._shared is not None and name not in self._shared:
            absent[name] = "not asked for"
            return
        alignment = self._alignment_of(name)
        if alignment is not None and alignment.uncertainty_s is None:
            absent[name] = UNKNOWN
            return
        start, end = self.steps.start_ns[self.clean], self.steps.end_ns[self.clean]
        gain = mean_gain(source.curve, start, end)
        if gain is None:
            absent[name] = f"no samples of {source.source} in {self.steps.figures_of}"
            return
        seconds = float(self.steps.seconds[self.clean].sum())
        if reason := source.too_little(seconds, gain * len(self.clean)):
            absent[name] = reason
            return
        found = self._shares(sharing, source.curve, source.gauge)
        assert found is not None
        rows, rests = found
        folded = "" if self._one_by_one(source.curve, source.gauge) else "folded by phase and "
        quantities[name] = replace(
            time,
            unit=source.curve.unit,
            rows=rows,
            rests=rests,
            status=weakest([source.status, Status.ATTRIBUTED]),
            source=source.source,
            method=f"what {self.steps.figures_of} gained, {folded}shared out by time",
            sensor=source,
            moved=None if source.clock is None else self._moved(sharing, source, source.clock),
        )

    def _one_by_one(self, curve: Curve, gauge: tuple[IntArray, FloatArray] | None) -> bool:
        """Whether what was sampled is shared out just where it was, without folding steps."""
        start, end = self.steps.start_ns[self.clean], self.steps.end_ns[self.clean]
        return self.steps.only_traced and stand_alone(curve, start, end, gauge)

    def _shares(
        self, sharing: Sharing, curve: Curve, gauge: tuple[IntArray, FloatArray] | None
    ) -> Shares | None:
        """What rows and rests take of a curve; None where nothing of it was sampled in steps."""
        if not self._one_by_one(curve, gauge):
            folded = self.fold(curve, gauge)
            return None if folded is None else sharing.folded(folded)
        gain = mean_gain(curve, self.steps.start_ns[self.clean], self.steps.end_ns[self.clean])
        return None if gain is None else sharing.recorded(curve, gain / self._step_s)

    def _moved(self, sharing: Sharing, source: EnergySource, clock: ClockError) -> Moved:
        """What rows and rests take with the samples moved; only sums of it are kept."""
        windows, phases = self.laid.rest_s.shape
        code, count = self._alike
        sums = np.full((len(clock.shifts_ns), count), np.nan)
        rests = np.full((len(clock.shifts_ns), phases), np.nan)
        for number, by_ns in enumerate(clock.shifts_ns):
            found = self._shares(sharing, *shifted(source.curve, source.gauge, by_ns))
            if found is not None:
                sums[number] = np.bincount(code, found[0], minlength=count) / windows
                rests[number] = found[1].mean(axis=0)
        return Moved(clock=clock, code=code, sums=sums, rests=rests)

    @property
    def _scope(self) -> str:
        """What the operations of an imported trace are of."""
        return WHOLE_TRACE if self._tables.imported.trace_is_one_step else TRACED

    def _alignment_of(self, quantity: str) -> Alignment | None:
        """How the clock behind a quantity that is shared out fits to that of the trace."""
        series = self._series
        if quantity == "energy":
            return series.power_alignment
        if quantity == "cpu_time":
            return series.alignment(series.with_role(*PROCESS_CPU))
        return series.alignment([series.channels[quantity.removeprefix(RAIL)]])

    @cached_property
    def _breakdown(self) -> Breakdown:
        quantities, absent = self._quantities
        chosen = self._chosen
        traced, _, _ = self._phases
        return Breakdown(
            window=self.rows.window,
            windows=len(traced.edges_ns),
            phase_names=traced.names,
            step_s=self._step_s,
            cores=real_cores(self._tables.info.device),
            whose=WHOSE if _has_other_sensors(self._tables.info.device) else "",
            quantities=quantities,
            absent=absent,
            allocated=chosen.allocated,
            flops=chosen.numbers("flops"),
            size=chosen.numbers("bytes"),
            outermost=chosen.outermost,
        )

    @cached_property
    def _outer(self) -> Codes:
        """The outermost operation that each row belongs to; itself for scopes without one."""
        above = self.rows.parent
        climbing = np.flatnonzero(~self._chosen.outermost & (above >= 0))
        outer = np.arange(len(above), dtype=np.int32 if len(above) < 2**31 else np.int64)
        outer[climbing] = above[climbing]
        while len(climbing):  # each time twice as far
            further = outer[outer[climbing]]
            moved = further != outer[climbing]
            outer[climbing] = further
            climbing = climbing[moved]
        return outer

    @cached_property
    def _operation(self) -> BoolArray:
        """Whether a row is an operation's (not a scope's own time)."""
        result: BoolArray = self._chosen.outermost[self._outer]
        return result

    # --- processors ---------------------------------------------------------------------------

    @cached_property
    def _processor(self) -> Names:
        """Where each traced row ran."""
        return self.label("processor").renamed("", "cpu")

    @cached_property
    def others(self) -> tuple[str, ...]:
        """Where operations ran beside the CPU: "gpu0", ..."""
        if self.reason is not None:
            return ()
        ran = self._processor
        used, _ = compact(ran.code)
        return tuple(sorted({str(ran.texts[code]) for code in used} - {"cpu"}))

    def gpu_time(self) -> Figure | None:
        """Time in s of a step in which its work ran on any GPU; None where none did."""
        if not self.others:
            return None
        ran, rows = self._processor, self.rows
        there = np.flatnonzero(~ran.named("cpu"))
        _, windows, _ = self._phases
        bounds = np.searchsorted(rows.window[there], np.arange(len(windows) + 1))
        parts = [there[low:high] for low, high in pairwise(bounds)]
        seconds = [_union_s(rows.start_ns[mine], rows.end_ns[mine]) for mine in parts]
        figure = mean_figure(seconds, "s", self.step_time.source or "", Status.MEASURED)
        words = f"time in which work of a step ran on {' or '.join(self.others)}"
        return replace(figure, method=f"{words}; {figure.method}")

    # --- instances --------------------------------------------------------------------------

    def instances(self) -> TracedInstances:
        """Each traced operation that no other encloses, one by one; only where `reason` is None."""
        at = np.flatnonzero(self._chosen.outermost)
        rows, laid = self.rows, self.laid
        count = len(rows.parent)
        inside = np.bincount(self._outer, minlength=count)[at] - 1
        seconds = np.bincount(self._outer, laid.busy_s, minlength=count)[at].astype(np.float64)
        columns = {name: self.label(name) for name in ("name", "layer", "phase", "shapes")}
        columns["layer"] = columns["layer"].renamed("", NO_LAYER)
        _, windows, _ = self._phases
        return TracedInstances(
            names={name: names.at(at) for name, names in columns.items()}
            | {"processor": self._processor.at(at)},
            window=rows.window[at].astype(np.int64),
            step=windows,
            start_ns=rows.start_ns[at],
            end_ns=rows.end_ns[at],
            seconds=seconds,
            tracer_s=inside * laid.correction.cost_s[laid.phase[at]],
            source=self._traced_by if self.steps.only_traced else OWN_TRACE,
        )

    # --- below the sampling interval ----------------------------------------------------------

    @cached_property
    def labelled(self) -> tuple[Labelled, tuple[Kind, ...]]:
        """The rows on the mean clean step with the kind of each, and what the kinds are."""
        code, count = self._alike
        names = self._breakdown.phase_names
        rests = [Kind(_rest_of(name), "rest", "", name) for name in names]
        own = np.flatnonzero(self._chosen.outermost & self._operation)[::-1]
        first = np.full(count, -1, np.int64)
        first[code[own]] = own
        found = Labelled(
            rows=self.rows,
            laid=self.laid,
            outer=self._outer,
            operation=self._operation,
            outermost=self._chosen.outermost,
            kind=code,
            rest=np.arange(len(rests)),
        )
        named = (self._kind(row) for row in first[len(rests) :].tolist())
        return found, (*rests, *named)

    def _kind(self, row: int) -> Kind:
        """What a row is; what no operation is (-1) is asked for by nobody."""
        return Kind(
            name=self.label("name").of(row),
            kind=self.label("kind").of(row),
            layer=self.label("layer").of(row),
            phase=self.label("phase").of(row),
            processor=self._processor.of(row),
        )

    @cached_property
    def clean_phases(self) -> tuple[IntArray, int]:
        """When the phases of clean steps began and the last ended in ns, shape (steps, phases + 1).

        Steps without marks have them in proportion; those with other phases than most are left out.
        The second number is how many had no marks.
        """
        traced, _, share = self._phases
        start, end = self.steps.start_ns[self.clean], self.steps.end_ns[self.clean]
        if len(share) == 1:
            return np.stack([start, end], axis=1), 0
        marks = self._tables.marks
        phases, rows = marks.phases(self.steps, self.clean, traced.names)
        bare = ~np.isin(self.clean, marks.step[marks.kind == Mark.PHASE])
        edges = np.concatenate([[0.0], np.cumsum(share)])
        spread = start[bare, None] + np.rint((end - start)[bare, None] * edges).astype(np.int64)
        spread[:, -1] = end[bare]
        whole = np.concatenate([phases.edges_ns, spread])
        order = np.argsort(np.concatenate([rows, self.clean[bare]]), kind="stable")
        return whole[order], int(bare.sum())

    # --- tables -----------------------------------------------------------------------------

    def _labels(self, table: str) -> tuple[Combined, Codes | None]:
        """What makes the rows of a table, and in which pieces a row lasts (None: in calls)."""
        if table not in self._labelled:
            self._labelled[table] = self._labels_of(table)
        return self._labelled[table]

    def _labels_of(self, table: str) -> tuple[Combined, Codes | None]:
        def of(column: str) -> Names:
            names = self._processor if column == "processor" else self.label(column)
            return names.renamed("", NO_LAYER if column == "layer" else "").at(self._outer)

        names = {
            "operations": ("name", "layer", "phase", *(["processor"] if self.others else [])),
            "layers": ("layer",),
            "phases": ("phase",),
            "kinds": ("kind",),
        }[table]
        labels = {column: of(column) for column in names}
        extra = {"kind": of("kind")} if table == "operations" else {}
        lasting = table in ("layers", "phases")  # forward and backward apart
        return combined(labels, extra, self._operation), of("phase").code if lasting else None

    @cached_property
    def _alike(self) -> tuple[Codes, int]:
        """A number of each row, the same for rows that no table tells apart, and how many there are.

        A scope's own time is told by the phase in which it begins.
        """
        labels, _ = self._labels("operations")
        kinds, _ = self._labels("kinds")
        phases = len(self.laid.edges_s) - 1  # numbers below that are of scopes
        code = labels.key.astype(np.int64) * (int(kinds.key.max(initial=0)) + 1) + kinds.key
        used, code = compact(code)
        code = np.where(self._operation, code + phases, self.laid.phase)
        return code.astype(np.int32), len(used) + phases

    def plain_rows(self, table: str) -> list[Row]:
        """A table as samples alone have it; "key" is what its rows are told by."""
        if table not in self._plain:
            self._plain[table] = self._table_of(table)
        return self._plain[table]

    def _table_of(self, table: str) -> list[Row]:
        labels, part = self._labels(table)
        found = self._breakdown.rows(labels.key, self._operation, part)
        rows = [{**labels.shown[row["key"]], **row} for row in found]
        if not self._chosen.tells_allocations:
            for row in rows:
                row["memory"] = missing("B", "the trace does not tell what operations allocated")
        return rows

    def codes(self, table: str) -> dict[int, IntArray]:
        """Which kinds, as in `labelled`, make each row of a table, by its key."""
        labels, _ = self._labels(table)
        own = self._chosen.outermost & self._operation
        code, count = self._alike
        pairs, _ = compact(labels.key[own].astype(np.int64) * count + code[own])
        keys, first = np.unique(pairs // count, return_index=True)
        return dict(zip(keys.tolist(), np.split(pairs % count, first[1:]), strict=True))

    def shared(self, quantity: str) -> FloatArray | None:
        """What each kind takes of a mean step by overlap alone; None where it is not known.

        Args:
            quantity: "energy", say.
        """
        found = self._with_scopes[1].quantities.get(quantity)
        if found is None:
            return None
        code, count = self._alike
        mine = self._operation
        sums = np.bincount(code[mine], found.rows[mine], minlength=count).astype(np.float64)
        sums[: found.rests.shape[1]] += found.rests.sum(axis=0)
        return sums / len(found.rests)

    @property
    def code_count(self) -> int:
        """How many kinds there may be."""
        return self._alike[1]

    def too_short(self, table: str) -> dict[str, Figure]:
        """What rows of a table and rests leave out as samples alone have them, by quantity."""
        names, breakdown = self._with_scopes
        labels, part = self._labels(table)
        return breakdown.unresolved(labels.key, self._operation, part, names)

    def plain_rests(self) -> dict[str, dict[str, Figure]]:
        """What no operation covers, as samples alone have it."""
        names, breakdown = self._with_scopes
        return breakdown.rests(names)

    @property
    def rest_columns(self) -> dict[str, list[int]]:
        """The phases of each rest."""
        return rest_columns(self._with_scopes[0])

    @cached_property
    def filled(self) -> FilledTables:
        """The tables with what regression over many steps tells of short rows."""
        if self.reason is not None:
            return FilledTables(self, self.reason)
        energy = self._series.energy
        quantities, absent = self._quantities
        return FilledTables(self, energy if "energy" in quantities else absent["energy"])

    def _rows(self, table: str) -> list[Row]:
        if self.reason is not None:
            return []
        return [_with_power(row) for row in self.filled.table(table).rows]

    def operations(self) -> list[Row]:
        """By operation, layer and phase, of a mean step; else totals, where a tool gave such."""
        if self._of_totals:
            return total_rows(self._tables.summaries, self._traced_by)
        return self._rows("operations")

    def layers(self) -> list[Row]:
        """By layer."""
        return self._rows("layers")

    def phases(self) -> list[Row]:
        """By phase."""
        return self._rows("phases")

    def kinds(self) -> list[Row]:
        """By kind of operation."""
        return self._rows("kinds")

    def energy_groups(self) -> list[Row]:
        """Operations and rests whose energy is known together only, the costliest first."""
        return [] if self.reason is not None else self.filled.groups

    def rests(self) -> dict[str, dict[str, Any]]:
        """What no operation covers: module code and the framework between operations, data, game.

        "not_resolved" holds the energy of operations and rests that are too short for the sensor
        and were told by no regression, so that operations, rests and groups together make the step;
        their time stands in their own rows.
        """
        if self.reason is not None:
            return {}
        table: dict[str, dict[str, Any]] = {**self.filled.rests}
        if left := self.not_resolved()["operations"]:
            none = Figure(
                value=0.0, unit="s", status=Status.ATTRIBUTED, source="torch profiler",
                method="their time stands with the operations and rests themselves",
            )  # fmt: skip
            told = replace(none, unit="J", method="regression tells all of it")
            table["not_resolved"] = {
                "time": none, "share": none.scaled(1.0, "ratio"), "energy": told, **left
            }  # fmt: skip
        return table

    def not_resolved(self) -> dict[str, dict[str, Any]]:
        """By table: the energy that its rows, the rests and groups of operations leave out."""
        if self.reason is not None:
            return {}
        found: dict[str, dict[str, Any]] = {}
        for table in ("operations", "layers", "phases", "kinds"):
            left = self.filled.table(table).left
            others = {key: row for key, row in self.too_short(table).items() if key != "energy"}
            found[table] = {**({} if left is None else {"energy": left}), **others}
        return found

    @cached_property
    def _with_scopes(self) -> tuple[list[str], Breakdown]:
        """Names of the rests by phase, and the breakdown with the scopes' own time in its rests."""
        names = [_rest_of(name) for name in self._breakdown.phase_names]
        breakdown = self._breakdown
        windows, phases = breakdown.windows, len(breakdown.phase_names)
        scope = ~self._operation
        cell = self.rows.window[scope].astype(np.int64) * phases + self.laid.phase[scope]
        quantities = {}
        for name, quantity in breakdown.quantities.items():
            own = np.bincount(cell, quantity.rows[scope], minlength=windows * phases)
            moved = quantity.moved
            if moved is not None:
                moved = replace(moved, rests=moved.rests + moved.sums[:, :phases])
            quantities[name] = replace(
                quantity, rests=quantity.rests + own.reshape(windows, phases), moved=moved
            )
        return names, replace(breakdown, quantities=quantities)


def _with_power(row: Row) -> Row:
    """A row as it is shown: its mean power beside its energy."""
    row = {key: value for key, value in row.items() if key != "key"}
    if "power" in row:
        return row
    energy: Figure = row["energy"]
    power = missing("W", energy.reason or "it takes no time")
    if energy.value is not None and row["time"].value:
        power = energy.scaled(1 / row["time"].value, "W")
        power = replace(power, method=f"{energy.method}; over its time")
    return {**row, "power": power}


def _rest_of(phase: str) -> str:
    """What is called what no operation covers in a phase."""
    return phase if phase in PHASE_RESTS else "framework"


def _union_s(start_ns: IntArray, end_ns: IntArray) -> float:
    """Length in s of what intervals cover together."""
    order = np.argsort(start_ns, kind="stable")
    start, end = start_ns[order], np.maximum.accumulate(end_ns[order])
    if not len(start):
        return 0.0
    begin = np.maximum(start, np.concatenate([start[:1], end[:-1]]))
    return float(np.maximum(end - begin, 0).sum()) * 1e-9


def _has_other_sensors(device: Mapping[str, Any]) -> bool:
    """Whether the sensors are not those of the machine that trained."""
    return bool(device.get("emulated_on") or device.get("sensors_of"))


class OperationTable:
    """Operations as the caller likes them: a list of rows of Figures, or a table of numbers.

    Tables hold the values in SI units, and the status of time and energy beside them.
    """

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_arrow(self) -> pa.Table:
        """As an Arrow table."""
        columns: dict[str, list[Any]] = {}
        for row in self.rows:
            for key, value in row.items():
                plain = value.value if isinstance(value, Figure) else value
                columns.setdefault(key, []).append(plain)
                if key in ("time", "energy"):
                    columns.setdefault(f"{key}_status", []).append(value.status.value)
        return pa.table(columns)

    def to_pandas(self) -> Any:
        """As a pandas DataFrame (pandas must be installed)."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """As a polars DataFrame (polars must be installed)."""
        import polars  # type: ignore[import-not-found,unused-ignore]

        return polars.from_arrow(self.to_arrow())
