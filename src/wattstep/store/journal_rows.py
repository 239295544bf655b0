"""The journals of a run as blocks of rows, and the names that their codes stand for."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from wattstep.errors import DamagedRunError
from wattstep.schema.journal import NAMES, segment_name
from wattstep.store.budget import LEAST, TEXT, check_journal, multiple, too_large
from wattstep.store.folder import Folder
from wattstep.store.mark_rows import LOST_NAME, Ints
from wattstep.store.pieces import BLOCK, Pieces
from wattstep.store.segments import newest_segment


def whole_rows(journal: Folder, name: str, row: np.dtype[Any]) -> Iterator[npt.NDArray[Any]]:
    """Blocks of the rows of a journal, which need not be there; a cut last row is left out.

    Its segments, packed or not, follow each other as one file; what comes meanwhile is left, and what
    was thinned is left out.

    Raises:
        DamagedRunError: A segment between others is gone, or one is garbled or over its budget.
    """
    for rows, _ in parts(journal, name, row):
        yield rows


def parts(
    journal: Folder, name: str, row: np.dtype[Any]
) -> Iterator[tuple[npt.NDArray[Any], Ints | None]]:
    """As `whole_rows`, beside each block the stretches that stand for thinned rows; None: none were."""
    last = newest_segment(journal.names(), name)
    if last is None:
        return
    pieces, holes = Pieces(journal, name, row), 0
    for number in range(last + 1):
        segment = segment_name(name, number)
        try:
            file = journal.open(segment)
        except FileNotFoundError:  # its piece was there before it went
            try:
                yield from pieces.parts(number)
            except FileNotFoundError as error:
                if number == last == 0:
                    return
                raise DamagedRunError(
                    f"{segment} of {journal.path.parent} is gone, and those after "
                    "it are there: copy the whole folder again",
                    id="segment-gone",
                ) from error
        else:
            with file:
                holes = check_journal(f"{segment} of {journal.path.parent}", file.fileno(), holes)
                yield from ((rows, None) for rows in file_rows(file, row))


def file_rows(
    file: BinaryIO, row: np.dtype[Any], most: int | None = None
) -> Iterator[npt.NDArray[Any]]:
    """Blocks of the whole rows of an open segment.

    Args:
        file: The segment.
        row: Layout of a row.
        most: Rows of a block; None: `BLOCK`.
    """
    rows = os.fstat(file.fileno()).st_size // row.itemsize
    while rows > 0:
        block = np.fromfile(file, row, min(most or BLOCK, rows))
        if not len(block):  # cut off meanwhile
            return
        rows -= len(block)
        yield block


def cut_segments(journal: Folder, words: Mapping[str, int]) -> Iterator[str]:
    """Names of the segments that have a successor and do not end with a whole row, as none is written.

    Args:
        journal: Folder of the journals.
        words: Of 8 bytes, in a row of each journal, by its name.
    """
    names = journal.names()
    for name, width in words.items():
        for number in range(newest_segment(names, name) or 0):
            with (
                contextlib.suppress(FileNotFoundError),  # it was packed
                journal.open(segment := segment_name(name, number)) as file,
            ):
                if os.fstat(file.fileno()).st_size % (8 * width):
                    yield segment


def int_rows(journal: Folder, name: str, width: int) -> Iterator[Ints]:
    """Blocks of whole rows of so many int64."""
    for block in whole_rows(journal, name, np.dtype(("V", 8 * width))):
        yield block.view("<i8").reshape(len(block), width)


def read_names(journal: Folder) -> list[str]:
    """Names by code, and last the one for codes whose name was cut off."""
    names: list[str] = []
    try:
        with journal.open(NAMES) as file:
            place, size = f"{NAMES} of {journal.path.parent}", os.fstat(file.fileno()).st_size
            if TEXT * size > (allowed := round(multiple() * LEAST)):
                raise too_large(place, TEXT * size, allowed)
            lines = file.read(size).splitlines()
    except FileNotFoundError:
        lines = []
    for line in lines:
        try:
            _, code, text = json.loads(line)
        except (TypeError, ValueError, RecursionError):
            break
        if code != len(names) or not isinstance(text, str):
            break
        names.append(text)
    return [*names, LOST_NAME]


def known_codes(codes: npt.NDArray[Any], names: list[str]) -> Ints:
    """Codes as positions in `names`."""
    return np.minimum(codes.astype(np.int64), len(names) - 1)
