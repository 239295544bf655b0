"""How many cores of this machine the real training keeps busy, itself and its children."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

LISTED_S: Final = 0.25  # how often it is looked for new children
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def process_clock(pid: int) -> int:
    """The clock of a process' CPU time, all its threads together (clock_getcpuclockid)."""
    return (~pid << 3) | 2


class Training:
    """A process and its descendants, without us.

    Args:
        pid: The training process.
        us: The process that watches, whose time does not count.

    Raises:
        OSError: Its CPU time cannot be read: without it the board would seem to be at rest.
    """

    def __init__(self, pid: int, us: int) -> None:
        self._pid, self._us = pid, us
        self._used = {pid: time.clock_gettime_ns(process_clock(pid))}
        self._wait_s = 0.0
        self._look()

    def busy_cores(self, seconds: float) -> float:
        """Cores that were busy on average in the `seconds` since the last call."""
        total = 0
        for pid, before in list(self._used.items()):
            now = _cpu_ns(pid)
            if now is None:  # it has ended; its last moments are lost
                del self._used[pid]
                continue
            total += now - before
            self._used[pid] = now
        self._wait_s -= seconds
        if self._wait_s <= 0:
            self._look()
        return total * 1e-9 / seconds

    def resident(self) -> int:
        """Resident memory of all of them in bytes."""
        return sum(map(_resident, self._used))

    def _look(self) -> None:
        """A child that is new counts from now on."""
        self._wait_s = LISTED_S
        for pid in (self._pid, *_descendants(self._pid, self._us)):
            if pid not in self._used and (used := _cpu_ns(pid)) is not None:
                self._used[pid] = used


def _cpu_ns(pid: int) -> int | None:
    try:
        return time.clock_gettime_ns(process_clock(pid))
    except OSError:
        return None


def _descendants(pid: int, us: int) -> list[int]:
    found: list[int] = []
    for path in _children_files(pid):
        try:
            children = [int(child) for child in path.read_text().split()]
        except OSError:  # the thread has ended meanwhile
            continue
        for child in children:
            if child != us:
                found += [child, *_descendants(child, us)]
    return found


def _children_files(pid: int) -> list[Path]:
    try:
        return [Path(f"/proc/{pid}/task/{tid}/children") for tid in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208
    except OSError:
        return []


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
