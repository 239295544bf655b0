"""Segments of journals: a long recording begins a new file now and then, so that those before can be packed.

The segment that is written is the one with the highest number; all before it are closed, and never
change. `packing.py` packs them.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from wattstep.errors import InvalidValueError
from wattstep.schema.journal import segment_name

VARIABLE: Final = "WATTSTEP_SEGMENT"
DEFAULT_MIB: Final = (
    16.0  # of a journal; marks of plain steps of 2 ms fill it in a quarter of an hour
)
LEAST_MIB, MOST_MIB = 2**-12, 1024.0
# The newest closed segment stays as it is: who follows the recording has still to read its end.
FOLLOWED: Final = 2
_NAME: Final = re.compile(r"([^.]+)(?:\.([0-9]{4,6}))?\.(bin|parquet)")


def segment_bytes() -> int:
    """Bytes from which on a journal goes on in a new file; the environment may say how many MiB (`WATTSTEP_SEGMENT`).

    Raises:
        InvalidValueError: It says something else than a number from 1/4096 to 1024.
    """
    text = os.environ.get(VARIABLE) or str(DEFAULT_MIB)
    try:
        mib = float(text)
    except ValueError:
        mib = math.nan
    if not LEAST_MIB <= mib <= MOST_MIB:
        raise InvalidValueError(
            f"{VARIABLE}={text[:40]}: a number of MiB from 1/4096 to {MOST_MIB:g} is wanted, at which "
            "a journal goes on in a new file",
            id="malformed-segment",
        )
    return round(mib * (1 << 20))


def newest_segment(names: Iterable[str], name: str) -> int | None:
    """Number of the segment of a journal that was begun last; None where there is none.

    Args:
        names: Files in the folder of the journals.
        name: Of the journal.
    """
    numbers = (number for stem, number, _ in _segments(names) if f"{stem}.bin" == name)
    return max(numbers, default=None)


def packable(names: Iterable[str]) -> list[tuple[str, int]]:
    """Journals with the numbers of their segments that are to be packed, in order.

    Args:
        names: Files in the folder of the journals.
    """
    segments = sorted(_segments(names))
    newest = {stem: number for stem, number, _ in segments}
    return [
        (f"{stem}.bin", number)
        for stem, number, ending in segments
        if ending == "bin" and number + FOLLOWED <= newest[stem]
    ]


def _segments(names: Iterable[str]) -> list[tuple[str, int, str]]:
    """Stem, number and ending of each file that is a segment, packed or not."""
    matches = [_NAME.fullmatch(name) for name in names]  # also on boards, with Python 3.6
    return [(match[1], int(match[2] or 0), match[3]) for match in matches if match]


def last_segments(path: Path) -> list[Path]:
    """Files of the two segments of a journal that were begun last, the newest first; they need not be there.

    Args:
        path: Of the journal.
    """
    try:
        newest = newest_segment(os.listdir(path.parent), path.name) or 0  # noqa: PTH208
    except OSError:
        newest = 0
    return [
        path.with_name(segment_name(path.name, number))
        for number in (newest, newest - 1)
        if number >= 0
    ]
