"""Peak memory of the training without what recording added to it, and what it is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wattstep.schema.figure import Figure, Status, missing
from wattstep.schema.spelling import rounded

Event = tuple[str, int]

AT_PEAK = "at_peak."  # before the name of a category: its size when most memory was in use
UNTOUCHED = "untouched."  # likewise: what of these tensors was never written to and takes no memory
HIGHEST = "highest."  # before the name of a category of tensors: its highest, at its own moment
ALLOCATOR_FREE = "allocator_free"
UNEXPLAINED = "unexplained"
CHILDREN = "child_processes"
NEVER_TOUCHED = "never_touched"  # in runs of earlier versions: of all tensors together, below 0
SOURCE = "VmHWM of the training process"
METHOD = (
    "high-water mark of resident memory, read before and reset after each tracing window, less what "
    "tracing kept"
)
RESETS = ("peak_resident_with_tracing", "peak_resident_apart")  # after these it begins anew

_TENSORS = (
    "parameters", "buffers", "gradients", "optimizer_state", "input", "feature_maps", "workspace",
    "held_tensors",
)  # fmt: skip
_PEAK_OPERATION = "the operation of a step during which most memory was in use"
_METHODS = {
    "kernel_scratch": (
        Status.MEASURED,
        "high-water mark during that operation, less what was resident before and the tensors "
        "that it made",
    ),
    "library_pages": (Status.MEASURED, "resident pages of files (RssFile and RssShmem)"),
    "process_at_rest": (
        Status.ATTRIBUTED,
        "anonymous memory between steps, free memory given back, less the tensors there and "
        "what tracing kept",
    ),
    "interpreter_and_framework": (
        Status.ATTRIBUTED,
        "anonymous memory once the framework is loaded, free memory given back, less tensors",
    ),
    "added_by_preparation": (
        Status.ATTRIBUTED,
        "growth of anonymous memory that is no tensor while data were read and the model was "
        "made: libraries that read the data, objects of the interpreter",
    ),
    "added_by_steps": (
        Status.ATTRIBUTED,
        "growth of anonymous memory between steps that is no tensor, from the first step on: "
        "caches of kernels, buffers of threads",
    ),
    ALLOCATOR_FREE: (
        Status.ATTRIBUTED,
        "peak of undisturbed steps less the peak of a step in which the allocator gave free "
        "memory back before each operation",
    ),
    UNEXPLAINED: (
        Status.ATTRIBUTED,
        "what is left: nodes of the graph, objects of the interpreter, holes in the heap; below 0 "
        "where undisturbed steps held less than the one that was followed",
    ),
    CHILDREN: (
        Status.MEASURED,
        "what child processes add when most memory was in use: pages that they share count once",
    ),
}


def held_by_tracing(events: Sequence[Event]) -> float:
    """Bytes that tracing added to the process and did not give back, over all windows."""
    held, before = 0.0, None
    for category, size in events:
        if category == "resident_before_tracing":
            before = size
        elif category == "resident_after_tracing" and before is not None:
            held += size - before
            before = None
    return max(held, 0.0)


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """A part of the recording outside of tracing windows.

    Attributes:
        begin_ns: When the high-water mark of resident memory was last reset before it.
        end_ns: When it was read.
        size: The mark, less `held`, in bytes.
        held: What tracing had added by then, in bytes.
    """

    begin_ns: int
    end_ns: int
    size: float
    held: float


def stretches(events: Sequence[Event], t_ns: Sequence[int]) -> list[Stretch]:
    """The stretches of a recording.

    Args:
        events: Marks of memory in the order of time: (category, bytes).
        t_ns: When they were made.
    """
    parts: list[Stretch] = []
    held, before, begin = 0.0, None, t_ns[0] if t_ns else 0
    for (category, size), now in zip(events, t_ns, strict=True):
        if category == "peak_resident":
            # In the first stretch nothing had been traced: what it shows needs no correction.
            off = max(held, 0.0)
            parts.append(
                Stretch(begin_ns=begin if parts else 0, end_ns=now, size=size - off, held=off)
            )
        elif category in RESETS:
            begin = now
        elif category == "resident_before_tracing":
            before = size
        elif category == "resident_after_tracing" and before is not None:
            held += size - before
    return parts


def peak(parts: Sequence[Stretch]) -> Figure:
    """Highest resident memory outside tracing windows, less what tracing had kept by then."""
    if not parts:
        return missing("B", "the recording ended before a peak was read")
    return Figure(
        value=max(stretch.size for stretch in parts),
        unit="B",
        n=len(parts),
        method=METHOD,
        status=Status.MEASURED,
        source=SOURCE,
    )


def breakdown(
    events: Sequence[Event], peak_figure: Figure, children: float = 0.0
) -> dict[str, Figure]:
    """Peak memory by category; the parts add up to the peak.

    Args:
        events: Marks of memory in the order of time: (category, bytes).
        peak_figure: As `peak` gives it, children included.
        children: What of it is the children's, in bytes.
    """
    at_peak = {
        category.removeprefix(AT_PEAK): float(size)
        for category, size in events
        if category.startswith(AT_PEAK)
    }
    if not at_peak or peak_figure.value is None:
        return _known_tensors_and_rest(events, peak_figure)
    if "process_at_rest" in at_peak:  # the step was followed after all tracing
        at_peak["process_at_rest"] -= held_by_tracing(events)
    untouched = {
        category.removeprefix(UNTOUCHED): float(size)
        for category, size in events
        if category.startswith(UNTOUCHED)
    }
    untouched |= _take_off(at_peak, -at_peak.pop(NEVER_TOUCHED, 0.0))
    sizes = divide(
        peak_figure.value - children,
        demand=sum(at_peak.values()),
        tensors={name: at_peak[name] for name in _TENSORS if name in at_peak},
        others={
            name: size
            for name, size in at_peak.items()
            if name not in (*_TENSORS, ALLOCATOR_FREE, UNEXPLAINED)
        },
    )
    return figures({**sizes, **({CHILDREN: children} if children else {})}, untouched)


def _take_off(at_peak: dict[str, float], size: float) -> dict[str, float]:
    """Takes what was never touched off the largest tensors, where a run tells only the sum of it.

    Returns:
        How much of each category.
    """
    parts: dict[str, float] = {}
    for name in sorted(_TENSORS, key=lambda name: -at_peak.get(name, 0.0)):
        part = min(size, at_peak.get(name, 0.0))
        if part > 0:
            parts[name] = part
            at_peak[name] -= part
            size -= part
    return parts


def divide(
    peak_size: float,
    *,
    demand: float,
    tensors: Mapping[str, float],
    others: Mapping[str, float],
) -> dict[str, float]:
    """Divides a peak among its categories, exactly.

    Args:
        peak_size: Of undisturbed steps.
        demand: What was resident at the same moment of a step whose allocator kept nothing free.
        tensors: Bytes of tensors by category.
        others: Bytes by category that are no tensors.

    Returns:
        The categories, then what the allocator held free, and what is left, which may be below 0.
    """
    parts = {**tensors, **others}
    free = max(peak_size - demand, 0)
    return {**parts, ALLOCATOR_FREE: free, UNEXPLAINED: peak_size - free - sum(parts.values())}


def figures(
    sizes: Mapping[str, float], untouched: Mapping[str, float] | None = None
) -> dict[str, Figure]:
    """Sizes by category, each with how it was found.

    Args:
        sizes: What takes memory, in bytes.
        untouched: Of tensors what takes none, and is not in `sizes`.
    """
    none = untouched or {}
    return {name: _figure(name, size, none.get(name, 0.0)) for name, size in sizes.items()}


def highest(sizes: Mapping[str, float]) -> dict[str, Figure]:
    """The most that each category of tensors takes in a step; they need not meet."""
    return {
        name: Figure(
            value=float(sizes[name]),
            unit="B",
            status=Status.COUNTED,
            source="tensors during the operation at which this category was largest",
        )
        for name in _TENSORS
        if name in sizes
    }


def highest_of(events: Sequence[Event]) -> dict[str, Figure]:
    """Highest memory by the marks of a run; empty where its steps were not followed."""
    return highest(
        {name.removeprefix(HIGHEST): size for name, size in events if name.startswith(HIGHEST)}
    )


def _figure(name: str, size: float, untouched: float) -> Figure:
    status, method, source = Status.COUNTED, None, f"tensors during {_PEAK_OPERATION}"
    if name not in _TENSORS:
        (status, method), source = _METHODS[name], "/proc/self/status of the training process"
    elif untouched:
        status = Status.MEASURED
        method = (
            f"its tensors less {rounded(untouched / 1e6)} MB of them that were allocated, never written "
            "to, and are not resident (mincore)"
        )
    return Figure(value=float(size), unit="B", status=status, source=source, method=method)


def _known_tensors_and_rest(events: Sequence[Event], peak_figure: Figure) -> dict[str, Figure]:
    """For runs whose steps were not followed by operation."""
    wanted = ("parameters", "buffers", "gradients", "optimizer_state")
    sizes = {category: size for category, size in events if category in wanted}
    table = {
        name: Figure(
            value=float(sizes[name]), unit="B", status=Status.COUNTED, source="tensors of the model"
        )
        for name in wanted
        if name in sizes
    }
    if table and peak_figure.value is not None:
        table["activations_and_rest_of_process"] = Figure(
            value=max(peak_figure.value - sum(sizes.values()), 0.0),
            unit="B",
            status=Status.ATTRIBUTED,
            source=peak_figure.source,
            method="peak less the categories above",
        )
    return table
