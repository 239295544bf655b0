"""Budget of a run that is opened: what its files may unpack to grows with what they have on the disk.

A run may come from anybody. A file of a few kilobytes can unpack to any number of rows, and a journal
of forty gigabytes can be one hole; an honest one unpacks to three to eight times its size.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Final

from wattstep.errors import DamagedRunError, InvalidValueError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

VARIABLE: Final = "WATTSTEP_RUN_BUDGET"
MOST_MULTIPLE: Final = 1e6
LEAST: Final = 128 << 20  # bytes that any table may take
TIMES: Final = 20  # as many bytes as its file has, where that is more
TEXT: Final = 10  # a name is copied so often until a report has it
HOLES: Final = (
    64 << 20
)  # bytes of a journal that nobody wrote; the chunk that is mapped has 256 KiB
FEW_ROWS: Final = 4 << 20  # of packed journals, which may lie as regularly as one likes
DESCRIPTION: Final = 16 << 20  # bytes of run.json; those of a hundred channels have 60 kB
_WIDTH: Final = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT96": 12}  # else 8, as INT64 and DOUBLE
_TEXTS: Final = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_CODE: Final = 4  # bytes of a name's code


def multiple() -> float:
    """By how much the budget is raised: 1, or what the environment says (`WATTSTEP_RUN_BUDGET`).

    Raises:
        InvalidValueError: It says something else than a number from 1 to a million.
    """
    text = os.environ.get(VARIABLE) or "1"
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 1 <= value <= MOST_MULTIPLE:
        raise InvalidValueError(
            f"{VARIABLE}={text[:40]}: a number from 1 to {MOST_MULTIPLE:g} is wanted, by which the "
            "budget of a run is multiplied",
            id="malformed-run-budget",
        )
    return value


def table_budget(on_disk: int) -> int:
    """Bytes that a table may take in memory.

    Args:
        on_disk: Size of its file in bytes.
    """
    return round(multiple() * max(LEAST, TIMES * on_disk))


def check_table(place: str, metadata: pq.FileMetaData, on_disk: int) -> int:
    """Budget of a table, where what its file says of itself keeps it.

    Args:
        place: File and run, for the error.
        metadata: Of the file.
        on_disk: Its size in bytes.

    Raises:
        DamagedRunError: It takes more.
    """
    budget = table_budget(on_disk)
    taken = 0
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for column in range(row_group.num_columns):
            taken += _taken(row_group.column(column))
        if taken > budget:
            raise too_large(place, taken, budget)
    return budget


def _taken(column: pq.ColumnChunkMetaData) -> int:
    """Bytes of a part of a column in memory."""
    values = max(int(column.num_values), 0)
    if column.physical_type in _TEXTS:
        return values * _CODE + TEXT * max(int(column.total_uncompressed_size), 0)
    return values * _WIDTH.get(column.physical_type, 8)


def check_journal(place: str, descriptor: int, holes: int = 0) -> int:
    """Refuses a journal most of which was never written.

    Args:
        place: File and run, for the error.
        descriptor: A segment of it, open.
        holes: Bytes of the segments before that were never written.

    Returns:
        Bytes of it, and of those before, that were never written.

    Raises:
        DamagedRunError: They are more than a recorder leaves.
    """
    status = os.fstat(descriptor)
    size, at = status.st_size, 0
    if status.st_blocks * 512 >= size:
        return holes
    allowed = multiple() * HOLES
    while at < size and holes <= allowed:
        try:
            data = os.lseek(descriptor, at, os.SEEK_DATA)
        except OSError:  # nothing but a hole up to the end
            data = size
        holes += data - at
        at = os.lseek(descriptor, data, os.SEEK_HOLE) if data < size else size
    os.lseek(descriptor, 0, os.SEEK_SET)
    if holes > allowed:
        raise too_large(place, holes, round(allowed), "bytes that nobody wrote")
    return holes


def check_rows(place: str, rows: int, on_disk: int) -> None:
    """Refuses packed journals that hold more rows than bytes: each row has a time of its own.

    Args:
        place: File and run, for the error.
        rows: Of all pieces so far.
        on_disk: Their sizes in bytes.

    Raises:
        DamagedRunError: There are more.
    """
    allowed = round(multiple() * (FEW_ROWS + on_disk))
    if rows > allowed:
        raise too_large(place, rows, allowed, "rows")


def too_large(place: str, taken: int, budget: int, of: str = "bytes in memory") -> DamagedRunError:
    """The error about a file that needs more than it may."""
    return DamagedRunError(
        f"{place} needs {taken:,} {of}, and for its size on the disk {budget:,} are allowed: no "
        f"recorder writes that. If you trust it: {VARIABLE}={max(math.ceil(multiple() * taken / budget), 2)}",
        id="over-budget",
    )
