"""Bars, courses and names of a screen: of characters that the terminal has, and none that steer it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from rich.cells import set_cell_size
from rich.text import Text

from wattstep.report.values import plain

BLOCKS: Final = "▁▂▃▄▅▆▇█"
PLAIN_BLOCKS: Final = "_.-~=+*#"
FULL, EMPTY, PLAIN_FULL, PLAIN_EMPTY = "█", "░", "#", "."
# What a terminal without Unicode gets instead.
ASCII: Final = str.maketrans(
    {"·": "|", "≈": "~=", "µ": "u", "°": "", "—": "-", "–": "-", "×": "x", "±": "+-", "→": ">",
     "�": "?", "…": "~"}
)  # fmt: skip
MOST_TEXT: Final = 400  # characters of a name that are looked at
LOW: Final = 0.9  # of the highest: no course is drawn as if it went further down than it does


def brief(thing: object, cells: int) -> str:
    """Text of unknown origin, harmless, in at most so many cells."""
    text = plain(str(thing)[:MOST_TEXT])
    cut = set_cell_size(text, cells).rstrip()
    return text if cut == text else set_cell_size(text, max(cells - 1, 0)).rstrip() + "…"


def bar(share: float, cells: int) -> str:
    """A bar of so many cells."""
    full = round(min(max(share, 0.0), 1.0) * cells)
    return FULL * full + EMPTY * (cells - full)


def course(values: Sequence[float | None], cells: int) -> str:
    """The last values as blocks between the lowest and the highest; a blank where there is none.

    Args:
        values: The oldest first.
        cells: Number of blocks: several values share one where there are more.
    """
    each = max(math.ceil(len(values) / max(cells, 1)), 1)
    groups = [values[n : n + each] for n in range(len(values) % each, len(values), each)]
    known = [[value for value in group if value is not None] for group in groups]
    means = [sum(group) / len(group) if group else None for group in known]
    seen = [mean for mean in means if mean is not None]
    if not seen:
        return ""
    # Noise of a few per cent is no mountain range.
    high = max(seen)
    low = min(min(seen), LOW * high) if high > 0 else min(seen)
    span = high - low

    def block(mean: float | None) -> str:
        if mean is None:
            return " "
        share = (mean - low) / span if span > 0 else 0.5
        return BLOCKS[min(int(share * len(BLOCKS)), len(BLOCKS) - 1)]

    return "".join(block(mean) for mean in means).strip()


def block_of(share: float) -> str:
    """A share as one block."""
    return BLOCKS[min(int(share * len(BLOCKS)), len(BLOCKS) - 1)]


def in_ascii(text: Text) -> Text:
    """ASCII form of a text, for a terminal without Unicode."""
    swapped = text.plain.translate(ASCII).translate(
        {ord(a): b for a, b in zip(BLOCKS, PLAIN_BLOCKS, strict=True)}
    )
    swapped = swapped.replace(FULL, PLAIN_FULL).replace(EMPTY, PLAIN_EMPTY)
    return Text(swapped.encode("ascii", "replace").decode("ascii"))
