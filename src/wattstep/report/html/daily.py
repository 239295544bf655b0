"""A daily training as one HTML file, which opens offline and asks nothing of any network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from markupsafe import Markup

from wattstep.report import daily_tables
from wattstep.report.html.daily_chart import accuracy_chart
from wattstep.report.html.daily_labels import KINDS, classes, labels_chart, pictures
from wattstep.report.html.page import (
    Plots,
    code_of,
    own_file,
    template,
    write_at_once,
)
from wattstep.report.wording import STATUS_MEANINGS
from wattstep.schema.daily_report import DailyBatch, DailyLabels, DailyReport

_STATUSES = ("measured", "modelled", "missing")


def write_daily(daily: DailyReport, path: Path) -> None:
    """Writes the report, in one piece or not at all.

    Args:
        daily: Its result.
        path: The file; an older one is replaced.
    """
    write_at_once(render_daily(daily), path)


def render_daily(daily: DailyReport) -> str:
    """The report as the text of an HTML page."""
    plots = Plots()
    plot = plots.place(accuracy_chart(daily), "Accuracy on held-out samples by day")
    labeled = None if daily.labels is None else _labels(daily.labels, plots)
    return template("daily.html").render(
        heading=daily_tables.heading(daily),
        facts=daily_tables.facts(daily),
        paper=daily_tables.paper_note(daily),
        plots=[plot],
        labeled=labeled,
        columns=[label for _, label in daily_tables.columns(daily)],
        batches=[_batch(batch, daily_tables.columns(daily)) for batch in daily.batches],
        reasons=daily_tables.reasons(daily),
        meanings={status: STATUS_MEANINGS[status] for status in _STATUSES},
        style=Markup(own_file("report.css")),
        code=code_of(plots),
    )


def _labels(labels: DailyLabels, plots: Plots) -> dict[str, Any]:
    return {
        "plots": [plots.place(labels_chart(labels), "What was labeled how, by day")],
        "classes": classes(labels),
        "kinds": [words for _, words in KINDS.values()],
        "pictures": pictures(labels),
    }


def _batch(batch: DailyBatch, columns: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    return {
        "size": batch.batch_size,
        "steps": batch.steps_per_day,
        "complete": batch.complete,
        "rows": list(daily_tables.rows(batch, columns)),
        "totals": daily_tables.totals(batch, columns),
    }
