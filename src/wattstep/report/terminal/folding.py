"""Tables as wide as the terminal: columns fold between words, or go above or below the row, and no word is broken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

from rich.cells import cell_len
from rich.console import Console, ConsoleRenderable, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

BOUNDLESS = 100_000  # columns
SHORT = 16  # cells that stay on one line where that costs no lines: a number and its unit
FEW = 2  # lines more than the shortest way takes
GAP = 2  # blanks between columns, and before what goes below a row
SEEN = 100  # rows whose lines are counted: of a thousand it would take seconds

_Ranges: TypeAlias = Sequence[tuple[int, int]]  # cells of each column's longest word and line


def print_table(table: Table, console: Console, indent: int = 0) -> None:
    """Prints a table in a way that takes few lines.

    Its columns fold; or the first one has a line of its own above each row; or the last ones go below it.

    Args:
        table: The table, its cells texts; columns with `no_wrap` are never folded.
        console: Where to print.
        indent: Blanks before each line.
    """
    ranges = [_measured(column, table, console) for column in table.columns]
    whole = _with_widths(table, [longest for _, longest in ranges])
    longest = _longest(whole, console)
    if longest + indent <= console.width:
        # A padding measures all of its table once more.
        console.print(Padding(whole, (0, 0, 0, indent), expand=False) if indent else whole)
        return
    frame = longest - sum(line for _, line in ranges)
    layouts = _layouts(_beginning(table), ranges, console, console.width - indent, frame)
    heights = [_height(list(each), console, indent) for each in layouts]
    nicest = next(n for n, height in enumerate(heights) if height <= min(heights) + FEW)
    layouts = _layouts(table, ranges, console, console.width - indent, frame)
    for part in next(islice(layouts, nicest, None)):
        if isinstance(part, _Unbroken):
            console.print(Text(" " * (indent + GAP)) + part.text, soft_wrap=True)
        else:
            console.print(Padding(part, (0, 0, 0, indent), expand=False))


@dataclass(frozen=True)
class _Unbroken:
    """A text that is not folded, such as a path: where it is longer than a line the terminal goes on below."""

    text: Text


_Part: TypeAlias = RenderableType | _Unbroken


def _layouts(
    table: Table, ranges: _Ranges, console: Console, width: int, frame: int
) -> Iterator[Iterator[_Part]]:
    """Ways to print a table, the nicer ones first."""
    first, *others = table.columns
    rows = _Rows(table, console, width)
    for short in (SHORT, 0):
        if (widths := _widths(ranges, width - frame, short)) is not None:
            yield iter([_with_widths(table, widths)])
        if short and (widths := rows.widths(ranges[1:], GAP)) is not None:
            yield rows.parts([first], others, widths, [])
    for count in range(len(others), 0, -1):
        beside = table.columns[:count]
        if count == 1:
            yield rows.parts(beside, [], [], others)
        elif (widths := rows.widths(ranges[:count], 0)) is not None:
            yield rows.parts([], beside, widths, table.columns[count:])


def _height(parts: Sequence[_Part], console: Console, indent: int) -> int:
    """Lines that they take."""
    options = console.options.update(width=console.width - indent)
    return sum(
        1 if isinstance(part, _Unbroken) else len(console.render_lines(part, options))
        for part in parts
    )


def _with_widths(table: Table, widths: Sequence[int]) -> Table:
    """The table, its columns as wide as that; rich measures none of their cells again."""
    own = copy(table)
    own.columns = [
        replace(column, width=width, overflow="fold")
        for column, width in zip(table.columns, widths, strict=True)
    ]
    return own


def _beginning(table: Table) -> Table:
    """The table's first rows."""
    own = copy(table)
    own.columns, own.rows = [column.copy() for column in table.columns], []
    for row, *cells in islice(
        zip(table.rows, *(c.cells for c in table.columns), strict=True), SEEN
    ):
        own.add_row(*cells, style=row.style, end_section=row.end_section)
    return own


@dataclass(frozen=True)
class _Rows:
    """Rows of a table, each printed by itself.

    Attributes:
        table: The table.
        console: Where they are to be printed.
        width: Cells of a line.
    """

    table: Table
    console: Console
    width: int

    def widths(self, ranges: _Ranges, indent: int) -> list[int] | None:
        """Cells of columns that stand beside each other; None where they have no room."""
        return _widths(ranges, self.width - indent - GAP * (len(ranges) - 1), SHORT)

    def parts(
        self,
        above: Sequence[Column],
        beside: Sequence[Column],
        widths: Sequence[int],
        below: Sequence[Column],
    ) -> Iterator[_Part]:
        """Title, headings and rows: what stands above, then columns beside each other, then what goes below."""
        if self.table.title is not None:
            title = self.table.title
            yield Text(title, style="bold") if isinstance(title, str) else title
        indent = GAP if above else 0
        if self.table.show_header and beside:
            headings = [_line(column.header, self.console) for column in (*above, *beside)]
            for heading in headings:
                heading.stylize(self.table.header_style)
            yield from headings[: len(above)]
            yield _beside(headings[len(above) :], beside, widths, indent)
        columns = self.table.columns
        for row, line in zip(
            self.table.rows, zip(*(c.cells for c in columns), strict=True), strict=True
        ):
            cells = {id(column): cell for column, cell in zip(columns, line, strict=True)}
            style = row.style or "bold"
            names = (_line(cells[id(column)], self.console) for column in above)
            yield from (Text.assemble(name, style=style) for name in names)
            if any(_line(cells[id(c)], self.console) for c in beside):
                yield _beside([cells[id(c)] for c in beside], beside, widths, indent)
            yield from self._below([(column, cells[id(column)]) for column in below])

    def _below(self, cells: Sequence[tuple[Column, RenderableType]]) -> Iterator[_Part]:
        """Headings and cells that are not empty, with commas between them; what is not folded by itself."""
        lines = ((column, _line(cell, self.console)) for column, cell in cells)
        words = [
            (column, Text(" ").join(filter(None, (_line(column.header, self.console), line))))
            for column, line in lines
            if line
        ]
        text = Text(", ").join(word for column, word in words if not column.no_wrap)
        if text:
            yield Padding(text, (0, 0, 0, GAP), expand=False)
        yield from (_Unbroken(word) for column, word in words if column.no_wrap)


def _beside(
    cells: Sequence[RenderableType], columns: Sequence[Column], widths: Sequence[int], indent: int
) -> ConsoleRenderable:
    """Cells of one row beside each other."""
    grid = Table.grid(padding=(0, GAP, 0, 0))
    for column, width in zip(columns, widths, strict=True):
        grid.add_column(width=width, justify=column.justify, overflow="fold")
    grid.add_row(*cells)
    return Padding(grid, (0, 0, 0, indent), expand=False)


def _widths(ranges: _Ranges, room: int, short: int) -> list[int] | None:
    """Cells of each column: at least its longest word, and all of it up to `short`; None: no room for these."""
    most = [longest for _, longest in ranges]
    if sum(most) <= room:
        return most
    widths = [longest if longest <= short else word for word, longest in ranges]
    if sum(widths) > room:
        return None
    for _ in range(room - sum(widths)):  # to the column that is folded most
        widths[max(range(len(widths)), key=lambda n: most[n] / max(widths[n], 1))] += 1
    return widths


def _measured(column: Column, table: Table, console: Console) -> tuple[int, int]:
    """Cells of the longest word of a column and of its longest line."""
    options = console.options.update(width=BOUNDLESS)
    cells: list[RenderableType] = [*([column.header] if table.show_header else []), *column.cells]
    ranges = [
        # As `Measurement.get`, without what it asks of cells that are no texts.
        cell.__rich_measure__(console, options)
        if isinstance(cell, Text)
        else Measurement.get(console, options, cell)
        for cell in cells
    ]
    longest = max((one.maximum for one in ranges), default=0)
    return longest if column.no_wrap else max((one.minimum for one in ranges), default=0), longest


def _line(cell: RenderableType, console: Console) -> Text:
    """A cell as one line."""
    text = console.render_str(cell) if isinstance(cell, str) else cell
    assert isinstance(text, Text), "cells of tables are texts"
    return Text(" ").join(line for line in text.split("\n") if line)


def _longest(table: Table, console: Console) -> int:
    """Cells of the longest row of a table, not folded."""
    options = console.options.update(width=BOUNDLESS)
    return Measurement.get(console, options, table).maximum


def has_room(table: Table, console: Console) -> bool:
    """True if every row of a table stays on one line of the terminal."""
    return _longest(table, console) <= console.width


def keeps_words(rows: Sequence[Sequence[str]], foldable: int, console: Console, gap: int) -> bool:
    """True if a table need fold one of its columns between words only, and no other.

    Args:
        rows: Its cells.
        foldable: The column.
        console: Where it is printed.
        gap: Blanks between two columns.
    """
    widths = [
        max(cell_len(part) for cell in column for part in (cell.split() or [""] if n == foldable else [cell]))
        for n, column in enumerate(zip(*rows, strict=True))
    ]  # fmt: skip
    return sum(widths) + gap * len(widths) <= console.width
