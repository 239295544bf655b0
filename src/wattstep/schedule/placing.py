"""What policies share: times looked up once, plans one task after the other, and plans made by going along the clock."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

import numpy as np

from wattstep.schedule.machine import Machine
from wattstep.schedule.memory import Room, most_bytes
from wattstep.schedule.simulate import alone_s, simulate
from wattstep.schedule.tasks import Placed, Schedule, TaskGraph
from wattstep.schedule.times import Running, Times
from wattstep.schema.arrays import FloatArray

Start = tuple[int, tuple[int, ...]]  # a task and the cores that it is given
Look = tuple[str, str, int, int]  # what decides a task's time: kind, shape, FLOPs, bytes

_EARLIER: Final = 1e-9  # part of a time that counts as none


class Costs:
    """Times of a graph's tasks on a machine's clusters, each asked for once.

    Args:
        graph: Of the step.
        times: The performance model.
        machine: Where.
    """

    def __init__(self, graph: TaskGraph, times: Times, machine: Machine) -> None:
        self.graph, self.times, self.machine = graph, times, machine
        self.looks: tuple[Look, ...] = tuple(
            (task.kind, task.shape, task.flops, task.bytes_moved) for task in graph.tasks
        )
        self.cpu_cores = tuple(core for one in machine.cpus() for core in machine.cores(one))
        self._spanning: dict[Look, float] = {}
        self._tables: dict[tuple[Look, int], tuple[FloatArray, list[int]]] = {}

    def table(self, task: int, cluster: int) -> FloatArray:
        """Seconds on 1, 2, ... cores of a cluster, shape (cores,)."""
        return self._table(task, cluster)[0]

    def fastest(self, task: int, cluster: int, most: int) -> int:
        """The number of threads that takes least among 1 to `most`."""
        return self._table(task, cluster)[1][most - 1]

    def seconds(self, task: int, threads: int, cluster: int) -> float:
        """Seconds on so many cores of a cluster."""
        return float(self._table(task, cluster)[0][threads - 1])

    def spanning(self, task: int) -> float:
        """Seconds on all CPU cores, of equal clusters or not."""
        look = self.looks[task]
        if look not in self._spanning:
            placed = Placed(task=task, worker=0, threads=len(self.cpu_cores), cores=self.cpu_cores)
            self._spanning[look] = alone_s(self.graph, placed, self.times, self.machine)
        return self._spanning[look]

    def _table(self, task: int, cluster: int) -> tuple[FloatArray, list[int]]:
        key = (self.looks[task], cluster)
        known = self._tables.get(key)
        if known is None:
            one = self.graph.tasks[task]
            cores = self.machine.clusters[cluster].cores
            seconds = np.array(
                [self.times.seconds(one, n, cluster).value for n in range(1, cores + 1)]
            )
            fastest, best = [], 0
            for place in range(cores):
                best = place if seconds[place] < seconds[best] else best
                fastest.append(best + 1)
            known = self._tables[key] = (seconds, fastest)
        return known


def lower_bound(costs: Costs) -> tuple[float, float]:
    """Seconds that no plan on the machine goes below: of the critical path, and of the work shared evenly.

    Each task counts with what it takes least, by a team within a cluster or of all CPU cores: in seconds for the
    path, in core-seconds for the work. Of unequal clusters each one's core-seconds count by how fast it is.
    """
    machine, graph = costs.machine, costs.graph
    if not graph.tasks:
        return 0.0, 0.0
    places = range(len(machine.clusters))
    cores = np.array([one.cores for one in machine.clusters], np.float64)
    team = np.where([one in machine.cpus() for one in places], cores, 0.0)
    tasks = range(len(graph.tasks))
    tables = [[costs.table(task, place) for place in places] for task in tasks]
    spanning = np.array([costs.spanning(task) for task in tasks])
    work = np.array([[(one * np.arange(1, len(one) + 1)).min() for one in row] for row in tables])
    speed = work[:, 0].sum() / work.sum(axis=0)
    weights = speed / (speed @ cores)
    least = np.minimum((work * weights).min(axis=1), spanning * (team @ weights))
    shortest = np.minimum([min(one.min() for one in row) for row in tables], spanning)
    return graph.critical_path(shortest.tolist()), float(least.sum())


def one_by_one(graph: TaskGraph, cores: Callable[[int], tuple[int, ...]], policy: str) -> Schedule:
    """The tasks in the framework's order, each alone.

    Args:
        graph: Of the step.
        cores: Of each task.
        policy: As of `Schedule`.
    """
    return Schedule(
        workers=1,
        policy=policy,
        placed=tuple(
            Placed(task=task, worker=0, threads=len(cores(task)), cores=cores(task))
            for task in range(len(graph.tasks))
        ),
    )


def best_of(
    plans: Iterable[Schedule],
    graph: TaskGraph,
    times: Times,
    machine: Machine,
) -> Schedule:
    """The plan that is the fastest in the simulation, the first of equals.

    Of a machine that keeps teams one in which workers do; of one that bounds memory one that keeps within it.

    Args:
        plans: The first is one that may be, as that of one worker in the framework's order is.
        graph: Of the step.
        times: The performance model.
        machine: Where.
    """
    possible = [plan for plan in plans if plan.keeps_teams or not machine.keeps_teams]
    timelines = [simulate(graph, plan, times, machine) for plan in possible]
    most = most_held(graph, machine)
    spans = [each.makespan_s if each.peak_bytes <= most else inf for each in timelines]
    return possible[spans.index(min(spans))]


def most_held(graph: TaskGraph, machine: Machine) -> float:
    """Bytes of what a step makes that a plan may hold at one time on a machine."""
    return inf if machine.most_memory is None else most_bytes(graph, machine.most_memory)


@dataclass(kw_only=True)
class State:
    """Where a plan stands at one moment.

    Attributes:
        now: Seconds since the step began.
        ready: Tasks that have what they wait for, the first of the order first.
        free: Cores without a task.
        ends: When each running task ends.
        cores: Of each running task.
    """

    now: float
    ready: list[int]
    free: list[int]
    ends: dict[int, float]
    cores: dict[int, tuple[int, ...]]

    @property
    def last_end(self) -> float:
        """When the last of the running tasks ends."""
        return max(self.ends.values(), default=self.now)


def along_the_clock(
    costs: Costs,
    cores: Sequence[int],
    choose: Callable[[State], list[Start]],
    *,
    rank: Sequence[float] | None = None,
    policy: str = "",
) -> Schedule:
    """A plan made by starting tasks whenever some are ready and cores are free, as their times are predicted.

    Where that would hold more than a machine's bound of memory, tasks wait for others whose end makes room: as long
    as some run, or, where that does not suffice, so that there is room for all.

    Args:
        costs: Of the tasks.
        cores: That are used.
        choose: What to begin now; it must begin something where nothing runs.
        rank: Ready tasks with more of it come first; None: in the framework's order.
        policy: As of `Schedule`.
    """
    graph, machine = costs.graph, costs.machine
    most = most_held(graph, machine)
    plan = _along(costs, cores, choose, rank, policy, Room(graph, inf, reserving=False))
    for reserving in (False, True) if most < inf else ():
        if simulate(graph, plan, costs.times, machine).peak_bytes <= most:
            break
        plan = _along(costs, cores, choose, rank, policy, Room(graph, most, reserving=reserving))
    return plan


def _along(
    costs: Costs,
    cores: Sequence[int],
    choose: Callable[[State], list[Start]],
    rank: Sequence[float] | None,
    policy: str,
    room: Room,
) -> Schedule:
    """As `along_the_clock`, of what has room."""
    graph, times = costs.graph, costs.times
    cluster_of = costs.machine.cluster_of
    missing = [len(each) for each in graph.after]
    before = graph.before()
    state = State(
        now=0.0,
        ready=[number for number, count in enumerate(missing) if count == 0],
        free=list(cores),
        ends={},
        cores={},
    )
    order = (lambda task: task) if rank is None else (lambda task: (-rank[task], task))
    started: list[tuple[Start, float, float]] = []
    while state.ready or state.ends:
        without = [task for task in state.ready if not room.fits(task)]
        if not state.ends and len(without) == len(state.ready):
            without.remove(min(without))  # after it there is room soonest
        state.ready = sorted(set(state.ready).difference(without), key=order)
        for task, own in choose(state) if state.ready and state.free else []:
            if state.ends and not room.fits(task):
                continue  # beside those that begin now
            cluster = cluster_of[own[0]]
            others = [
                Running(graph.tasks[n], len(each), cluster_of[each[0]])
                for n, each in state.cores.items()
            ]
            factor = (
                times.slowdown(Running(graph.tasks[task], len(own), cluster), others).value
                if others
                else 1.0
            )
            end = state.now + costs.seconds(task, len(own), cluster) * factor
            started.append(((task, own), state.now, end))
            state.ends[task], state.cores[task] = end, own
            room.begin(task)
            state.ready.remove(task)
            state.free = [core for core in state.free if core not in own]
        state.ready += without
        state.now = min(state.ends.values())
        for task in [n for n, end in state.ends.items() if end <= state.now * (1 + _EARLIER)]:
            del state.ends[task]
            room.end(task)
            state.free = sorted([*state.free, *state.cores.pop(task)])
            for other in before[task]:
                missing[other] -= 1
                if missing[other] == 0:
                    state.ready.append(other)
    return planned(graph, started, policy, as_timed=room.bounded)


def planned(
    graph: TaskGraph,
    started: Sequence[tuple[Start, float, float]],
    policy: str = "",
    *,
    as_timed: bool = False,
) -> Schedule:
    """A plan of what was started: the workers, and what each task waits for because of its cores, or for memory.

    Args:
        graph: Of the step.
        started: Task with cores, begin and end in s; in an order that the graph's dependencies allow. Tasks with a
            core in common do not overlap.
        policy: As of `Schedule`.
        as_timed: Whether a task that began later than its cores and what it takes were there waits for those at
            whose end it began, since memory was missing until then.
    """
    ordered = sorted(started, key=lambda one: one[1])  # stable: the graph's order among equals
    sets = list(dict.fromkeys(cores for (_, cores), _, _ in ordered))
    keep = sum(map(len, sets)) == len(
        {core for each in sets for core in each}
    )  # cores of their own
    idle: list[tuple[float, int]] = []
    last_of_worker: dict[int, tuple[int, tuple[int, ...]]] = {}
    last_of_core: dict[int, int] = {}
    ends = {task: end for (task, _), _, end in ordered}
    ending: dict[float, list[int]] = {}
    for one, end in ends.items():
        ending.setdefault(end, []).append(one)
    placed = []
    for (task, cores), begin, end in ordered:
        there = [
            worker
            for until, worker in idle
            if until <= begin * (1 + _EARLIER) and (not keep or last_of_worker[worker][1] == cores)
        ]
        # The worker that had these cores, with this number of threads, needs no change.
        worker = min(
            there,
            key=lambda one: (
                set(last_of_worker[one][1]) != set(cores),
                len(last_of_worker[one][1]) != len(cores),
                one,
            ),
            default=len(last_of_worker),
        )
        waits = {last_of_core[core] for core in cores if core in last_of_core}
        if as_timed:
            there_s = max((ends[one] for one in (*waits, *graph.after[task])), default=0.0)
            if there_s < begin * (1 - _EARLIER):
                waits.update(ending[begin])
        if worker in last_of_worker:
            waits.discard(last_of_worker[worker][0])
        placed.append(
            Placed(
                task=task,
                worker=worker,
                threads=len(cores),
                cores=cores,
                waits=tuple(sorted(waits - set(graph.after[task]))),
            )
        )
        idle = [(until, one) for until, one in idle if one != worker] + [(end, worker)]
        last_of_worker[worker] = (task, cores)
        last_of_core.update(dict.fromkeys(cores, task))
    return Schedule(workers=max(1, len(last_of_worker)), placed=tuple(placed), policy=policy)


def shared_out(costs: Costs, cluster: int, tasks: Sequence[int], cores: int) -> list[int]:
    """Threads of tasks that begin together, so that the last ends as early as can be: each core to whoever is last.

    Args:
        costs: Of the tasks.
        cluster: Where.
        tasks: At most as many as cores.
        cores: That are shared out.
    """
    allotted = [1] * len(tasks)

    def seconds(place: int) -> float:
        task = tasks[place]
        return costs.seconds(task, costs.fastest(task, cluster, allotted[place]), cluster)

    longest = [(-seconds(place), place) for place in range(len(tasks))]
    heapq.heapify(longest)
    for _ in range(cores - len(tasks)):
        place = longest[0][1]
        allotted[place] += 1
        heapq.heapreplace(longest, (-seconds(place), place))
    return [
        costs.fastest(task, cluster, count) for task, count in zip(tasks, allotted, strict=True)
    ]


def taken(free: Sequence[int], counts: Mapping[int, int]) -> list[Start]:
    """Free cores given to tasks in turn, so many each."""
    starts, first = [], 0
    for task, count in counts.items():
        starts.append((task, tuple(free[first : first + count])))
        first += count
    return starts
