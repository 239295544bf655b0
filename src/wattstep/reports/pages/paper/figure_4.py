"""Figure 4: the utilization of CPU and GPU by batch size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wattstep.observations.growth import Ends, ends_of
from wattstep.observations.sensors import NOT_FOLLOWING, replayed
from wattstep.reports.pages.paper.by_batch import (
    SWEEP,
    Line,
    enough,
    line_chart,
    lines_of,
    published_key,
    statuses_of,
    together,
)
from wattstep.reports.pages.paper.drawn import Drawn, NotDrawn, Panel
from wattstep.reports.pages.paper.published import published
from wattstep.reports.pages.paper.readings import Readings
from wattstep.reports.pages.paper.values_table import batch_rows, batch_table, colors_of
from wattstep.reports.values import plain, show

TITLE = "CPU and GPU utilization by batch size"
_METRICS = {"gpu_utilization": "GPU utilization", "cpu_utilization": "CPU utilization"}


def draw(readings: Readings) -> Drawn | NotDrawn:
    """A chart for the GPU, one for the CPU, with a line for each group of runs."""
    groups = readings.groups
    lines = {name: lines_of(groups, name, "ratio") for name in _METRICS}
    if not any(enough(found) for found in lines.values()):
        return NotDrawn(
            reason="needs runs of one workload at two batch sizes or more",
            command=SWEEP.format("NAME"),
        )
    colors = colors_of(groups)
    points = [one for one in published(4) if one.quantity and one.batch]
    panels = []
    for name, title in _METRICS.items():
        own = [one for one in points if one.quantity == name]
        chart = line_chart(lines[name], own, colors)
        if chart is not None:
            panels.append(Panel(title=title, chart=chart, statuses=statuses_of(lines[name])))
    gpu_drawn = any(line.points for line in lines["gpu_utilization"])
    return Drawn(
        panels=panels,
        sentences=_sentences(readings, {_METRICS[name]: own for name, own in lines.items()}),
        table=batch_table(batch_rows(readings, groups, dict.fromkeys(_METRICS, "ratio")), _METRICS),
        key=[
            *(line.key for line in lines["cpu_utilization"]),
            *(published_key(points, colors) if gpu_drawn else ()),
        ],
    )


def _sentences(readings: Readings, drawn: Mapping[str, Sequence[Line]]) -> list[str]:
    said = []
    for group in readings.groups:
        for name, title in _METRICS.items():
            ends = ends_of(group, name, "ratio", logarithm=False)
            if isinstance(ends, Ends):
                change = show(ends.change.figure().to_dict()).text.replace(" %", " points")
                said.append(
                    f"{plain(group.label)}: {title} changes by {change} from batch {ends.least} to "
                    f"{ends.most}."
                )
    for title, lines in drawn.items():
        if not any(line.points for line in lines):
            reasons = dict.fromkeys(_reason(readings, title))
            said.append(f"{title} is missing: {'; '.join(plain(reason) for reason in reasons)}.")
    return said + together(NOT_FOLLOWING, [g for g in readings.groups if replayed(g.runs)])


def _reason(readings: Readings, title: str) -> Iterator[str]:
    """Why a quantity of which nothing is drawn is not known."""
    for name, own in _METRICS.items():
        if own == title:
            yield from (run.observed.figure(name, "ratio").reason or "" for run in readings.runs)
