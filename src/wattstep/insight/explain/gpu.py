"""Activity of GPUs from their first work to their last: idle, computing, sending, copying, and which kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from wattstep.attribution.gpu_breakdown import (
    MEMORY,
    OTHERS,
    KernelTime,
    Occupancy,
    Work,
    kernel_times,
    occupancies,
    with_others,
)
from wattstep.attribution.gpu_copies import ACROSS, Copies, copies, copies_of
from wattstep.attribution.gpu_idle import UNKNOWN, StreamIdle, idle_by_cause
from wattstep.attribution.gpu_launches import Launches, launches
from wattstep.attribution.nesting import STREAMS
from wattstep.attribution.tables.traced_work import TracedWork, traced_work
from wattstep.device.utilization import within
from wattstep.insight.explain.device_gaps import UNTRACED, cost_of_tracing
from wattstep.insight.explain.operations import not_seen
from wattstep.insight.explain.section import Section, Table
from wattstep.run import Run
from wattstep.schema.arrays import IntArray
from wattstep.schema.figure import Figure, Status, missing
from wattstep.stats.statistics import mean_figure

NAME: Final = "gpu"
TITLE: Final = "What the GPU did"
MOST: Final = 10  # kernels of a kind on a processor that keep their name
SHORT: Final = 32  # letters of a kernel's name on a terminal
SPAN: Final = "from the begin of the first work to the end of the last"
NO_GPU: Final = (
    "Nothing was done on a GPU.",
    "Below is what the threads of the CPU that carry out operations did, the idle time of each of "
    "them included.",
)
DISAGREE: Final = 0.1  # of the time: sensor and kernels say something else
ONE_CALL: Final = "a single call has no deviation"
NO_LAUNCH: Final = "the trace does not say what launched it"
NO_BYTES: Final = "the trace does not tell the bytes of every copy"


def gpu(run: Run) -> Section:
    """Idle and busy time of each GPU, kinds of work and how they overlap, and its kernels.

    Total time is from the begin of the first work to the end of the last, of each stretch of traced
    steps; waiting is no work.

    Args:
        run: Any run; without work on a GPU the threads of the CPU are told of instead.
    """
    breakdown = run.breakdown
    if reason := not_seen(run):
        return Section(name=NAME, title=TITLE, reason=reason)
    traced = traced_work(breakdown)
    if not len(traced.work):
        return Section(name=NAME, title=TITLE, reason="nothing ran in the traced steps")
    occupied = occupancies(traced.work)
    source = breakdown.step_time.source if run.tables.imported.is_import else "traced steps"
    if breakdown.timeline.cost is not None:
        source = UNTRACED
    return Section(
        name=NAME,
        title=TITLE,
        sentences=(
            *_sentences(traced, occupied),
            *cost_of_tracing(breakdown.timeline),
            *_beside_sensor(run),
        ),
        tables=_tables(traced, occupied, source or ""),
    )


def _sentences(traced: TracedWork, occupied: Sequence[Occupancy]) -> tuple[str, ...]:
    lines = [] if traced.on_gpu else [*NO_GPU]
    if traced.on_gpu:
        lines += [_sentence(one) for one in occupied]
    if traced.damaged:
        lines.append(f"Left out, for the end is before the begin: {_pieces(traced.damaged)}.")
    return tuple(lines)


def _beside_sensor(run: Run) -> tuple[str, ...]:
    """What the sensor of the GPU's load says beside the busy time of its kernels."""
    load, busy, step = (
        figure.value if isinstance(figure, Figure) else None
        for figure in map(run.metrics.get, ("gpu_utilization", "gpu_time", "step_time"))
    )
    if load is None or busy is None or not step:
        return ()
    share = min(busy / step, 1.0)
    line = f"The sensor of the GPU's load says {100 * load:.0f} %; kernels and copies ran for {100 * share:.0f} % of a step."
    if load - share > DISAGREE:
        line += (
            " The sensor takes a whole period of its own for busy where anything ran in it, or looks "
            "at moments that steps favour: their own time is the better account."
        )
    elif share - load > DISAGREE:
        line += (
            " The sensor may not count copies, or look at moments that steps avoid, or at another "
            "part of the run: their own time is the better account."
        )
    return (line,)


def _sentence(one: Occupancy) -> str:
    if not one.total_ns:
        return f"{one.processor} has {_pieces(one.pieces)} that took no time."
    idle, compute, other = (
        f"{100 * ns / one.total_ns:.1f} %" for ns in (one.idle_ns, one.compute_ns, one.other_ns)
    )
    return (
        f"{one.processor} was idle for {idle} of the time {SPAN}, computed for {compute}, and sent "
        f"or copied without computing for {other}."
    )


def _pieces(count: int) -> str:
    return f"{count} piece{'' if count == 1 else 's'} of work"


def _tables(traced: TracedWork, occupied: Sequence[Occupancy], source: str) -> tuple[Table, ...]:
    where = "GPU" if traced.on_gpu else "Thread"
    tables = [
        Table(
            name="time",
            title=f"Time of each, {SPAN}",
            columns={
                "processor": where, "total": "Total", "idle_share": "Idle",
                "compute_share": "Computing", "other_share": "Sending or copying only",
            },
            rows=[_time(one, source) for one in occupied],
        ),
        Table(
            name="kinds",
            title="Kinds of work at once, each instant of that time counted once",
            columns={"processor": where, "kinds": "Ran at once", "time": "Time", "share": "Of busy"},
            rows=[row for one in occupied for row in _together(one, source)],
        ),
    ]  # fmt: skip
    if traced.on_gpu:
        tables.append(_kernel_table(traced, source))
        tables += _copy_tables(traced, source)
        tables += _launch_tables(traced, source)
    return tuple(tables)


def _launch_tables(traced: TracedWork, source: str) -> list[Table]:
    """What launched the work, and why streams had none; nothing where the trace tells no launch."""
    queued = [one for one in launches(traced.work, traced.call) if len(one.queued_ns)]
    if not queued:
        return []
    copy = (copies_of(traced.work.names) == ACROSS)[traced.work.name]
    idle = idle_by_cause(traced.work, traced.stream, traced.call[:, 0], copy, traced.waits)
    return [
        Table(
            name="launches",
            title="Launches: from the begin of the call to that of the work, and what calls cost the host",
            columns={
                "processor": "GPU", "pieces": "Launched", "queued": "Waited", "longest": "Longest",
                "calls": "Calls", "call": "A call", "total": "Calls together",
            },
            rows=[_launch(one, source) for one in queued],
        ),
        Table(
            name="idle",
            title="Gaps between the work of each stream, by cause",
            columns={
                "processor": "GPU", "stream": "Stream", "gaps": "Gaps", "host": "Not yet asked for",
                "sync": "A synchronisation", "launch": "Being launched", "copy": "A copy",
                "other": "Another cause",
            },
            rows=[_idle(one, source) for one in idle],
        ),
    ]  # fmt: skip


def _launch(one: Launches, source: str) -> dict[str, Any]:
    pieces, calls = len(one.queued_ns), len(one.call_ns)
    queued = mean_figure(one.queued_ns * 1e-9, "s", source, _status(source))
    call = mean_figure(one.call_ns * 1e-9, "s", source, _status(source))
    return {
        "processor": one.processor,
        "pieces": pieces,
        "unknown": one.unknown,
        "queued": _over(queued, "pieces of work"),
        "longest": _seconds(int(one.queued_ns.max()), pieces, "longest wait", source),
        "calls": calls,
        "call": _over(call, "calls"),
        "total": _seconds(int(one.call_ns.sum()), calls, "durations added up", source),
    }


def _over(figure: Figure, what: str) -> Figure:
    """The figure, with what its mean is over."""
    return replace(figure, method=(figure.method or "mean").replace("over steps", f"over {what}"))


def _idle(one: StreamIdle, source: str) -> dict[str, Any]:
    causes = {
        "host": one.host_ns, "sync": one.sync_ns, "launch": one.launch_ns, "copy": one.copy_ns,
        "other": one.other_ns,
    }  # fmt: skip
    return {
        "processor": one.processor,
        "stream": one.stream % STREAMS,
        "gaps": one.gaps,
        **{
            cause: _seconds(ns, one.gaps, "gaps of this cause added up", source)
            for cause, ns in causes.items()
        },
    }


def _time(one: Occupancy, source: str) -> dict[str, Any]:
    parts = {"idle": one.idle_ns, "compute": one.compute_ns, "other": one.other_ns}
    row: dict[str, Any] = {
        "processor": one.processor,
        "pieces": one.pieces,
        "total": _seconds(one.total_ns, one.pieces, SPAN, source),
    }
    for key, ns in parts.items():
        row[key] = _seconds(ns, one.pieces, f"union of intervals, {SPAN}", source)
        row[f"{key}_share"] = _share(ns, one.total_ns, one.pieces, f"of the time {SPAN}", source)
    return row


def _together(one: Occupancy, source: str) -> list[dict[str, Any]]:
    ordered = sorted(one.together_ns.items(), key=lambda item: -item[1])
    return [
        {
            "processor": one.processor,
            "kinds": " and ".join(kinds),
            "time": _seconds(ns, one.pieces, "time in which exactly these ran", source),
            "share": _share(ns, one.busy_ns, one.pieces, "of the time in which any ran", source),
        }
        for kinds, ns in ordered
    ]


def _copy_tables(traced: TracedWork, source: str) -> list[Table]:
    """Copies and fills; nothing where there are none."""
    rows = [_copy(one, source) for one in copies(traced.work, traced.size)]
    columns = {
        "processor": "GPU", "way": "Way", "count": "Copies", "bytes": "Bytes", "time": "Time",
        "rate": "Rate",
    }  # fmt: skip
    return [Table(name="copies", title="Copies and fills", columns=columns, rows=rows)][: len(rows)]


def _copy(one: Copies, source: str) -> dict[str, Any]:
    time = _seconds(one.total_ns, one.count, "durations added up", source)
    size, rate = missing("B", NO_BYTES), missing("B/s", NO_BYTES)
    if not one.unknown:
        size = Figure(
            value=one.bytes, unit="B", status=Status.COUNTED, n=one.count, source="the trace"
        )
        if one.total_ns:
            rate = replace(
                time,
                value=one.bytes / one.total_ns * 1e9,
                unit="B/s",
                method="bytes over durations",
            )
    return {
        "processor": one.processor,
        "way": one.way,
        "count": one.count,
        "bytes": size,
        "time": time,
        "rate": rate,
    }


def _kernel_table(traced: TracedWork, source: str) -> Table:
    work = traced.work
    kernels = with_others(kernel_times(work), MOST)
    return Table(
        name="kernels",
        title="Kernels with most time; calls that overlap count each",
        columns={
            "short": "Kernel", "kind": "Kind", "processor": "GPU", "calls": "Calls",
            "total": "Total", "mean": "Mean", "queued": "Waited",
        },
        rows=[_kernel(one, traced, source) for one in kernels],
    )  # fmt: skip


def _kernel(one: KernelTime, traced: TracedWork, source: str) -> dict[str, Any]:
    deviation, work = one.deviation_ns, traced.work
    return {
        "name": one.name,
        "short": one.name if one.kind == MEMORY else short_name(one.name),
        "kind": one.kind,
        "processor": one.processor,
        "calls": one.calls,
        "total": _seconds(one.total_ns, one.calls, "durations added up", source),
        "mean": _mean(one, work, source),
        "queued": _queued(one, traced, source),
        "least": _seconds(one.least_ns, one.calls, "shortest call", source),
        "most": _seconds(one.most_ns, one.calls, "longest call", source),
        "deviation": missing("s", ONE_CALL)
        if deviation is None
        else _seconds(deviation, one.calls, "standard deviation of calls (n - 1)", source),
    }


def _mean(one: KernelTime, work: Work, source: str) -> Figure:
    """With an interval, from its calls in order; of the rest together it would mean nothing."""
    if one.name == OTHERS:
        return _seconds(one.mean_ns, one.calls, "mean of the calls of all others", source)
    calls = _calls(one, work)
    seconds = (work.end_ns - work.start_ns)[calls] * 1e-9
    figure = within(mean_figure(seconds, "s", source, _status(source)), most=math.inf)
    return _over(figure, "calls")


def _calls(one: KernelTime, work: Work) -> IntArray:
    """Pieces of work that are calls of a kernel, in order of begin."""
    there = work.processor == list(work.processors).index(one.processor)
    calls = np.flatnonzero(there & (work.name == list(work.names).index(one.name)))
    return calls[np.argsort(work.start_ns[calls], kind="stable")]


def _queued(one: KernelTime, traced: TracedWork, source: str) -> Figure:
    """From the begin of the call that launched it to its begin, mean of its calls."""
    if one.name == OTHERS:
        return missing("s", "several kernels")
    calls = _calls(one, traced.work)
    calls = calls[traced.call[calls, 0] != UNKNOWN]
    if not len(calls):
        return missing("s", NO_LAUNCH)
    seconds = (traced.work.start_ns[calls] - traced.call[calls, 0]) * 1e-9
    figure = within(mean_figure(seconds, "s", source, _status(source)), most=math.inf)
    return _over(figure, "calls")


def _status(source: str) -> Status:
    """Of times as they were traced, or as traced steps were played again."""
    return Status.ATTRIBUTED if source == UNTRACED else Status.MEASURED


def _seconds(ns: float, n: int, method: str, source: str) -> Figure:
    return Figure(
        value=ns * 1e-9, unit="s", status=_status(source), n=n, method=method, source=source
    )


def _share(ns: int, of_ns: int, n: int, method: str, source: str) -> Figure:
    if not of_ns:
        return missing("ratio", "no work took any time")
    return Figure(
        value=ns / of_ns, unit="ratio", status=_status(source), n=n, method=method, source=source
    )


def short_name(name: str) -> str:
    """A kernel's name without what it returns, its template's arguments and its parameters."""
    depth, chars = 0, []
    for char in name.replace("->", "").replace("(anonymous namespace)", "{anonymous}"):
        depth -= char in ">)"
        if depth <= 0 and char not in "<>()":
            chars.append(char)
        depth += char in "<("
    short = "".join(chars).strip().removeprefix("void ") or name
    return short if len(short) <= SHORT else f"{short[: SHORT - 1]}…"
