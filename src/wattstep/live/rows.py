"""Reads what is appended to a journal, a piece at a time, from where the last look ended."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wattstep.errors import DamagedRunError
from wattstep.schema.journal import NAMES, piece_name, segment_name
from wattstep.store.folder import Folder, open_plain
from wattstep.store.mark_rows import LOST_NAME, MARK, begins_and_ends

MOST_BYTES: Final = 1 << 22  # of one journal at a time
_WORD: Final = 8  # bytes

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
NO_STRETCHES: Final[Ints] = np.empty((0, 0), np.int64)


class Rows:
    """The new rows of one journal, segment by segment; a row that is half written comes with the next look.

    Args:
        path: The journal, which need not be there.
        layout: Of a row.

    Attributes:
        layout: See above.
        behind: True if more was there than a look takes.
        stretches: Rows of stretches beside those that were given last, of a journal of samples whose old
            ones were thinned (`store/thinning.py`).
    """

    def __init__(self, path: Path, layout: np.dtype[Any]) -> None:
        self._path, self.layout = path, layout
        self._number = self._offset = 0  # the segment, and bytes of it that were given
        self._given_ns = 0  # first word of the row that was given last
        self._piece: Iterator[tuple[bytes, Ints]] | None = None  # the rest of it where it is packed
        self.behind = False
        self.stretches = NO_STRETCHES

    def new(self) -> Array:
        """Whole rows that were written since it was last asked, shape (n,)."""
        while True:
            closed = self._is_closed()  # before its end is read
            data, self.stretches = self._read()
            rows = self._taken(np.frombuffer(data, self.layout, len(data) // self.layout.itemsize))
            if len(rows) or len(self.stretches) or not closed:
                self.behind = closed or len(data) == MOST_BYTES
                return rows
            self._number, self._offset, self._piece = self._number + 1, 0, None

    def _is_closed(self) -> bool:
        """True if the segment has a successor."""
        name, number = self._path.name, self._number + 1
        return any(
            os.path.lexists(self._path.with_name(each))
            for each in (segment_name(name, number), piece_name(name, number))
        )

    def _read(self) -> tuple[bytes, Ints]:
        """Bytes of the segment from there on, and the stretches beside them.

        Raises:
            DamagedRunError: Its piece is garbled.
        """
        name = self._path.name
        if self._piece is None:
            try:
                with open_plain(self._path.with_name(segment_name(name, self._number))) as file:
                    file.seek(self._offset)
                    return file.read(MOST_BYTES), NO_STRETCHES
            except OSError:  # not there yet, or no more
                if not os.path.lexists(self._path.with_name(piece_name(name, self._number))):
                    return b"", NO_STRETCHES
            self._piece = self._packed(self._offset)
        try:
            return next(self._piece, (b"", NO_STRETCHES))
        except DamagedRunError:
            self._piece = None  # and so it is at the next look
            raise

    def _packed(self, given: int) -> Iterator[tuple[bytes, Ints]]:
        """Its piece, which whoever begins to follow a long recording meets, as much as a look takes at a time.

        Of a thinned one comes what is later than the last row that was given; a stretch that began
        before that is left out, as a part of it was given.

        Args:
            given: Bytes of it that were given before it was packed.
        """
        from wattstep.store.pieces import Pieces  # loads Arrow

        size = self.layout.itemsize
        most = max(MOST_BYTES // size, 1) * size
        try:
            with Folder(self._path.parent) as journal:
                pieces = Pieces(journal, self._path.name, self.layout)
                for block, stretches in pieces.parts(self._number):
                    if stretches is not None:
                        rows = block[_first_words(block) > self._given_ns]
                        yield rows.tobytes(), stretches[stretches[:, 0] >= self._given_ns]
                        continue
                    data = block.tobytes()
                    for at in range(given, len(data), most):
                        yield data[at : at + most], NO_STRETCHES
                    given = max(given - len(data), 0)
        except OSError:  # the run was closed meanwhile
            return

    def _taken(self, rows: Array) -> Array:
        self._offset += len(rows) * self.layout.itemsize
        if len(rows) and self.layout.itemsize >= _WORD:
            self._given_ns = int(_first_words(rows[-1:])[0])
        return rows


def _first_words(rows: Array) -> Ints:
    """First word of each row: of samples and ticks its time."""
    words: Ints = np.frombuffer(rows.tobytes(), "<i8").reshape(len(rows), -1)[:, 0]
    return words


class MarkRows(Rows):
    """The new marks of the trainer's journal, whose blocks are reserved, all zero, before they are written."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, MARK)

    def _taken(self, rows: Array) -> Array:
        written = np.flatnonzero(rows["kind"])
        rows = rows[: written[-1] + 1 if len(written) else 0]
        return begins_and_ends(super()._taken(rows)[np.flatnonzero(rows["kind"])])


class Names:
    """The names that codes of marks stand for."""

    def __init__(self, journal: Path) -> None:
        self._rows = Rows(journal / NAMES, np.dtype("S1"))
        self._names: list[str] = []
        self._cut = b""

    def of(self, code: int) -> str:
        """The name, looked up in the file where it is new."""
        if code >= len(self._names):
            self._look()
        return self._names[code] if code < len(self._names) else LOST_NAME

    def _look(self) -> None:
        *lines, self._cut = (self._cut + self._rows.new().tobytes()).split(b"\n")
        for line in lines:
            try:
                name = json.loads(line)[2]
            except (ValueError, LookupError, TypeError):
                name = LOST_NAME
            self._names.append(str(name))
