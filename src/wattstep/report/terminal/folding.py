"""Whether a table has room: where it has none, its columns go below each other, and no word is broken."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

BOUNDLESS = 100_000  # columns


def has_room(table: Table, console: Console) -> bool:
    """True if every row of a table stays on one line of the terminal."""
    options = console.options.update(width=BOUNDLESS)
    return Measurement.get(console, options, table).maximum <= console.width


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
