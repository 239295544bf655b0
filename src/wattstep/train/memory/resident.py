"""Resident memory of this process: what it is, its high-water mark, and what the allocator can give back."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from mmap import PAGESIZE

from wattstep.errors import RecordingError
from wattstep.schema.processes import give_back_free_memory

_STATUS = "/proc/self/status"
_CLEAR = "/proc/self/clear_refs"
_RESET_PEAK = b"5"  # Linux 4.0 and later, see proc(5)


@dataclass(frozen=True, kw_only=True)
class Resident:
    """Resident memory in bytes.

    Attributes:
        peak: The high-water mark since it was last reset.
        all: All of it.
        anonymous: Heap and stacks: what belongs to no file.
        library_pages: Pages of files: code and constants of libraries, memory that is shared.
    """

    peak: int
    all: int
    anonymous: int
    library_pages: int


class ResidentMemory:
    """Reads and resets; one a process is enough.

    Attributes:
        can_trim: Whether the C library gives free memory back when asked (glibc does).

    Raises:
        RecordingError: This kernel does not let a process reset its high-water mark.
    """

    def __init__(self) -> None:
        self._status = os.open(_STATUS, os.O_RDONLY)
        try:
            self._clear = os.open(_CLEAR, os.O_WRONLY)
            self.reset()
        except OSError as error:
            os.close(self._status)
            raise RecordingError(
                f"peaks by stage cannot be measured: {_CLEAR} cannot be written "
                f"({error.strerror}); Linux 4.0 or later is needed"
            ) from error
        library = ctypes.CDLL(None)
        self.can_trim = hasattr(library, "malloc_trim")
        self._mincore = library.mincore
        self._mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)

    def close(self) -> None:
        """Closes its two files."""
        os.close(self._status)
        os.close(self._clear)

    def read(self) -> Resident:
        """Resident memory now; one read of one file."""
        sizes = parse_status(os.pread(self._status, 1 << 14, 0).decode("ascii", errors="replace"))
        return Resident(
            peak=sizes["VmHWM"],
            all=sizes["VmRSS"],
            anonymous=sizes["RssAnon"],
            library_pages=sizes["RssFile"] + sizes["RssShmem"],
        )

    def reset(self) -> None:
        """The high-water mark becomes what is resident now."""
        os.pwrite(self._clear, _RESET_PEAK, 0)

    def trim(self) -> None:
        """Gives back to the system what the C library's allocator holds free."""
        give_back_free_memory()

    def begin(self) -> int:
        """As `Meter.begin`."""
        self.trim()
        self.reset()
        return self.read().all

    def end(self) -> int:
        """As `Meter.end`."""
        return self.read().peak

    def absent(self, address: int, size: int) -> int:
        """As `Meter.absent`, by whole pages (mincore)."""
        first = -(-address // PAGESIZE) * PAGESIZE
        pages = ((address + size) // PAGESIZE * PAGESIZE - first) // PAGESIZE
        if pages <= 0:
            return 0
        present = ctypes.create_string_buffer(pages)
        if self._mincore(first, pages * PAGESIZE, present) != 0:
            return 0  # no memory of this process
        return present.raw.count(0) * PAGESIZE

    def cache(self) -> None:
        """As `Meter.cache`: a process has no device's allocator."""


def parse_status(text: str) -> dict[str, int]:
    """The sizes in /proc/PID/status in bytes."""
    sizes = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if value.endswith(" kB"):
            sizes[name] = int(value.split()[0]) * 1024
    return sizes
