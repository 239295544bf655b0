"""What else runs on this machine while something is measured: cores that others take, and our share of ours."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

DISTURBED: Final = 0.1  # cores that other processes take: more disturbs


class Load:
    """Counts from its making on."""

    def __init__(self) -> None:
        self._busy, self._own, self._began = _busy_s(), _own_s(), time.monotonic()

    def others(self) -> float:
        """Cores that other processes took since; 0 where the system does not tell."""
        busy = _busy_s()
        if self._busy is None or busy is None:
            return 0.0
        elapsed = max(time.monotonic() - self._began, 1e-9)
        return max(0.0, (busy - self._busy - (_own_s() - self._own)) / elapsed)

    def share(self, threads: int) -> float:
        """Part of the time of so many cores that this process got since, above 0 and 1 at most.

        Args:
            threads: That compute all the while.
        """
        elapsed = max(time.monotonic() - self._began, 1e-9)
        return min(1.0, max((_own_s() - self._own) / elapsed / threads, 1e-3))


def _own_s() -> float:
    """Processor time in s of this process and of its children that ended."""
    return sum(os.times()[:4])


def _busy_s() -> float | None:
    """Time in s in which cores worked, or would have if their host had let them."""
    try:
        with Path("/proc/stat").open(encoding="utf-8") as file:
            words = file.readline().split()
    except OSError:
        return None
    return (sum(map(int, words[1:9])) - int(words[4]) - int(words[5])) / os.sysconf("SC_CLK_TCK")
