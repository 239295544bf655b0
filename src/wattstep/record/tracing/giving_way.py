"""Time in which threads of this process were kept from running, as the kernel counts it."""

from __future__ import annotations

import math
import resource
import threading
import time
from pathlib import Path
from typing import TypeAlias

# By thread: waited for a core in ns, and how often it was made to give way (of ours alone; else 0).
Waits: TypeAlias = dict[int, tuple[float, int]]
TASKS = Path("/proc/self/task")


def waits() -> Waits:
    """Time in ns that each thread of this process has waited for a core so far.

    The kernel's account of run queues where it keeps one (CONFIG_SCHED_INFO). Without it, of the
    calling thread, the wall time less its CPU time; see `waited_most`.
    """
    own = threading.get_native_id()
    gave_way = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
    times: Waits = {}
    for thread in _threads():
        waited = _run_delay(thread)
        if waited is not None:
            times[thread] = waited, gave_way if thread == own else 0
    if not times:
        times[-own] = float(time.perf_counter_ns() - time.thread_time_ns()), gave_way
    return times


def waited_most(before: Waits, after: Waits) -> tuple[float, int]:
    """Longest wait of a thread between two looks in ns (NaN: not known), and how often ours gave way.

    Where only wall and CPU time are known, a thread that was never made to give way did not wait
    for a core, but for something else.
    """
    both = [(after[thread], before[thread]) for thread in after if thread in before]
    if not both:
        return math.nan, 0
    gave_way = sum(now[1] - then[1] for now, then in both)
    waited = max(now[0] - then[0] for now, then in both)
    counted = min(after) >= 0  # by the kernel
    return (waited if counted or gave_way else 0.0), gave_way


def _threads() -> list[int]:
    try:
        return [int(path.name) for path in TASKS.iterdir()]
    except OSError:
        return []


def _run_delay(thread: int) -> float | None:
    """Time in ns that a thread has waited on run queues; None where it has ended, or none is counted."""
    try:
        return float((TASKS / str(thread) / "schedstat").read_bytes().split()[1])
    except (OSError, IndexError, ValueError):
        return None
