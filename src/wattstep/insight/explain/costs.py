"""Time and energy of a step from the report of a run alone, as of one that was never recorded."""

from __future__ import annotations

from typing import Final

from wattstep.insight.explain.section import Section, Table
from wattstep.recorded.power import spoken
from wattstep.schema.figure import Figure
from wattstep.schema.metrics import HEADLINES
from wattstep.schema.report_rows import CostRow
from wattstep.schema.run_report import RunReport

NAME: Final = "costs"
TITLE: Final = "Where time and energy of a step go"
NOTHING: Final = "neither phases nor operations of a step are known"
_COLUMNS: Final = {
    "name": "operation", "layer": "layer", "phase": "phase", "time": "time", "energy": "energy",
    "status": "status",
}  # fmt: skip


def costs(report: RunReport) -> Section:
    """Phases and operations of a step, the longest first, each with the status of its figures."""
    metrics = report.metrics
    figures = {name: figure for name in HEADLINES if (figure := metrics.figure(name)) is not None}
    phases, operations = (_longest(rows) for rows in (report.phases, report.operations))
    if not phases and not operations:
        return Section(name=NAME, title=TITLE, figures=figures, reason=NOTHING)
    words = (("phase", phases), ("operation", operations))
    sentences = [_most(kind, rows[0]) for kind, rows in words if rows]
    tables = [
        Table(name=f"{kind}s", title=f"{kind.capitalize()}s of a step", columns=_COLUMNS,
              rows=[{**row.to_dict(), "status": _statuses(row)} for row in rows])
        for kind, rows in words
    ]  # fmt: skip
    return Section(
        name=NAME, title=TITLE, sentences=tuple(sentences), figures=figures, tables=tuple(tables)
    )


def _longest(rows: tuple[CostRow, ...]) -> list[CostRow]:
    return sorted(rows, key=lambda row: -(row.figures.value("time") or 0.0))


def _most(kind: str, row: CostRow) -> str:
    """Sentence on the operation or phase that takes most of a step."""
    time: Figure | None = row.time
    name = (row.name or row.phase) if kind == "operation" else row.phase
    if time is None or time.value is None:
        return f"The time of no {kind} is known."
    return f"The {kind} that takes most time is {name}: {spoken(time.value)} ({time.status.value})."


def _statuses(row: CostRow) -> str:
    """Of its time and its energy: one word where both are alike."""
    known = [figure for figure in (row.time, row.energy) if figure is not None]
    return ", ".join(dict.fromkeys(figure.status.value for figure in known))
