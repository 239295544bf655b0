"""Ready operations together, on threads shared out among them, where they end sooner so than one after the other."""

from __future__ import annotations

from functools import partial
from typing import Final

from wattstep.schedule.machine import Machine
from wattstep.schedule.placing import (
    Costs,
    Start,
    State,
    along_the_clock,
    best_of,
    shared_out,
    taken,
)
from wattstep.schedule.policies import per_kind
from wattstep.schedule.policies.global_threads import best_cores
from wattstep.schedule.tasks import Schedule, TaskGraph
from wattstep.schedule.teams import even, in_teams, of_sizes
from wattstep.schedule.times import Running, Times

TOGETHER: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # numbers of tasks that are weighed
GAIN: Final = 1.02  # by which together must be faster at least


def plan(graph: TaskGraph, times: Times, machine: Machine) -> Schedule:
    """As of `policies.Plan`: on the CPU cluster that is best for the whole step, or as `per_kind`."""
    costs = Costs(graph, times, machine)
    plans = [per_kind.plan(graph, times, machine)]
    if graph.tasks:
        cluster = best_cluster(costs)
        cores, choose = machine.cores(cluster), partial(together, costs, cluster)
        if machine.keeps_teams:
            plans += [
                in_teams(costs, of_sizes(cores, sizes), policy="co-run")
                for sizes in even(len(cores))
            ]
        else:
            plans.append(along_the_clock(costs, cores, choose, policy="co-run"))
    return best_of(plans, graph, times, machine)


def best_cluster(costs: Costs) -> int:
    """The CPU cluster on which the step takes least, one operation after the other."""
    return costs.machine.cluster_of[best_cores(costs)[0]]


def together(costs: Costs, cluster: int, state: State) -> list[Start]:
    """What begins now: as many of the ready tasks as makes most of the free cores.

    While others run, only what ends sooner than it would by waiting for all cores.

    Args:
        costs: Of the tasks.
        cluster: Where.
        state: Of the plan.
    """
    free = state.free
    best: tuple[float, dict[int, int]] = (0.0, {})
    for count in TOGETHER:
        if count > min(len(state.ready), len(free)):
            break
        tasks = state.ready[:count]
        threads = shared_out(costs, cluster, tasks, len(free))
        ends = _ends(costs, cluster, tasks, threads, state)
        # One after the other on all of the free cores they would take so long.
        alone = sum(
            costs.seconds(task, costs.fastest(task, cluster, len(free)), cluster) for task in tasks
        )
        gain = alone / max(ends)
        if gain > best[0] * (GAIN if best[1] else 1.0):
            best = (gain, dict(zip(tasks, threads, strict=True)))
    if state.ends:
        return taken(free, _worth(costs, cluster, best[1], state))
    return taken(free, best[1])


def _ends(
    costs: Costs, cluster: int, tasks: list[int], threads: list[int], state: State
) -> list[float]:
    """Seconds from now until each ends, with what runs beside it."""
    graph = costs.graph
    there = [Running(graph.tasks[n], len(own), cluster) for n, own in state.cores.items()]
    new = [Running(graph.tasks[n], count, cluster) for n, count in zip(tasks, threads, strict=True)]
    return [
        costs.seconds(task, count, cluster)
        * costs.times.slowdown(new[place], [*there, *new[:place], *new[place + 1 :]]).value
        for place, (task, count) in enumerate(zip(tasks, threads, strict=True))
    ]


def _worth(costs: Costs, cluster: int, chosen: dict[int, int], state: State) -> dict[int, int]:
    """Those of the chosen that end sooner now than after waiting for all that runs."""
    cores = costs.machine.clusters[cluster].cores
    ends = _ends(costs, cluster, list(chosen), list(chosen.values()), state)
    return {
        task: count
        for (task, count), end in zip(chosen.items(), ends, strict=True)
        if state.now + end
        <= state.last_end + costs.seconds(task, costs.fastest(task, cluster, cores), cluster)
    }
