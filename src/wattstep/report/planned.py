"""What the plan of a run predicted beside what came, to be read."""

from __future__ import annotations

from wattstep.report import wording
from wattstep.report.conditions import TextTable
from wattstep.report.values import plain, show
from wattstep.schema.run_report import RunReport


def planned_title(report: RunReport) -> str:
    """Whose predictions they are: configuration, device and mode of the plan, and what the run has otherwise."""
    planned = report.planned
    assert planned is not None
    mode = "" if planned.mode is None else f" in mode {plain(planned.mode)}"
    changed = f"; not as planned: {', '.join(map(plain, planned.changed))}" * bool(planned.changed)
    of = f"{plain(planned.configuration)}, on {plain(planned.device)}{mode}{changed}"
    return f"Predicted by its plan: {of}"


def planned_table(report: RunReport) -> TextTable | None:
    """A metric a row: predicted, of the run with its status, and whether that lies in the predicted interval.

    None where the run followed no plan.
    """
    if report.planned is None:
        return None
    rows = []
    for row in report.planned.rows:
        known = wording.metric_of(report, row.metric)
        predicted, came = show(row.predicted, known.notation), show(row.measured, known.notation)
        inside = "" if row.inside is None else ("yes" if row.inside else "no")
        rows.append((known.label, predicted.text, came.value, came.status, inside))
    return TextTable(
        headings=("metric", "predicted", "this run", "status", "inside?"), rows=tuple(rows)
    )
