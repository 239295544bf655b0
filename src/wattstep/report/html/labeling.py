"""A labeling as one HTML file: what was labeled how, by the course of the data, in the plane, and as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from wattstep.labeling.cost import LabelingCost
from wattstep.labeling.result import LabelingReport
from wattstep.report import labeling_tables
from wattstep.report.html.charts import Chart, series_color
from wattstep.report.html.page import Plots, code_of, own_file, template, write_at_once
from wattstep.report.html.pictures import GAP, strip
from wattstep.report.html.plotly_text import inert
from wattstep.report.html.shares import stacked_shares
from wattstep.report.values import show
from wattstep.report.wording import STATUS_MEANINGS

_MOST_SERIES = 5  # labels with a colour of their own; others share one
_HEIGHT = 340
_STATUSES = ("modelled", "missing")


def write_labeling(
    result: LabelingReport,
    path: Path,
    shape: tuple[int, int] | None = None,
    cost: LabelingCost | None = None,
) -> None:
    """Writes the page, in one piece or not at all.

    Args:
        result: Of the labeling.
        path: The file; an older one is replaced.
        shape: Width and height of samples that are pictures.
        cost: Of labeling, where it was measured.
    """
    write_at_once(render_labeling(result, shape, cost), path)


def render_labeling(
    result: LabelingReport,
    shape: tuple[int, int] | None = None,
    cost: LabelingCost | None = None,
) -> str:
    """The page as text; see `write_labeling`."""
    plots = Plots()
    colors = _colors(result)
    placed = [
        plots.place(_course(result, colors), "What was labeled how, in the order of the data"),
        plots.place(
            _plane(result, colors), "Recent samples, in the plane in which they differ most"
        ),
    ]
    return template("labeling.html").render(
        heading=labeling_tables.heading(result),
        facts=labeling_tables.facts(result),
        costs=[] if cost is None else labeling_tables.costs(cost),
        placement=labeling_tables.processors(result.placement),
        frames=labeling_tables.frames(result.pace),
        rows=labeling_tables.rows(result),
        rules=[
            (rule.name, show(rule.accuracy).value, f"{rule.voice:.2f}") for rule in result.rules
        ],
        plots=[plot for plot in placed if plot],
        pictures=[] if shape is None else _pictures(result, *shape),
        meanings={status: STATUS_MEANINGS[status] for status in _STATUSES},
        style=Markup(own_file("report.css")),
        code=code_of(plots),
    )


def _colors(result: LabelingReport) -> dict[str, str]:
    counts = result.total.by_label
    common = sorted(counts, key=lambda name: (-counts[name], name))[:_MOST_SERIES]
    return {name: series_color(number) for number, name in enumerate(common)}


def _course(result: LabelingReport, colors: dict[str, str]) -> Chart | None:
    if not result.course:
        return None
    ends = np.cumsum([each.samples for each in result.course])
    names = [*colors, "other labels", "unknown", "withheld"]
    shares: dict[str, list[float]] = {name: [] for name in names}
    for each in result.course:
        whole = max(each.samples, 1)
        for name in colors:
            shares[name].append(each.by_label.get(name, 0) / whole)
        others = sum(count for name, count in each.by_label.items() if name not in colors)
        shares["other labels"].append(others / whole)
        shares["unknown"].append(sum(each.by_cluster.values()) / whole)
        shares["withheld"].append((each.abstained + each.unreadable) / whole)
    dressed = {**colors, "other labels": "--series-6", "unknown": "--other", "withheld": "--idle"}
    traces = [
        {
            "type": "bar",
            "name": inert(name),
            "x": [f"{int(end):,}" for end in ends],
            "y": values,
            "marker": {"color": dressed[name]},
        }
        for name, values in shares.items()
        if any(values)
    ]
    return stacked_shares(traces, "samples so far", _HEIGHT)


def _plane(result: LabelingReport, colors: dict[str, str]) -> Chart | None:
    if not result.points:
        return None
    by_name: dict[str, list[Any]] = {}
    for point in result.points:
        by_name.setdefault(point.name, []).append(point)
    traces = []
    for name, points in sorted(by_name.items()):
        new = name == "unknown" or name in result.new_classes
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": inert(name),
                "x": [round(point.x, 3) for point in points],
                "y": [round(point.y, 3) for point in points],
                "marker": {
                    "color": "--ink-soft"
                    if name == "abstained"
                    else colors.get(name, "--other" if new else "--series-6"),
                    "size": 6,
                    "symbol": "x-thin-open" if new else "circle",
                },
            }
        )
    layout = {
        "height": _HEIGHT + 60,
        "margin": {"l": 40, "r": 8, "t": 10, "b": 60},
        "xaxis": {"zeroline": False, "fixedrange": True},
        "yaxis": {"zeroline": False, "fixedrange": True},
        "showlegend": True,
        "legend": {"orientation": "h", "y": -0.15},
    }
    return {"data": traces, "layout": layout, "tools": False}


def _pictures(result: LabelingReport, width: int, height: int) -> list[dict[str, Any]]:
    """Name, address and size of a strip of pictures for each label and new class."""
    strips = []
    for name, rows in result.examples.items():
        strips.append(
            {
                "name": labeling_tables.called(result, name),
                "address": strip(rows, width, height),
                "width": (width + GAP) * len(rows),
                "height": height,
            }
        )
    return strips
