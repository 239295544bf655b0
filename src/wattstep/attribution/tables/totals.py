"""Operations of which a tool kept totals only: rows of the whole recording instead of those of a step."""

from __future__ import annotations

from collections.abc import Sequence

from wattstep.errors import DamagedRunError
from wattstep.recorded.reading import OperationTotal
from wattstep.schema.figure import Figure, Status, missing
from wattstep.schema.figures import Figures
from wattstep.schema.report_rows import CostRow

METHOD = "total over the whole recording, as the tool added it up; what ran at once counts in full"
NO_TIMES = "the tool kept totals only, no time of each call"
NOT_SAID = "the file does not say"
# Columns of the table of summaries that are times in s, by what they are called in a row.
TIMES = {
    "mean_time": "mean_s",
    "median_time": "median_s",
    "least_time": "least_s",
    "most_time": "most_s",
    "time_deviation": "deviation_s",
}


def total_rows(summaries: Sequence[OperationTotal], source: str) -> list[CostRow]:
    """Rows as those of operations of a step, the longest first; their times are totals.

    `share` is of the times that were added up on the same processor.

    Args:
        summaries: Rows of the table of summaries.
        source: Tool and file.

    Raises:
        DamagedRunError: A total has no name, no time, or a negative one.
    """
    whole: dict[str, float] = {}
    totals: list[tuple[float, OperationTotal]] = []
    for entry in summaries:
        total = entry.total_s
        if not entry.name or total is None or not 0 <= total < float("inf"):
            raise DamagedRunError(
                f"summaries.parquet is damaged: {entry.name!r} has no total", id="no-total"
            )
        processor = _processor(entry)
        whole[processor] = whole.get(processor, 0.0) + total
        totals.append((total, entry))
    totals.sort(key=lambda pair: -pair[0])
    times = [
        name
        for name, column in TIMES.items()
        if any(getattr(e, column) is not None for e in summaries)
    ]
    return [_row(entry, total, whole[_processor(entry)], times, source) for total, entry in totals]


def _processor(entry: OperationTotal) -> str:
    return entry.processor or "cpu"


def _row(
    entry: OperationTotal, total: float, whole: float, times: Sequence[str], source: str
) -> CostRow:
    processor = _processor(entry)
    time = _measured(total, "s", source, METHOD)
    labels = {
        "name": entry.name,
        "layer": "",
        "phase": "",
        "kind": entry.kind or "other",
        "processor": processor,
    }
    figures = {
        "calls": missing("count", NOT_SAID)
        if entry.calls is None
        else Figure(value=entry.calls, unit="count", status=Status.COUNTED, source=source),
        "time": time,
        "busy_time": time,
        "share": _measured(
            total / whole, "ratio", source, f"of all time on {processor} that was added up"
        )
        if whole
        else missing("ratio", "nothing took any time"),
        **{name: _of_a_call(getattr(entry, TIMES[name]), source) for name in times},
        "energy": missing("J", NO_TIMES),
        "power": missing("W", NO_TIMES),
        "cpu_utilization": missing("ratio", NO_TIMES),
        "memory": missing("B", NOT_SAID),
        "flops": missing("FLOP", NOT_SAID),
        "bytes": missing("B", NOT_SAID),
    }
    return CostRow(labels=labels, figures=Figures(figures))


def _measured(value: float, unit: str, source: str, method: str) -> Figure:
    return Figure(value=value, unit=unit, status=Status.MEASURED, source=source, method=method)


def _of_a_call(seconds: float | None, source: str) -> Figure:
    if seconds is None:
        return missing("s", NOT_SAID)
    return _measured(seconds, "s", source, "of single calls, as the tool states it")
