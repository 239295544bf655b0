"""Other programs that keep cores busy just before a training begins, which would make its threads wait."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

LOOK_S: Final = 0.2  # /proc/stat ticks in 10 ms
SPARE: Final = 0.5  # cores that others may use beside one thread a core


def default_threads(environment: Mapping[str, str] = os.environ) -> int:
    """Threads that torch takes unasked, known before it is loaded: OMP_NUM_THREADS, else one a core.

    With two hyperthreads a core it may take one thread for both, and so fewer.
    """
    first = environment.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) else usable_cores()


def usable_cores() -> int:
    """Number of cores that this process may run on."""
    return len(os.sched_getaffinity(0))


def cores_of_others(
    stat: Path = Path("/proc/stat"),
    clock: Callable[[], float] = time.perf_counter,
    own: Callable[[], float] = time.process_time,
    sleep: Callable[[float], None] = time.sleep,
) -> float:
    """Number of cores that other programs keep busy, from 0.2 s; 0 where the kernel does not tell.

    Args:
        stat: /proc/stat.
        clock: Monotonic time in s.
        own: CPU time of this process in s.
        sleep: Waits so many s.
    """
    begin = _times(stat, clock, own)
    sleep(LOOK_S)
    seconds, busy, used = (b - a for a, b in zip(begin, _times(stat, clock, own), strict=True))
    return max(busy - used, 0.0) / seconds if seconds > 0 else 0.0


def _times(
    stat: Path, clock: Callable[[], float], own: Callable[[], float]
) -> tuple[float, float, float]:
    """Time, busy time of all cores and CPU time of this process, in s."""
    try:
        fields = stat.read_text(encoding="ascii").split("\n", 1)[0].split()
        user, nice, system, _, _, irq, softirq = map(int, fields[1:8])
    except (OSError, ValueError):
        return clock(), 0.0, own()
    ticks = user + nice + system + irq + softirq
    return clock(), ticks / os.sysconf("SC_CLK_TCK"), own()


def too_many_threads(
    threads: int, cores: int, others: float, remedy: str = "--threads {}"
) -> str | None:
    """Warning that a training's threads will wait for cores that others use; None: they will not.

    Args:
        threads: Of the training.
        cores: That it may use.
        others: That other programs keep busy.
        remedy: How fewer threads are asked for.
    """
    if threads < 2 or threads + others <= cores + SPARE:
        return None
    free = max(math.floor(cores - others), 1)
    return (
        f"other programs keep {others:.1f} of {cores} cores busy, and the training uses {threads} "
        f"threads, one a core: its steps may take many times as long; {remedy.format(free)} leaves "
        "the others theirs"
    )


def as_note(warning: str) -> str:
    """What a run keeps of `too_many_threads`: what was, without what could still be done about it."""
    note = warning.partition(", and the training")[0].replace("keep", "kept", 1)
    return f"when training began, {note}"


def others_beside(
    environment: Mapping[str, str] = os.environ, look: Callable[[], float] = cores_of_others
) -> float:
    """Number of cores that others keep busy, for a script or a trainer of somebody else.

    0 without a look at them where it takes one thread unasked, or is one of several processes that
    train together, which are no other programs.
    """
    alone = environment.get("WORLD_SIZE", "1") == "1"
    return look() if alone and default_threads(environment) > 1 else 0.0


def crowded_default(threads: int | None, others: float) -> str | None:
    """`too_many_threads` for a script or a trainer of somebody else; None: not known how many."""
    if threads is None:
        return None
    return too_many_threads(threads, usable_cores(), others, "OMP_NUM_THREADS={}")
