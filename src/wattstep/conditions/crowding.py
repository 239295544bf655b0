"""Other programs that keep cores busy just before a training begins, which would make its threads wait."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

LEAST_S: Final = 0.2  # /proc/stat ticks in 10 ms
SPARE: Final = 0.5  # cores that others may use beside one thread a core


class Crowding:
    """Busy time of the cores that are not this process's, from when it is made until it is asked.

    Args:
        stat: /proc/stat.
        clock: Monotonic time in s.
        own: CPU time of this process in s.
        sleep: Waits, where it is asked too soon.
    """

    def __init__(
        self,
        stat: Path = Path("/proc/stat"),
        clock: Callable[[], float] = time.perf_counter,
        own: Callable[[], float] = time.process_time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._stat, self._clock, self._own, self._sleep = stat, clock, own, sleep
        self._begun = self._read()

    def others(self) -> float:
        """How many cores other programs kept busy since; 0 where the kernel does not tell."""
        self._sleep(max(LEAST_S - (self._clock() - self._begun[0]), 0.0))
        now = self._read()
        seconds, busy, own = (b - a for a, b in zip(self._begun, now, strict=True))
        return max(busy - own, 0.0) / seconds if seconds > 0 else 0.0

    def _read(self) -> tuple[float, float, float]:
        try:
            fields = self._stat.read_text(encoding="ascii").split("\n", 1)[0].split()
            user, nice, system, _, _, irq, softirq = map(int, fields[1:8])
        except (OSError, ValueError):
            return self._clock(), 0.0, self._own()
        ticks = user + nice + system + irq + softirq
        return self._clock(), ticks / os.sysconf("SC_CLK_TCK"), self._own()


def too_many_threads(threads: int, cores: int, others: float) -> str | None:
    """What to say where a training's threads will wait for cores that others use; None: they will not."""
    if threads < 2 or threads + others <= cores + SPARE:
        return None
    free = max(math.floor(cores - others), 1)
    return (
        f"other programs keep {others:.1f} of {cores} cores busy, and the training uses {threads} "
        f"threads, one a core: its steps may take many times as long; --threads {free} leaves the "
        "others theirs"
    )
