"""The time-energy front of a workload as a chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wattstep.report.front import Front, Point
from wattstep.report.html.charts import Chart, series_color
from wattstep.report.html.plotly_text import inert
from wattstep.report.values import scale_of

_HEIGHT = 320
_WIDE = (
    20.0  # of the largest over the smallest: beyond it an axis from zero hides all but the largest
)


def front_chart(front: Front, of: str = "sample") -> Chart:
    """Energy over time of a sample, or of what `of` says, the front joined by a line."""
    time = scale_of(max(p.seconds for p in front.points), "s")
    energy = scale_of(max(p.joules for p in front.points), "J")
    best = [p for p in front.points if p.on_front]
    other = [p for p in front.points if not p.on_front]
    layout = {
        "height": _HEIGHT,
        "margin": {"l": 60, "r": 10, "t": 10, "b": 44},
        "xaxis": _axis(f"time of a {of}", [p.seconds for p in front.points], time.suffix),
        "yaxis": _axis(f"energy of a {of}", [p.joules for p in front.points], energy.suffix),
        "showlegend": True,
        "legend": {"orientation": "h", "y": 1.12},
    }
    traces = [
        _trace("on the front", best, series_color(0), "lines+markers", time, energy),
        _trace("beaten in both", other, "--ink-soft", "markers", time, energy),
    ]
    return {"data": [t for t in traces if t["x"]], "layout": layout, "tools": False}


def _axis(title: str, values: Sequence[float], suffix: str) -> dict[str, Any]:
    """From zero, or of decades where the values span several."""
    low, high = min(values), max(values)
    return {
        "title": {"text": title, "font": {"size": 11, "color": "--ink-soft"}},
        "ticksuffix": suffix,
        **(
            {"type": "log", "dtick": 1}
            if low > 0 and high > _WIDE * low
            else {"rangemode": "tozero"}
        ),
        "fixedrange": True,
    }


def _trace(
    name: str, points: Sequence[Point], color: str, mode: str, time: Any, energy: Any
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": mode,
        "name": name,
        "x": [p.seconds * time.factor for p in points],
        "y": [p.joules * energy.factor for p in points],
        "line": {"color": color, "width": 2},
        "marker": {"color": color, "size": 9},
        "hovertext": [inert(f"{p.title}: {p.time}, {p.energy.text}") for p in points],
        "hoverinfo": "text",
    }
