"""A daily training as a chart: accuracy by day for each batch size, beside the paper's."""

from __future__ import annotations

from typing import Any

from wattstep.report.html.charts import Chart, series_color
from wattstep.report.html.learning import intervals_of
from wattstep.report.values import show
from wattstep.schema.daily_report import DailyBatch, DailyReport

_HEIGHT = 380


def accuracy_chart(daily: DailyReport) -> Chart:
    """Accuracy by day, a line for each batch size with its interval, and the paper's two points."""
    traces = [_line(batch, series_color(number)) for number, batch in enumerate(daily.batches)]
    points = daily.paper.accuracy
    traces.append(
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "published: DenseNet40, Jetson TX2, TensorFlow 1.13",
            "x": [day for day, _ in points],
            "y": [accuracy for _, accuracy in points],
            "line": {"color": "--ink-soft", "dash": "longdash", "width": 1.2},
            "marker": {"color": "--ink-soft", "size": 11, "symbol": "diamond-tall-open"},
        }
    )
    layout = {
        "height": _HEIGHT,
        "margin": {"l": 60, "r": 8, "t": 10, "b": 80},
        "xaxis": {"title": {"text": "day"}, "zeroline": False, "fixedrange": True},
        "yaxis": {"tickformat": ".1%", "zeroline": False, "fixedrange": True},
        "showlegend": True,
        "legend": {"orientation": "h", "y": -0.22},
    }
    return {"data": traces, "layout": layout, "tools": False}


def _line(batch: DailyBatch, color: str) -> dict[str, Any]:
    accuracies = [day.accuracy for day in batch.days]
    known = all(figure.low is not None for figure in accuracies)
    return {
        **({"error_y": intervals_of(accuracies)} if known else {}),
        "type": "scatter",
        "mode": "lines+markers",
        "name": f"batch {batch.batch_size}",
        "x": [day.day for day in batch.days],
        "y": [figure.value for figure in accuracies],
        "line": {"color": color, "width": 2},
        "marker": {"color": color, "size": 5},
        "hovertext": [show(figure).text for figure in accuracies],
        "hovertemplate": "day %{x}: %{hovertext}",
    }
