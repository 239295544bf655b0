"""A step by what is done in it: computing, moving data, and what is neither: launches and code between operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from wattstep.attribution.gpu_breakdown import MEMORY, kind_of_work
from wattstep.attribution.tables.covered import covered_s
from wattstep.attribution.tables.operations import RunBreakdown
from wattstep.errors import InvalidValueError
from wattstep.run.metrics import Parts
from wattstep.schema.arrays import BoolArray, FloatArray
from wattstep.schema.figure import Figure, Status, missing, weakest
from wattstep.stats.statistics import ratio_figure

MOVEMENT = "data movement"  # kind of operation
NO_OPERATION = ("runtime call", "profiler")  # kinds that ask for work, and do none


@dataclass(frozen=True, kw_only=True, eq=False)
class _Times:
    """Times of each traced step in s, shape (windows,)."""

    step: FloatArray
    compute: FloatArray
    movement: FloatArray
    method: str


def compute_share(run: Parts) -> Figure | None:
    """Time in which operations compute over that of the step.

    Where a device worked: in which anything was computed on it.
    """
    return _share(run, lambda times: times.compute, "in which anything was computed")


def data_movement_share(run: Parts) -> Figure | None:
    """Time in which operations bring values elsewhere, or into another layout, over that of the step.

    Where a device worked: in which it only copied or filled.
    """
    return _share(run, lambda times: times.movement, "in which values were only moved")


def launch_share(run: Parts) -> Figure | None:
    """The rest of the step: launches, calls of the framework, its code between operations, waiting."""
    return _share(
        run,
        lambda times: np.maximum(times.step - times.compute - times.movement, 0.0),
        "in which no operation ran",
    )


def _share(run: Parts, part: Callable[[_Times], FloatArray], words: str) -> Figure | None:
    breakdown = run.breakdown
    if breakdown.reason is not None:
        return missing("ratio", breakdown.reason)
    if breakdown.by_events is not None:  # whose table has no operations
        return None
    try:
        times = _on_devices(breakdown) if breakdown.others else _on_host(breakdown)
    except InvalidValueError as error:  # operations of a trace that cannot be
        return missing("ratio", str(error))
    status = weakest([Status.ATTRIBUTED, breakdown.steps.status])
    figure = ratio_figure(part(times), times.step, "ratio", breakdown.traced_by, status)
    if figure.low is None or figure.high is None:
        return figure
    return replace(
        figure, low=max(figure.low, 0.0), high=min(figure.high, 1.0),
        method=f"time {words}, {times.method}; {figure.method}",
    )  # fmt: skip


def _on_host(breakdown: RunBreakdown) -> _Times:
    """Of operations of threads, each with its share of the time in which several ran."""
    compensated = breakdown.compensated
    windows = len(compensated.unattributed_s)
    kind = breakdown.label("kind")
    moves = breakdown.is_operation & kind.named(MOVEMENT)
    computes = breakdown.is_operation & ~moves
    for each in NO_OPERATION:
        computes &= ~kind.named(each)

    def total(which: BoolArray) -> FloatArray:
        window, seconds = breakdown.rows.window[which], compensated.time_s[which]
        return np.bincount(window, seconds, minlength=windows).astype(np.float64)

    whole = total(np.ones_like(moves)) + compensated.unattributed_s.sum(axis=1)
    return _Times(
        step=whole, compute=total(computes), movement=total(moves),
        method="by the kinds of traced operations",
    )  # fmt: skip


def _on_devices(breakdown: RunBreakdown) -> _Times:
    """Of devices, each instant once, as steps would run untraced where that is known."""
    timeline = breakdown.timeline
    course = timeline.courses[0]
    names = breakdown.label("name")
    copy_or_fill = np.array([kind_of_work(str(text)) == MEMORY for text in names.texts], bool)
    there = ~breakdown.processor.named("cpu")
    computes = there & ~copy_or_fill[names.code]
    windows = len(course.begin_ns)
    computed, worked = (
        np.array(covered_s(timeline.rows, np.flatnonzero(which), windows))
        for which in (computes, there)
    )
    step = (course.end_ns - course.begin_ns) * 1e-9
    return _Times(
        step=np.maximum(step, worked), compute=computed, movement=worked - computed,
        method=f"on {' and '.join(breakdown.others)}",
    )  # fmt: skip
