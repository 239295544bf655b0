"""A labeling on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from wattstep.labeling.cost import LabelingCost
from wattstep.labeling.result import LabelingReport
from wattstep.report import labeling_tables


def print_labeling(result: LabelingReport, cost: LabelingCost | None, console: Console) -> None:
    """Prints what was labeled as what, what there is to decide, and what it costs.

    Args:
        result: Of the labeling.
        cost: Where it was measured.
        console: Where to print.
    """
    console.print()
    console.print(Text(labeling_tables.heading(result), style="bold"))
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("labeled as", overflow="fold")
    table.add_column("samples", justify="right")
    table.add_column("share", justify="right")
    for name, count, share in labeling_tables.rows(result):
        table.add_row(name, f"{count:,}", share)
    console.print(Padding(table, (1, 0, 1, 2)))
    costs = [] if cost is None else labeling_tables.costs(cost)
    for line in (*labeling_tables.facts(result), *costs):
        console.print(Padding(Text(line), (0, 0, 0, 2)))
