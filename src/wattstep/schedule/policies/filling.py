"""Large operations one after the other, small ones beside them on the cores that these leave."""

from __future__ import annotations

from functools import partial

from wattstep.schedule.machine import Machine
from wattstep.schedule.placing import Costs, Look, Start, State, along_the_clock, best_of, taken
from wattstep.schedule.policies import per_kind
from wattstep.schedule.policies.co_running import best_cluster
from wattstep.schedule.tasks import Schedule, TaskGraph
from wattstep.schedule.teams import in_teams, of_sizes, uneven
from wattstep.schedule.times import Running, Times


def plan(graph: TaskGraph, times: Times, machine: Machine) -> Schedule:
    """As of `policies.Plan`: on the CPU cluster that is best for the whole step, or as `per_kind`."""
    costs = Costs(graph, times, machine)
    plans = [per_kind.plan(graph, times, machine)]
    if graph.tasks:
        cluster = best_cluster(costs)
        cores = machine.cores(cluster)
        choose = partial(filled, costs, cluster, threads_by_look(costs, cluster))
        if machine.keeps_teams:
            plans += [
                in_teams(costs, of_sizes(cores, sizes), policy="fill")
                for sizes in uneven(len(cores))
            ]
        else:
            plans.append(along_the_clock(costs, cores, choose, policy="fill"))
    return best_of(plans, graph, times, machine)


def threads_by_look(costs: Costs, cluster: int) -> dict[Look, int]:
    """Threads of each kind and shape as `per_kind` has them, within one cluster."""
    most = costs.machine.clusters[cluster].cores
    return {look: min(most, len(cores)) for look, cores in per_kind.cores_by_look(costs).items()}


def filled(costs: Costs, cluster: int, threads: dict[Look, int], state: State) -> list[Start]:
    """What begins now: the first of the ready tasks where nothing runs, else what ends before the running ones.

    Args:
        costs: Of the tasks.
        cluster: Where.
        threads: Of each kind and shape.
        state: Of the plan.
    """
    counts: dict[int, int] = {}
    left, until = len(state.free), state.last_end
    ready = list(state.ready)
    if not state.ends:
        first = ready.pop(0)
        counts[first] = threads[costs.looks[first]]
        left -= counts[first]
        until = state.now + costs.seconds(first, counts[first], cluster)
    beside = [
        Running(costs.graph.tasks[task], len(cores), cluster) for task, cores in state.cores.items()
    ] + [Running(costs.graph.tasks[task], count, cluster) for task, count in counts.items()]
    for task in ready:
        if left < 1:
            break
        count = min(threads[costs.looks[task]], costs.fastest(task, cluster, left))
        own = Running(costs.graph.tasks[task], count, cluster)
        end = (
            state.now
            + costs.seconds(task, count, cluster) * costs.times.slowdown(own, beside).value
        )
        if end <= until:
            counts[task] = count
            left -= count
            beside.append(own)
    return taken(state.free, counts)
