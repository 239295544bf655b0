"""What a plan would take on a machine: its tasks on a timeline, by a performance model."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from wattstep.schedule.copies import copies
from wattstep.schedule.machine import Machine
from wattstep.schedule.memory import peak_bytes
from wattstep.schedule.tasks import Placed, Schedule, TaskGraph
from wattstep.schedule.times import Running, Times
from wattstep.schedule.validity import check

_DONE: Final = 1e-12  # part of a task's time below which nothing of it is left


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Simulated step.

    Attributes:
        begin_s: When each task begins, in s from the step's begin, shape (n,).
        end_s: When it ends, shape (n,).
        worker: That ran it, shape (n,).
        cores: Cores that it had, shape (n,).
        makespan_s: Seconds of the step.
        idle_share: Part of the cores' time in which they had no task; a core that waits within a task's team
            is busy.
        copy_s: Seconds of copies between memories, within the tasks that needed them.
        switch_s: Seconds of changes of thread counts, likewise.
        joules: Of the step, by the machine's powers.
        peak_bytes: As of `memory.peak_bytes`.
    """

    begin_s: tuple[float, ...]
    end_s: tuple[float, ...]
    worker: tuple[int, ...]
    cores: tuple[tuple[int, ...], ...]
    makespan_s: float
    idle_share: float
    copy_s: float
    switch_s: float
    joules: float
    peak_bytes: int


def alone_s(graph: TaskGraph, one: Placed, times: Times, machine: Machine) -> float:
    """Seconds of a placed task with nothing beside it; on unequal cores the slowest decide, as shares are equal."""
    task = graph.tasks[one.task]
    return max(
        times.seconds(task, one.threads, cluster).value
        for cluster in {machine.cluster_of[core] for core in one.cores}
    )


def clusters_of(schedule: Schedule, machine: Machine) -> tuple[int, ...]:
    """The cluster of each task's first core, in the order of tasks, shape (n,)."""
    ordered = sorted(schedule.placed, key=lambda one: one.task)
    return tuple(machine.cluster_of[one.cores[0]] for one in ordered)


def simulate(graph: TaskGraph, schedule: Schedule, times: Times, machine: Machine) -> Timeline:
    """The timeline of a plan whose tasks begin as soon as what they wait for has ended.

    Args:
        graph: Of the step.
        schedule: A plan that names the cores of each task.
        times: The performance model.
        machine: Where.

    Raises:
        InvalidValueError: The plan cannot be carried out.
    """
    check(graph, schedule, machine)
    placed = sorted(schedule.placed, key=lambda one: one.task)
    clusters = clusters_of(schedule, machine)
    copy_s = copies(graph, machine, clusters)
    switch_s = [0.0] * len(placed)
    for own in schedule.by_worker():
        # Steps repeat: what a worker does last stands before what it does first.
        for first, second in zip((own[-1:] + own), own, strict=False):
            switch_s[second.task] = times.switch_s(first.threads, second.threads)
    work = [
        alone_s(graph, one, times, machine) + copy + switch
        for one, copy, switch in zip(placed, copy_s, switch_s, strict=True)
    ]
    running = [
        Running(task, one.threads, cluster)
        for task, one, cluster in zip(graph.tasks, placed, clusters, strict=True)
    ]
    workers = [one.worker for one in placed]
    begin, end = _run(schedule.waits(graph), workers, work, running, times)
    makespan = max(end, default=0.0)
    busy = [
        (last - first) * one.threads for first, last, one in zip(begin, end, placed, strict=True)
    ]
    watts = [machine.watts(one.cores) for one in placed]
    spent = sum((last - first) * w for first, last, w in zip(begin, end, watts, strict=True))
    return Timeline(
        begin_s=tuple(begin),
        end_s=tuple(end),
        worker=tuple(one.worker for one in placed),
        cores=tuple(one.cores for one in placed),
        makespan_s=makespan,
        idle_share=max(0.0, 1 - sum(busy) / (machine.count * makespan)) if makespan else 0.0,
        copy_s=sum(copy_s),
        switch_s=sum(switch_s),
        joules=machine.idle_w * makespan + spent,
        peak_bytes=peak_bytes(graph, begin, end),
    )


def _run(
    waits: Sequence[Sequence[int]],
    workers: Sequence[int],
    work: Sequence[float],
    running: Sequence[Running],
    times: Times,
) -> tuple[list[float], list[float]]:
    """Begin and end of each task; between two events each goes at the pace that its neighbours leave it.

    Where a worker has nothing else to wait for than another worker's task, its own begins later by what handing
    over takes; a worker that was busy until after that task had ended finds the way free.
    """
    count = len(work)
    missing = [len(each) for each in waits]
    later: list[list[int]] = [[] for _ in range(count)]
    for number, earlier in enumerate(waits):
        for other in earlier:
            later[other].append(number)
    begin, end = [0.0] * count, [0.0] * count
    handover_s = times.handover_s()
    left: dict[int, float] = {}
    ready = [(0.0, number) for number in range(count) if missing[number] == 0]
    heapq.heapify(ready)
    now = 0.0
    while ready or left:
        if not left:
            now = max(now, ready[0][0])
        while ready and ready[0][0] <= now:
            _, number = heapq.heappop(ready)
            begin[number], left[number] = now, work[number]
        paces = _paces(left, running, times)
        span = min(left[number] / pace for number, pace in paces.items())
        arrives = bool(ready) and ready[0][0] - now < span
        span = ready[0][0] - now if arrives else span
        for number, pace in paces.items():
            left[number] -= span * pace
        now = ready[0][0] if arrives else now + span
        for number in [one for one, rest in left.items() if rest <= _DONE * work[one]]:
            del left[number]
            end[number] = now
            for other in later[number]:
                missing[other] -= 1
                if missing[other] == 0:
                    own = [end[each] for each in waits[other] if workers[each] == workers[other]]
                    waited = now > max(own, default=0.0)
                    heapq.heappush(ready, (now + handover_s if waited else now, other))
    return begin, end


def _paces(left: Iterable[int], running: Sequence[Running], times: Times) -> dict[int, float]:
    """Part of its pace alone at which each of the running tasks goes; those that are alike, alike."""
    numbers = list(left)
    if len(numbers) == 1:
        return {numbers[0]: 1.0}
    known: dict[tuple[str, str, int, int, int, int], float] = {}
    paces = {}
    for number in numbers:
        task, threads, cluster = running[number]
        look = (task.kind, task.shape, task.flops, task.bytes_moved, threads, cluster)
        if look not in known:
            others = [running[other] for other in numbers if other != number]
            known[look] = 1.0 / times.slowdown(running[number], others).value
        paces[number] = known[look]
    return paces
