"""Number of this machine's cores that the real training keeps busy, itself and its children."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Final

LISTED_S: Final = 0.25  # how often it is looked for new children
READ_S: Final = 0.5e-3  # a reading of the clocks that took longer was interrupted
READINGS: Final = 5  # until one is not
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
        time.clock_gettime_ns(process_clock(pid))  # raises where there is none
        self._read_ns, self._used = _readings([pid])
        self._wait_s = 0.0
        self._look()

    def busy_cores(self) -> tuple[int, float, float]:
        """Cores that were busy on average since the last call.

        The time is that at which the clocks were read, not that at which the caller woke: on a
        full machine the two lie tens of milliseconds apart, and one core that was busy through
        them would count as several.

        Returns:
            When the clocks were read in ns (CLOCK_MONOTONIC), the seconds since the last time,
            and the cores.
        """
        now_ns, times = _readings(list(self._used))
        # A child that has ended is gone; its last moments are lost.
        total = sum(used - self._used[pid] for pid, used in times.items())
        seconds = max(now_ns - self._read_ns, 1) * 1e-9
        self._used, self._read_ns = times, now_ns
        self._wait_s -= seconds
        if self._wait_s <= 0:
            self._look()
        return now_ns, seconds, total * 1e-9 / seconds

    def working(self) -> int:
        """Threads that run or wait for a core at this moment.

        A board of its own would have a core for those that wait for one here, as far as it has any.
        """
        return sum(map(_runnable, self._used))

    def resident(self) -> int:
        """Resident memory of all of them in bytes."""
        return sum(map(_resident, self._used))

    def _look(self) -> None:
        """A child that is new counts from now on."""
        self._wait_s = LISTED_S
        for pid in (self._pid, *_descendants(self._pid, self._us)):
            if pid not in self._used and (used := _cpu_ns(pid)) is not None:
                self._used[pid] = used


def _readings(pids: list[int]) -> tuple[int, dict[int, int]]:
    """When the processes' clocks were read, and what they showed in ns, of those that live.

    Of several readings the shortest counts, so that one which was interrupted does not.
    """
    shortest, when, times = 0, 0, dict[int, int]()
    for attempt in range(READINGS):
        begin = time.monotonic_ns()
        read = {pid: used for pid in pids if (used := _cpu_ns(pid)) is not None}
        end = time.monotonic_ns()
        if attempt == 0 or end - begin < shortest:
            shortest, when, times = end - begin, (begin + end) // 2, read
        if shortest <= READ_S * 1e9:
            break
    return when, times


def _cpu_ns(pid: int) -> int | None:
    try:
        return time.clock_gettime_ns(process_clock(pid))
    except OSError:
        return None


def _descendants(pid: int, us: int) -> list[int]:
    descendants: list[int] = []
    for path in _children_files(pid):
        try:
            children = [int(child) for child in path.read_text().split()]
        except OSError:  # the thread has ended meanwhile
            continue
        for child in children:
            if child != us:
                descendants += [child, *_descendants(child, us)]
    return descendants


def _children_files(pid: int) -> list[Path]:
    try:
        return [Path(f"/proc/{pid}/task/{tid}/children") for tid in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208
    except OSError:
        return []


def _runnable(pid: int) -> int:
    """Threads of a process in state R (proc(5), stat)."""
    count = 0
    with contextlib.suppress(OSError):
        for tid in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with contextlib.suppress(OSError):  # it has ended meanwhile
                stat = Path(f"/proc/{pid}/task/{tid}/stat").read_bytes()
                count += stat.rpartition(b") ")[2][:1] == b"R"
    return count


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
