"""The answer to a query, and the tables that there are, on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from wattstep.report import query_rows
from wattstep.report.query import Answer
from wattstep.report.query.tables import Table
from wattstep.report.terminal.folding import has_room
from wattstep.report.values import NO_VALUE, brief

NUMBERS: Final = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "REAL")
RULE: Final = 40  # cells between two records
LONGEST: Final = 200  # characters of a value


def print_answer(answer: Answer, console: Console, most: int) -> None:
    """Prints the first rows, and how many there are.

    Args:
        answer: Result of the query.
        console: Where to.
        most: Rows that are printed.
    """
    rows = query_rows.rows(answer)
    shown = list(islice(rows, most))
    grid = _grid()
    for name, kind in answer.columns:
        number = _is_number(kind)
        grid.add_column(
            Text(brief(name)), overflow="fold", no_wrap=number, justify="right" if number else "left"
        )  # fmt: skip
    for row in shown:
        grid.add_row(*(Text(_spoken(value)) for value in row))
    if shown and not has_room(grid, console):
        _print_records(answer, shown, console)
    else:
        console.print(grid)
    count = len(shown) + sum(1 for _ in rows)
    of_all = "" if count <= most else f", the first {most} of them above; --csv, --json, -o for all"
    console.print(Text(f"{count:,} row{'' if count == 1 else 's'}{of_all}", style="dim"))


def _print_records(answer: Answer, rows: Sequence[Sequence[Any]], console: Console) -> None:
    """Rows that are wider than the terminal, each as lines of column and value; without empty ones."""
    for row in rows:
        grid = Grid.grid(padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True, style="dim")
        grid.add_column(overflow="fold")
        for (name, _), value in zip(answer.columns, row, strict=True):
            if value is not None:
                grid.add_row(brief(name), Text(_spoken(value)))
        console.print(grid, Text("─" * min(console.width, RULE), style="dim"))


def print_tables(tables: Sequence[Table], console: Console) -> None:
    """Prints every table with its columns."""
    for table in tables:
        console.print(Text.assemble((f"\n{table.name}", "bold"), f": {table.meaning}"))
        grid = _grid()
        for heading in ("column", "type", "unit", "meaning"):
            grid.add_column(heading, overflow="fold", no_wrap=heading in ("column", "type"))
        for column in table.columns:
            grid.add_row(column.name, Text(column.type), column.unit, Text(column.meaning))
        console.print(grid)


def _grid() -> Grid:
    return Grid(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="dim",
        show_edge=False,
    )


def _is_number(kind: str) -> bool:
    return any(word in kind for word in NUMBERS) and "[" not in kind


def _spoken(value: Any) -> str:
    if value is None:
        return NO_VALUE
    return brief(f"{value:.6g}" if isinstance(value, float) else str(value), LONGEST)
