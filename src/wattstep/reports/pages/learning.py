"""How a model learnt on the way to its goal: accuracy and loss by step, as a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wattstep.reports.pages.charts import Chart, series_color
from wattstep.reports.pages.plotly_text import inert
from wattstep.reports.values import is_figure, show
from wattstep.reports.wording import label

_PERCENT = ("accuracy",)


def learning_charts(evaluations: Sequence[Mapping[str, Any]]) -> dict[str, Chart]:
    """A chart for each measure, by its name; none where there are fewer than two evaluations.

    Args:
        evaluations: Those of a run's document.
    """
    if len(evaluations) < 2:
        return {}
    measures = [key for key, value in evaluations[0].items() if is_figure(value)]
    return {
        label(measure): _curve(evaluations, measure, series_color(number))
        for number, measure in enumerate(measures)
    }


def _curve(evaluations: Sequence[Mapping[str, Any]], measure: str, color: str) -> Chart:
    known = [row for row in evaluations if (row.get(measure) or {}).get("value") is not None]
    figures = [row[measure] for row in known]
    trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [row["step"] for row in known],
        "y": [figure["value"] for figure in figures],
        "customdata": [show(figure).pointer for figure in figures],
        "line": {"color": color, "width": 2},
        "marker": {"color": color, "size": 5},
        "hovertext": [inert(show(figure).text) for figure in figures],
        "hovertemplate": "after %{x:,} steps: %{hovertext}<extra></extra>",
    }
    if all(figure["low"] is not None for figure in figures):
        trace["error_y"] = intervals_of(figures)
    samples = known[0]["samples"] if known else None
    judged = "" if samples is None else f" (judged on {samples:,} samples)"
    axis: dict[str, Any] = {"zeroline": False, "fixedrange": True}
    if measure in _PERCENT:
        axis["tickformat"] = ".0%"
    soft = {"size": 11, "color": "--ink-soft"}
    layout = {
        "height": 220,
        "margin": {"l": 50, "r": 8, "t": 8, "b": 38},
        "xaxis": {
            "title": {"text": f"steps{judged}", "standoff": 4, "font": soft},
            "zeroline": False,
            "fixedrange": True,
        },
        "yaxis": axis,
        "showlegend": False,
    }
    return {"data": [trace], "layout": layout, "tools": False}


def intervals_of(figures: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The intervals of figures that all have one, as plotly wants them; one side may be wider."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [figure["high"] - figure["value"] for figure in figures],
        "arrayminus": [figure["value"] - figure["low"] for figure in figures],
        "thickness": 1,
        "width": 2,
        "color": "--ink-soft",
    }
