"""Console that commands print their results on."""

from __future__ import annotations

import os
import re
import sys
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPED = 200  # columns where nobody looks at it: a row of a table stays on one line for grep


class _Trimmed:
    """A stream that gets lines without the blanks that tables end in."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes text; rich hands over whole lines."""
        return self._stream.write(re.sub(r" +(?=\n)", "", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def screen() -> Console:
    """Standard output: as wide as the terminal; in a pipe or a file, wide, and without padding."""
    from rich.console import Console

    console = Console()
    if console.is_terminal:
        return console
    width = None if "COLUMNS" in os.environ else PIPED
    return Console(file=cast("IO[str]", _Trimmed(sys.stdout)), width=width)


def plain_table(*headings: str) -> Table:
    """Table without lines; what is too long for a column goes on below."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table
