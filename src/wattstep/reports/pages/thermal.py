"""The course of a run: throughput, power, temperature and frequency over time, and where throttling set in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wattstep.records.figure import Status
from wattstep.reports.pages.charts import Chart, panel_title, series_color
from wattstep.reports.pages.plotly_text import inert
from wattstep.reports.values import plain, quantity, scale_of

Document = Mapping[str, Any]

MODEL = (
    "thermal_time_constant",
    "thermal_time_constant_fast",
    "steady_temperature",
    "time_to_throttle",
    "thermal_resistance",
)
_PANEL, _GAP, _TOP, _BOTTOM = 92, 26, 22, 40  # pixels
_SHORT = 5  # characters of a unit that stand beside each number of an axis
_MOST_ZONES = 16  # sensors of temperature that are drawn
_MARKED = ("modelled", "predicted")
_TITLES = {
    "throughput": "Throughput",
    "power": "Power",
    "temperature": "Temperature, hottest sensor",
    "frequency": "Frequency, mean of busy cores",
}


def course(document: Document) -> dict[str, Any] | None:
    """What the page shows of the course of a run: a chart and sentences; None where there is none.

    Args:
        document: A run document.
    """
    curve = document.get("curve") or {}
    whole = document.get("figures_of") == "recording"
    chart = course_chart(curve, "the beginning" if whole else "the first step")
    if chart is None:
        return None
    return {
        "chart": chart,
        "statuses": _statuses(curve),
        "sentences": sentences(document),
        "zones": [(plain(zone["zone"]), series_color(n)) for n, zone in enumerate(_zones(curve))],
        "throttled": bool(curve.get("throttled")),
    }


def course_chart(curve: Mapping[str, Any], since: str = "the first step") -> Chart | None:
    """A panel for each column, one below the other on an axis of minutes or seconds `since`."""
    columns = curve.get("columns") or ()
    if not columns:
        return None
    unit, factor = _time_axis(curve)
    middles = [round((begin + curve["bin"] / 2) * factor, 4) for begin in curve["begin"]]
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
        scale = scale_of(max(map(abs, _known(column)), default=0.0), column["unit"])
        layout[f"yaxis{suffix}"] = {
            "domain": [low, high],
            "nticks": 4,
            "ticksuffix": scale.suffix if len(scale.suffix) <= _SHORT else "",
            "zeroline": False,
            "fixedrange": True,
        }
        layout["annotations"].append(panel_title(_title(column, scale.suffix), high))
        data.append(_trace(column, middles, scale.factor, scale.suffix, number, suffix, unit))
        if column["name"] == "temperature":
            data += [
                _zone(zone, middles, scale.suffix, color, suffix, unit)
                for color, zone in enumerate(_zones(curve))
            ]
    layout["shapes"] += [_stretch(a * factor, b * factor) for a, b in curve.get("throttled") or ()]
    if curve.get("throttled_from") is not None:
        layout["shapes"].append(_onset(curve["throttled_from"] * factor))
        layout["annotations"].append(_onset_name(curve["throttled_from"] * factor))
    return {"data": data, "layout": layout, "tools": True}


def sentences(document: Document) -> list[str]:
    """The course in words: first minute against last, throttling, and what the model says."""
    metrics = document.get("metrics") or {}
    sustained = metrics.get("sustained") or {}
    said = [
        *_compared(sustained),
        *_from_onset(sustained),
        *_steady(sustained),
        *_modelled(metrics),
    ]
    return said


def _compared(sustained: Mapping[str, Any]) -> list[str]:
    ratio = _value(sustained, "throughput_ratio")
    if ratio is None:
        return []
    words = [f"The last minute trained at {ratio:.1%} of the throughput of the first"]
    for name in ("power", "temperature", "frequency"):
        first, last = (sustained.get(f"{which}_minute_{name}") or {} for which in ("first", "last"))
        if first.get("value") is None or last.get("value") is None:
            continue
        unit = first["unit"]
        words.append(
            f"{name} {quantity(first['value'], unit)} at first, {quantity(last['value'], unit)} at "
            "last"
        )
    return ["; ".join(words) + "."]


def _from_onset(sustained: Mapping[str, Any]) -> list[str]:
    onset = sustained.get("throttle_onset") or {}
    if onset.get("value") is None:
        return []
    why = f": {plain(onset['source'])}" if onset.get("source") else ""
    return [f"Throttling set in {_time(onset['value'])} after the first step{why}."]


def _steady(sustained: Mapping[str, Any]) -> list[str]:
    after = sustained.get("steady_after")
    if not after:
        return []
    if after.get("value") is None:
        reason = plain(after["reason"])
        return [f"{reason[:1].upper()}{reason[1:]}."]
    return [f"It was steady after {_time(after['value'])}."]


def _modelled(metrics: Mapping[str, Any]) -> list[str]:
    constant, steady = (_value(metrics, name) for name in (MODEL[0], "steady_temperature"))
    if constant is None or steady is None:
        return []
    words = (
        f"The thermal model has a time constant of {_time(constant)} and settles at "
        f"{steady:.1f} °C at the training's mean power"
    )
    until = _value(metrics, "time_to_throttle")
    if until is not None:
        words += f"; from the beginning it takes {_time(until)} until throttling begins"
    return [words + "."]


def _value(figures: Mapping[str, Any], name: str) -> float | None:
    value = (figures.get(name) or {}).get("value")
    return None if value is None else float(value)


def _time(seconds: float) -> str:
    """A time as people say it: seconds, above two minutes in minutes."""
    return f"{seconds / 60:.1f} min" if seconds >= 120 else f"{seconds:.3g} s"


def _time_axis(curve: Mapping[str, Any]) -> tuple[str, float]:
    """Unit of the axis, and the factor from seconds to it."""
    whole = curve["begin"][-1] + curve["bin"]
    return ("min", 1 / 60) if whole >= 300 else ("s", 1.0)


def _known(column: Mapping[str, Any]) -> list[float]:
    return [value for value in column["values"] if value is not None]


def _statuses(curve: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(column["status"]) for column in curve["columns"]))


def _trace(
    column: Mapping[str, Any],
    middles: Sequence[float],
    factor: float,
    suffix: str,
    number: int,
    axis: str,
    unit: str,
) -> dict[str, Any]:
    marked = column["status"] in _MARKED
    color = series_color(number)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": list(middles),
        "y": [None if value is None else factor * value for value in column["values"]],
        "line": {"color": color, "width": 1.8, "dash": "dot" if marked else "solid"},
        "marker": {"color": color, "size": 4, "symbol": "circle-open" if marked else "circle"},
        "connectgaps": False,
        "hovertemplate": f"%{{y:.4~g}}{suffix} at %{{x:.4~g}} {unit}<extra></extra>",
        "xaxis": "x",
        "yaxis": f"y{axis}",
    }


def _zones(curve: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The sensors of temperature, where there are several: one is the hottest by itself."""
    found = list(curve.get("zones") or ())
    return found[:_MOST_ZONES] if len(found) > 1 else []


def _zone(
    zone: Mapping[str, Any],
    middles: Sequence[float],
    suffix: str,
    number: int,
    axis: str,
    unit: str,
) -> dict[str, Any]:
    """One sensor as a thin line below that of the hottest."""
    line = _trace(zone, middles, 1.0, suffix, number, axis, unit)
    return {
        **line,
        "mode": "lines",
        "name": inert(zone["zone"]),
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


def _title(column: Mapping[str, Any], suffix: str) -> str:
    unit = f" in{suffix}" if len(suffix) > _SHORT else ""
    name = _TITLES.get(str(column["name"]), "Another")
    return f"{name}{unit} ({Status(column['status']).value})"


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
