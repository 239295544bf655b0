"""Learning curves on the way to a goal: accuracy and loss by step, as a chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wattstep.report.html.charts import Chart, series_color
from wattstep.report.html.plotly_text import inert
from wattstep.report.values import show
from wattstep.report.wording import label
from wattstep.schema.figure import Figure
from wattstep.schema.report_rows import Evaluation

_PERCENT = ("accuracy",)


def learning_charts(evaluations: Sequence[Evaluation]) -> dict[str, Chart]:
    """A chart for each measure, by its name; none where there are fewer than two evaluations.

    Args:
        evaluations: Those of a run.
    """
    if len(evaluations) < 2:
        return {}
    return {
        label(measure): _curve(evaluations, measure, series_color(number))
        for number, measure in enumerate(evaluations[0].measures)
    }


def _curve(evaluations: Sequence[Evaluation], measure: str, color: str) -> Chart:
    known = [one for one in evaluations if one.measures.value(measure) is not None]
    figures: list[Figure] = [one.measures[measure] for one in known]
    trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [one.step for one in known],
        "y": [figure.value for figure in figures],
        "customdata": [show(figure).pointer for figure in figures],
        "line": {"color": color, "width": 2},
        "marker": {"color": color, "size": 5},
        "hovertext": [inert(show(figure).text) for figure in figures],
        "hovertemplate": "after %{x:,} steps: %{hovertext}<extra></extra>",
    }
    if all(figure.low is not None for figure in figures):
        trace["error_y"] = intervals_of(figures)
    samples = known[0].samples if known else None
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


def intervals_of(figures: Sequence[Figure]) -> dict[str, Any]:
    """The intervals of figures that all have one, as plotly wants them; one side may be wider."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [(figure.high or 0.0) - (figure.value or 0.0) for figure in figures],
        "arrayminus": [(figure.value or 0.0) - (figure.low or 0.0) for figure in figures],
        "thickness": 1,
        "width": 2,
        "color": "--ink-soft",
    }
