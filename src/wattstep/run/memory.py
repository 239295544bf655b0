"""Memory of a run: the peak of the training with its children, what it is for, and the machine's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from wattstep.recorded import device_memory, memory
from wattstep.recorded.child_memory import Added, Samples, added_memory, family_peak
from wattstep.recorded.reading import Tables
from wattstep.recorded.series import Series
from wattstep.run.foreground import NAME as FOREGROUND
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import Figure, Status, missing, weakest

NO_PROCESS = "what was imported does not tell the memory of the training process"
_FAMILY = ("proportional_memory", "children_proportional_memory")
_NONE: Samples = (np.zeros(0, np.int64), np.zeros(0))


def memory_metrics(tables: Tables, series: Series) -> dict[str, Any]:
    """`peak_memory`, its parts in `memory_breakdown`, and what else was seen of memory.

    Where a device trains, `device_peak_memory` and `device_memory_breakdown` are of its own memory,
    `allocator_cache` and `allocator_flushes` of what its allocator keeps free;
    where that is the host's, too, `shared_memory` is the one account of both, and
    `system_memory_left` what the system had left.
    With children `proportional_peak_memory`, too: there pages that other programs share count in
    part.
    """
    table = tables.table("memory").to_pydict()
    events = list(zip(table["category"], table["bytes"], strict=True))
    peak, children = _peak(memory.stretches(events, table["t_ns"]), series)
    if peak.missing and series.imported.is_import:
        peak = missing("B", series.without(NO_PROCESS))
    figures: dict[str, Any] = {
        "peak_memory": peak,
        "system_peak_memory": _system_peak(series),
        "memory_breakdown": memory.breakdown(events, peak, children),
    }
    if (
        device := device_memory.marked_peak(events, tables.instruments.device_allocator)
    ) is not None:
        figures["device_peak_memory"] = device_memory.peak_figure(device)
        parts = device_memory.marked_breakdown(events, device)
        figures["device_memory_breakdown"] = parts
        figures["allocator_cache"] = device_memory.marked_cache(events, device)
        if (flushes := device_memory.flushes(events, device.allocator)) is not None:
            figures["allocator_flushes"] = flushes
        if device.shared:
            figures.update(_shared(series, parts))
    if children and (proportional := _proportional_peak(series, peak)) is not None:
        figures["proportional_peak_memory"] = proportional
    if highest := memory.highest_of(events):
        figures["memory_highest"] = highest
    if held := memory.held_by_tracing(events):
        figures["tracing_memory"] = Figure(
            value=held,
            unit="B",
            status=Status.MEASURED,
            source="VmRSS before and after each tracing window",
            method="what tracing kept, taken off the peak",
        )
    return figures


def _peak(stretches: list[memory.Stretch], series: Series) -> tuple[Figure, float]:
    """The peak, and what of it is the children's in bytes."""
    added = added_by_children(series)
    if not stretches or not added.high.any():
        return memory.peak(stretches), 0.0
    return family_peak(stretches, samples_of(series, "resident_memory"), added)


def added_by_children(series: Series) -> Added:
    """Memory by child processes, but for times when the foreground job ran, which is one of them."""
    roles = (f"children_{which}_memory" for which in ("resident", "added", "shared"))
    added = added_memory(*(samples_of(series, role) for role in roles))
    return added.without(series.steps.rest_ns.get(FOREGROUND, ()))


def samples_of(series: Series, role: str) -> Samples:
    """Of the only channel of a role; none where it gave nothing. One sample says how much it was."""
    names = (c.name for c in series.channels.values() if c.role == role)
    return next(
        (series.course(name, "most")[:2] for name in names if name in series.samples), _NONE
    )


def _proportional_peak(series: Series, peak: Figure) -> Figure | None:
    """Highest sum of the proportional sizes of the training and its children, read together.

    Args:
        series: The samples.
        peak: The same with each page counted once.
    """
    (t_ns, own), (same_ns, children) = (samples_of(series, role) for role in _FAMILY)
    if not len(t_ns) or not np.array_equal(t_ns, same_ns):
        return None
    there = children > 0
    if not there.any():
        return None
    both = own + children
    more = more_than_read(t_ns, samples_of(series, "resident_memory"))
    lowest, value = float(both[there].max()), float((both + more)[there].max())
    return Figure(
        value=value, unit="B", n=int(there.sum()), status=Status.MEASURED,
        low=lowest, high=max(value, peak.high or 0.0), source="/proc/PID/smaps_rollup",
        method="highest sum of proportional sizes of the training and its children, of so many "
        "reads, and what the training had resident between two reads beside that: a page that n "
        "processes share counts 1/n, strangers among them; tracing counts. The interval goes from "
        "the highest read to where each page counts once",
    )  # fmt: skip


def more_than_read(t_ns: IntArray, resident: Samples) -> FloatArray:
    """What a process had resident between the neighbours of each read, above what it had at the read.

    What a step takes and gives back is gone at most moments of a step, and reads are few.

    Args:
        t_ns: Times of the reads.
        resident: Its samples.
    """
    known = np.isfinite(resident[1])
    often_ns, size = resident[0][known], resident[1][known]
    if not len(size):
        return np.zeros(len(t_ns))
    first, last = t_ns[np.maximum(np.arange(len(t_ns)) - 1, 0)], np.append(t_ns[1:], t_ns[-1:])
    then = np.interp(
        (t_ns - often_ns[0]).astype(float), (often_ns - often_ns[0]).astype(float), size
    )
    most = [
        size[(often_ns >= begin) & (often_ns <= end)].max(initial=at)
        for begin, end, at in zip(first, last, then, strict=True)
    ]
    more: FloatArray = np.array(most) - then
    return more


def _shared(series: Series, device: Mapping[str, Figure]) -> dict[str, Any]:
    """Where CPU and GPU share one memory: what was left of it, and the account of all of it then."""
    total = list(series.with_role("total_memory"))
    available = list(series.with_role("available_memory"))
    if not total or not available:
        reason = series.without("the system's memory was not sampled")
        return {"system_memory_left": missing("B", reason)}
    t_ns, value, _ = series.course(available[0].name, "least")
    at = int(np.nanargmin(value))
    figure = Figure(
        value=float(value[at]), unit="B", n=int(np.isfinite(value).sum()),
        status=series.status(available[0]), source=available[0].source,
        method="lowest sample of what was available to whatever asks for it",
    )  # fmt: skip
    then_ns, resident = samples_of(series, "resident_memory")
    known = np.isfinite(resident)
    if not known.any():
        return {"system_memory_left": figure}
    mine = np.interp(float(t_ns[at] - t_ns[0]), then_ns[known] - t_ns[0], resident[known])
    whole = float(np.nanmax(series.course(total[0].name, "most")[1]))
    account = device_memory.shared_account(
        device, total=whole, left=float(value[at]), resident=float(mine)
    )
    status = figure.status
    return {
        "system_memory_left": figure,
        "shared_memory": {
            name: replace(one, status=weakest([one.status, status]))
            for name, one in account.items()
        },
    }


def _system_peak(series: Series) -> Figure:
    for channel in series.with_role("used_memory"):
        used = series.totals(channel.name)
        assert used is not None  # of a role, only those that have samples
        return Figure(
            value=used.most, unit="B", n=used.reads, method="highest sample of the memory in use", status=series.status(channel),
            source=channel.source,
        )  # fmt: skip
    total = list(series.with_role("total_memory"))
    available = list(series.with_role("available_memory"))
    if not total or not available:
        return missing("B", series.without("the system's memory was not sampled"))
    whole, left = series.totals(total[0].name), series.totals(available[0].name)
    assert whole is not None
    assert left is not None
    return Figure(
        value=whole.most - left.least,
        unit="B",
        n=left.reads,
        method="highest sample of total less available memory",
        status=series.status(total[0], available[0]),
        source="/proc/meminfo",
    )
