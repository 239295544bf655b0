"""Closed segments of journals as Parquet files: the same rows, as columns of int64, in a fraction of the room.

A piece says exactly what its segment said, and nothing is interpreted on the way: what a step, a span
or a window is, and which name a code stands for, is worked out once, when the tables are written
(`convert.py`), from pieces and segments as from one file.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

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
    SAMPLES_STEM,
    TICKS,
    piece_name,
    samples_name,
    segment_name,
)
from wattstep.schema.run_info import RunInfo
from wattstep.store.budget import check_rows, check_table
from wattstep.store.folder import Folder
from wattstep.store.mark_rows import Ints
from wattstep.store.step_thinning import STEP_WORDS
from wattstep.store.thinning import thinned_words

_VALUE: Final = 2  # the word of a mark that is a float: its bits do not follow each other
_WORD: Final = 8  # bytes
BLOCK: Final = 1 << 16  # rows that are read at once
# What is in memory at once while a training runs beside: bytes of rows as they were recorded.
PACKED_BYTES: Final = 1 << 19
LEAST_PACKED: Final = 4096  # rows: of wide ones a stretch would have few


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

        def blocks() -> Iterator[Ints]:
            file.seek(0)
            while len(block := np.fromfile(file, "<i8", words * packed_rows(words))):
                yield block.reshape(-1, words)

        write_piece(journal, piece, words, blocks, [_VALUE] if name == MARKS else [])
    journal.remove(segment)
    return True


def packed_rows(words: int) -> int:
    """How many rows of so many words are in memory at once while a training runs beside."""
    return max(PACKED_BYTES // (_WORD * words), LEAST_PACKED)


def write_piece(
    journal: Folder,
    piece: str,
    words: int,
    blocks: Callable[[], Iterator[Ints]],
    floats: Collection[int],
) -> None:
    """Writes a piece, in place of one that is there; it is whole on the disk when this returns.

    Args:
        journal: Folder of the journals.
        piece: Its name.
        words: Of 8 bytes, in a row.
        blocks: Gives the rows that it is to hold, in blocks that need not be in memory together; asked
            twice, for what they are made from is about to be thrown away, and what was written is
            compared with them first.
        floats: Columns that are bits of a float64, which do not follow each other.

    Raises:
        OSError: The disk is full.
        DamagedRunError: Parquet does not say the same.
    """
    names = [str(at) for at in range(words)]
    encoding = {
        name: "BYTE_STREAM_SPLIT" if at in floats else "DELTA_BINARY_PACKED"
        for at, name in enumerate(names)
    }
    schema = pa.schema([(name, pa.int64()) for name in names])
    with journal.replacing(piece) as file:
        with pq.ParquetWriter(
            file, schema, compression="zstd", use_dictionary=False, column_encoding=encoding
        ) as writer:
            for rows in _groups(blocks()):
                writer.write_table(pa.table(list(rows.T), schema=schema))
        file.flush()
        if not _holds(file, _groups(blocks())):
            raise DamagedRunError(
                f"{piece} of {journal.path.parent} does not come back from Parquet"
            )
    journal.sync()


def _groups(blocks: Iterator[Ints]) -> Iterator[Ints]:
    """The blocks, small ones together: each group of rows costs a file 200 bytes a column."""
    waiting: list[Ints] = []
    for block in blocks:
        waiting.append(block)
        if sum(each.nbytes for each in waiting) >= PACKED_BYTES:
            yield waiting[0] if len(waiting) == 1 else np.concatenate(waiting)
            waiting.clear()
    if waiting:
        yield np.concatenate(waiting)


def _holds(file: BinaryIO, groups: Iterator[Ints]) -> bool:
    """True if a file that was written holds these groups of rows."""
    with pq.ParquetFile(file) as written:
        for number in range(written.num_row_groups):
            table, rows = written.read_row_group(number, use_threads=False), next(groups)
            if not all(
                np.array_equal(column.to_numpy(), of)
                for column, of in zip(table, rows.T, strict=True)
            ):
                return False
    return next(groups, None) is None


def thinned_rows(rows: Ints, stretches: Ints) -> Ints:
    """Rows of a thinned piece: those that stay, without an end, and stretches, in order of time."""
    both = np.zeros((len(rows) + len(stretches), stretches.shape[1]), np.int64, order="F")
    both[: len(rows), : rows.shape[1]] = rows
    both[len(rows) :] = stretches
    ordered: Ints = both[np.argsort(both[:, 0], kind="stable")]
    return ordered


@dataclass(frozen=True, kw_only=True)
class PieceFacts:
    """What the end of a piece's file tells of it: words in a row, rows, first and last time in ns."""

    words: int
    rows: int
    first_ns: int
    last_ns: int


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

    def blocks(self, number: int, most: int | None = None) -> Iterator[npt.NDArray[Any]]:
        """Blocks of the rows of one piece, as they were recorded; of a thinned one, those that stayed.

        Args:
            number: Of the segment.
            most: Rows of a block; None: `BLOCK`.

        Raises:
            FileNotFoundError: It is not there.
            DamagedRunError: It is garbled, or unpacks to more than a recorder writes.
        """
        for rows, _ in self.parts(number, most):
            yield rows

    def parts(
        self, number: int, most: int | None = None
    ) -> Iterator[tuple[npt.NDArray[Any], Ints | None]]:
        """As `blocks`, beside each its stretches (`thinning.py`); None where it was not thinned."""
        words = self._row.itemsize // _WORD
        with self._opened(number) as file:
            thinned = len(file.schema_arrow.types) > words
            for batch in file.iter_batches(most or BLOCK, use_threads=most is None):
                rows = np.empty((len(batch), batch.num_columns), "<i8")
                for at in range(batch.num_columns):
                    rows[:, at] = batch.column(at).to_numpy()
                if thinned:
                    stretch = rows[:, words] != 0
                    as_read = np.ascontiguousarray(rows[~stretch, :words])
                    yield np.frombuffer(as_read, self._row), rows[stretch]
                else:
                    yield np.frombuffer(rows, self._row), None

    def facts(self, number: int) -> PieceFacts:
        """What the end of its file tells; raises as `blocks`."""
        with self._opened(number) as file:
            times = [
                statistics
                for group in range(file.metadata.num_row_groups)
                if (statistics := file.metadata.row_group(group).column(0).statistics) is not None
            ]
            return PieceFacts(
                words=file.metadata.num_columns,
                rows=file.metadata.num_rows,
                first_ns=min((one.min for one in times), default=0),
                last_ns=max((one.max for one in times), default=0),
            )

    @contextlib.contextmanager
    def _opened(self, number: int) -> Iterator[pq.ParquetFile]:
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
                    columns = file.schema_arrow.types
                    if columns != [pa.int64()] * len(columns) or len(columns) not in (
                        words,
                        _thinned_words(self._name, words),
                    ):
                        raise DamagedRunError(
                            f"{place} has other columns than a row", id="damaged-journal"
                        )
                    yield file
            except (OSError, pa.ArrowException) as error:  # ArrowException: null values, too
                raise DamagedRunError(
                    f"{place} cannot be read: {error}", id="damaged-journal"
                ) from error


def _thinned_words(name: str, words: int) -> int | None:
    """Words in a row of a thinned piece; None for a journal that is never thinned."""
    if name == MARKS:
        return STEP_WORDS
    if name == TICKS:
        return thinned_words(words, 1)
    return thinned_words(words, SAMPLE_HEADER) if name.startswith(SAMPLES_STEM) else None
