"""Console that commands print their results on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

PIPED = 200  # columns where nobody looks at it: a row of a table stays on one line for grep


def screen() -> Console:
    """Standard output: as wide as the terminal; in a pipe or a file, wide."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPED
    return console
