"""The work on GPUs that traces hold, and what kept them busy, without making a run of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wattstep.attribution.gaps import Spans, is_wait
from wattstep.attribution.gpu_breakdown import (
    KINDS,
    MEMORY,
    KernelTime,
    Occupancy,
    Work,
    kernel_times,
    kind_of_work,
    occupancies,
)
from wattstep.attribution.gpu_copies import ACROSS, copies_of
from wattstep.attribution.gpu_idle import UNKNOWN, StreamIdle, idle_by_cause
from wattstep.attribution.nesting import Bools, first_with
from wattstep.formats.trace import GPU_WORK, NONE, Codes, Events, Longs, Trace
from wattstep.importing.traces import read_trace


@dataclass(frozen=True, kw_only=True)
class GpuBreakdown:
    """Work of the GPUs of a trace.

    Attributes:
        occupancies: Of each GPU.
        kernels: Each kernel of each GPU, most time first.
        idle: Each stream's gaps by their cause.
    """

    occupancies: tuple[Occupancy, ...]
    kernels: tuple[KernelTime, ...]
    idle: tuple[StreamIdle, ...]


def gpu_breakdown_of_trace(path: Path) -> GpuBreakdown:
    """Busy time of the GPUs of a trace, from its first work on them to the last.

    Every piece of work of the trace counts, also outside of marked steps; what waits, and the
    shadows of annotations, are no work.

    Args:
        path: A trace of any format that `wattstep import` knows. Without work on a GPU all is empty.

    Raises:
        InvalidValueError: It cannot be read.
    """
    trace = read_trace(path)
    if trace.events is None:
        return GpuBreakdown(occupancies=(), kernels=(), idle=())
    rows = np.flatnonzero(_of(trace, *GPU_WORK)[trace.events.category])
    work = _work(trace, trace.events, rows)
    return GpuBreakdown(
        occupancies=occupancies(work),
        kernels=kernel_times(work),
        idle=idle_by_cause(
            work,
            trace.events.thread[rows],
            _asked(trace, trace.events, rows),
            (copies_of(trace.names) == ACROSS)[trace.events.name[rows]],
            _waits(trace, trace.events),
        ),
    )


def _of(trace: Trace, *categories: str) -> Bools:
    """Mask of the names that are of these categories."""
    return np.array([name in categories for name in trace.names], bool)


def _work(trace: Trace, events: Events, rows: Longs) -> Work:
    used, processor = np.unique(events.processor[rows], return_inverse=True)
    return Work(
        name=events.name[rows],
        names=trace.names,
        processor=processor,
        processors=[trace.names[code] for code in used.tolist()],
        kind=_kinds(trace, events, rows),
        start_ns=events.start_ns[rows],
        end_ns=events.end_ns[rows],
        stretch=np.zeros(len(rows), np.int8),
    )


def _kinds(trace: Trace, events: Events, rows: Longs) -> Codes:
    """By name; a copy or a fill is one whatever it is called."""
    position: Mapping[str, int] = {kind: place for place, kind in enumerate(KINDS)}
    table = np.zeros(len(trace.names), np.int32)
    for code in np.unique(events.name[rows]).tolist():
        table[code] = position[kind_of_work(trace.names[code])]
    kinds: Codes = table[events.name[rows]]
    kinds[_of(trace, "copy", "set")[events.category[rows]]] = position[MEMORY]
    return kinds


def _asked(trace: Trace, events: Events, rows: Longs) -> Longs:
    """When the call of the runtime began that asked for each piece of work."""
    calls = np.where(_of(trace, "runtime")[events.category], events.correlation, NONE)
    call = first_with(calls, events.correlation[rows])
    return np.where(call == NONE, UNKNOWN, events.start_ns[call])


def _waits(trace: Trace, events: Events) -> Spans:
    """When calls of the runtime waited for a GPU."""
    waiting: Bools = np.array([is_wait(name) for name in trace.names], bool)
    rows = np.flatnonzero(_of(trace, "runtime")[events.category] & waiting[events.name])
    return Spans.of(events.start_ns[rows], events.end_ns[rows])
