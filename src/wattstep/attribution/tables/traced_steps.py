"""Traced steps of a run: their rows on the scale of its clean steps, with time, energy and CPU time attributed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import cached_property

import numpy as np

from wattstep.attribution.breakdown import Breakdown
from wattstep.attribution.codes import Codes, compact
from wattstep.attribution.overhead_compensation import compensate, match_layers
from wattstep.attribution.quantities import AttributedQuantity
from wattstep.attribution.tables.attributor import Attributor
from wattstep.attribution.tables.clean_phases import layer_shares
from wattstep.attribution.tables.covered import covered_s
from wattstep.attribution.tables.fed_rows import FedRows
from wattstep.attribution.tables.instances import TracedInstances
from wattstep.attribution.tables.layouts import Kind, Labelled
from wattstep.attribution.tables.naming import Combined, Names
from wattstep.attribution.tables.phase_spans import PhaseSpans, phase_spans
from wattstep.attribution.tables.plain_tables import PlainTables, unattributed_of
from wattstep.attribution.tables.row_labels import NO_LAYER, RowLabels
from wattstep.attribution.tables.taking_part import Side
from wattstep.attribution.tables.teams import COLUMNS, cores_of
from wattstep.attribution.tables.timeline import Timeline, Traced, Untraced, as_traced, untraced
from wattstep.attribution.tables.traced import TracedColumns, outermost_above
from wattstep.attribution.tables.traced_windows import TracedWindows
from wattstep.attribution.traced_rows import CompensatedRows, TracedRows
from wattstep.recorded.instruments import Instruments
from wattstep.recorded.reading import Tables
from wattstep.recorded.series import Series, real_cores
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.figure import Figure, Status
from wattstep.schema.run_documents import DeviceFacts
from wattstep.stats.statistics import mean_figure

WHOSE = " of the machine that trained, not of that of the sensors"


class TracedSteps(TracedWindows):
    """The traced steps of a run, compensated to its clean ones.

    Args:
        tables: Of the run.
        series: Its samples.
        shared: What is attributed to operations beside time: "energy", "cpu_time", rails; None:
            everything. Each takes as long as compensating the rows.
    """

    def __init__(
        self, tables: Tables, series: Series, shared: Collection[str] | None = None
    ) -> None:
        super().__init__(tables, series)
        self._shared = shared

    @cached_property
    def step_time(self) -> Figure:
        """Mean clean step; of an imported run without clean ones the mean traced step."""
        source = self._traced_by if self.steps.only_traced else self.steps.source
        counted = self.steps.counted
        time = counted.mean(counted.seconds, "s", source, self.steps.status)
        with_period: Figure = self._tables.imported.with_period(time)
        return with_period

    @property
    def instruments(self) -> Instruments:
        """What measured within the framework."""
        return self._tables.instruments

    @property
    def tracer(self) -> str:
        """Source of times that were traced, on the clock of the steps."""
        return self.instruments.tracer

    @property
    def traced_by(self) -> str:
        """Source of the times of operations: our tracer's, or that of an imported trace."""
        return self._traced_by if self.steps.only_traced else self.tracer

    @property
    def _traced_by(self) -> str:
        return self._tables.imported.traced_by

    @cached_property
    def _chosen(self) -> TracedColumns:
        """Operations of the windows that take part, in the order of windows."""
        return self._columns.of_steps(self.steps.index[self._by_kind.windows])

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
        """Mask of traced rows that are part of an operation (not a scope's own time)."""
        return self._operation

    @property
    def alike(self) -> Combined:
        """The row of `operations` that each traced row belongs to."""
        return self._labels.of("operations")[0]

    @property
    def processor(self) -> Names:
        """Processor of each traced row: "cpu", "gpu0", ..."""
        return self._processor

    @cached_property
    def rows(self) -> TracedRows:
        """The traced rows, windows counted from 0."""
        _, windows, _ = self._phases
        rows = self._chosen.rows(self.steps.index[windows])
        teams = self._tables.info.schedule.get("teams")
        if not teams:
            return rows
        return replace(rows, cores=cores_of(teams, {name: self.label(name) for name in COLUMNS}))

    @property
    def outermost(self) -> BoolArray:
        """Mask of traced rows that are an operation's own, not one inside another."""
        return self._chosen.outermost

    def quantity(self, name: str) -> AttributedQuantity | None:
        """Quantity attributed to the traced rows ("cpu_time", "energy"); None where it was not."""
        return self._quantities[0].get(name)

    @property
    def threads(self) -> IntArray:
        """Numbers of threads and streams in the run, by `rows.thread`."""
        return self._chosen.threads

    def thread(self, row: int) -> int:
        """The number that the operating system, or the GPU's driver, gave to a row's thread."""
        return int(self.threads[self.rows.thread[row]])

    @cached_property
    def compensated(self) -> CompensatedRows:
        """The rows on the mean clean step."""
        by_kind = self._by_kind
        beside = None if self.steps.only_traced else by_kind.beside_s
        compensated = compensate(
            self.rows, by_kind.traced, beside, by_kind.share, self._step_s, self._event_s
        )
        for kind, (first, last) in enumerate(by_kind.spans):
            names = by_kind.traced.names[first:last]
            clean = self.clean
            if len(by_kind.spans) > 1:
                clean = clean[self.step_kinds.of_step[clean] == kind]
            shares = layer_shares(self._tables.marks, self.steps, clean, names)
            # How long the host was in a layer says nothing of how long the GPU works for it.
            if shares and not self.others:
                compensated = match_layers(
                    self.rows, compensated, first + names.index("forward"), shares
                )
        cost = None if self._untraced is None else self._untraced.cost
        if cost is not None and cost.within_s:
            on_gpu = ~self.rows.on_host
            busy = compensated.busy_s.copy()
            busy[on_gpu] = np.maximum(busy[on_gpu] - cost.within_s, 0.0)
            compensated = replace(compensated, busy_s=busy)
        return compensated

    @property
    def _event_s(self) -> float | None:
        """Cost of an event for the host, where steps lie on a device's timeline and it is known."""
        cost = None if self._untraced is None else self._untraced.cost
        if cost is None or np.isnan(cost.operation_s):
            return None
        runtime = float(self.label("kind").named("runtime call")[self.rows.on_host].mean())
        return cost.operation_s + runtime * (cost.call_s - cost.operation_s)

    @cached_property
    def timeline(self) -> Timeline:
        """When host and devices did what in traced steps: as untraced ones, where a device is followed."""
        again = self._untraced
        return as_traced(self.rows, self._by_kind.traced) if again is None else again.timeline

    @cached_property
    def _untraced(self) -> Untraced | None:
        """The traced steps as untraced ones; None where no device is followed."""
        by_kind, steps, followed = self._by_kind, self.steps, self.steps.device
        again = None
        if followed in self.others and not steps.only_traced:
            several = len(by_kind.spans) > 1
            of_step = self.step_kinds.of_step if several else np.zeros(len(steps.index), np.int64)
            again = untraced(
                Traced(
                    rows=self.rows,
                    name=self.label("name"),
                    runtime=self.label("kind").named("runtime call"),
                    launch=self.launch,
                    followed=self._processor.named(followed),
                ),
                by_kind,
                of_step[by_kind.windows],
                of_step[self.clean],
                self._tables.marks,
                steps,
                self.clean,
                (self._tables.info.device_clock.get("piece_ns") or np.nan) * 1e-9,
            )
        return again

    @property
    def _of_totals(self) -> bool:
        return self.reason is not None and bool(self._tables.summaries)

    @property
    def operations_of(self) -> str:
        """Basis of operations' times: a mean "step", or the whole "recording"."""
        of_one = self._tables.imported.trace_is_one_step and self.steps.only_traced
        return "recording" if self._of_totals or self.steps.absent or of_one else "step"

    @property
    def _step_s(self) -> float:
        value = self.step_time.value
        assert value is not None
        return value

    @cached_property
    def _quantities(self) -> tuple[dict[str, AttributedQuantity], dict[str, str]]:
        return Attributor(
            self._series,
            self.clean,
            self.step_time,
            self._tables.imported,
            self.traced_by,
            self.rows,
            self.compensated,
            lambda: self._labels.alike,
            self._shared,
            self.step_kinds.of_step[self.clean] if len(self._by_kind.spans) > 1 else None,
            self._fed.part,
            self._fed.moved_bytes,
        ).quantities()

    # --- what a rail feeds ----------------------------------------------------------------------

    @cached_property
    def _fed(self) -> FedRows:
        return FedRows(
            series=self._series,
            shares_memory=self._tables.info.device.get("gpu", {}).get("shares_memory"),
            columns=self._chosen,
            rows=self.rows,
            compensated=self.compensated,
            outer=self._outer,
            operation=self._operation,
            processor=self._processor,
            others=self.others,
            phases=self._by_kind,
            step_s=self._step_s,
            event_s=self._event_s,
        )

    def side(self, name: str) -> Side:
        """What a quantity ("energy", "cpu_time", a rail's) can belong to; all, where no GPU worked."""
        return self._fed.side(name) if self.others else "all"

    def by_time_alone(self, name: str) -> str:
        """What is said of rows of memory whose bytes are not known; "" for others."""
        return self._fed.by_time_alone(name) if self.others else ""

    @property
    def ahead(self) -> float:
        """By how much of a step the host is ahead of a device at the end of clean steps, mean.

        Where steps are the host's, as in a trace of another tool: of traced ones, by the work of theirs
        that outlasts them.
        """
        host_ns = self.steps.host_ns
        if host_ns is None:
            return self._outlasting_s / self._step_s if self._step_s else 0.0
        clean = self.clean[np.isfinite(host_ns[self.clean, 1])]
        if not len(clean):
            return 0.0
        late = float((self.steps.end_ns[clean] - host_ns[clean, 1]).mean()) * 1e-9
        return max(late / float(self.steps.seconds[clean].mean()), 0.0)

    @property
    def by_device(self) -> bool:
        """True if steps begin and end when the device came to it."""
        return self.steps.host_ns is not None

    @cached_property
    def _outlasting_s(self) -> float:
        """How long devices work for a traced step after its end, mean."""
        on_gpu = self.rows.on_gpu
        if on_gpu is None or not on_gpu.any():
            return 0.0
        ends_ns = self.steps.end_ns[self._by_kind.windows]
        last_ns = ends_ns.copy()
        np.maximum.at(last_ns, self.rows.window[on_gpu], self.rows.end_ns[on_gpu])
        return float((last_ns - ends_ns).mean()) * 1e-9

    @property
    def _relative(self) -> FloatArray:
        """Half width of the relative interval of each part of the step that rows were scaled to."""
        if not self.steps.only_traced:
            return self._by_kind.relative
        half = self.step_time.half_width or 0.0
        return np.array([half / self._step_s if self._step_s else 0.0])

    @cached_property
    def _breakdown(self) -> Breakdown:
        quantities, absent = self._quantities
        chosen = self._chosen
        traced, _, _ = self._phases
        off = self.compensated.correction.unattributed_error_s
        return Breakdown(
            window=self.rows.window,
            stand=replace(self._by_kind.stand, unseen=self.left_out.unseen),
            phase=self.compensated.phase,
            together=self.steps.only_traced,
            relative=self._relative,
            cost_s=self.compensated.correction.error_s,
            events=self.compensated.correction.events(self.rows, self.compensated.phase),
            unattributed_off_s=np.zeros(len(traced.names)) if off is None else off,
            phase_names=traced.names,
            step_s=self._step_s,
            cores=real_cores(self._tables.info.device),
            whose=WHOSE if _has_other_sensors(self._tables.info.device) else "",
            quantities=quantities,
            absent=absent,
            allocated=chosen.allocated,
            allocator=self.instruments.allocator,
            flops=chosen.numbers("flops"),
            size=chosen.numbers("bytes"),
            outermost=chosen.outermost,
        )

    @cached_property
    def _outer(self) -> Codes:
        """The outermost operation that each row belongs to; itself for scopes without one."""
        return outermost_above(self.rows.parent, self._chosen.outermost)

    @cached_property
    def _operation(self) -> BoolArray:
        """Mask of rows that are an operation's (not a scope's own time)."""
        result: BoolArray = self._chosen.outermost[self._outer]
        return result

    # --- processors ---------------------------------------------------------------------------

    @cached_property
    def _processor(self) -> Names:
        """Processor of each traced row."""
        return self.label("processor").renamed("", "cpu")

    @cached_property
    def others(self) -> tuple[str, ...]:
        """Processors of operations beside the CPU: "gpu0", ..."""
        if self.reason is not None:
            return ()
        ran = self._processor
        used, _ = compact(ran.code)
        return tuple(sorted({str(ran.texts[code]) for code in used} - {"cpu"}))

    def gpu_time(self) -> Figure | None:
        """Time in s of a step in which its work ran on any GPU; None where none did."""
        if not self.others:
            return None
        there = np.flatnonzero(~self._processor.named("cpu"))
        seconds = covered_s(self.rows, there, len(self.window_steps))
        figure = mean_figure(seconds, "s", self.step_time.source or "", Status.MEASURED)
        words = f"time in which work of a step ran on {' or '.join(self.others)}"
        return replace(figure, method=f"{words}; {figure.method}")

    # --- instances --------------------------------------------------------------------------

    def instances(self) -> TracedInstances:
        """Each traced operation that no other encloses, one by one; only where `reason` is None."""
        at = np.flatnonzero(self._chosen.outermost)
        rows, compensated = self.rows, self.compensated
        count = len(rows.parent)
        inside = np.bincount(self._outer, minlength=count)[at] - 1
        seconds = np.bincount(self._outer, compensated.busy_s, minlength=count)[at].astype(
            np.float64
        )
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
            tracer_s=inside * compensated.correction.cost_s[compensated.phase[at]],
            source=self.traced_by,
        )

    # --- below the sampling interval ----------------------------------------------------------

    @cached_property
    def labelled(self) -> tuple[Labelled, tuple[Kind, ...]]:
        """The rows on the mean clean step with the kind of each, and what the kinds are."""
        code, count = self._labels.alike
        names = self._breakdown.phase_names
        unattributed = [Kind(unattributed_of(name), "rest", "", name) for name in names]
        own = np.flatnonzero(self._chosen.outermost & self._operation)[::-1]
        first = np.full(count, -1, np.int64)
        first[code[own]] = own
        labelled = Labelled(
            rows=self.rows,
            compensated=self.compensated,
            outer=self._outer,
            operation=self._operation,
            outermost=self._chosen.outermost,
            kind=code,
            rest=np.arange(len(unattributed)),
        )
        named = (self._kind(row) for row in first[len(unattributed) :].tolist())
        return labelled, (*unattributed, *named)

    def labelled_of(self, name: str) -> tuple[Labelled, tuple[Kind, ...]]:
        """As `labelled`, of the rows that a quantity can belong to."""
        labelled, named = self.labelled
        part = self._fed.part(name)
        return (labelled if part is None else part.labelled(labelled)), named

    def _kind(self, row: int) -> Kind:
        """Label of a row; nobody asks for that of no operation (-1)."""
        return Kind(
            name=self.label("name").of(row),
            kind=self.label("kind").of(row),
            layer=self.label("layer").of(row),
            phase=self.label("phase").of(row),
            processor=self._processor.of(row),
        )

    @cached_property
    def phase_spans(self) -> PhaseSpans | None:
        """Lengths of phases in clean steps by their own marks; None where there are none."""
        if self.steps.only_traced or not len(self.clean):
            return None
        return phase_spans(self._tables.marks, self.steps, self.clean, self._step_s)

    # --- tables -----------------------------------------------------------------------------

    @cached_property
    def _labels(self) -> RowLabels:
        def column(name: str) -> Names:
            return self._processor if name == "processor" else self.label(name)

        return RowLabels(column, self.compensated, self._outer, self._operation, bool(self.others))

    @cached_property
    def plain(self) -> PlainTables:
        """The tables as samples alone have them; only where `reason` is None."""
        chosen = self._chosen
        return PlainTables(
            self._breakdown,
            self._labels,
            self.compensated,
            self._operation,
            chosen.outermost,
            chosen.tells_allocations,
        )


def _has_other_sensors(device: DeviceFacts) -> bool:
    """True if the sensors are not those of the machine that trained."""
    return bool(device.get("emulated_on") or device.get("sensors_of"))
