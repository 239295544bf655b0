"""The trainer's own journal: fixed-width marks in a mapped file, so that a killed trainer loses none."""

from __future__ import annotations

import json
import mmap
import os
import sys
import time
from pathlib import Path

from wattstep.errors import RecordingError
from wattstep.schema.journal import MARK, MARKS, NAMES, Mark
from wattstep.store.files import write_whole
from wattstep.store.segments import SegmentedFile

CHUNK = 256 * 1024  # mapped at a time: 8192 marks
WORDS = CHUNK // 8
MARK_WORDS = MARK.size // 8  # t_ns, cpu_ns, value; kind, code and index share the last
MOST_NAMES = 60_000  # codes are 16 bits wide; shapes that vary for ever end in one name
OVERFLOW = "(other)"
VARYING = ("shapes", "operation")  # layers, phases and the like are few, and keep their names

STEP_START, STEP_END = int(Mark.STEP_START), int(Mark.STEP_END)


class MarkJournal:
    """Appends marks to a file that is mapped a chunk at a time.

    A mark costs well under a microsecond and no system call; what was written survives the
    process at once. Blocks are reserved before they are mapped, so that a full disk is an
    `OSError` here and not a bus error in somebody's training.

    Words are stored through views of the map, as `MARK` lays them out: beside a training, whose
    code and data fill the caches, `struct` costs twice as much. The last word, which holds the
    kind, comes last: a mark that is there is whole.

    Args:
        folder: Of the journals; it exists.
        segment: Bytes from which on the journal goes on in a new file (`segments.py`), rounded up to
            whole chunks; 0: never.

    Attributes:
        ints: The chunk that is mapped, as integers of 8 bytes.
        floats: The same as floats.
        at: Where in them the next mark goes.

    Raises:
        OSError: The journal cannot be made.
        RecordingError: The machine stores integers big end first.
    """

    __slots__ = (
        "_base",
        "_codes",
        "_file",
        "_names",
        "at",
        "floats",
        "ints",
    )

    def __init__(self, folder: Path, segment: int = 0) -> None:
        if sys.byteorder != "little":
            raise RecordingError("steps are marked on machines that store the low byte first only")
        self._file = SegmentedFile(folder / MARKS, segment, os.O_RDWR | os.O_EXCL)
        self._names = os.open(folder / NAMES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._codes: dict[tuple[str, str], int] = {}
        self._base = 0
        try:
            self._map(0)
        except OSError:
            self._file.close()
            os.close(self._names)
            raise

    def _map(self, base: int) -> None:
        """Goes on with the chunk there, or in a new segment; after a failure the journal is as it was."""
        if self._file.is_full(base):
            self._file.begin(lambda fd: self._map_chunk(fd, 0))
        else:
            self._map_chunk(self._file.fd, base)

    def _map_chunk(self, fd: int, base: int) -> None:
        os.posix_fallocate(fd, base, CHUNK)
        chunk = memoryview(mmap.mmap(fd, CHUNK, offset=base))  # unmapped with its last view
        self._base, self.at = base, 0
        self.ints, self.floats = chunk.cast("Q"), chunk.cast("d")

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
        at = self.at
        if at == WORDS:
            self._map(self._base + CHUNK)
            at = 0
        ints = self.ints
        ints[at] = t_ns or time.perf_counter_ns()
        ints[at + 1] = cpu_ns
        self.floats[at + 2] = value
        ints[at + 3] = kind | code << 16 | index << 32
        self.at = at + MARK_WORDS

    def add_step(
        self, start_ns: int, end_ns: int, samples: float, loss: float, index: int, cpu_ns: int
    ) -> None:
        """Appends start and end of a step with nothing between.

        Raises:
            OSError: The disk is full.
        """
        self.add(STEP_START, 0, samples, index, 0, start_ns)
        self.add(STEP_END, 0, loss, index, cpu_ns, end_ns)

    def close(self) -> None:
        """Cuts the reserved rest off and closes."""
        self.ints.release()
        self.floats.release()
        os.ftruncate(self._file.fd, self._base + self.at * 8)
        self._file.close()
        os.close(self._names)
