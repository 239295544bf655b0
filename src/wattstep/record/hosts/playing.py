"""The push source that plays a recording: rows from files beside the journals, each at its own time."""

from __future__ import annotations

import heapq
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from wattstep.record.push_sources import Emit
from wattstep.schema.journal import MISSING, SAMPLE_HEADER

BLOCK_ROWS = 1024
Row = tuple[int, int, int, tuple[int, ...]]  # offset in ns, position of the read, errno, values


class Playing:
    """Gives recorded rows, stamped with the start of playing plus their own offset.

    Args:
        files: One a read: rows of int64 (offset in ns from the recording's start, errno, values).
        widths: Number of values of each of them.
        speed: 1 for real time, 2 for twice as fast; 0: all at once, stamped as in real time.
        loop_ns: After so long it begins again; 0: it ends.
        gains: By file and channel: what a loop adds to a counter, 0 for gauges.
        period_s: Not used: the recording has its own times.
    """

    def __init__(
        self,
        *,
        files: Sequence[str],
        widths: Sequence[int],
        speed: float,
        loop_ns: int,
        gains: Sequence[Sequence[int]],
        period_s: float,
    ) -> None:
        self._files = [Path(file) for file in files]
        self._widths, self._gains = widths, gains
        self._speed, self._loop_ns = speed, loop_ns

    def run(self, emit: Emit, stop: threading.Event) -> None:
        """Plays until the recording or the run ends; what was due before is given.

        Raises:
            OSError: The files were taken away.
        """
        start = time.monotonic_ns()
        for offset, position, code, values in self._rows():
            due = start + (round(offset / self._speed) if self._speed else offset)
            if self._speed and not _reached(due, stop):
                return
            emit(position, due, code, values)

    def _rows(self) -> Iterator[Row]:
        round_number = 0
        while True:
            readers = [self._read(position, round_number) for position in range(len(self._files))]
            yield from heapq.merge(*readers)
            if not self._loop_ns:
                return
            round_number += 1

    def _read(self, position: int, round_number: int) -> Iterator[Row]:
        """The rows of one file of one round, later and, where they count, higher."""
        row = struct.Struct(f"<{SAMPLE_HEADER + self._widths[position]}q")
        later = round_number * self._loop_ns
        higher = [round_number * gain for gain in self._gains[position]]
        with self._files[position].open("rb") as file:
            while block := file.read(BLOCK_ROWS * row.size):
                for offset, code, *values in row.iter_unpack(
                    block[: len(block) // row.size * row.size]
                ):
                    moved = (
                        raw if raw == MISSING else raw + more
                        for raw, more in zip(values, higher, strict=True)
                    )
                    yield offset + later, position, code, tuple(moved)


def _reached(due_ns: int, stop: threading.Event) -> bool:
    """Waits for a time; false where it is to stop before."""
    left = due_ns - time.monotonic_ns()
    return left <= 0 or not stop.wait(left * 1e-9)
