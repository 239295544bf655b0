"""From the events of a trace to the tables of a run: steps, operations with layer and phase, load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from wattstep.attribution.event_kinds import SCOPES, Labels, kinds_of
from wattstep.attribution.launching import find_links
from wattstep.attribution.nesting import Bools, Family, in_order, lanes_of, merged
from wattstep.errors import InvalidValueError
from wattstep.formats.recording import Recording
from wattstep.formats.trace import CATEGORIES, GPU_WORK, NONE, Codes, Events, Longs, Own, Trace
from wattstep.importing import own_export
from wattstep.importing.choosing import of_process, take
from wattstep.importing.columns import (
    Facts,
    OperationRows,
    no_marks,
    span_columns,
    step_columns,
    summary_columns,
)
from wattstep.importing.layers import (
    PATH,
    Scopes,
    annotation_scopes,
    layers_of,
    match_backward,
    module_scopes,
)
from wattstep.importing.odd_events import odd_events
from wattstep.importing.older_torch import mended
from wattstep.importing.phases import (
    OPTIMIZER,
    OURS,
    PHASES,
    Known,
    PhaseMarks,
    known_phases,
    phase_marks,
    phase_of_annotation,
    with_forward,
)
from wattstep.importing.slices import named_so, told_apart
from wattstep.importing.steps import TraceSteps, find_steps
from wattstep.schema.run_documents import ModelFacts

APART: Final = 6  # names of work whose power may differ; more would fit any power
OUTSIDE: Final = "(outside modules)"
NO_STEP: Final = "outside of all steps"
UNUSED_MARK: Final = "the mark of a step that the recording ended with"
SHADOW: Final = "where the work of an annotation ran on a GPU: its kernels are there themselves"
OTHER_PROCESS: Final = "of another process than the one that was chosen"
UNKNOWN: Final = (
    "of a category that is not known here: it may be work or none, or of another program"
)
NAMED: Final = 8  # categories in a note
WAIT: Final = "a GPU or its driver waiting: no work; the call that waits is there itself"
_REASONS: Final = (NO_STEP, UNUSED_MARK, SHADOW, WAIT)
_LEFT_OUT: Final[Mapping[str, str]] = {"gpu_annotation": SHADOW, "wait": WAIT}
_ROW, _MARK = -1, -2  # beside positions in `_REASONS`
Reasons = np.ndarray[Any, np.dtype[np.int8]]


@dataclass(frozen=True)
class LeftOut:
    """Events of a trace that became no row.

    Attributes:
        events: How many.
        total_s: How long they lasted together, in s.
    """

    events: int
    total_s: float


@dataclass(frozen=True, kw_only=True, eq=False)
class TraceTables:
    """Tables of a run from a trace; times are in the clock of the trace.

    Each event is a row of operations, the mark of a step, or left out for a reason:
    `events == rows + marks + sum(one.events for one in left_out.values())`.

    Attributes:
        steps: Columns of the table of steps.
        spans: Columns of the table of spans: stretches with work outside of all steps.
        summaries: Columns of the table of summaries.
        counters: What the trace sampled itself (memory, power), untouched, or None.
        busy: When work ran, as disjoint intervals in order, shape (k, 2) in ns: by processor, and
            on any of them under "all". Scopes and the profiler's own work are no work.
        busy_by: Of the keys of `busy`, when the outermost operations or kernels of one name ran:
            those of the names with most time, and the others together, as intervals likewise.
        workload: What the trace tells of the model and the machine: "modules" (the outermost),
            "gpus" (their names), "processors".
        notes: What a reader must know.
        events: How many intervals the trace had.
        marks: How many of them are steps now.
        rows: How many are rows of operations.
        left_out: The others by reason.
        whole: Whether the trace has no marks of steps and stands as one.
    """

    steps: dict[str, Any]
    spans: dict[str, Any]
    summaries: dict[str, Any]
    counters: Recording | None
    busy: Mapping[str, Longs]
    busy_by: Mapping[str, tuple[Longs, ...]]
    workload: ModelFacts
    notes: tuple[str, ...]
    events: int
    marks: int
    rows: int
    left_out: Mapping[str, LeftOut]
    whole: bool
    _rows: OperationRows | None

    def operations(self) -> Iterator[dict[str, Any]]:
        """Columns of the table of operations in batches, by step and begin."""
        return iter(()) if self._rows is None else self._rows.batches()


def tables_of(
    trace: Trace, *, warmup: int = 0, step_name: str | None = None, process: int | None = None
) -> TraceTables:
    """The tables of a run from a trace.

    Args:
        trace: As its format was read.
        warmup: How many steps at the beginning do not count.
        step_name: Regular expression for the annotations that mark steps, instead of the
            profiler's own marks.
        process: Number of the only process that counts; None: all that the trace has.

    Raises:
        InvalidValueError: The expression is none, or matches nothing; there is no such process, or
            several have marks of steps; no event is of a known category.
    """
    if trace.events is None or not len(trace.events):
        return _without_events(trace)
    if odd := odd_events(trace.events):
        return _without_odd(trace, trace.events, odd, (warmup, step_name, process))
    if trace.own is not None and process is None and _is_ours(trace, trace.own, step_name):
        return _of_own_export(trace, trace.events, trace.own, warmup)
    trace = told_apart(mended(trace), step_name)
    events = trace.events
    assert events is not None
    gone: dict[str, Bools] = {}
    known = np.array([name in CATEGORIES for name in trace.names], bool)[events.category]
    notes = _unknown(trace, events, known)
    if not known.all():
        gone[UNKNOWN] = ~known
    if process is not None:
        mine = known.copy()
        mine[known] = of_process(trace, take(events, known), process)
        if (mine != known).any():
            gone[OTHER_PROCESS] = known & ~mine
            known = mine
    tables = _Making(trace, take(events, known) if gone else events, warmup, step_name).tables()
    length_ns = events.end_ns - events.start_ns
    left_out = {
        reason: LeftOut(int(rows.sum()), int(length_ns[rows].sum()) * 1e-9)
        for reason, rows in gone.items()
    }
    return replace(
        tables,
        events=len(events),
        left_out={**tables.left_out, **left_out},
        notes=(*notes, *tables.notes),
    )


def _without_odd(
    trace: Trace,
    events: Events,
    odd: Mapping[str, Bools],
    settings: tuple[int, str | None, int | None],
) -> TraceTables:
    """The tables without events that cannot be.

    Raises:
        InvalidValueError: There are no others.
    """
    sound = ~np.logical_or.reduce(list(odd.values()))
    if not sound.any():
        raise InvalidValueError(
            f"the trace holds no event that can be: of each, {next(iter(odd))}",
            id="no-known-events",
        )
    own = None if trace.own is None else take(trace.own, sound)
    warmup, step_name, process = settings
    tables = tables_of(
        replace(trace, events=take(events, sound), own=own),
        warmup=warmup,
        step_name=step_name,
        process=process,
    )
    length_ns = (events.end_ns - events.start_ns).astype(np.float64)
    left_out = {
        reason: LeftOut(int(rows.sum()), float(length_ns[rows].sum()) * 1e-9)
        for reason, rows in odd.items()
    }
    notes = [f"{one.events} events were left out: {reason}" for reason, one in left_out.items()]
    return replace(
        tables,
        events=len(events),
        left_out={**tables.left_out, **left_out},
        notes=(*notes, *tables.notes),
    )


def _is_ours(trace: Trace, own: Own, step_name: str | None) -> bool:
    """True if the steps of an export are those that are asked for."""
    if step_name is None:
        return True
    assert trace.events is not None
    codes = np.unique(trace.events.name[own.track == own_export.STEPS]).tolist()
    return any(named_so(trace.names[code], step_name) for code in codes)


def _of_own_export(trace: Trace, events: Events, own: Own, warmup: int) -> TraceTables:
    """The tables of a run that was exported: nothing is inferred that is told."""
    rows = own_export.is_row(own)
    rows &= np.array([name in CATEGORIES for name in trace.names], bool)[events.category]
    if not rows.any():
        return _without_events(trace)
    mine = take(own, rows)
    tables = _Making(trace, take(events, rows), warmup, None, mine).tables()
    length_ns = int((events.end_ns - events.start_ns)[~rows].sum())
    beside = LeftOut(int((~rows).sum()), length_ns * 1e-9)
    return replace(
        tables,
        steps=own_export.with_marks(tables.steps, events, own, trace.names),
        spans=own_export.spans_of(events, own, trace.names),
        events=len(events),
        left_out={**tables.left_out, **({own_export.MARKS: beside} if beside.events else {})},
    )


def _unknown(trace: Trace, events: Events, known: Bools) -> list[str]:
    """Note about events of an unknown category.

    Raises:
        InvalidValueError: There are no others.
    """
    if known.all():
        return []
    codes, counts = np.unique(events.category[~known], return_counts=True)
    most = np.argsort(-counts, kind="stable")
    shown = ", ".join(
        f"{trace.names[codes[at]] or 'without a name'} ({counts[at]})" for at in most[:NAMED]
    )
    listed = shown + ", ..." * (len(codes) > NAMED)
    if not known.any():
        raise InvalidValueError(
            f"the trace holds no event of PyTorch: its categories are not known here: {listed}",
            id="no-known-events",
        )
    return [f"{int(counts.sum())} events are of categories that are not known here and were left "
            f"out: {listed}"]  # fmt: skip


def _without_events(trace: Trace) -> TraceTables:
    nothing = np.zeros(0, np.int64)
    steps = TraceSteps(
        index=nothing, start_ns=nothing, end_ns=nothing, mark=nothing, unused=nothing
    )
    return TraceTables(
        steps=step_columns(steps, no_marks(), 0),
        spans=span_columns(steps, nothing, nothing),
        summaries=summary_columns(trace.summaries),
        counters=trace.counters,
        busy={},
        busy_by={},
        workload=_workload(trace, (), ()),
        notes=(),
        events=0,
        marks=0,
        rows=0,
        left_out={},
        whole=False,
        _rows=None,
    )


class _Making:
    """Conversion of one trace to tables."""

    def __init__(
        self,
        trace: Trace,
        events: Events,
        warmup: int,
        step_name: str | None,
        own: Own | None = None,
    ) -> None:
        self._trace = trace
        self._names = trace.names
        self._events = events
        self._warmup = warmup
        on_gpu = np.array([name != "cpu" for name in self._names], bool)[events.processor]
        self._lanes = lanes_of(events, on_gpu)
        self._rows = in_order(events, self._names, self._lanes, on_gpu)
        self._family = Family(self._rows)
        self._works = ~self._of(*SCOPES, "overhead", *_LEFT_OUT)
        self._own = None if own is None else take(own, self._rows.source)
        # An export has steps that were not traced: no work stands in them.
        holding = self._works if own is None else self._works | self._of("step")
        self._steps = find_steps(
            self._rows, self._names, holding, step_name, events.process[self._rows.source]
        )
        self._operation = self._of("operation") & ~on_gpu[self._rows.source]
        source = self._rows.source
        self._links = find_links(
            self._rows,
            self._family,
            correlation=events.correlation[source],
            external=events.external[source],
            runtime=self._of("runtime"),
            operation=self._operation,
        )

    def tables(self) -> TraceTables:
        """All of them."""
        rows, steps, trace = self._rows, self._steps, self._trace
        known, scopes, layer = self._layers()
        marks = phase_marks(rows, self._family, known, self._names, steps)
        common = marks.common(len(steps))
        phase = self._phases(known, marks)
        step = self._links.taken_over(steps.at(rows.start_ns))
        columns = step_columns(steps, marks if common else no_marks(), self._warmup)
        kind = kinds_of(rows, self._names, self._family, self._links, self._operation)
        layers = self._layer_labels(layer, scopes, phase.codes)
        if (own := self._own) is not None:
            untracked, names = own.track == NONE, self._names
            step = own_export.step_positions(own.number, steps.index, step)
            kind = own_export.labels(own.kind, names, kind, untracked)
            layers = own_export.labels(own.layer, names, layers, untracked)
            phase = own_export.labels(own.phase, names, phase, untracked)
            if not steps.whole:
                columns = own_export.with_flags(columns, take(own, steps.mark), self._warmup)
        reasons = self._reasons(step)
        made = OperationRows(
            rows=rows,
            family=self._family,
            lanes=self._lanes,
            facts=Facts.of(self._events),
            names=self._names,
            step=step,
            index=steps.index,
            becomes_row=reasons == _ROW,
            kind=kind,
            layer=layers,
            phase=phase,
            allocated=None if own is None else own.allocated,
            outermost=self._outermost(),
            launch=self._launch(),
        )
        gone = reasons == _REASONS.index(NO_STEP)
        return TraceTables(
            steps=columns,
            spans=span_columns(steps, rows.start_ns[gone], rows.end_ns[gone]),
            summaries=summary_columns(trace.summaries),
            counters=trace.counters,
            busy=self._busy(),
            busy_by=self._busy_by(),
            workload=_workload(trace, scopes.roots, self._processors()),
            notes=(*steps.notes, *(self._notes(marks, common) if own is None else ())),
            events=len(rows),
            marks=int((reasons == _MARK).sum()),
            rows=int((reasons == _ROW).sum()),
            left_out=_left_out(reasons, rows.duration_ns),
            whole=steps.whole,
            _rows=made,
        )

    def _of(self, *categories: str) -> Bools:
        """Rows of these categories."""
        table: Bools = np.array([name in categories for name in self._names], bool)
        return table[self._rows.category]

    # --- layers and phases ------------------------------------------------------------------

    def _launch(self) -> Codes:
        """Row that launched each row of work on a GPU."""
        launch = np.full(len(self._rows), NONE, np.int32)
        launch[self._links.gpu] = self._links.launch
        return launch

    def _layers(self) -> tuple[Known, Scopes, Codes]:
        """Phases of rows, the rows that open layers, and the layer of each row."""
        rows, family, names = self._rows, self._family, self._names
        annotation = self._of("annotation", "step") & ~rows.on_gpu
        categories = np.full(len(rows), NONE, np.int32)
        categories[annotation], categories[self._operation] = 1, 0
        known = known_phases(rows, family, categories, names)
        backward = match_backward(
            rows,
            family,
            known,
            self._operation,
            self._events.sequence[rows.source],
            self._events.forward_thread[rows.source],
        )
        ours: Bools = np.array([name.startswith(PATH) for name in names], bool)
        forward = self._of("module") | (annotation & ours[rows.name])
        if forward.any():
            scopes = module_scopes(rows, family, forward, names)
        else:
            scopes = annotation_scopes(rows, self._free, names)
        forward[backward.forward[backward.forward != NONE]] = True
        return with_forward(known, family, forward), scopes, layers_of(scopes, family, backward)

    @property
    def _free(self) -> Bools:
        """Annotations that mark no step, name no phase and are none of ours."""
        words: Bools = np.array([_is_free(name) for name in self._names], bool)
        free = self._of("annotation") & words[self._rows.name] & ~self._rows.on_gpu
        free[self._steps.mark[self._steps.mark != NONE]] = False
        return free

    def _phases(self, known: Known, marks: PhaseMarks) -> Labels:
        """Phase of each row.

        Where no name tells, the marks of the step decide by time; where it has none, the outermost
        annotation does.
        """
        rows = self._rows
        phase = known.inherited.copy()
        unknown = np.flatnonzero((phase == NONE) & ~rows.on_gpu)
        begins = rows.start_ns[unknown]
        phase[unknown] = marks.at(begins, self._steps.at(begins))
        annotations = self._outermost_annotations()
        missing = (phase == NONE) & (annotations.codes != NONE)
        phase[missing] = annotations.codes[missing] + len(PHASES)
        return Labels(self._links.taken_over(phase), (*PHASES, *annotations.texts))

    def _outermost_annotations(self) -> Labels:
        """The outermost of the free annotations around each row, itself included."""
        family, rows, free = self._family, self._rows, self._free
        within = family.inherited(np.where(free, np.int32(0), np.int32(NONE)))
        outer = np.flatnonzero(free & (family.above(within) == NONE))
        used, inverse = np.unique(rows.name[outer], return_inverse=True)
        own = np.full(len(rows), NONE, np.int32)
        own[outer] = inverse
        # Inner ones say nothing: they take the outermost's over.
        texts = tuple(self._names[code] for code in used.tolist())
        return Labels(family.inherited(own), texts)

    def _layer_labels(self, layer: Codes, scopes: Scopes, phase: Codes) -> Labels:
        """Layers, with those rows marked that are known to lie outside of all modules."""
        texts = scopes.names
        if scopes.roots:
            outside = (layer == NONE) & (phase != OPTIMIZER) & self._works & ~self._rows.on_gpu
            layer[outside] = len(texts)
            texts = (*texts, OUTSIDE)
        return Labels(self._links.taken_over(layer), texts)

    # --- the rest ---------------------------------------------------------------------------

    def _outermost(self) -> Bools:
        """True for rows that no operation of the framework encloses, and that are no mere grouping."""
        scope = self._of(*SCOPES)
        inside = np.where(scope, np.int32(NONE), np.int32(1))
        inside[self._of("annotation", "step")] = 0
        above = self._family.above(self._family.inherited(inside))
        outermost: Bools = (above != 1) & ~scope
        return outermost

    def _reasons(self, step: Codes) -> Reasons:
        """Fate of each row: a position in `_REASONS`, or `_ROW` or `_MARK`."""
        reasons = np.full(len(self._rows), _ROW, np.int8)
        reasons[step == NONE] = _REASONS.index(NO_STEP)
        for category, reason in _LEFT_OUT.items():
            reasons[self._of(category)] = _REASONS.index(reason)
        reasons[self._steps.unused] = _REASONS.index(UNUSED_MARK)
        reasons[self._steps.mark[self._steps.mark != NONE]] = _MARK
        return reasons

    def _processors(self) -> tuple[str, ...]:
        codes = np.unique(self._events.processor).tolist()
        return tuple(sorted(self._names[code] for code in codes))

    def _busy(self) -> dict[str, Longs]:
        rows, works = self._rows, self._works
        processor = self._events.processor[rows.source]
        busy = {"all": merged(rows.start_ns[works], rows.end_ns[works])}
        for code in np.unique(processor[works]).tolist():
            mine = works & (processor == code)
            busy[self._names[code]] = merged(rows.start_ns[mine], rows.end_ns[mine])
        return busy

    def _busy_by(self) -> dict[str, tuple[Longs, ...]]:
        rows, apart = self._rows, self._works & self._outermost()
        processor = self._events.processor[rows.source]
        busy = {"all": self._by_name(np.flatnonzero(apart))}
        for code in np.unique(processor[apart]).tolist():
            busy[self._names[code]] = self._by_name(np.flatnonzero(apart & (processor == code)))
        return busy

    def _by_name(self, mine: Longs) -> tuple[Longs, ...]:
        """When those of each frequent name ran, and the others."""
        rows = self._rows
        total = np.bincount(rows.name[mine], weights=rows.duration_ns[mine])
        most = np.argsort(-total, kind="stable")[:APART]
        group = np.full(len(total) + 1, APART)
        group[most] = np.arange(len(most))
        codes = group[rows.name[mine]]
        groups = [mine[codes == code] for code in range(APART + 1)]
        together = [merged(rows.start_ns[each], rows.end_ns[each]) for each in groups]
        return tuple(each for each in together if len(each))

    def _notes(self, marks: PhaseMarks, common: bool) -> list[str]:
        notes = []
        if len(marks.step) and not common:
            notes.append("steps differ in the order of their phases: none are marked in them")
        work = self._rows.on_gpu & self._of(*GPU_WORK)
        work[self._links.gpu] = False
        if lost := int(work.sum()):
            notes.append(
                f"the trace does not say what launched {lost} pieces of work on a GPU: they count "
                "to the step in which they ran, and have no layer or phase"
            )
        return notes


def _is_free(annotation: str) -> bool:
    """True if an annotation names neither a phase nor something of wattstep's own."""
    return not annotation.startswith(OURS) and phase_of_annotation(annotation) == NONE


def _left_out(reasons: Reasons, duration_ns: Longs) -> dict[str, LeftOut]:
    left_out = {}
    for code, reason in enumerate(_REASONS):
        mine = reasons == code
        if count := int(mine.sum()):
            left_out[reason] = LeftOut(count, int(duration_ns[mine].sum()) * 1e-9)
    return left_out


def _workload(trace: Trace, roots: tuple[str, ...], processors: tuple[str, ...]) -> ModelFacts:
    return {
        "modules": list(roots),
        "gpus": list(trace.device.get("gpus", ())),
        "processors": list(processors),
    }
