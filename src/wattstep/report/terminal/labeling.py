"""A labeling on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from wattstep.labeling.cost import LabelingCost
from wattstep.labeling.result import LabelingReport
from wattstep.report import labeling_tables


def print_labeling(result: LabelingReport, console: Console) -> None:
    """Prints what was labeled as what, and what there is to decide."""
    console.print()
    console.print(Text(labeling_tables.heading(result), style="bold"))
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("labeled as", overflow="fold")
    table.add_column("samples", justify="right")
    table.add_column("share", justify="right")
    for name, count, share in labeling_tables.rows(result):
        table.add_row(name, f"{count:,}", share)
    console.print(Padding(table, (1, 0, 1, 2)))
    _print_lines(labeling_tables.facts(result), console)
    _print_lines(labeling_tables.processors(result.placement), console)
    _print_lines(labeling_tables.frames(result.pace), console)


def print_cost(cost: LabelingCost, console: Console) -> None:
    """Prints what labeling costs here."""
    console.print()
    _print_lines(labeling_tables.costs(cost), console)


def _print_lines(lines: Sequence[str], console: Console) -> None:
    for line in lines:
        console.print(Padding(Text(line), (0, 0, 0, 2)))
