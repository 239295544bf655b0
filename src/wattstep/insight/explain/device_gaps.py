"""Causes of idle time of GPUs, and the host's activity meanwhile, in runs whose traces tell both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from wattstep.attribution.gaps import (
    COPY,
    DISPATCH,
    SYNCHRONISATION,
    WAITING,
    Spans,
    by_cause,
    device_gap_spans,
    joined,
)
from wattstep.attribution.gpu_copies import ACROSS, copies_of
from wattstep.attribution.tables.operations import RunBreakdown
from wattstep.attribution.tables.timeline import Timeline
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
UNTRACED: Final = "traced steps, played again without the tracer's cost"
# What the host does, in words of a device that meanwhile has nothing to do.
_OF_HOST: Final = {WORKING: DISPATCH, WAITING: SYNCHRONISATION}
_OF_PHASE: Final = {"data": DATA, "optimizer": OPTIMIZER}


def cost_of_tracing(timeline: Timeline) -> tuple[str, ...]:
    """What was taken off traced steps, and what is left; nothing of steps as they were traced."""
    cost = timeline.cost
    if cost is None:
        return ()
    parts = [
        f"{1e6 * seconds:.2g} µs {words}"
        for seconds, words in (
            (cost.operation_s, "an operation of the host"),
            (cost.call_s, "a call of the runtime"),
            (cost.piece_s, "a piece of work on the device"),
        )
        if np.isfinite(seconds)
    ]
    unknown = [
        words
        for seconds, words in (
            (cost.operation_s, "the host: it waits in every phase"),
            (cost.piece_s, "the device: in every phase it has nothing to do at times"),
        )
        if not np.isfinite(seconds)
    ]
    lines = []
    if parts:
        lines.append(f"Tracing cost {', '.join(parts)}; it was taken off.")
    lines += [f"What tracing cost is not known of {each}." for each in unknown]
    longer = "longer" if timeline.residual >= 0 else "shorter"
    lines.append(
        "Times of host and devices are of traced steps, played again with the queue as full as it is "
        f"in clean ones; so played they last {100 * abs(timeline.residual):.1f} % {longer} than those."
    )
    return tuple(lines)


@dataclass(frozen=True, kw_only=True)
class TracedStep:
    """Bounds and rows of a traced step.

    Attributes:
        number: Of its window.
        rows: Positions of its rows.
        begin_ns: Of the step, where a device trains when that came to it.
        end_ns: Likewise.
        edges_ns: When the host began each phase, and ended the last, shape (phases + 1,).
        start_ns: Begin of each row of the run, shape (n,).
        finish_ns: Its end, shape (n,).
    """

    number: int
    rows: IntArray
    begin_ns: int
    end_ns: int
    edges_ns: IntArray
    start_ns: IntArray
    finish_ns: IntArray


def waits_of(breakdown: RunBreakdown, rows: IntArray) -> BoolArray:
    """Mask of the traced rows that are calls that wait for a device, shape (rows,)."""
    waits = breakdown.rows.waits
    return np.zeros(len(rows), bool) if waits is None else waits[rows]


def device_tables(run: Run) -> tuple[tuple[Table, ...], tuple[str, ...]]:
    """Tables of the idle time of each GPU and of the host by cause, and sentences."""
    breakdown = run.breakdown
    steps = traced_steps(breakdown)
    hosts = [host_activity(breakdown, step) for step in steps]
    tables, sentences = [], []
    for device in breakdown.others:
        by_step = [
            {
                cause: spans.total_s
                for cause, spans in gap_spans(breakdown, step, host, device).items()
            }
            for step, host in zip(steps, hosts, strict=True)
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
    """Of each traced step, time in s in which a device computes nothing, by cause."""
    gaps = [
        gap_spans(breakdown, step, host_activity(breakdown, step), device)
        for step in traced_steps(breakdown)
    ]
    means = {
        cause: by_window(breakdown, np.array([one[cause].total_s for one in gaps]))
        for cause in (gaps[0] if gaps else ())
    }
    return [
        {cause: float(seconds[window]) for cause, seconds in means.items()}
        for window in range(len(breakdown.window_steps))
    ]


def traced_steps(breakdown: RunBreakdown) -> list[TracedStep]:
    """Traced steps, each as often as the timeline has courses, one after the other.

    Work of a GPU goes on into the next, so the rows of a step are those of the one before it, too.
    """
    count = len(breakdown.window_steps)
    bounds = np.searchsorted(breakdown.rows.window, np.arange(count + 1))
    return [
        TracedStep(
            number=number,
            rows=np.arange(bounds[max(number - 1, 0)], bounds[number + 1]),
            begin_ns=int(course.begin_ns[number]),
            end_ns=int(course.end_ns[number]),
            edges_ns=course.edges_ns[number],
            start_ns=course.start_ns,
            finish_ns=course.finish_ns,
        )
        for number in range(count)
        for course in breakdown.timeline.courses
    ]


def traced_step_s(breakdown: RunBreakdown) -> float:
    """Length of a mean traced step in s, which is longer than a clean one where tracing cost is not known."""
    lengths = [step.end_ns - step.begin_ns for step in traced_steps(breakdown)]
    return float(np.mean(lengths)) * 1e-9 if lengths else float("nan")


def by_window(breakdown: RunBreakdown, values: FloatArray) -> FloatArray:
    """Mean over the courses of each window.

    Args:
        breakdown: Of the run.
        values: Of `traced_steps`, shape (steps, ...).
    """
    courses = len(breakdown.timeline.courses)
    means: FloatArray = values.reshape(-1, courses, *values.shape[1:]).mean(axis=1)
    return means


def spans_of(rows: IntArray, step: TracedStep) -> Spans:
    """When traced rows ran, as far as it lies within a step on the host or on a device."""
    begin = min(step.begin_ns, int(step.edges_ns[0]))
    end = max(step.end_ns, int(step.edges_ns[-1]))
    return Spans.of(step.start_ns[rows], step.finish_ns[rows]).within(begin, end)


def host_activity(breakdown: RunBreakdown, step: TracedStep) -> dict[str, Spans]:
    """Activity of the host over time, the more telling first; threads that work tell more than others."""
    rows = step.rows[breakdown.processor.at(step.rows).named("cpu")]
    working, waiting = [], []
    for thread in np.unique(breakdown.rows.thread[rows]):
        mine = rows[breakdown.rows.thread[rows] == thread]
        waits = spans_of(mine[waits_of(breakdown, mine)], step).union()
        done = mine[breakdown.outermost[mine] & breakdown.is_operation[mine]]
        working.append(spans_of(done, step).without(waits))
        waiting.append(waits)
    return {
        WORKING: joined(working).union(),
        WAITING: joined(waiting).union(),
        **by_phase(breakdown, step, rows),
    }


def by_phase(breakdown: RunBreakdown, step: TracedStep, rows: IntArray) -> dict[str, Spans]:
    """When the host was in a phase that names a cause, by scopes and by marks of the step."""
    phase = breakdown.label("phase")
    traced, edges = breakdown.compensated.traced, step.edges_ns
    phases = {}
    for name, cause in _OF_PHASE.items():
        scopes = rows[~breakdown.is_operation[rows] & phase.at(rows).named(name)]
        marked = [number for number, text in enumerate(traced.names) if text == name]
        spans = Spans.of(edges[:-1][marked], edges[1:][marked])
        phases[cause] = joined([spans_of(scopes, step), spans]).union()
    return phases


def work_of_device(breakdown: RunBreakdown, step: TracedStep, device: str) -> Spans:
    """When a device worked in a step."""
    rows = step.rows[breakdown.processor.at(step.rows).named(device)]
    return spans_of(rows, step).within(step.begin_ns, step.end_ns)


def gap_spans(
    breakdown: RunBreakdown, step: TracedStep, host: Mapping[str, Spans], device: str
) -> dict[str, Spans]:
    """When a device computes nothing in a step, by cause."""
    rows = step.rows[breakdown.processor.at(step.rows).named(device)]
    launch = breakdown.launch[rows]
    launched = np.where(launch >= 0, step.start_ns[launch], np.nan).astype(np.float64)
    work = Spans.of(step.start_ns[rows], step.finish_ns[rows])
    named = {_OF_HOST.get(name, name): spans for name, spans in host.items()}
    gaps = device_gap_spans(step.begin_ns, step.end_ns, work, launched, named, FRAMEWORK)
    copied = copies_of_device(breakdown, rows)
    others, across = spans_of(rows[~copied], step), spans_of(rows[copied], step)
    copying = across.within(step.begin_ns, step.end_ns).without(others)
    return {COPY: copying, **gaps}


def copies_of_device(breakdown: RunBreakdown, rows: IntArray) -> BoolArray:
    """Mask of the traced rows that are copies between a device and the host, shape (rows,)."""
    names = breakdown.label("name")
    used, at = np.unique(names.code[rows], return_inverse=True)
    across = copies_of([str(text) for text in names.texts[used]]) == ACROSS
    mask: BoolArray = across[at]
    return mask


def _host_idle(step: TracedStep, host: Mapping[str, Spans]) -> dict[str, float]:
    holes = host[WORKING].holes(int(step.edges_ns[0]), int(step.edges_ns[-1]))
    causes = {name: spans for name, spans in host.items() if name != WORKING}
    return by_cause(holes, causes, FRAMEWORK)


def _rows(by_step: list[dict[str, float]], breakdown: RunBreakdown) -> list[dict[str, Any]]:
    step = traced_step_s(breakdown)
    rows = []
    for cause in by_step[0]:
        seconds = by_window(breakdown, np.array([one[cause] for one in by_step]))
        if seconds.any():
            time = _figure(seconds, breakdown)
            rows.append({"cause": cause, "time": time, "share": time.share_of(step)})
    return sorted(rows, key=lambda row: -(row["time"].value or 0.0))


def _figure(seconds: FloatArray, breakdown: RunBreakdown) -> Figure:
    words, again = (
        "time without work, cut by what the trace shows meanwhile",
        breakdown.timeline.cost,
    )
    source = breakdown.step_time.source or ""
    if again is None:
        return not_negative(mean_figure(seconds, "s", source, Status.MEASURED), words)
    return not_negative(mean_figure(seconds, "s", UNTRACED, Status.ATTRIBUTED), words)


def _table(name: str, title: str, rows: list[dict[str, Any]]) -> Table:
    columns = {"cause": "cause", "time": "time", "share": "of the step"}
    return Table(name=name, title=title, columns=columns, rows=tuple(rows))


def _sentence(device: str, by_step: list[dict[str, float]], breakdown: RunBreakdown) -> str:
    step = traced_step_s(breakdown)
    means = {cause: float(np.mean([one[cause] for one in by_step])) for cause in by_step[0]}
    idle = sum(means.values())
    if idle <= 0:
        return f"{device} always computes."
    most = max(means, key=lambda cause: means[cause])
    return (
        f"{device} computes nothing for {100 * idle / step:.0f} % of a step, most of all because of: {most} "
        f"({100 * means[most] / idle:.0f} % of it)."
    )
