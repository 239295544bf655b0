"""The values of a figure by batch size as a table, and the colour of each workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wattstep.observations.groups import Group
from wattstep.reports.pages.charts import series_color
from wattstep.reports.pages.paper.readings import Readings, shown
from wattstep.reports.tables import Table, table

_TEXTS = {"run": "Runs", "batch": "Batch", "processes": "Processes"}


def colors_of(groups: Sequence[Group]) -> dict[str, str]:
    """The colour of the first group of each workload, by the name of the workload."""
    found: dict[str, str] = {}
    for number, group in enumerate(groups):
        found.setdefault(group.runs[0].info.workload, series_color(number))
    return found


def batch_rows(
    readings: Readings, groups: Sequence[Group], metrics: Mapping[str, str]
) -> list[dict[str, Any]]:
    """A row for each group and batch size.

    Args:
        readings: The runs.
        groups: Groups of them.
        metrics: Unit of each, by name.
    """
    return [
        {
            "run": group.label,
            "batch": f"{batch:,}",
            "processes": str(len(runs)),
            **{name: shown(readings, group, name, batch, unit) for name, unit in metrics.items()},
        }
        for group in groups
        for batch, runs in group.known.items()
    ]


def batch_table(rows: Sequence[Mapping[str, Any]], metrics: Mapping[str, str]) -> Table:
    """The table.

    Args:
        rows: Of `batch_rows`.
        metrics: Heading of each, by name.
    """
    return table(rows, _TEXTS, metrics)
