"""Figure 8: throughput by batch size."""

from __future__ import annotations

from wattstep.reports.pages.paper.by_batch import (
    SWEEP,
    enough,
    growth,
    line_chart,
    lines_of,
    published_key,
    statuses_of,
)
from wattstep.reports.pages.paper.drawn import Drawn, NotDrawn, Panel
from wattstep.reports.pages.paper.published import published
from wattstep.reports.pages.paper.readings import Readings
from wattstep.reports.pages.paper.values_table import batch_rows, batch_table, colors_of

TITLE = "Throughput by batch size"
_METRIC, _UNIT = "throughput", "samples/s"


def draw(readings: Readings) -> Drawn | NotDrawn:
    """One chart with a line for each group of runs."""
    groups = readings.groups
    lines = lines_of(groups, _METRIC, _UNIT)
    points = [one for one in published(8) if one.batch]
    colors = colors_of(groups)
    chart = line_chart(lines, points, colors)
    if chart is None or not enough(lines):
        return NotDrawn(
            reason="needs runs of one workload at two batch sizes or more",
            command=SWEEP.format("NAME"),
        )
    said = (growth(group, _METRIC, _UNIT, "throughput") for group in groups)
    return Drawn(
        panels=[
            Panel(title="Samples trained in a second", chart=chart, statuses=statuses_of(lines))
        ],
        sentences=[sentence for sentence in said if sentence],
        table=batch_table(batch_rows(readings, groups, {_METRIC: _UNIT}), {_METRIC: "Throughput"}),
        key=[*(line.key for line in lines), *published_key(points, colors)],
    )
