"""Footprints as tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from wattstep.report import memory_tables
from wattstep.report.memory_tables import Row
from wattstep.report.terminal.folding import print_table
from wattstep.report.values import BYTES_NOTE, Shown, brief, plain
from wattstep.schema.footprint import Footprint

MORE = "; --full: each category at its own highest moment, and stages of a training's life"


def print_footprints(footprints: Sequence[Footprint], console: Console, full: bool = False) -> None:
    """Prints memory by category, a column for each batch size.

    Args:
        footprints: The footprints.
        console: Where to print.
        full: The highest of each category and the stages of a training's life as well.
    """
    for group in memory_tables.by_workload(footprints):
        console.print()
        console.print(Text(memory_tables.heading(group), style="bold"))
        if verdict := memory_tables.verdict(group):
            console.print(Text(verdict, style="bold"))
        categories = memory_tables.category_rows(group)
        totals = memory_tables.total_rows(group)
        if categories:
            _print("When most memory is in use", categories, group, console, totals)
        if categories and full:
            highest = memory_tables.highest_rows(group)
            _print("Most that a category takes in a step", highest, group, console)
        if full or not categories:
            stages = memory_tables.stage_rows(group)
            _print("Most memory held, by stage of a training's life", stages, group, console)
        device = memory_tables.device_rows(group)
        if device and full:
            _print("Most memory of the GPU held by torch, by stage", device, group, console)
        cache = memory_tables.cache_rows(group)
        if cache and full:
            _print("Kept free by the GPU's allocator when most is in use", cache, group, console)
        for note in memory_tables.notes(group):
            console.print(Padding(Text(note), (0, 0, 0, 2)))
    console.print(Padding(Text(BYTES_NOTE if full else BYTES_NOTE + MORE), (0, 0, 0, 2)))


def _print(
    title: str,
    rows: Iterable[Row],
    footprints: Sequence[Footprint],
    console: Console,
    totals: Iterable[Row] = (),
) -> None:
    table = Table(title=title, title_justify="left", title_style="bold", box=None)
    table.add_column("batch")
    for one in footprints:
        table.add_column(Text(plain(one.batch_size)), justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    for row in rows:
        table.add_row(*_line(row))
    for row in totals:
        table.add_row(*_line(row), style="bold")
    console.print()
    print_table(table, console, indent=2)


def _line(row: Row) -> list[Text]:
    cells = [Text(_written(cell)) for cell in row.cells]
    return [Text(brief(row.label)), *cells, Text(", ".join(row.statuses))]


def _written(cell: Shown | None) -> str:
    return "" if cell is None else cell.value
