"""Sections of an explanation as pictures: operations under the roofline, gaps by cause, busy cores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from wattstep.insight.explain.section import Row, Section
from wattstep.report.html.charts import Chart, bars_of, color_of, phases_of, ranking
from wattstep.report.html.plotly_text import inert
from wattstep.report.values import plain, quantity
from wattstep.schema.figure import Figure
from wattstep.schema.spelling import rounded

_MOST_POINTS = 400  # operations, the longest; further ones are dots that nobody can point at
_LEAST_MARK, _MOST_MARK = 5.0, 26.0  # pixels across


def charts_of(section: Section) -> list[tuple[str, Chart]]:
    """Pictures of a section, with their titles; none where it has nothing to draw."""
    if section.name not in _DRAWN:
        return []
    title, draw = _DRAWN[section.name]
    chart = draw(section)
    return [] if chart is None else [(title, chart)]


def _rows(section: Section, table: str) -> Sequence[Row]:
    return next((each.rows for each in section.tables if each.name == table), ())


def _causes(section: Section) -> Chart | None:
    rows = [
        {**row, "cause": str(row["cause"]).partition(":")[0]} for row in _rows(section, "causes")
    ]
    return ranking(bars_of(rows, "time", "cause"))


def _cores(section: Section) -> Chart | None:
    return ranking(bars_of(_rows(section, "cores"), "busy", "core"))


def _roofline(section: Section) -> Chart | None:
    """Rate over intensity, both logarithmic; a mark's area is the time of the operation."""
    points = [
        (row, intensity, rate, time)
        for row in _rows(section, "operations")
        if (intensity := _number(row, "intensity"))
        and (rate := _number(row, "flops_rate"))
        and (time := _number(row, "time"))
    ]
    points = sorted(points, key=lambda each: -each[3])[:_MOST_POINTS]
    if len(points) < 2:
        return None
    longest = points[0][3]
    traces = [_roof(section, [each[1] for each in points])]
    for phase in phases_of(str(row.get("phase") or "no phase") for row, *_ in points):
        of_phase = [each for each in points if str(each[0].get("phase") or "no phase") == phase]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": inert(plain(phase)),
                "x": [intensity for _, intensity, _, _ in of_phase],
                "y": [rate * 1e-9 for _, _, rate, _ in of_phase],
                "marker": {
                    "color": color_of(phase),
                    "opacity": 0.75,
                    "line": {"color": "--surface", "width": 1},
                    "size": [
                        max(_LEAST_MARK, _MOST_MARK * math.sqrt(time / longest))
                        for *_, time in of_phase
                    ],
                },
                "hovertext": [_hover(row, *numbers) for row, *numbers in of_phase],
                "hoverinfo": "text",
            }
        )
    layout = {
        "height": 340,
        "margin": {"l": 58, "r": 8, "t": 8, "b": 44},
        "xaxis": _axis("FLOP per byte that must be moved"),
        "yaxis": _axis("GFLOP/s"),
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "hovermode": "closest",
    }
    return {"data": [trace for trace in traces if trace], "layout": layout, "tools": True}


def _axis(title: str) -> dict[str, Any]:
    """A logarithmic axis with ticks at 1, 2 and 5 of each decade, all written in full."""
    ticks = [n * 10.0**power for power in range(-6, 7) for n in (1, 2, 5)]
    return {
        "type": "log",
        "title": {"text": title, "font": {"size": 11, "color": "--ink-soft"}, "standoff": 6},
        "tickvals": ticks,
        "ticktext": [f"{tick:g}" for tick in ticks],
    }


def _roof(section: Section, intensities: Sequence[float]) -> dict[str, Any]:
    """What moving data and computing allow, as far as ceilings were measured; {} without any."""
    peak, memory = (
        figure.value if figure is not None else None
        for figure in (section.figures.get("peak_flops"), section.figures.get("memory_bandwidth"))
    )
    if not peak or not memory:
        return {}
    ridge = peak / memory
    x = [min(*intensities, ridge / 4), ridge, max(*intensities, ridge * 4)]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "ceilings",
        "x": x,
        "y": [min(peak, memory * at) * 1e-9 for at in x],
        "line": {"color": "--ink-soft", "width": 1.5},
        "hovertext": [
            f"{quantity(memory, 'B/s')} from memory",
            f"computing binds above {rounded(ridge)} FLOP/B",
            quantity(peak, "FLOP/s"),
        ],
        "hoverinfo": "text",
    }


def _hover(row: Row, intensity: float, rate: float, time: float) -> str:
    place = " · ".join(inert(plain(row[key])) for key in ("layer", "phase") if row.get(key))
    bound = row.get("bound")
    return (
        f"<b>{inert(plain(row['name']))}</b><br>{place}<br>{quantity(time, 's')}, "
        f"{quantity(rate, 'FLOP/s')}, {rounded(intensity)} FLOP/B"
        + (f"<br>bound by: {inert(plain(bound))}" if bound else "")
    )


def _number(row: Row, key: str) -> float | None:
    figure = row.get(key)
    return figure.value if isinstance(figure, Figure) else None


_DRAWN: Final[Mapping[str, tuple[str, Callable[[Section], Chart | None]]]] = MappingProxyType(
    {
        "roofline": ("Operations under the ceilings of the machine", _roofline),
        "gaps": ("Time of a step in which no operation runs, by cause", _causes),
        "processors": ("Busy time of the cores", _cores),
    }
)
