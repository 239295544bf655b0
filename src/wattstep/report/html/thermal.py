"""The course of a run: throughput, power, temperature and frequency over time, and where throttling set in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wattstep.report.html.charts import Chart, panel_title, series_color
from wattstep.report.html.plotly_text import inert
from wattstep.report.values import plain, quantity, scale_of
from wattstep.schema.figure import Figure, Status
from wattstep.schema.figures import Metrics
from wattstep.schema.report_rows import Course, CourseColumn
from wattstep.schema.run_report import RunReport

MODEL = (
    "thermal_time_constant",
    "thermal_time_constant_fast",
    "steady_temperature",
    "time_to_throttle",
    "thermal_resistance",
)
_PANEL, _GAP, _TOP, _BOTTOM = 92, 26, 22, 40  # pixels
_SHORT = 5  # characters of a unit that stand beside each number of an axis
_LEAST_SPAN = 0.05  # of a value that its axis spans at least: less is noise to the eye
_MOST_ZONES = 16  # sensors of temperature that are drawn
_MARKED = ("modelled", "predicted")
_TITLES = {
    "throughput": "Throughput",
    "power": "Power",
    "temperature": "Temperature, hottest sensor",
    "frequency": "Frequency, mean of busy cores",
}


def course(report: RunReport) -> dict[str, Any] | None:
    """Thermal course of a run: a chart and sentences; None where there is none.

    Args:
        report: Of the run.
    """
    curve = report.course
    whole = report.figures_of == "recording"
    chart = course_chart(curve, "the beginning" if whole else "the first step")
    if curve is None or chart is None:
        return None
    return {
        "chart": chart,
        "statuses": _statuses(curve),
        "sentences": sentences(report),
        "zones": [(plain(zone.zone), series_color(n)) for n, zone in enumerate(_zones(curve))],
        "throttled": bool(curve.throttled),
    }


def course_chart(curve: Course | None, since: str = "the first step") -> Chart | None:
    """A panel for each column, one below the other on an axis of minutes or seconds `since`."""
    if curve is None or not curve.columns:
        return None
    columns = curve.columns
    unit, factor = _time_axis(curve)
    middles = [round((begin + curve.bin / 2) * factor, 4) for begin in curve.begin]
    total = (_PANEL + _GAP) * len(columns)
    layout: dict[str, Any] = {
        "height": total + _TOP + _BOTTOM,
        "margin": {"l": 62, "r": 8, "t": _TOP, "b": _BOTTOM},
        "showlegend": False,
        "annotations": [],
        "shapes": [],
        "xaxis": {
            "title": {
                "text": f"{unit} from {since}",
                "standoff": 4,
                "font": {"size": 11, "color": "--ink-soft"},
            },
            "anchor": "y" if len(columns) == 1 else f"y{len(columns)}",
            "zeroline": False,
        },
    }
    data = []
    for number, column in enumerate(columns):
        suffix = "" if number == 0 else str(number + 1)
        high = 1 - ((_PANEL + _GAP) * number + _GAP) / total
        low = max(high - _PANEL / total, 0.0)
        scale = scale_of(max(map(abs, _known(column)), default=0.0), column.unit)
        layout[f"yaxis{suffix}"] = {
            "domain": [low, high],
            **_range(column, scale.factor),
            "nticks": 4,
            "ticksuffix": scale.suffix if len(scale.suffix) <= _SHORT else "",
            "zeroline": False,
            "fixedrange": True,
        }
        layout["annotations"].append(panel_title(_title(column, scale.suffix), high))
        data.append(_trace(column, middles, scale.factor, scale.suffix, number, suffix, unit))
        if column.name == "temperature":
            data += [
                _zone(zone, middles, scale.suffix, color, suffix, unit)
                for color, zone in enumerate(_zones(curve))
            ]
    layout["shapes"] += [_stretch(a * factor, b * factor) for a, b in curve.throttled]
    if curve.throttled_from is not None:
        layout["shapes"].append(_onset(curve.throttled_from * factor))
        layout["annotations"].append(_onset_name(curve.throttled_from * factor))
    return {"data": data, "layout": layout, "tools": True}


def _range(column: CourseColumn, factor: float) -> dict[str, Any]:
    """An axis that shows a change of a percent as small; {} where the values span more than that."""
    known = _known(column)
    low, high = min(known, default=0.0), max(known, default=0.0)
    least = _LEAST_SPAN * max(abs(low), abs(high))
    if high - low >= least or not least:
        return {}
    middle = (low + high) / 2
    return {"range": [factor * (middle - least / 2), factor * (middle + least / 2)]}


def sentences(report: RunReport) -> list[str]:
    """The course in words: first minute against last, throttling, and what the model says."""
    sustained = report.metrics.parts("sustained")
    return [
        *_compared(sustained),
        *_from_onset(sustained),
        *_steady(sustained),
        *_modelled(report.metrics),
    ]


def _compared(sustained: Mapping[str, Figure]) -> list[str]:
    ratio = _value(sustained, "throughput_ratio")
    words = []
    if ratio is not None:
        words.append(
            f"the last minute trained at {100 * ratio:.1f} % of the throughput of the first"
        )
    for name in ("power", "temperature", "frequency"):
        first, last = (_value(sustained, f"{which}_minute_{name}") for which in ("first", "last"))
        if first is None or last is None:
            continue
        unit = sustained[f"first_minute_{name}"].unit
        words.append(
            f"{name} {quantity(first, unit)} in the first minute, {quantity(last, unit)} in the last"
        )
    text = "; ".join(words)
    return [f"{text[:1].upper()}{text[1:]}."] if words else []


def _from_onset(sustained: Mapping[str, Figure]) -> list[str]:
    onset = sustained.get("throttle_onset")
    if onset is None or onset.value is None:
        return []
    why = f": {plain(onset.source)}" if onset.source else ""
    return [f"Throttling set in {_time(onset.value)} after the first step{why}."]


def _steady(sustained: Mapping[str, Figure]) -> list[str]:
    after = sustained.get("steady_after")
    if after is None:
        return []
    if after.value is None:
        reason = plain(after.reason)
        return [f"{reason[:1].upper()}{reason[1:]}."]
    return [f"It was steady after {_time(after.value)}."]


def _modelled(metrics: Metrics) -> list[str]:
    constant, steady = (metrics.value(name) for name in (MODEL[0], "steady_temperature"))
    if constant is None or steady is None:
        return []
    words = (
        f"The thermal model has a time constant of {_time(constant)} and settles at "
        f"{steady:.1f} °C at the training's mean power"
    )
    until = metrics.value("time_to_throttle")
    if until is not None:
        words += f"; from the beginning it takes {_time(until)} until throttling begins"
    return [words + "."]


def _value(figures: Mapping[str, Figure], name: str) -> float | None:
    return figures[name].value if name in figures else None


def _time(seconds: float) -> str:
    """A time as people say it: seconds, above two minutes in minutes."""
    return f"{seconds / 60:.1f} min" if seconds >= 120 else f"{seconds:.3g} s"


def _time_axis(curve: Course) -> tuple[str, float]:
    """Unit of the axis, and the factor from seconds to it."""
    whole = curve.begin[-1] + curve.bin
    return ("min", 1 / 60) if whole >= 300 else ("s", 1.0)


def _known(column: CourseColumn) -> list[float]:
    return [value for value in column.values if value is not None]


def _statuses(curve: Course) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(column.status) for column in curve.columns))


def _trace(
    column: CourseColumn,
    middles: Sequence[float],
    factor: float,
    suffix: str,
    number: int,
    axis: str,
    unit: str,
) -> dict[str, Any]:
    marked = column.status in _MARKED
    color = series_color(number)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": list(middles),
        "y": [None if value is None else factor * value for value in column.values],
        "line": {"color": color, "width": 1.8, "dash": "dot" if marked else "solid"},
        "marker": {"color": color, "size": 4, "symbol": "circle-open" if marked else "circle"},
        "connectgaps": False,
        "hovertemplate": f"%{{y:.4~g}}{suffix} at %{{x:.4~g}} {unit}<extra></extra>",
        "xaxis": "x",
        "yaxis": f"y{axis}",
    }


def _zones(curve: Course) -> Sequence[CourseColumn]:
    """The sensors of temperature, where there are several: one is the hottest by itself."""
    return curve.zones[:_MOST_ZONES] if len(curve.zones) > 1 else ()


def _zone(
    zone: CourseColumn,
    middles: Sequence[float],
    suffix: str,
    number: int,
    axis: str,
    unit: str,
) -> dict[str, Any]:
    """Trace of one sensor: a thin line below that of the hottest."""
    line = _trace(zone, middles, 1.0, suffix, number, axis, unit)
    return {
        **line,
        "mode": "lines",
        "name": inert(zone.zone),
        "line": {**line["line"], "width": 1},
        "hovertemplate": f"%{{y:.4~g}}{suffix} at %{{x:.4~g}} {unit}<extra>%{{fullData.name}}</extra>",
    }


def _stretch(begin: float, end: float) -> dict[str, Any]:
    """A shade behind the time in which the device was throttled."""
    return {
        "type": "rect",
        "xref": "x",
        "yref": "paper",
        "x0": begin,
        "x1": end,
        "y0": 0,
        "y1": 1,
        "fillcolor": "--band",
        "line": {"width": 0},
        "layer": "below",
    }


def _title(column: CourseColumn, suffix: str) -> str:
    unit = f" in{suffix}" if len(suffix) > _SHORT else ""
    name = _TITLES.get(str(column.name), "Another")
    return f"{name}{unit} ({Status(column.status).value})"


def _onset(at: float) -> dict[str, Any]:
    return {
        "type": "line",
        "xref": "x",
        "yref": "paper",
        "x0": at,
        "x1": at,
        "y0": 0,
        "y1": 1,
        "line": {"color": "--ink", "width": 1.2, "dash": "dash"},
    }


def _onset_name(at: float) -> dict[str, Any]:
    return {
        "text": "throttled from here",
        "x": at,
        "xref": "x",
        "xanchor": "left",
        "y": 1,
        "yref": "paper",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 11, "color": "--ink"},
    }
