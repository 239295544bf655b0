"""Charts by batch size: lines with their intervals and the paper's points beside them, and bars side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from wattstep.insight.observe.groups import Group
from wattstep.report.html.charts import (
    Bar,
    Chart,
    error_of,
    hover_of,
    marker_of,
    series_color,
)
from wattstep.report.html.paper.drawn import Drawn, KeyEntry, NotDrawn, Panel
from wattstep.report.html.paper.published import Published, published
from wattstep.report.html.paper.readings import Readings, pooled
from wattstep.report.html.plotly_text import inert
from wattstep.report.tables import Row, Table, table
from wattstep.report.values import plain, scale_of, show
from wattstep.schema.figure import Figure, Status

SWEEP: Final = "wattstep run NAME --batch 4,16,64"
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
        label: Name of the line.
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
        """Legend entry of the line."""
        return KeyEntry(
            mark=_MARKS[_mark(self.number)][1], color=self.color, label=plain(self.label)
        )


Sentences = Callable[[Readings, Sequence[Group]], Iterable[str]]
Cell = tuple[str, str, Figure, str]  # name, place, figure and colour of a bar


def draw_lines(
    number: int | str, quantities: Mapping[str, str], unit: str, sentences_of: Sentences,
    titles: Mapping[str, str] | None = None, *, together: bool = False,
) -> Callable[[Readings], Drawn | NotDrawn]:  # fmt: skip
    """Draws lines by batch size, the paper's points beside them.

    Args:
        number: Of the figure.
        quantities: Names and titles.
        unit: Of all quantities.
        said: Sentences about the groups that are drawn.
        titles: Of the charts, where they are not those of the quantities.
        together: True if a chart shows all quantities of a group; else all groups of a quantity.
    """

    def draw(readings: Readings) -> Drawn | NotDrawn:
        charts = _of_groups(readings) if together else _of_quantities(readings)
        if not any(len(line.points) > 1 for _, lines, _ in charts for line in lines):
            return NotDrawn(reason=_why_none(readings, quantities, unit), command=SWEEP)
        colors = {} if together else colors_of(readings.groups)
        drawn = [
            (Panel(title=title, chart=chart, statuses=_statuses(lines)), points)
            for title, lines, points in charts
            if (chart := line_chart(lines, points, colors)) is not None
        ]
        groups = [group for group in readings.groups if not together or _enough(_lines_of(group))]
        keys = {line.label: line.key for _, lines, _ in charts for line in lines}
        return Drawn(
            panels=[panel for panel, _ in drawn],
            sentences=list(sentences_of(readings, groups)),
            table=batch_table(batch_rows(groups, dict.fromkeys(quantities, unit)), quantities),
            key=[
                *keys.values(),
                *published_key([p for _, points in drawn for p in points], colors),
            ],
        )

    def _of_quantities(readings: Readings) -> list[tuple[str, list[Line], list[Published]]]:
        return [
            (
                (titles or quantities)[name],
                [
                    _line_of(group.label, place, group, name, unit)
                    for place, group in enumerate(readings.groups)
                ],
                [one for one in published(number) if one.quantity == name and one.batch],
            )
            for name in quantities
        ]

    def _of_groups(readings: Readings) -> list[tuple[str, list[Line], list[Published]]]:
        return [
            (group.label, lines, [one for one in published(number) if one.workload == workload])
            for group in readings.groups
            if _enough(lines := _lines_of(group)) and (workload := group.runs[0].info.workload)
        ]

    def _lines_of(group: Group) -> list[Line]:
        """Quantities that hold nothing have no place on a logarithmic axis."""
        lines = [
            _line_of(title, place, group, name, unit)
            for place, (name, title) in enumerate(quantities.items())
        ]
        return [line for line in lines if any(figure.value for _, figure in line.points)]

    return draw


def _why_none(readings: Readings, quantities: Mapping[str, str], unit: str) -> str:
    """Reason why no line has two points: one batch size alone, or what was not read."""
    figures = [
        run.figure(name, unit)
        for group in readings.groups
        if len(group.known) > 1
        for run in group.runs
        for name in quantities
    ]
    reasons = dict.fromkeys(figure.reason for figure in figures if figure.reason)
    if not figures or not reasons:
        return "needs runs of one workload at two batch sizes or more"
    return f"not known of these runs: {'; '.join(filter(None, reasons))}"


def _line_of(label: str, number: int, group: Group, name: str, unit: str) -> Line:
    figures = {batch: pooled(group, name, batch, unit) for batch in group.known}
    known = tuple((batch, f) for batch, f in figures.items() if f.value is not None)
    return Line(label=label, number=number, points=known)


def _enough(lines: Iterable[Line]) -> bool:
    """True if one of them has two batch sizes at least."""
    return any(len(line.points) > 1 for line in lines)


def _statuses(lines: Iterable[Line]) -> tuple[str, ...]:
    statuses = (figure.status.value for line in lines for _, figure in line.points)
    return tuple(dict.fromkeys(statuses))


@dataclass(frozen=True, kw_only=True)
class Bars:
    """A chart of bars side by side.

    Attributes:
        places: Labels below the places.
        series: A bar for each place.
        key: Legend of their colours.
        rows: Of the table of the figure, where it has its own.
        level: A value of the paper that is no bar but a level.
    """

    places: Sequence[str]
    series: Sequence[Sequence[Cell]]
    key: Sequence[KeyEntry]
    rows: Sequence[Row] = ()
    level: float | None = None


def draw_bars(
    charts: Iterable[tuple[Group, Bars]], unit: str
) -> tuple[list[Panel], list[Row], list[KeyEntry]] | None:
    """Panels, rows and what colours stand for, a chart for each group; None where there is no bar."""
    panels: list[Panel] = []
    rows: list[Row] = []
    key: dict[str, KeyEntry] = {}
    for group, own in charts:
        series = [[bar_of(*cell) for cell in cells] for cells in own.series]
        chart = grouped_bars(own.places, series, unit, own.level)
        if chart is not None:
            known = (bar.shown.status for bars in series for bar in bars if bar is not None)
            statuses = tuple(dict.fromkeys(known))
            panels.append(Panel(title=group.label, chart=chart, statuses=statuses))
            rows += own.rows
            key |= {entry.label: entry for entry in own.key}
    return (panels, rows, list(key.values())) if panels else None


def colors_of(groups: Sequence[Group]) -> dict[str, str]:
    """The colour of the first group of each workload, by the name of the workload."""
    colors: dict[str, str] = {}
    for number, group in enumerate(groups):
        colors.setdefault(group.runs[0].info.workload, series_color(number))
    return colors


def batch_rows(groups: Sequence[Group], metrics: Mapping[str, str]) -> list[Row]:
    """A row for each group and batch size.

    Args:
        groups: Of runs.
        metrics: Unit of each, by name.
    """
    return [
        {
            "run": group.label,
            "batch": f"{batch:,}",
            "processes": str(len(runs)),
            **{name: pooled(group, name, batch, unit) for name, unit in metrics.items()},
        }
        for group in groups
        for batch, runs in group.known.items()
    ]


def batch_table(rows: Sequence[Row], metrics: Mapping[str, str]) -> Table:
    """The table of `batch_rows`, with the heading of each metric by its name."""
    return table(rows, {"run": "Runs", "batch": "Batch", "processes": "Processes"}, metrics)


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
    """Legend entries of the outlined points."""
    colored = {colors.get(point.workload, "--ink-soft"): point.label for point in published}
    return [
        KeyEntry(mark=_PUBLISHED[1], color=each, label=label) for each, label in colored.items()
    ]


def grouped_bars(
    places: Sequence[str],
    series: Sequence[Sequence[Bar | None]],
    unit: str,
    bound: float | None = None,
) -> Chart | None:
    """Bars side by side: at each place one of every series; None where there is none.

    Args:
        places: Labels below the places.
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
        shown=show(figure),
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
    traces = []
    for number, model in enumerate(dict.fromkeys(point.model for point in published)):
        own = [point for point in published if point.model == model]
        color = colors.get(own[0].workload, "--ink-soft")
        traces.append(
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
                    f"<br>{inert(point.label)}"
                    for point in own
                ],
                "hoverinfo": "text",
            }
        )
    return traces


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
