"""Charts by batch size: lines with their intervals and the paper's points beside them, and bars side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wattstep.observations.groups import Group
from wattstep.observations.growth import Ends, ends_of
from wattstep.records.figure import Figure, Status
from wattstep.reports.pages.charts import (
    Bar,
    Chart,
    error_of,
    hover_of,
    marker_of,
    series_color,
)
from wattstep.reports.pages.paper.drawn import KeyEntry
from wattstep.reports.pages.paper.published import Published
from wattstep.reports.pages.paper.published import label as published_label
from wattstep.reports.pages.paper.readings import pooled
from wattstep.reports.pages.plotly_text import inert
from wattstep.reports.values import plain, scale_of, show

SWEEP = "wattstep run {} --batch 4,16,64"
_MARKS = (
    ("circle", "●"), ("square", "■"), ("triangle-up", "▲"), ("diamond", "◆"),
    ("triangle-down", "▼"), ("star", "★"),
)  # fmt: skip
_PUBLISHED = ("diamond-tall-open", "◇")
_HEIGHT = 260
_WIDE = 30.0  # times: an axis that holds more is logarithmic
_UNCERTAIN = (Status.MODELLED, Status.PREDICTED)


@dataclass(frozen=True, kw_only=True)
class Line:
    """A quantity by batch size.

    Attributes:
        label: What it is of.
        number: Its place among the lines of the figure, which gives colour and mark.
        points: Batch size and figure, the smallest first; missing ones are left out.
    """

    label: str
    number: int
    points: tuple[tuple[int, Figure], ...]

    @property
    def color(self) -> str:
        """The name of its colour."""
        return series_color(self.number)

    @property
    def key(self) -> KeyEntry:
        """What its colour and mark stand for."""
        return KeyEntry(
            mark=_MARKS[_mark(self.number)][1], color=self.color, label=plain(self.label)
        )


def lines_of(groups: Sequence[Group], name: str, unit: str) -> list[Line]:
    """A line for each group; one without any value has no points."""
    return [line_of(group.label, number, group, name, unit) for number, group in enumerate(groups)]


def line_of(label: str, number: int, group: Group, name: str, unit: str) -> Line:
    """A quantity of a group by batch size."""
    figures = {batch: pooled(group, name, batch, unit) for batch in group.known}
    known = tuple((batch, f) for batch, f in figures.items() if f.value is not None)
    return Line(label=label, number=number, points=known)


def enough(lines: Iterable[Line]) -> bool:
    """Whether one of them has two batch sizes at least."""
    return any(len(line.points) > 1 for line in lines)


def statuses_of(lines: Iterable[Line]) -> tuple[str, ...]:
    """Of all their figures."""
    found = (figure.status.value for line in lines for _, figure in line.points)
    return tuple(dict.fromkeys(found))


def together(remark: str, groups: Sequence[Group]) -> list[str]:
    """A remark about some groups, said once; nothing where there are none."""
    names = ", ".join(plain(group.label) for group in groups)
    return [f"{names}: {remark}."] if groups else []


def growth(group: Group, name: str, unit: str, what: str) -> str:
    """How many times as much at the largest batch as at the smallest, in a sentence, or ""."""
    ends = ends_of(group, name, unit, logarithm=True)
    if not isinstance(ends, Ends):
        return ""
    shown = show(ends.change.figure().to_dict(), "times")
    return (
        f"{plain(group.label)}: at batch {ends.most} {what} is {shown.text} that at batch "
        f"{ends.least}."
    )


def line_chart(
    lines: Sequence[Line], published: Sequence[Published], colors: Mapping[str, str]
) -> Chart | None:
    """Lines by batch size, the paper's points outlined beside them; None where nothing is known.

    Args:
        lines: In one unit.
        published: The paper's points: of one quantity, each with a batch size.
        colors: The colour of a published workload, by its name; others are grey.
    """
    drawn = [line for line in lines if line.points]
    if not drawn:
        return None
    numbers = [figure.value or 0.0 for line in drawn for _, figure in line.points]
    unit = drawn[0].points[0][1].unit
    scale = scale_of(max(numbers), unit)
    batches = {batch for line in drawn for batch, _ in line.points}
    batches |= {point.batch for point in published if point.batch}
    everything = [*numbers, *(point.value for point in published)]
    wide = min(everything) > 0 and max(everything) > _WIDE * min(everything)
    data = [trace for line in drawn for trace in _line(line, scale.factor)]
    data += _published(published, colors, scale.factor)
    return {
        "data": data,
        "layout": {
            "height": _HEIGHT,
            "margin": {"l": 66, "r": 14, "t": 10, "b": 40},
            "showlegend": False,
            "xaxis": _batch_axis(batches),
            "yaxis": _value_axis(scale.suffix, wide),
        },
        "tools": False,
    }


def published_key(published: Sequence[Published], colors: Mapping[str, str]) -> list[KeyEntry]:
    """What the outlined points stand for."""
    colored = dict.fromkeys(colors.get(point.workload, "--ink-soft") for point in published)
    return [KeyEntry(mark=_PUBLISHED[1], color=each, label=published_label()) for each in colored]


def grouped_bars(
    places: Sequence[str],
    series: Sequence[Sequence[Bar | None]],
    unit: str,
    bound: float | None = None,
) -> Chart | None:
    """Bars side by side: at each place one of every series; None where there is none.

    Args:
        places: What stands below each place.
        series: A bar, or None, for each place.
        unit: Of all bars.
        bound: A value of the paper that is no bar but a level.
    """
    known = [bar for bars in series for bar in bars if bar is not None]
    if not known:
        return None
    tops = [bar.interval[1] if bar.interval else bar.shown.number or 0.0 for bar in known]
    scale = scale_of(max(tops), unit)
    layout: dict[str, Any] = {
        "height": _HEIGHT,
        "barmode": "group",
        "bargap": 0.25,
        "bargroupgap": 0.06,
        "margin": {"l": 66, "r": 14, "t": 10, "b": 40},
        "showlegend": False,
        "xaxis": {
            "tickvals": list(range(len(places))),
            "ticktext": [inert(place) for place in places],
            "fixedrange": True,
            "zeroline": False,
            "showgrid": False,
        },
        "yaxis": {**_value_axis(scale.suffix, wide=False), "rangemode": "tozero"},
    }
    if bound is not None:
        level = bound * scale.factor
        layout["shapes"] = [_level(level)]
        layout["yaxis"]["range"] = [0, 1.08 * max(level, *(top * scale.factor for top in tops))]
    return {
        "data": [trace for bars in series if (trace := _bars(bars, scale.factor))],
        "layout": layout,
        "tools": False,
    }


def bar_of(name: str, place: str, figure: Figure, color: str) -> Bar | None:
    """A figure as a bar; None where it is missing."""
    if figure.value is None:
        return None
    ends = None if figure.low is None or figure.high is None else (figure.low, figure.high)
    return Bar(
        name=plain(name),
        place=plain(place),
        shown=show(figure.to_dict()),
        interval=ends,
        color=color,
    )


# --- parts of charts --------------------------------------------------------------------------------


def _mark(number: int) -> int:
    """Colours go round after six lines; marks change with each round, so that no two are alike."""
    return (number + number // len(_MARKS)) % len(_MARKS)


def _line(line: Line, factor: float) -> list[dict[str, Any]]:
    """A line; its uncertain points are open, and the line is dotted where any is."""
    figures = [figure for _, figure in line.points]
    uncertain = [figure.status in _UNCERTAIN for figure in figures]
    mark = _MARKS[_mark(line.number)][0]
    bars = [bar for f in figures if (bar := bar_of(line.label, "", f, line.color)) is not None]
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "x": [batch for batch, _ in line.points],
            "y": [factor * (figure.value or 0.0) for figure in figures],
            "error_y": error_of([_scaled(bar, factor) for bar in bars]),
            "line": {
                "color": line.color,
                "width": 2,
                "dash": "dot" if any(uncertain) else "solid",
            },
            "marker": {
                "color": line.color,
                "size": 8,
                "symbol": [f"{mark}-open" if open_ else mark for open_ in uncertain],
            },
            "hovertext": [
                f"{hover_of(bar)}<br>batch {batch:,}"
                for bar, (batch, _) in zip(bars, line.points, strict=True)
            ],
            "hoverinfo": "text",
        }
    ]


def _published(
    published: Sequence[Published], colors: Mapping[str, str], factor: float
) -> list[dict[str, Any]]:
    """A dashed line of outlined points for each model of the paper."""
    found = []
    for number, model in enumerate(dict.fromkeys(point.model for point in published)):
        own = [point for point in published if point.model == model]
        color = colors.get(own[0].workload, "--ink-soft")
        found.append(
            {
                "type": "scatter",
                "mode": "lines+markers+text",
                **_named(model, len(own), number),
                "textfont": {"size": 11, "color": color},
                "x": [point.batch for point in own],
                "y": [factor * point.value for point in own],
                "line": {"color": color, "width": 1.2, "dash": "longdash"},
                "marker": {"color": color, "size": 11, "symbol": _PUBLISHED[0]},
                "cliponaxis": False,
                "hovertext": [
                    f"<b>{inert(model)}</b><br>{inert(point.text)} at batch {point.batch}"
                    f"<br>{inert(published_label())}"
                    for point in own
                ],
                "hoverinfo": "text",
            }
        )
    return found


def _named(model: str, count: int, number: int) -> dict[str, Any]:
    """Names in turn above the last point, below it, and above the first: lines lie close."""
    place = ("top left", "bottom left", "top right")[number % 3]
    at = 0 if place == "top right" else count - 1
    return {
        "text": [inert(model) if each == at else "" for each in range(count)],
        "textposition": place,
    }


def _batch_axis(batches: Iterable[int]) -> dict[str, Any]:
    sizes = sorted(batches)
    return {
        "type": "log",
        "tickvals": sizes,
        "ticktext": [f"{size:,}" for size in sizes],
        "title": {"text": "batch size", "standoff": 4, "font": {"size": 11, "color": "--ink-soft"}},
        "fixedrange": True,
        "zeroline": False,
    }


def _value_axis(suffix: str, wide: bool) -> dict[str, Any]:
    axis: dict[str, Any] = {
        "ticksuffix": inert(suffix) if len(suffix) <= 3 else "",
        "fixedrange": True,
        "zeroline": False,
        "nticks": 6,
    }
    if len(suffix) > 3:
        axis["title"] = {
            "text": inert(suffix.strip()),
            "standoff": 4,
            "font": {"size": 11, "color": "--ink-soft"},
        }
    return {**axis, "type": "log"} if wide else {**axis, "rangemode": "tozero"}


def _scaled(bar: Bar, factor: float) -> Bar:
    ends = None if bar.interval is None else (bar.interval[0] * factor, bar.interval[1] * factor)
    return replace(
        bar, shown=replace(bar.shown, number=factor * (bar.shown.number or 0.0)), interval=ends
    )


def _bars(bars: Sequence[Bar | None], factor: float) -> dict[str, Any] | None:
    known = [(place, bar) for place, bar in enumerate(bars) if bar is not None]
    if not known:
        return None
    drawn = [_scaled(bar, factor) for _, bar in known]
    return {
        "type": "bar",
        "x": [place for place, _ in known],
        "y": [bar.shown.number for bar in drawn],
        "marker": marker_of(drawn),
        "error_y": error_of(drawn),
        "hovertext": [hover_of(bar) for _, bar in known],
        "hoverinfo": "text",
        "textposition": "none",
    }


def _level(value: float) -> dict[str, Any]:
    return {
        "type": "line",
        "xref": "paper",
        "yref": "y",
        "x0": 0,
        "x1": 1,
        "y0": value,
        "y1": value,
        "line": {"color": "--ink", "width": 1.4, "dash": "longdash"},
    }
