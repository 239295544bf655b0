"""Charts of a report as plotly figures in plain dicts; colours are names that the page resolves to its theme."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wattstep.report.html.plotly_text import inert as _text
from wattstep.report.tables import Row
from wattstep.report.values import Shown, plain, quantity, scale_of, show
from wattstep.report.wording import label
from wattstep.run.three_steps import ShownChannel, ShownPhase, ShownStep
from wattstep.schema.figure import Figure

Chart = dict[str, Any]

_PHASE_COLORS = {
    "forward": "--forward",
    "backward": "--backward",
    "clipping": "--other",
    "optimizer": "--optimizer",
    "data": "--data",
    "evaluation": "--evaluation",
    "framework": "--framework",
    "idle": "--idle",
}
_FREE_COLORS = ("--series-6", "--series-1", "--series-5")  # of phases that somebody else named
_SERIES_COLORS = (
    "--series-1",
    "--series-2",
    "--series-3",
    "--series-4",
    "--series-5",
    "--series-6",
)
_UNCERTAIN = ("modelled", "predicted")
_MOST_LABEL = 36  # characters that a phone has room for
_APART = " · "
_MOST_NAMED_SERIES = 4
_BAR_ROW = 42  # pixels
_EDGE = 1.8  # pixels by which a curve is wider than the next one, which is drawn over it


@dataclass(frozen=True, kw_only=True)
class Bar:
    """Bar with its name, layer, place in words, colour and figure."""

    name: str
    place: str
    shown: Shown
    interval: tuple[float, float] | None
    color: str
    layer: str = ""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A channel and the panel that it is drawn in.

    Attributes:
        channel: Its samples.
        panel: Title of the panel; curves with the same title and unit share one.
        core: Core that names it there; None: its own name does.
    """

    channel: ShownChannel
    panel: str
    core: int | None = None


@dataclass(kw_only=True)
class _Panel:
    """Row of a timeline."""

    title: str
    height: int
    traces: list[dict[str, Any]]
    axis: dict[str, Any] = field(default_factory=dict)


def color_of(phase: str) -> str:
    """The name of the colour of a phase or a rest, the same in every chart."""
    free = _FREE_COLORS[zlib.crc32(phase.encode(errors="replace")) % len(_FREE_COLORS)]
    return _PHASE_COLORS.get(phase, free)


def phases_of(phases: Iterable[str]) -> list[str]:
    """The phases that occur, each once, in the order of a step."""
    distinct = dict.fromkeys(phase for phase in phases if phase)
    known = [phase for phase in _PHASE_COLORS if phase in distinct]
    return known + [phase for phase in distinct if phase not in _PHASE_COLORS]


def series_color(index: int) -> str:
    """The name of the colour of the series with this index."""
    return _SERIES_COLORS[index % len(_SERIES_COLORS)]


def bars_of(
    rows: Sequence[Row],
    key: str,
    name: str,
    most: int | None = None,
    colors: Mapping[str, str] | None = None,
) -> list[Bar]:
    """The rows of an operation, layer, phase or rest table as bars.

    Args:
        rows: Labels and figures side by side.
        key: Figure, "time" or "energy". Rows where it is missing have no bar.
        name: The key of the name.
        most: Keep so many, the longest; None keeps all, in the order given.
        colors: The names of colours by the name of the row; else a row has the colour of its phase.
    """
    figures = [(figure, row) for row in rows if isinstance(figure := row.get(key), Figure)]
    known = [(figure.value, figure, row) for figure, row in figures if figure.value is not None]
    if most is not None:
        known = sorted(known, key=lambda each: each[0], reverse=True)[:most]
    return [_bar(figure, row, name, colors or {}) for _, figure, row in known]


def ranking(bars: Sequence[Bar]) -> Chart | None:
    """Horizontal bars, each below its name and value, which leaves room for names on a phone."""
    if not any(bar.shown.number for bar in bars):
        return None
    top = max(_upper_end(bar) for bar in bars)
    places = list(range(len(bars)))
    trace = {
        "type": "bar",
        "orientation": "h",
        "y": places,
        "x": [bar.shown.number for bar in bars],
        "customdata": [bar.shown.pointer for bar in bars],
        "width": 0.3,
        "marker": marker_of(bars),
        "error_x": error_of(bars),
        "hovertext": [hover_of(bar) for bar in bars],
        "hoverinfo": "text",
        "textposition": "none",
    }
    names = {
        "type": "scatter",
        "mode": "text",
        "x": [0] * len(bars),
        "y": [place - 0.36 for place in places],
        "text": [_caption(bar) for bar in bars],
        "textposition": "middle right",
        "hoverinfo": "skip",
        "cliponaxis": False,
    }
    layout = {
        "height": _BAR_ROW * len(bars) + 16,
        "margin": {"l": 2, "r": 8, "t": 6, "b": 6},
        "xaxis": {"range": [0, top * 1.02], "visible": False, "fixedrange": True},
        "yaxis": {"range": [len(bars) - 0.6, -0.75], "visible": False, "fixedrange": True},
        "showlegend": False,
    }
    return {"data": [trace, names], "layout": layout, "tools": False}


def stack(bars: Sequence[Bar]) -> Chart | None:
    """Stacked bar, in the order given; its legend is the table beside it."""
    if not any(bar.shown.number for bar in bars):
        return None
    length = sum(bar.shown.number or 0.0 for bar in bars)
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "y": [0],
            "x": [bar.shown.number],
            "name": _text(bar.name),
            "customdata": [bar.shown.pointer],
            "marker": marker_of([bar]),
            "text": [_text(bar.name)],
            "textposition": "inside",
            "insidetextanchor": "middle",
            "textangle": 0,
            "insidetextfont": {"color": "--ink" if _pale(bar) else "--on-bar"},
            "hovertext": [hover_of(bar)],
            "hoverinfo": "text",
        }
        for bar in bars
    ]
    layout = {
        "height": 56,
        "barmode": "stack",
        "margin": {"l": 0, "r": 1, "t": 4, "b": 4},
        "xaxis": {"visible": False, "fixedrange": True, "range": [0, length]},
        "yaxis": {"visible": False, "fixedrange": True},
        "uniformtext": {"mode": "hide", "minsize": 11},
        "showlegend": False,
    }
    return {"data": traces, "layout": layout, "tools": False}


def steps_chart(steps: Sequence[ShownStep], curves: Sequence[Curve]) -> Chart | None:
    """Some steps: their phases, and channels meanwhile; None without either."""
    panels = [_phases(steps)] if any(step.phases for step in steps) else []
    panels += _curve_panels(curves)
    if not panels:
        return None
    chart = _stacked(panels, top=26)
    if steps:
        begin, end = 1e3 * steps[0].start, 1e3 * steps[-1].end
        pad = 0.01 * (end - begin)
        chart["layout"]["xaxis"]["range"] = [begin - pad, end + pad]
    chart["layout"]["shapes"] = [_band(step) for step in steps if step.traced]
    chart["layout"]["shapes"] += [_edge(step.start) for step in steps]
    chart["layout"]["annotations"] += [_step_name(step) for step in steps]
    return chart


def _bar(figure: Figure, row: Row, name: str, colors: Mapping[str, str]) -> Bar:
    low, high = figure.low, figure.high
    others = [other for other in ("layer", "phase") if other != name and row.get(other)]
    others = others if name == "name" else []
    color = color_of(str(row["phase"])) if row.get("phase") else "--series-1"
    return Bar(
        name=plain(row.get(name) or "(no name)"),
        layer=plain(row["layer"]) if "layer" in others else "",
        place=" · ".join(plain(row[other]) for other in others),
        shown=show(figure),
        interval=None if low is None or high is None else (low, high),
        color=colors.get(str(row.get(name)), color),
    )


def _upper_end(bar: Bar) -> float:
    return max(bar.shown.number or 0.0, bar.interval[1] if bar.interval else 0.0)


def marker_of(bars: Sequence[Bar]) -> dict[str, Any]:
    """Hatched where no sensor gave the number."""
    shapes = ["/" if _uncertain(bar) else "" for bar in bars]
    return {
        "color": [bar.color for bar in bars],
        "pattern": {"shape": shapes, "size": 6, "solidity": 0.35},
        "line": {"color": [bar.color for bar in bars], "width": 1},
    }


def _pale(bar: Bar) -> bool:
    """True if white words on it cannot be read."""
    return bar.color == "--idle" or _uncertain(bar)


def _uncertain(bar: Bar) -> bool:
    return bar.shown.status in _UNCERTAIN


def error_of(bars: Sequence[Bar]) -> dict[str, Any]:
    """Their intervals, as plotly wants them; not drawn where none has one."""
    if not any(bar.interval for bar in bars):
        return {"visible": False}
    ends = [(bar.shown.number or 0.0, bar.interval) for bar in bars]
    return {
        "type": "data",
        "symmetric": False,
        "array": [ends_[1] - value if ends_ else 0 for value, ends_ in ends],
        "arrayminus": [value - ends_[0] if ends_ else 0 for value, ends_ in ends],
        "thickness": 1.2,
        "width": 3,
        "color": "--ink-soft",
    }


def _caption(bar: Bar) -> str:
    # The layer first: it tells operations of one name apart; the phase is in the colour.
    name = _short(bar.name, _MOST_LABEL // 2 if bar.layer else _MOST_LABEL)
    room = _MOST_LABEL - len(name) - len(_APART)
    named = f"{_short(bar.layer, room)}{_APART}{name}" if bar.layer else name
    return f"{_text(named)}  <b>{_text(bar.shown.value)}</b>"


def hover_of(bar: Bar) -> str:
    """Text shown where the pointer rests on a bar."""
    place = f"<br>{_text(bar.place)}" if bar.place else ""
    return f"<b>{_text(bar.name)}</b>{place}<br>{_text(bar.shown.text)}<br>{bar.shown.status}"


def _short(text: str, most: int) -> str:
    """A text with so many characters at most: of the path of a module its end, which tells it apart."""
    if len(text) <= most:
        return text
    is_path = "." in text and " " not in text
    return f"…{text[1 - most :]}" if is_path else f"{text[: most - 1]}…"


def _phases(steps: Sequence[ShownStep]) -> _Panel:
    phases = [phase for step in steps for phase in step.phases]
    return _Panel(
        title="Phases",
        height=30,
        traces=[_spans(phases)],
        axis={"visible": False, "range": [-0.5, 0.5], "fixedrange": True},
    )


def _spans(phases: Sequence[ShownPhase]) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "base": [_milliseconds(each.start) for each in phases],
        "x": [_milliseconds(each.end - each.start) for each in phases],
        "y": [0] * len(phases),
        "width": 1,
        "marker": {
            "color": [color_of(each.name) for each in phases],
            "line": {"color": "--surface", "width": 1},
        },
        "text": [_text(each.name) for each in phases],
        "textposition": "inside",
        "insidetextanchor": "start",
        "insidetextfont": {"color": "--on-bar"},
        "textangle": 0,
        "hovertext": [
            f"<b>{_text(each.name)}</b><br>{quantity(each.end - each.start, 's')}"
            for each in phases
        ],
        "hoverinfo": "text",
        "showlegend": False,
    }


def _milliseconds(seconds: float) -> float:
    return round(1e3 * seconds, 6)  # to the nanosecond, which is what was recorded


def _curve_panels(curves: Sequence[Curve]) -> list[_Panel]:
    """Curves of one panel and unit share it."""
    groups: dict[tuple[str, str], list[Curve]] = {}
    for curve in curves:
        groups.setdefault((curve.panel, curve.channel.unit), []).append(curve)
    return [
        _curve_panel(title, unit, members, number)
        for number, ((title, unit), members) in enumerate(groups.items())
    ]


def _curve_panel(title: str, unit: str, members: Sequence[Curve], number: int) -> _Panel:
    values = [y for member in members for _, y in member.channel.points if y is not None]
    scale = scale_of(max(map(abs, values), default=0.0), unit)
    named = 1 < len(members) <= _MOST_NAMED_SERIES
    traces = [
        _series(
            member, scale.factor, scale.suffix, series_color(index if len(members) > 1 else number)
        )
        for index, member in enumerate(members)
    ]
    for below, trace in enumerate(reversed(traces)):
        trace["showlegend"] = named
        # Those that coincide (two cores, both busy) are seen as edges of each other.
        trace["line"]["width"] += _EDGE * min(below, _MOST_NAMED_SERIES)
    by_core = " by core" if any(member.core is not None for member in members) else ""
    channels = [member.channel for member in members]
    statuses = sorted({channel.status for channel in channels if channel.states_status})
    status = f" ({', '.join(statuses)})" if statuses else ""
    axis: dict[str, Any] = {"nticks": 4, "ticksuffix": _text(scale.suffix)}
    if unit == "W":
        axis["rangemode"] = "tozero"  # else a steady rail fills its panel with its last digits
    if unit == "ratio":
        axis.update(range=[0, 106 * max([1.0, *values])], tickvals=[0, 50, 100])
        axis["ticktext"] = [f"{tick} %" for tick in axis["tickvals"]]
    return _Panel(
        title=f"{_text(label(title))}{by_core}{status}", height=84, traces=traces, axis=axis
    )


def _series(curve: Curve, factor: float, suffix: str, color: str) -> dict[str, Any]:
    channel, core = curve.channel, curve.core
    modelled = channel.status in _UNCERTAIN
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": _text(channel.name) if core is None else f"core {core}",
        "x": [_milliseconds(t) for t, _ in channel.points],
        "y": [None if value is None else factor * value for _, value in channel.points],
        "line": {"color": color, "width": 1.6, "dash": "dot" if modelled else "solid"},
        "marker": {"color": color, "size": 4, "symbol": "circle-open" if modelled else "circle"},
        "connectgaps": False,
        "hovertemplate": "%{y:.4~g}" + _text(suffix) + " at %{x:.4~g} ms",
    }


def _stacked(panels: Sequence[_Panel], top: int) -> Chart:
    """Panels one below the other on a common time axis in milliseconds."""
    gap, bottom = 26, 40
    total = sum(panel.height for panel in panels) + gap * len(panels)
    layout: dict[str, Any] = {
        "height": total + top + bottom,
        "margin": {"l": 58, "r": 8, "t": top, "b": bottom},
        "barmode": "overlay",
        "uniformtext": {"mode": "hide", "minsize": 9},
        "annotations": [],
        "xaxis": {
            "title": {"text": "ms", "standoff": 4, "font": {"size": 11, "color": "--ink-soft"}},
            "anchor": "y" if len(panels) == 1 else f"y{len(panels)}",
            "zeroline": False,
        },
    }
    data, above = [], 0
    for number, panel in enumerate(panels, start=1):
        suffix = "" if number == 1 else str(number)
        above += gap
        high, low = 1 - above / total, 1 - (above + panel.height) / total
        above += panel.height
        layout[f"yaxis{suffix}"] = {"domain": [max(low, 0), high], "zeroline": False, **panel.axis}
        layout[f"legend{suffix}"] = _legend(high)
        layout["annotations"].append(panel_title(panel.title, high))
        data += [
            {**trace, "xaxis": "x", "yaxis": f"y{suffix}", "legend": f"legend{suffix}"}
            for trace in panel.traces
        ]
    return {"data": data, "layout": layout, "tools": True}


def _legend(y: float) -> dict[str, Any]:
    return {
        "x": 1,
        "xanchor": "right",
        "y": y,
        "yanchor": "bottom",
        "orientation": "h",
        "bgcolor": "--clear",
        "font": {"size": 11},
        "itemwidth": 30,
    }


def panel_title(text: str, y: float) -> dict[str, Any]:
    """The words above a panel whose upper edge is at the height y of the chart, 0 to 1."""
    return {
        "text": text,
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": y,
        "yref": "paper",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 12, "color": "--ink-soft"},
    }


def _band(step: ShownStep) -> dict[str, Any]:
    """A shade behind a traced step, which is slower than a clean one."""
    return {
        "type": "rect",
        "xref": "x",
        "yref": "paper",
        "x0": _milliseconds(step.start),
        "x1": _milliseconds(step.end),
        "y0": 0,
        "y1": 1,
        "fillcolor": "--band",
        "line": {"width": 0},
        "layer": "below",
    }


def _edge(start: float) -> dict[str, Any]:
    return {
        "type": "line",
        "xref": "x",
        "yref": "paper",
        "x0": _milliseconds(start),
        "x1": _milliseconds(start),
        "y0": 0,
        "y1": 1,
        "line": {"color": "--rule", "width": 1, "dash": "dot"},
        "layer": "below",
    }


def _step_name(step: ShownStep) -> dict[str, Any]:
    return {
        "text": f"step {step.index:,}{' (traced)' if step.traced else ''}",
        "x": _milliseconds(step.start),
        "xref": "x",
        "xanchor": "left",
        "y": 1,
        "yref": "paper",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 11, "color": "--ink-soft"},
    }
