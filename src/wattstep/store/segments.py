"""Segments of journals: a long recording begins a new file now and then, so that those before can be packed.

The segment that is written is the one with the highest number; all before it are closed, and never
change. `packing.py` packs them.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable
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


class SegmentedFile:
    """The segment of a journal that is written. `record/sampling/child.py` does the same by itself.

    The folder may be moved meanwhile. A segment is begun before the one before is let go: where that
    fails the journal is as it was, and the next attempt is at the same segment.

    Args:
        path: Of the journal.
        segment: Bytes from which on it goes on in a new file; 0: never.
        flags: With which its files are opened, which are made if need be.

    Attributes:
        fd: Its descriptor, the same for all segments.
        number: Of the segment: at first the last that is there, as whoever wrote before left it.

    Raises:
        OSError: It cannot be made.
    """

    def __init__(self, path: Path, segment: int, flags: int = os.O_WRONLY | os.O_APPEND) -> None:
        self._name, self._segment, self._flags = path.name, segment, flags
        self._folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            names = os.listdir(self._folder)  # noqa: PTH208 - by descriptor
            self.number = newest_segment(names, self._name) or 0
            self.fd = self._open(self.number)
        except OSError:
            os.close(self._folder)
            raise

    def _open(self, number: int) -> int:
        name = segment_name(self._name, number)
        return os.open(name, self._flags | os.O_CREAT | os.O_NOFOLLOW, 0o644, dir_fd=self._folder)

    def is_full(self, size: int) -> bool:
        """True if a segment of so many bytes is to be the last but one."""
        return 0 < self._segment <= size

    def go_on(self) -> None:
        """Begins the next segment where this one is full.

        Raises:
            OSError: It cannot be made.
        """
        if self.is_full(os.fstat(self.fd).st_size):
            self.begin()

    def begin(self, prepare: Callable[[int], None] | None = None) -> None:
        """Begins the next segment.

        Args:
            prepare: Fills it first; is given its descriptor, which is closed later.

        Raises:
            OSError: It cannot be made, or not be filled.
        """
        number = self.number + 1
        fd = self._open(number)
        try:
            if prepare is not None:
                prepare(fd)
            os.dup2(fd, self.fd, inheritable=False)
        except OSError:
            os.unlink(segment_name(self._name, number), dir_fd=self._folder)
            raise
        finally:
            os.close(fd)
        self.number = number

    def close(self) -> None:
        """Lets go of it."""
        os.close(self.fd)
        os.close(self._folder)


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
