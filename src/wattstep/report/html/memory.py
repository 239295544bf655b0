"""Footprints as one HTML file, which opens offline and asks nothing of any network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from wattstep.report import memory_tables
from wattstep.report.html.charts import Chart
from wattstep.report.html.page import (
    Plots,
    code_of,
    own_file,
    template,
    write_at_once,
)
from wattstep.report.html.plotly_text import inert
from wattstep.report.memory_tables import CATEGORIES, Row
from wattstep.report.values import BYTES_NOTE, Shown, scale_of
from wattstep.report.wording import STATUS_MEANINGS
from wattstep.schema.footprint import Footprint

_HEIGHT = 420
_STATUSES = ("counted", "measured", "attributed")


def write_footprints(footprints: Sequence[Footprint], path: Path) -> None:
    """Writes the report of some footprints, in one piece or not at all.

    Args:
        footprints: The footprints.
        path: The file; an older one is replaced.
    """
    write_at_once(render_footprints(footprints), path)


def render_footprints(footprints: Sequence[Footprint]) -> str:
    """The report of some footprints as the text of an HTML page."""
    plots = Plots()
    groups = [_group(group, plots) for group in memory_tables.by_workload(footprints)]
    return template("memory.html").render(
        groups=groups,
        meanings={status: STATUS_MEANINGS[status] for status in _STATUSES},
        bytes_note=BYTES_NOTE,
        style=Markup(own_file("report.css")),
        code=code_of(plots),
    )


def category_chart(footprints: Sequence[Footprint]) -> Chart | None:
    """A bar for each batch size, made of the categories: Figure 9 of the TX2 paper."""
    rows = memory_tables.category_rows(footprints)
    top = max((one.peak_memory.value or 0.0 for one in footprints), default=0.0)
    if not rows or not top:
        return None
    scale = scale_of(top, "B")
    batches = [f"batch {one.batch_size}" for one in footprints]
    layout = {
        "height": _HEIGHT,
        "barmode": "relative",  # what was never touched lies below zero
        "margin": {"l": 64, "r": 8, "t": 10, "b": 30},
        "xaxis": {"type": "category", "fixedrange": True},
        "yaxis": {"ticksuffix": scale.suffix, "fixedrange": True},
        "showlegend": False,  # the table below has the colours
    }
    traces = [_trace(row, batches, scale.factor) for row in rows]
    return {"data": traces, "layout": layout, "tools": False}


def stage_chart(footprints: Sequence[Footprint]) -> Chart | None:
    """The most memory held in each stage, a bar for each batch size."""
    rows = [row for row in memory_tables.stage_rows(footprints) if row.key != "checkpoint"]
    numbers = [cell.number for row in rows for cell in row.cells if cell and cell.number]
    if not numbers:
        return None
    scale = scale_of(max(numbers), "B")
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": f"batch {one.batch_size}",
            "y": [inert(row.label) for row in rows],
            "x": [_scaled(row.cells[index], scale.factor) for row in rows],
            "marker": {"color": f"--series-{index % 6 + 1}"},
        }
        for index, one in enumerate(footprints)
    ]
    layout = {
        "height": _HEIGHT,
        "barmode": "group",
        "margin": {"l": 10, "r": 8, "t": 10, "b": 30},
        "xaxis": {"ticksuffix": scale.suffix, "fixedrange": True},
        "yaxis": {"automargin": True, "autorange": "reversed", "fixedrange": True},
        "showlegend": len(footprints) > 1,
        "legend": {"orientation": "h", "y": -0.12, "traceorder": "normal"},
    }
    return {"data": traces, "layout": layout, "tools": False}


def _group(footprints: Sequence[Footprint], plots: Plots) -> dict[str, Any]:
    charts = {
        "When most memory is in use, by category": category_chart(footprints),
        "Most memory held, by stage": stage_chart(footprints),
    }
    placed = [plots.place(chart, title) for title, chart in charts.items()]
    categories = memory_tables.category_rows(footprints)
    return {
        "heading": memory_tables.heading(footprints),
        "batches": [one.batch_size for one in footprints],
        "plots": [plot for plot in placed if plot is not None],
        "categories": categories,
        "swatches": [CATEGORIES[row.key].color for row in categories],
        "totals": memory_tables.total_rows(footprints),
        "highest": memory_tables.highest_rows(footprints),
        "stages": memory_tables.stage_rows(footprints),
        "device_stages": memory_tables.device_rows(footprints),
        "cache": memory_tables.cache_rows(footprints),
        "notes": memory_tables.notes(footprints),
    }


def _trace(row: Row, batches: Sequence[str], factor: float) -> dict[str, Any]:
    return {
        "type": "bar",
        "name": inert(row.label),
        "x": list(batches),
        "y": [_scaled(cell, factor) for cell in row.cells],
        "marker": {"color": CATEGORIES[row.key].color},
        "hovertext": [
            "" if cell is None else f"<b>{inert(row.label)}</b><br>{cell.value}<br>{cell.status}"
            for cell in row.cells
        ],
        "hoverinfo": "text",
    }


def _scaled(cell: Shown | None, factor: float) -> float | None:
    return None if cell is None or cell.number is None else cell.number * factor
