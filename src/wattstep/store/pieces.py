"""Closed segments of journals as Parquet files: the same rows, as columns of int64, in a fraction of the room.

A piece says exactly what its segment said, and nothing is interpreted on the way: what a step, a span
or a window is, and which name a code stands for, is worked out once, when the tables are written
(`convert.py`), from pieces and segments as from one file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from wattstep.errors import DamagedRunError
from wattstep.schema.journal import (
    COSTS,
    DEVICE_OPERATION,
    DEVICE_OPERATIONS,
    MARK,
    MARKS,
    OPERATION,
    OPERATIONS,
    SAMPLE_HEADER,
    TICKS,
    piece_name,
    samples_name,
    segment_name,
)
from wattstep.schema.run_info import RunInfo
from wattstep.store.budget import check_rows, check_table
from wattstep.store.folder import Folder
from wattstep.store.mark_rows import Ints
from wattstep.store.tables import BLOCK

_VALUE: Final = 2  # the word of a mark that is a float: its bits do not follow each other
_WORD: Final = 8  # bytes


def row_words(info: RunInfo) -> dict[str, int]:
    """Words of 8 bytes in a row of each journal that has segments, by its name."""
    return {
        MARKS: MARK.size // _WORD,
        OPERATIONS: OPERATION.size // _WORD,
        DEVICE_OPERATIONS: DEVICE_OPERATION.size // _WORD,
        TICKS: 4,
        COSTS: 4,
        **{samples_name(read.number): SAMPLE_HEADER + len(read.channels) for read in info.reads},
    }


def pack(journal: Folder, name: str, number: int, words: int) -> bool:
    """Replaces a closed segment by its piece, which is whole on the disk before the segment goes.

    Args:
        journal: Folder of the journals.
        name: Of the journal.
        number: Of the segment.
        words: Of 8 bytes, in a row.

    Returns:
        False where the segment does not consist of whole rows: it was cut, and stays as it is.

    Raises:
        OSError: The disk is full; the segment is untouched.
        DamagedRunError: What was written does not say the same; the segment is untouched.
    """
    segment, piece = segment_name(name, number), piece_name(name, number)
    with journal.open(segment) as file:
        if os.fstat(file.fileno()).st_size % (words * _WORD):
            return False
        rows = np.fromfile(file, "<i8").reshape(-1, words)
    packed = _packed(rows, name)
    # The segment is about to be thrown away: what its piece says is looked at first.
    unpacked = pq.ParquetFile(pa.BufferReader(packed)).read()
    if not all(np.array_equal(unpacked.column(at).to_numpy(), rows[:, at]) for at in range(words)):
        raise DamagedRunError(f"{segment} of {journal.path.parent} does not come back from Parquet")
    with journal.replacing(piece) as file:
        file.write(packed)
    journal.sync()
    journal.remove(segment)
    return True


def _packed(rows: Ints, name: str) -> pa.Buffer:
    names = [str(at) for at in range(rows.shape[1])]
    encoding = dict.fromkeys(names, "DELTA_BINARY_PACKED")
    if name == MARKS:
        encoding[str(_VALUE)] = "BYTE_STREAM_SPLIT"
    table = pa.table({column: rows[:, at] for at, column in enumerate(names)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", use_dictionary=False, column_encoding=encoding)
    return sink.getvalue()


class Pieces:
    """The pieces of one journal, and the budget that they have together.

    Args:
        journal: Folder of the journals.
        name: Of the journal.
        row: Layout of a row, of whole words.
    """

    def __init__(self, journal: Folder, name: str, row: np.dtype[Any]) -> None:
        self._journal, self._name, self._row = journal, name, row
        self._rows = self._on_disk = 0

    def blocks(self, number: int) -> Iterator[npt.NDArray[Any]]:
        """Blocks of the rows of one piece.

        Raises:
            FileNotFoundError: It is not there.
            DamagedRunError: It is garbled, or unpacks to more than a recorder writes.
        """
        name = piece_name(self._name, number)
        place = f"{name} of {self._journal.path.parent}"
        words = self._row.itemsize // _WORD
        with self._journal.open(name) as plain:
            size = os.fstat(plain.fileno()).st_size
            try:
                with pq.ParquetFile(plain) as file:
                    check_table(place, file.metadata, size)
                    self._rows += file.metadata.num_rows
                    self._on_disk += size
                    check_rows(place, self._rows, self._on_disk)
                    if file.schema_arrow.types != [pa.int64()] * words:
                        raise DamagedRunError(
                            f"{place} has other columns than a row", id="damaged-journal"
                        )
                    for batch in file.iter_batches(batch_size=BLOCK):
                        yield self._of_batch(batch, words)
            except (OSError, pa.ArrowException) as error:  # ArrowException: null values, too
                raise DamagedRunError(
                    f"{place} cannot be read: {error}", id="damaged-journal"
                ) from error

    def _of_batch(self, batch: pa.RecordBatch, words: int) -> npt.NDArray[Any]:
        rows = np.empty((len(batch), words), "<i8")
        for at in range(words):
            rows[:, at] = batch.column(at).to_numpy()
        return np.frombuffer(rows, self._row)
