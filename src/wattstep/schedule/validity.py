"""Whether a plan can be carried out: every task once, no deadlock, no core used twice at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from wattstep.errors import InvalidValueError
from wattstep.schedule.machine import Machine
from wattstep.schedule.tasks import Schedule, TaskGraph


def check(
    graph: TaskGraph, schedule: Schedule, machine: Machine, *, oversubscribed: bool = False
) -> None:
    """Refuses a plan that cannot be carried out as it stands, however long its tasks take.

    Args:
        graph: What is planned.
        schedule: The plan.
        machine: Where.
        oversubscribed: Whether tasks that may run at one time may have cores in common.

    Raises:
        InvalidValueError: It is none; the error names the first task that is wrong.
    """
    _check_tasks(graph, schedule, machine)
    order = in_order(graph, schedule)
    if not oversubscribed:
        _check_cores(graph, schedule, order)


def _check_tasks(graph: TaskGraph, schedule: Schedule, machine: Machine) -> None:
    times = Counter(one.task for one in schedule.placed)
    for number, task in enumerate(graph.tasks):
        if times[number] != 1:
            raise _invalid(f"task {number} ({task.name}) is in the plan {times[number]} times")
    if unknown := set(times) - set(range(len(graph.tasks))):
        raise _invalid(f"there is no task {min(unknown)}: the graph has {len(graph.tasks)}")
    for one in schedule.placed:
        what = f"task {one.task} ({graph.tasks[one.task].name})"
        if not 0 <= one.worker < schedule.workers:
            raise _invalid(f"{what} is of worker {one.worker}: there are {schedule.workers}")
        if one.threads < 1 or one.threads > machine.count:
            raise _invalid(
                f"{what} has {one.threads} threads: {machine.name} has {machine.count} cores"
            )
        if len(set(one.cores)) != one.threads:
            raise _invalid(f"{what} has {one.threads} threads on cores {one.cores}")
        if not all(0 <= core < machine.count for core in one.cores):
            raise _invalid(
                f"{what}: {machine.name} has cores 0 to {machine.count - 1}, not {one.cores}"
            )
        if not all(0 <= other < len(graph.tasks) for other in one.waits):
            raise _invalid(f"{what} waits for a task that there is not: {one.waits}")  # fmt: skip


def in_order(graph: TaskGraph, schedule: Schedule) -> tuple[int, ...]:
    """The tasks in an order in which the plan lets them begin.

    Raises:
        InvalidValueError: There is none: tasks would wait for each other without end.
    """
    waits = schedule.waits(graph)
    missing = [len(each) for each in waits]
    later: list[list[int]] = [[] for _ in graph.tasks]
    for number, earlier in enumerate(waits):
        for other in earlier:
            later[other].append(number)
    ready = [number for number, count in enumerate(missing) if count == 0]
    order = []
    while ready:
        number = ready.pop()
        order.append(number)
        for other in later[number]:
            missing[other] -= 1
            if missing[other] == 0:
                ready.append(other)
    if len(order) < len(graph.tasks):
        stuck = next(number for number, count in enumerate(missing) if count > 0)
        raise _invalid(f"task {stuck} ({graph.tasks[stuck].name}) waits for itself: a deadlock")
    return tuple(order)


def _check_cores(graph: TaskGraph, schedule: Schedule, order: Sequence[int]) -> None:
    """Tasks with a core in common must come one after the other, whatever they take.

    All that a task waits for, directly or not, is a set of bits.
    """
    waits = schedule.waits(graph)
    before = [0] * len(graph.tasks)
    for number in order:
        for other in waits[number]:
            before[number] |= before[other] | 1 << other
    of_core: dict[int, list[int]] = {}
    place = {number: at for at, number in enumerate(order)}
    for one in sorted(schedule.placed, key=lambda each: place[each.task]):
        for core in one.cores:
            of_core.setdefault(core, []).append(one.task)
    for core, tasks in of_core.items():
        for first, second in pairwise(tasks):
            if not before[second] >> first & 1:
                raise _invalid(
                    f"tasks {first} ({graph.tasks[first].name}) and {second} ({graph.tasks[second].name}) "
                    f"may run on core {core} at one time"
                )


def _invalid(line: str) -> InvalidValueError:
    return InvalidValueError(f"the plan cannot be carried out: {line}", id="invalid-schedule")
