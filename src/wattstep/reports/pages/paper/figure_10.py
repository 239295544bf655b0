"""Figure 10: accuracy by day of daily training."""

from __future__ import annotations

from typing import Any

from wattstep.records.figure import Figure
from wattstep.reports import daily_tables
from wattstep.reports.pages.paper.drawn import Drawn, NotDrawn, Panel
from wattstep.reports.pages.paper.readings import Document, Readings
from wattstep.reports.tables import table

TITLE = "Accuracy by day"


def draw(readings: Readings) -> Drawn | NotDrawn:
    """A chart for each daily training, a line for each batch size."""
    if not readings.daily:
        return NotDrawn(
            reason="needs a daily training: its folder among those of the report",
            command="wattstep daily NAME, then wattstep report daily/NAME RUN...",
        )
    panels = [
        Panel(
            title=daily_tables.heading(document),
            chart=daily_tables.accuracy_chart(document),
            statuses=("measured",),
        )
        for document in readings.daily
    ]
    rows = [row for document in readings.daily for row in _rows(document)]
    facts = dict.fromkeys(
        line for document in readings.daily for line in daily_tables.facts(document)
    )
    texts = {"run": "Training", "batch": "Batch", "day": "Day"}
    return Drawn(
        panels=panels,
        sentences=[f"{line[:1].upper()}{line[1:]}." for line in facts],
        table=table(rows, texts, dict(daily_tables.COLUMNS)),
    )


def _rows(document: Document) -> list[dict[str, Any]]:
    return [
        {
            "run": document["title"],
            "batch": str(batch["batch_size"]),
            "day": str(day["day"]),
            **{
                name: figure.to_dict() for name, figure in day.items() if isinstance(figure, Figure)
            },
        }
        for batch in document["batches"]
        for day in batch["days"]
    ]
