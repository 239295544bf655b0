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

Array = npt.NDArray[Any]


class Rows:
    """The new rows of one journal, segment by segment; a row that is half written comes with the next look.

    Args:
        path: The journal, which need not be there.
        layout: Of a row.

    Attributes:
        layout: See above.
        behind: True if more was there than a look takes.
    """

    def __init__(self, path: Path, layout: np.dtype[Any]) -> None:
        self._path, self.layout = path, layout
        self._number = self._offset = 0  # the segment, and bytes of it that were given
        self._piece: Iterator[bytes] | None = None  # the rest of it where it is packed
        self.behind = False

    def new(self) -> Array:
        """Whole rows that were written since it was last asked, shape (n,)."""
        while True:
            closed = self._is_closed()  # before its end is read
            data = self._read()
            rows = self._taken(np.frombuffer(data, self.layout, len(data) // self.layout.itemsize))
            if len(rows) or not closed:
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

    def _read(self) -> bytes:
        """Bytes of the segment from there on.

        Raises:
            DamagedRunError: Its piece is garbled.
        """
        name = self._path.name
        if self._piece is None:
            try:
                with open_plain(self._path.with_name(segment_name(name, self._number))) as file:
                    file.seek(self._offset)
                    return file.read(MOST_BYTES)
            except OSError:  # not there yet, or no more
                if not os.path.lexists(self._path.with_name(piece_name(name, self._number))):
                    return b""
            self._piece = self._packed(self._offset)
        try:
            return next(self._piece, b"")
        except DamagedRunError:
            self._piece = None  # and so it is at the next look
            raise

    def _packed(self, given: int) -> Iterator[bytes]:
        """Its piece, which whoever begins to follow a long recording meets, as much as a look takes at a time.

        Args:
            given: Bytes of it that were given before it was packed.
        """
        from wattstep.store.pieces import Pieces  # loads Arrow

        size = self.layout.itemsize
        most = max(MOST_BYTES // size, 1) * size
        try:
            with Folder(self._path.parent) as journal:
                for block in Pieces(journal, self._path.name, self.layout).blocks(self._number):
                    data = block.tobytes()
                    for at in range(given, len(data), most):
                        yield data[at : at + most]
                    given = max(given - len(data), 0)
        except OSError:  # the run was closed meanwhile
            return

    def _taken(self, rows: Array) -> Array:
        self._offset += len(rows) * self.layout.itemsize
        return rows


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
