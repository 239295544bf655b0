"""The trainer's own journal: fixed-width marks in a mapped file, so that a killed trainer loses none."""

from __future__ import annotations

import json
import mmap
import os
import time
from pathlib import Path

from wattstep.records.journal import MARK, MARKS, NAMES, STEP, Mark
from wattstep.store.files import write_whole

CHUNK = 256 * 1024  # mapped at a time: 8192 marks
MOST_NAMES = 60_000  # codes are 16 bits wide; shapes that vary for ever end in one name
OVERFLOW = "(other)"
VARYING = ("shapes", "operation")  # layers, phases and the like are few, and keep their names

STEP_START, STEP_END = int(Mark.STEP_START), int(Mark.STEP_END)


class MarkJournal:
    """Appends marks to a file that is mapped a chunk at a time.

    A mark costs well under a microsecond and no system call; what was written survives the
    process at once. Blocks are reserved before they are mapped, so that a full disk is an
    `OSError` here and not a bus error in somebody's training.
    """

    def __init__(self, folder: Path) -> None:
        self._fd = os.open(folder / MARKS, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        self._names = os.open(folder / NAMES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._codes: dict[tuple[str, str], int] = {}
        self._base = 0
        self._offset = 0
        try:
            self._map = self._next_chunk()
        except OSError:
            os.close(self._fd)
            os.close(self._names)
            raise

    def _next_chunk(self) -> mmap.mmap:
        os.posix_fallocate(self._fd, self._base, CHUNK)
        return mmap.mmap(self._fd, CHUNK, offset=self._base)

    def code(self, table: str, text: str) -> int:
        """The number that stands for a name; written down on its first use.

        Raises:
            OSError: The disk is full.
        """
        code = self._codes.get((table, text))
        full = len(self._codes) >= MOST_NAMES and table in VARYING
        if code is None and full and text != OVERFLOW:
            return self.code(table, OVERFLOW)
        if code is None:
            code = len(self._codes)
            write_whole(self._names, json.dumps([table, code, text]).encode() + b"\n")
            self._codes[table, text] = code
        return code

    def add(
        self,
        kind: int,
        code: int = 0,
        value: float = 0.0,
        index: int = 0,
        cpu_ns: int = 0,
        t_ns: int = 0,
    ) -> None:
        """Appends one mark, stamped now unless `t_ns` is given.

        Raises:
            OSError: The disk is full.
        """
        offset = self._offset
        if offset == CHUNK:
            self._base += CHUNK
            # Reserved before the old chunk goes, so that after a failure the journal is as it was.
            try:
                fresh = self._next_chunk()
            except OSError:
                self._base -= CHUNK
                raise
            self._map.close()
            self._map = fresh
            offset = 0
        MARK.pack_into(
            self._map, offset, t_ns or time.perf_counter_ns(), cpu_ns, value, kind, code, index
        )
        self._offset = offset + MARK.size

    def add_step(
        self, start_ns: int, end_ns: int, samples: float, loss: float, index: int, cpu_ns: int
    ) -> None:
        """Appends start and end of a step with nothing between, at the cost of one mark.

        Raises:
            OSError: The disk is full.
        """
        offset = self._offset
        if offset + STEP.size > CHUNK:
            self.add(STEP_START, 0, samples, index, 0, start_ns)
            self.add(STEP_END, 0, loss, index, cpu_ns, end_ns)
            return
        STEP.pack_into(
            self._map, offset,
            start_ns, 0, samples, STEP_START, 0, index,
            end_ns, cpu_ns, loss, STEP_END, 0, index,
        )  # fmt: skip
        self._offset = offset + STEP.size

    def close(self) -> None:
        """Cuts the reserved rest off and closes."""
        self._map.close()
        os.ftruncate(self._fd, self._base + self._offset)
        os.close(self._fd)
        os.close(self._names)
