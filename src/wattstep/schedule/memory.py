"""Memory of what a step makes, as a plan lets it live: from the task that makes it to the end of the last that takes it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import inf
from typing import Final

import numpy as np

from wattstep.schedule.tasks import TaskGraph

LITTLE: Final = 1 << 20  # bytes more that are nobody's trouble


def users(graph: TaskGraph) -> dict[int, list[int]]:
    """The tasks that take each storage which a step makes, in the framework's order; the first one makes it.

    What the first task that touches it reads was there before (weights, state, the batch), and is none of these.

    Args:
        graph: Of the step.
    """
    found: dict[int, list[int]] = {}
    there: set[int] = set()
    for number, task in enumerate(graph.tasks):
        there.update(one for one in task.reads if one not in found)
        for one in {*task.reads, *task.writes} - there:
            found.setdefault(one, []).append(number)
    return found


def peak_bytes(graph: TaskGraph, begin_s: Sequence[float], end_s: Sequence[float]) -> int:
    """Most bytes at one time of the storages that a step makes.

    Args:
        graph: Of the step.
        begin_s: When each task begins, in any unit, shape (n,).
        end_s: When it ends, shape (n,).
    """
    changes: list[tuple[float, int]] = []
    for one, tasks in users(graph).items():
        size = graph.storage_bytes[one]
        changes += [(begin_s[tasks[0]], size), (max(end_s[task] for task in tasks), -size)]
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


class Room:
    """What a step may still make, while a plan of it is made from its begin to its end.

    Args:
        graph: Of the step.
        most: Bytes that it may hold at one time, no less than in the framework's order.
        reserving: Whether a task may pass over others that the framework has before it only if these have room
            afterwards, one after the other. Then there is always one that fits; plans are longer.
    """

    def __init__(self, graph: TaskGraph, most: float, *, reserving: bool) -> None:
        count = len(graph.tasks)
        self._most, self._left, self._reserving = most, most, reserving
        self._sizes, self._lives = graph.storage_bytes, users(graph)
        self._takes: list[list[int]] = [[] for _ in range(count)]
        self._missing = {one: len(tasks) for one, tasks in self._lives.items()}
        self._makes = [0] * count
        self._begun = [False] * count
        self._first = 0  # of those that have not begun
        # Bytes held at each task if what has not begun goes on in the framework's order.
        self._ahead = np.zeros(count, np.int64)
        for one, tasks in self._lives.items():
            self._makes[tasks[0]] += self._sizes[one]
            self._ahead[tasks[0] : tasks[-1] + 1] += self._sizes[one]
            for task in tasks:
                self._takes[task].append(one)

    @property
    def bounded(self) -> bool:
        """Whether there is too much for it."""
        return self._most < inf

    def fits(self, task: int) -> bool:
        """Whether a task may begin now."""
        size = self._makes[task]
        if size == 0:
            return True
        passed = self._ahead[self._first : task] if self._reserving else self._ahead[:0]
        return size <= self._left and size + passed.max(initial=0) <= self._most

    def begin(self, task: int) -> None:
        """What it makes is there."""
        self._left -= self._makes[task]
        self._ahead[:task] += self._makes[task]
        self._begun[task] = True
        while self._first < len(self._begun) and self._begun[self._first]:
            self._first += 1

    def end(self, task: int) -> None:
        """What it was the last to take is dropped."""
        for one in self._takes[task]:
            self._missing[one] -= 1
            if self._missing[one] == 0:
                self._left += self._sizes[one]
                self._ahead[: self._lives[one][-1] + 1] -= self._sizes[one]
