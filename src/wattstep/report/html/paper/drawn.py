"""Results of drawing a figure of the paper from runs: charts, sentences and a table, or why there are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wattstep.report.html.charts import Chart
from wattstep.report.tables import Table


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Chart with its title.

    Attributes:
        title: Title of the chart.
        chart: The chart.
        statuses: Of the figures in it, the paper's own left aside.
    """

    title: str
    chart: Chart
    statuses: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class KeyEntry:
    """Legend entry.

    Attributes:
        mark: A character in the shape of the marker.
        color: The name of the colour.
        label: Name beside the mark.
    """

    mark: str
    color: str
    label: str


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A figure that could be drawn.

    Attributes:
        panels: Its charts.
        sentences: Results and caveats.
        table: The values that the charts show.
        key: Legend of colours and marks, where charts do not hold it.
    """

    panels: Sequence[Panel]
    sentences: Sequence[str]
    table: Table
    key: Sequence[KeyEntry] = ()


@dataclass(frozen=True, kw_only=True)
class NotDrawn:
    """A figure that these runs cannot show.

    Attributes:
        reason: Why.
        command: Command that would make runs that can, or "".
    """

    reason: str
    command: str = ""
