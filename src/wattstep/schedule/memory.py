"""Memory of what a step makes, as a plan lets it live: from the task that makes it to the end of the last that takes it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from wattstep.schedule.tasks import TaskGraph

LITTLE: Final = 1 << 20  # bytes more that are nobody's trouble


def peak_bytes(graph: TaskGraph, begin_s: Sequence[float], end_s: Sequence[float]) -> int:
    """Most bytes at one time of the storages that a step makes.

    What the first task that touches it reads was there before (weights, state, the batch), and is none of these.

    Args:
        graph: Of the step.
        begin_s: When each task begins, in any unit, shape (n,).
        end_s: When it ends, shape (n,).
    """
    made: dict[int, float] = {}
    there: set[int] = set()
    dropped: dict[int, float] = {}
    for number, task in enumerate(graph.tasks):
        there.update(one for one in task.reads if one not in made)
        for one in task.writes:
            if one not in there:
                made.setdefault(one, begin_s[number])
        for one in (*task.reads, *task.writes):
            dropped[one] = max(dropped.get(one, 0.0), end_s[number])
    sizes = graph.storage_bytes
    changes = [(at, sizes[one]) for one, at in made.items()]
    changes += [(dropped[one], -sizes[one]) for one in made]
    return max(accumulate(size for _, size in sorted(changes)), default=0)


def most_bytes(graph: TaskGraph, factor: float) -> float:
    """Bytes of what a step makes that a plan may hold at one time.

    Args:
        graph: Of the step.
        factor: Times as much as in the framework's own order; where that is little, `LITTLE` more.
    """
    count = len(graph.tasks)
    alone = peak_bytes(graph, range(count), range(1, count + 1))
    return max(factor * alone, alone + LITTLE)
