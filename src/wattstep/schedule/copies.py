"""Copies between memories that a plan needs: what a task reads and its memory does not have."""

from __future__ import annotations

from collections.abc import Sequence

from wattstep.schedule.machine import Machine
from wattstep.schedule.tasks import TaskGraph

SHARED = -1  # the memory that CPU clusters share


class Memories:
    """Which memories hold the current values of each storage, while tasks are placed in the graph's order.

    What a step writes is before the step where the step before left it; where that is not known yet, and what
    is only read, lies in the shared memory.

    Args:
        graph: Whose storages.
        machine: Whose memories.
    """

    def __init__(self, graph: TaskGraph, machine: Machine) -> None:
        self._graph, self._machine = graph, machine
        self._holders: list[set[int]] = [{SHARED} for _ in graph.storage_bytes]

    def copy_s(self, task: int, cluster: int) -> float:
        """Seconds of the copies that a task on a cluster needs first."""
        memory = self._machine.memory_of(cluster)
        seconds = 0.0
        for one in self._graph.tasks[task].reads:
            if memory not in self._holders[one]:
                # From one accelerator to another by way of the shared memory.
                source = SHARED if SHARED in self._holders[one] else min(self._holders[one])
                for end in {memory, source} - {SHARED}:
                    place = self._machine.clusters[end]
                    assert place.link is not None  # it has a memory of its own
                    seconds += place.copy_s + self._graph.storage_bytes[one] / place.link
        return seconds

    def begin_step(self) -> None:
        """A step begins: what steps never write, such as the batch, is new in the shared memory."""
        written = {one for task in self._graph.tasks for one in task.writes}
        for one in set(range(len(self._holders))) - written:
            self._holders[one] = {SHARED}

    def run(self, task: int, cluster: int) -> None:
        """A task has run on a cluster: its memory has what it read, and alone what it wrote."""
        memory = self._machine.memory_of(cluster)
        for one in self._graph.tasks[task].reads:
            self._holders[one].add(memory)
        for one in self._graph.tasks[task].writes:
            self._holders[one] = {memory}


def copies(graph: TaskGraph, machine: Machine, clusters: Sequence[int]) -> tuple[float, ...]:
    """Seconds of the copies before each task of steps that repeat, shape (n,).

    Args:
        graph: Of the step.
        machine: Where.
        clusters: Of each task, shape (n,).
    """
    if all(machine.memory_of(cluster) == SHARED for cluster in set(clusters)):
        return (0.0,) * len(graph.tasks)
    memories = Memories(graph, machine)
    for number, cluster in enumerate(
        clusters
    ):  # a step before, after which weights lie where they are updated
        memories.run(number, cluster)
    memories.begin_step()
    seconds = []
    for number, cluster in enumerate(clusters):
        seconds.append(memories.copy_s(number, cluster))
        memories.run(number, cluster)
    return tuple(seconds)
