"""What a figure of the paper comes to on some runs: charts with sentences and a table, or why there are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wattstep.reports.pages.charts import Chart
from wattstep.reports.tables import Table


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One chart.

    Attributes:
        title: What it shows.
        chart: The chart.
        statuses: Of the figures in it, the paper's own left aside.
    """

    title: str
    chart: Chart
    statuses: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class KeyEntry:
    """What a colour and a mark stand for.

    Attributes:
        mark: A character in the shape of the marker.
        color: The name of the colour.
        label: What has it.
    """

    mark: str
    color: str
    label: str


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A figure that could be drawn.

    Attributes:
        panels: Its charts.
        sentences: What it says, and what the reader must know.
        table: The values that the charts show.
        key: What colours and marks stand for, where charts do not say it.
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
        command: What would make runs that can, or "".
    """

    reason: str
    command: str = ""
