"""The journal of what an emulated board truly did, for tests to compare a run with: rows of integers."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wattstep.store.folder import open_plain, read_plain

FOLDER: Final = "emulation"  # within the run
ROWS: Final = "truth.bin"
NAMES: Final = "truth.json"
KEPT: Final = 40  # rows that gather before they are written


@dataclass(frozen=True, kw_only=True)
class Column:
    """Column of the truth: the integer times the scale is the value in the unit."""

    name: str
    unit: str
    scale: float


class Truth:
    """Little-endian int64 in rows of a fixed width: a cut file loses at most its last row.

    Args:
        run: Folder of the run.
        columns: After the first, which is the time of the monotonic clock in ns. A row speaks of
            the time since the row before it.

    Raises:
        OSError: It cannot be made.
    """

    def __init__(self, run: Path, columns: Sequence[Column]) -> None:
        folder = run / FOLDER
        folder.mkdir(exist_ok=True)
        first = Column(name="t", unit="s", scale=1e-9)
        document = [vars(column) for column in (first, *columns)]
        (folder / NAMES).write_text(json.dumps(document, indent=1), encoding="utf-8")
        self._fd = os.open(folder / ROWS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._pack = struct.Struct(f"<{1 + len(columns)}q").pack
        self._scales = [column.scale for column in columns]
        self._rows: list[bytes] = []

    def add(self, t_ns: int, values: Sequence[float]) -> None:
        """Adds a row, in the units of the columns.

        Raises:
            OSError: The disk is full.
        """
        scaled = (round(v / scale) for v, scale in zip(values, self._scales, strict=True))
        self._rows.append(self._pack(t_ns, *scaled))
        if len(self._rows) >= KEPT:
            self.flush()

    def flush(self) -> None:
        """Writes what has gathered; what a full disk does not take is given up.

        Raises:
            OSError: The disk is full.
        """
        rows, self._rows = self._rows, []
        if rows:
            os.write(self._fd, b"".join(rows))


def read_truth(run: Path) -> tuple[list[Column], list[tuple[int, ...]]]:
    """The columns and whole rows of a run's journal, the time first; values as integers.

    Raises:
        OSError: The run has none.
    """
    folder = run / FOLDER
    columns = [Column(**row) for row in json.loads(read_plain(folder / NAMES))]
    row = struct.Struct(f"<{len(columns)}q")
    with open_plain(folder / ROWS) as file:
        data = file.read()
    return columns, list(row.iter_unpack(data[: len(data) // row.size * row.size]))
