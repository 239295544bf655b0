"""Peak memory of the training without what recording added to it."""

from __future__ import annotations

from collections.abc import Sequence

from wattstep.records.figure import Figure, Status, missing

Event = tuple[str, int]


def tracing_kept(events: Sequence[Event]) -> float:
    """Bytes that tracing added to the process and did not give back, over all windows."""
    kept, before = 0.0, None
    for category, size in events:
        if category == "resident_before_tracing":
            before = size
        elif category == "resident_after_tracing" and before is not None:
            kept += size - before
            before = None
    return max(kept, 0.0)


def peak(events: Sequence[Event], children: float) -> Figure:
    """Highest resident memory outside tracing windows, less what tracing had kept by then.

    Args:
        events: Marks of memory in the order of time: (category, bytes).
        children: Highest resident memory of child processes in bytes.
    """
    best: float | None = None
    kept, before, stretches = 0.0, None, 0
    for category, size in events:
        if category == "peak_resident":
            # In the first stretch nothing had been traced: what it shows needs no correction.
            value = size - max(kept, 0.0)
            best = value if best is None else max(best, value)
            stretches += 1
        elif category == "resident_before_tracing":
            before = size
        elif category == "resident_after_tracing" and before is not None:
            kept += size - before
    if best is None:
        return missing("B", "the recording ended before a peak was read")
    method = (
        "high-water mark of resident memory, read before and reset after each tracing window, "
        "less what tracing kept"
    )
    return Figure(
        value=best + children,
        unit="B",
        n=stretches,
        method=method + (", plus the children's highest" if children else ""),
        status=Status.MEASURED,
        source="VmHWM of the training process",
    )


def breakdown(events: Sequence[Event], peak_figure: Figure) -> dict[str, Figure]:
    """Peak memory by category; what the tensors do not explain is the rest of the process."""
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
