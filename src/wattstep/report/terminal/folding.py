"""Whether a table has room: where it has none, its columns go below each other, and no word is broken."""

from __future__ import annotations

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

BOUNDLESS = 100_000  # columns


def has_room(table: Table, console: Console) -> bool:
    """True if every row of a table stays on one line of the terminal."""
    options = console.options.update(width=BOUNDLESS)
    return Measurement.get(console, options, table).maximum <= console.width
