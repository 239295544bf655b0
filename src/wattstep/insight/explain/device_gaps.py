"""Causes of idle time of GPUs, and the host's activity meanwhile, in runs whose traces tell both."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from wattstep.attribution.gaps import (
    DISPATCH,
    WAITING,
    Spans,
    by_cause,
    device_gap_spans,
    joined,
)
from wattstep.attribution.tables.operations import RunBreakdown
from wattstep.insight.explain.operations import not_negative
from wattstep.insight.explain.section import Table
from wattstep.run import Run
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.figure import Figure, Status
from wattstep.stats.statistics import mean_figure

DATA: Final = "data loading"
OPTIMIZER: Final = "optimizer bookkeeping"
FRAMEWORK: Final = "framework: module and interpreter code between operations"
WORKING: Final = "operations"
# Calls that return when a device has done something; asynchronous ones do not.
_WAITS: Final = re.compile(
    r"^(cuda|hip|cu|musa)(Device|Stream|Event|Ctx)Synchronize|^(cuda|hip)Memcpy(WithStream)?$|"
    r"^aclrtSynchronize"
)
_OF_PHASE: Final = {"data": DATA, "optimizer": OPTIMIZER}


@dataclass(frozen=True, kw_only=True)
class TracedStep:
    """Bounds and rows of a traced step."""

    begin_ns: int
    end_ns: int
    rows: IntArray


def is_wait(breakdown: RunBreakdown, rows: IntArray) -> BoolArray:
    """Mask of the traced rows that are calls that wait for a device, shape (rows,)."""
    code = breakdown.label("name").code[rows]
    used, at = np.unique(code, return_inverse=True)
    texts = breakdown.label("name").texts[used]
    waits = np.array([bool(_WAITS.match(str(text))) for text in texts], bool)
    mask: BoolArray = waits[at] if len(rows) else np.zeros(0, bool)
    return mask


def device_tables(run: Run) -> tuple[tuple[Table, ...], tuple[str, ...]]:
    """Tables of the idle time of each GPU and of the host by cause, and sentences."""
    breakdown = run.breakdown
    steps = traced_steps(breakdown)
    hosts = [host_activity(breakdown, step) for step in steps]
    tables, sentences = [], []
    for device in breakdown.others:
        by_step = [
            _device(breakdown, step, host, device) for step, host in zip(steps, hosts, strict=True)
        ]
        rows = _rows(by_step, breakdown)
        tables.append(_table(device, f"Idle time of {device}", rows))
        sentences.append(_sentence(device, by_step, breakdown))
    own = [_host_idle(step, host) for step, host in zip(steps, hosts, strict=True)]
    tables.append(
        _table("host", "Time in which the host carries out nothing", _rows(own, breakdown))
    )
    return tuple(tables), tuple(sentences)


def idle_of_device(breakdown: RunBreakdown, device: str) -> list[dict[str, float]]:
    """Of each traced step, time in s in which a device has no work, by cause."""
    return [
        _device(breakdown, step, host_activity(breakdown, step), device)
        for step in traced_steps(breakdown)
    ]


def traced_steps(breakdown: RunBreakdown) -> list[TracedStep]:
    """Traced steps; work of a GPU goes on into the next, so its rows are those of all."""
    edges, window = breakdown.compensated.traced.edges_ns, breakdown.rows.window
    bounds = np.searchsorted(window, np.arange(len(edges) + 1))
    steps = []
    for number, edge in enumerate(edges):
        first = bounds[max(number - 1, 0)]
        steps.append(
            TracedStep(
                begin_ns=int(edge[0]),
                end_ns=int(edge[-1]),
                rows=np.arange(first, bounds[number + 1]),
            )
        )
    return steps


def spans_of(breakdown: RunBreakdown, rows: IntArray, step: TracedStep) -> Spans:
    """When traced rows ran, as far as it lies within a step."""
    traced = breakdown.rows
    return Spans.of(traced.start_ns[rows], traced.end_ns[rows]).within(step.begin_ns, step.end_ns)


def host_activity(breakdown: RunBreakdown, step: TracedStep) -> dict[str, Spans]:
    """Activity of the host over time, the more telling first; threads that work tell more than others."""
    rows = step.rows[breakdown.processor.at(step.rows).named("cpu")]
    working, waiting = [], []
    for thread in np.unique(breakdown.rows.thread[rows]):
        mine = rows[breakdown.rows.thread[rows] == thread]
        waits = spans_of(breakdown, mine[is_wait(breakdown, mine)], step).union()
        done = mine[breakdown.outermost[mine] & breakdown.is_operation[mine]]
        working.append(spans_of(breakdown, done, step).without(waits))
        waiting.append(waits)
    return {
        WORKING: joined(working).union(),
        WAITING: joined(waiting).union(),
        **by_phase(breakdown, step, rows),
    }


def by_phase(breakdown: RunBreakdown, step: TracedStep, rows: IntArray) -> dict[str, Spans]:
    """When the host was in a phase that names a cause, by scopes and by marks of the step."""
    phase = breakdown.label("phase")
    traced = breakdown.compensated.traced
    at = int(np.searchsorted(traced.edges_ns[:, 0], step.begin_ns, side="right")) - 1
    edges = traced.edges_ns[at]
    phases = {}
    for name, cause in _OF_PHASE.items():
        scopes = rows[~breakdown.is_operation[rows] & phase.at(rows).named(name)]
        marked = [number for number, text in enumerate(traced.names) if text == name]
        spans = Spans.of(edges[:-1][marked], edges[1:][marked])
        phases[cause] = joined([spans_of(breakdown, scopes, step), spans]).union()
    return phases


def work_of_device(breakdown: RunBreakdown, step: TracedStep, device: str) -> Spans:
    """When a device worked in a step."""
    rows = step.rows[breakdown.processor.at(step.rows).named(device)]
    return spans_of(breakdown, rows, step)


def gap_spans(
    breakdown: RunBreakdown, step: TracedStep, host: Mapping[str, Spans], device: str
) -> dict[str, Spans]:
    """When a device has no work in a step, by cause."""
    rows = step.rows[breakdown.processor.at(step.rows).named(device)]
    traced, launch = breakdown.rows, breakdown.launch[rows]
    launched = np.where(launch >= 0, traced.start_ns[launch], np.nan).astype(np.float64)
    work = Spans.of(traced.start_ns[rows], traced.end_ns[rows])
    named = {DISPATCH if name == WORKING else name: spans for name, spans in host.items()}
    return device_gap_spans(step.begin_ns, step.end_ns, work, launched, named, FRAMEWORK)


def _device(
    breakdown: RunBreakdown, step: TracedStep, host: Mapping[str, Spans], device: str
) -> dict[str, float]:
    parts = gap_spans(breakdown, step, host, device)
    return {name: spans.total_s for name, spans in parts.items()}


def _host_idle(step: TracedStep, host: Mapping[str, Spans]) -> dict[str, float]:
    holes = host[WORKING].holes(step.begin_ns, step.end_ns)
    causes = {name: spans for name, spans in host.items() if name != WORKING}
    return by_cause(holes, causes, FRAMEWORK)


def _rows(by_step: list[dict[str, float]], breakdown: RunBreakdown) -> list[dict[str, Any]]:
    step = breakdown.step_time.value or np.nan
    rows = []
    for cause in by_step[0]:
        seconds = np.array([one[cause] for one in by_step])
        if seconds.any():
            time = _figure(seconds, breakdown)
            rows.append({"cause": cause, "time": time, "share": time.share_of(step)})
    return sorted(rows, key=lambda row: -(row["time"].value or 0.0))


def _figure(seconds: FloatArray, breakdown: RunBreakdown) -> Figure:
    figure = mean_figure(seconds, "s", breakdown.step_time.source or "", Status.MEASURED)
    return not_negative(figure, "time without work, cut by what the trace shows meanwhile")


def _table(name: str, title: str, rows: list[dict[str, Any]]) -> Table:
    columns = {"cause": "cause", "time": "time", "share": "of the step"}
    return Table(name=name, title=title, columns=columns, rows=tuple(rows))


def _sentence(device: str, by_step: list[dict[str, float]], breakdown: RunBreakdown) -> str:
    step = breakdown.step_time.value or np.nan
    means = {cause: float(np.mean([one[cause] for one in by_step])) for cause in by_step[0]}
    idle = sum(means.values())
    if idle <= 0:
        return f"{device} is never without work."
    most = max(means, key=lambda cause: means[cause])
    return (
        f"{device} has no work for {idle / step:.0%} of a step, most of all because of: {most} "
        f"({means[most] / idle:.0%} of it)."
    )
