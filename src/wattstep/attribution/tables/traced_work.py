"""Work on the processors of a run in its traced steps: on GPUs, or, without any, of threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wattstep.attribution.gaps import Spans
from wattstep.attribution.gpu_breakdown import (
    COMMUNICATION,
    COMPUTATION,
    KINDS,
    MEMORY,
    Whole,
    Work,
    kind_of_work,
)
from wattstep.attribution.gpu_idle import UNKNOWN
from wattstep.attribution.tables.operations import RunBreakdown
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

KIND_OF_THREAD_WORK = {"communication": COMMUNICATION, "data movement": MEMORY}
NO_WORK = ("scope", "profiler")


@dataclass(frozen=True, kw_only=True, eq=False)
class TracedWork:
    """The work of the traced steps of a run.

    Attributes:
        work: What ran, by processor or thread.
        on_gpu: Whether it is that of GPUs; else of threads of the CPU.
        damaged: Rows that end before they begin, and were left out.
        stream: Number of the stream or thread of each piece, shape (n,).
        call: When what launched each began and ended in ns, `UNKNOWN` where that is not known, shape
            (n, 2).
        size: Bytes that each moved, NaN where not known, shape (n,).
        waits: When the host waited for a device.
    """

    work: Work
    on_gpu: bool
    damaged: int
    stream: Whole
    call: IntArray
    size: FloatArray
    waits: Spans


def traced_work(breakdown: RunBreakdown) -> TracedWork:
    """The work on all GPUs of a run; of its threads where no GPU worked.

    Where a device was followed, as it would have run untraced (`attribution.tables.timeline`).

    Steps that follow each other are one stretch; steps that were traced one by one are one each.
    Of a thread, the outermost operations count.

    Args:
        breakdown: Of a run with traced operations: its `reason` is None.
    """
    on_gpu = bool(breakdown.others)
    rows = np.flatnonzero(_rows(breakdown, on_gpu))
    traced = breakdown.timeline.rows
    whole = traced.end_ns[rows] >= traced.start_ns[rows]
    damaged, rows = int((~whole).sum()), rows[whole]
    processor, processors = _processors(breakdown, rows, on_gpu)
    name = breakdown.label("name")
    work = Work(
        name=name.code[rows],
        names=[str(text) for text in name.texts],
        processor=processor,
        processors=processors,
        kind=_kinds(breakdown, on_gpu)[rows],
        start_ns=traced.start_ns[rows],
        end_ns=traced.end_ns[rows],
        stretch=_stretches(breakdown)[traced.window[rows]],
    )
    launch = breakdown.launch[rows]
    call = np.stack([traced.start_ns[launch], traced.end_ns[launch]], axis=1)
    call[launch < 0] = UNKNOWN
    return TracedWork(
        work=work,
        on_gpu=on_gpu,
        damaged=damaged,
        stream=breakdown.threads[traced.thread[rows]],
        call=call,
        size=breakdown.numbers("bytes")[rows],
        waits=_waits(breakdown),
    )


def _waits(breakdown: RunBreakdown) -> Spans:
    traced = breakdown.timeline.rows
    if traced.waits is None:
        return Spans.of([], [])
    rows = np.flatnonzero(traced.waits)
    return Spans.of(traced.start_ns[rows], traced.end_ns[rows])


def _rows(breakdown: RunBreakdown, on_gpu: bool) -> BoolArray:
    if on_gpu:
        processor = breakdown.label("processor")
        return ~processor.named("cpu") & ~processor.named("")
    kind = breakdown.label("kind")
    counts: BoolArray = breakdown.outermost & ~breakdown.rows.scope
    for name in NO_WORK:
        counts &= ~kind.named(name)
    return counts


def _processors(
    breakdown: RunBreakdown, rows: IntArray, on_gpu: bool
) -> tuple[IntArray, Sequence[str]]:
    """Of each row a position among the processors or threads that worked, and those."""
    if on_gpu:
        names = breakdown.label("processor")
        used, position = np.unique(names.code[rows], return_inverse=True)
        return position, [str(names.texts[code]) for code in used.tolist()]
    thread = breakdown.rows.thread[rows]
    used, first, position = np.unique(thread, return_index=True, return_inverse=True)
    return position, [f"thread {breakdown.thread(int(rows[row]))}" for row in first.tolist()]


def _kinds(breakdown: RunBreakdown, on_gpu: bool) -> Whole:
    """Kind of each row: of work on a GPU by its own name, for its kind is that of what launched it."""
    names = breakdown.label("name" if on_gpu else "kind")
    kinds = [
        kind_of_work(text) if on_gpu else KIND_OF_THREAD_WORK.get(text, COMPUTATION)
        for text in map(str, names.texts)
    ]
    return np.array([KINDS.index(kind) for kind in kinds], np.int8)[names.code]


def _stretches(breakdown: RunBreakdown) -> Whole:
    """Of each window the number of its stretch."""
    if not breakdown.steps.only_traced:
        return np.arange(len(breakdown.window_steps))
    return np.cumsum(np.diff(breakdown.window_steps, prepend=breakdown.window_steps[:1]) > 1)
