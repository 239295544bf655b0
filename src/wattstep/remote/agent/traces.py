"""A trace that the board's torch exported, as operations in the time of the samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wattstep.errors import InvalidValueError
from wattstep.formats import kineto
from wattstep.formats.trace import Events, Longs, Trace
from wattstep.importing.choosing import take
from wattstep.importing.clocks.alignment import CRYSTAL, ClockMap
from wattstep.importing.operations import tables_of
from wattstep.remote.agent.layout import CLOCK

GROUP_NS: Final = 1_000_000_000  # marks of one group follow each other sooner
ROUNDED_NS: Final = 1_000  # until torch 2.0 times of a trace are whole µs
MOST_BRACKET_NS: Final = 100_000_000  # a mark that was interrupted for longer is none


@dataclass(frozen=True, kw_only=True)
class TraceColumns:
    """The operations of one window.

    Attributes:
        batches: Columns of `store.tables.OPERATIONS_SCHEMA`.
        uncertainty_ns: Of their times.
        notes: Notes for the reader of the run.
    """

    batches: tuple[dict[str, Any], ...]
    uncertainty_ns: int
    notes: tuple[str, ...]


def read_trace_window(
    path: Path, step: int, window: int, phases: Sequence[tuple[int, str]]
) -> TraceColumns:
    """Reads the trace of one step.

    Args:
        path: The file.
        step: Index of the step that was traced.
        window: Number of the window.
        phases: Begin in ns and name of the phases that were marked in the step: they tell where
            the trace does not.

    Raises:
        FormatError: It is no trace.
        InvalidValueError: It has no marks of the clock, or not of this step.
        MissingPartError: msgspec is not installed.
    """
    trace = kineto.read(path)
    events = trace.events
    if events is None or not len(events):
        raise InvalidValueError("it holds no operations")
    marks = np.array([name.startswith(CLOCK) for name in trace.names], bool)[events.name]
    clock = find_clock(trace, events, marks)
    operations = take(events, ~marks)
    operations = replace(
        operations, start_ns=clock.map(operations.start_ns), end_ns=clock.map(operations.end_ns)
    )
    tables = tables_of(replace(trace, events=operations))
    if tables.whole or step not in tables.steps["index"]:
        raise InvalidValueError("it does not hold its step", id="step-missing")
    batches = tuple(_finished(tables.operations(), step, window, phases))
    return TraceColumns(
        batches=batches,
        uncertainty_ns=int(clock.uncertainty_ns.max()),
        notes=tuple(f"traces of the board's torch: {note}" for note in trace.notes),
    )


def find_clock(trace: Trace, events: Events, marks: npt.NDArray[np.bool_]) -> ClockMap:
    """The clock of a trace from the marks in it.

    Each lies between the time in its own name and that in the next one's; of the marks at either
    end of the window the one with the narrowest such bracket counts. A rate is told only where the
    clocks part by more than the brackets: over a short step they say nothing of it.

    Raises:
        InvalidValueError: There are none.
    """
    cpu = np.array([name == "cpu" for name in trace.names], bool)[events.processor]
    annotations = _marked(trace, events, np.flatnonzero(marks & cpu))
    best: list[tuple[int, int, int]] = []  # trace time, monotonic time, half bracket
    last = None
    for (at, stamp_ns), (_, following) in pairwise(annotations):
        if not 0 <= following - stamp_ns < MOST_BRACKET_NS:
            last = None
            continue
        half = (following - stamp_ns + 1) // 2
        one = (at, stamp_ns + half, half)
        if last is None or not best or stamp_ns - last > GROUP_NS:
            best.append(one)
        elif half < best[-1][2]:
            best[-1] = one
        last = stamp_ns
    if not best:
        raise InvalidValueError("it has no marks of the clock", id="no-clock-marks")
    ends = [best[0], best[-1]]
    gained = (ends[1][1] - ends[0][1]) - (ends[1][0] - ends[0][0])
    if abs(gained) <= ends[0][2] + ends[1][2] + ROUNDED_NS:  # no drift that the marks could tell
        ends = [min(ends, key=lambda one: one[2])]
    half = max(half for _, _, half in ends) + ROUNDED_NS
    span = ends[-1][0] - ends[0][0]
    return ClockMap(
        from_ns=np.array([at for at, _, _ in ends], np.int64),
        to_ns=np.array([stamp_ns for _, stamp_ns, _ in ends], np.int64),
        uncertainty_ns=np.full(len(ends), half, np.int64),
        rate=1.0 + (gained / span if span else 0.0),
        rate_uncertainty=2 * half / span if span else CRYSTAL,
        method="marks",
    )


def _marked(trace: Trace, events: Events, rows: Longs) -> list[tuple[int, int]]:
    """Begin in the trace and monotonic time of the marks, in order."""
    annotations = []
    for row in rows.tolist():
        text = trace.names[int(events.name[row])].removeprefix(CLOCK)
        if text.isdecimal() and len(text) < 19:
            annotations.append((int(text), int(events.start_ns[row])))
    return [(at, stamp_ns) for stamp_ns, at in sorted(set(annotations))]


def _finished(
    batches: Iterator[Mapping[str, Any]], step: int, window: int, phases: Sequence[tuple[int, str]]
) -> Iterator[dict[str, Any]]:
    """The columns of this step, with its window, and phases by the marks where none is known."""
    starts = np.array([t_ns for t_ns, _ in phases], np.int64)
    names = np.array([None, *(name for _, name in phases)], dtype=object)
    for batch in batches:
        columns = dict(batch)
        begin = np.asarray(columns["start_ns"])
        known = _texts(columns["phase"])
        marked = names[np.searchsorted(starts, begin, side="right")]
        columns["phase"] = [
            own if own is not None else mark for own, mark in zip(known, marked, strict=True)
        ]
        columns["window"] = np.full(len(begin), window, np.int32)
        yield columns


def _texts(column: Any) -> list[str | None]:
    array = column if isinstance(column, pa.Array) else pa.array(column)
    texts: list[str | None] = array.cast(pa.string()).to_pylist()
    return texts
