"""Charts of shares of a whole, as bars."""

from __future__ import annotations

from typing import Any

from wattstep.report.html.charts import Chart


def stacked_shares(traces: list[dict[str, Any]], along: str, height: int) -> Chart:
    """Bars of shares that add up to the whole.

    Args:
        traces: A kind each, with a name.
        along: What the bars stand along.
        height: Of the chart, in pixels.
    """
    layout = {
        "height": height,
        "barmode": "stack",
        "margin": {"l": 60, "r": 8, "t": 10, "b": 80},
        "xaxis": {"title": {"text": along}, "type": "category", "fixedrange": True},
        "yaxis": {"tickformat": ".0%", "range": [0, 1], "fixedrange": True},
        "showlegend": True,
        "legend": {"orientation": "h", "y": -0.27},
    }
    return {"data": traces, "layout": layout, "tools": False}
