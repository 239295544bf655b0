"""Clusters of unequal cores and accelerators: each operation where it ends first, copies between memories included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

from wattstep.schedule.copies import Memories
from wattstep.schedule.machine import Machine
from wattstep.schedule.placing import Costs, Start, best_of, planned
from wattstep.schedule.policies import critical_path, global_threads
from wattstep.schedule.tasks import Schedule, TaskGraph
from wattstep.schedule.teams import even, in_teams, of_sizes
from wattstep.schedule.times import Times

# Parts of a task's share of the whole machine that count as if they delayed its end: with more of it, operations
# take fewer cores and leave more to others.
THRIFT: Final = (0.0, 0.5, 1.0, 2.0)


def plan(graph: TaskGraph, times: Times, machine: Machine) -> Schedule:
    """As of `policies.Plan`: the best of several, of all on one cluster or accelerator, and of `critical_path`.

    Of clusters whose workers keep their cores: one operation after the other on some cores of a cluster or on all,
    or by workers that each have some of a cluster's, which is shared out evenly or not used.
    """
    costs = Costs(graph, times, machine)
    every = tuple(range(len(machine.clusters)))
    if machine.keeps_teams and len(every) > 1:
        rank = _to_end(costs, every)
        plans = [global_threads.plan(graph, times, machine)]
        plans += [
            in_teams(costs, teams, rank=rank, policy="heterogeneous")
            for teams in _divisions(machine)
        ]
        return best_of(plans, graph, times, machine)
    plans = [critical_path.plan(graph, times, machine)]
    if graph.tasks:
        plans += [earliest(costs, every, thrift) for thrift in THRIFT]
        plans += [earliest(costs, (cluster,), 0.0) for cluster in every]
    return best_of(plans, graph, times, machine)


def _divisions(machine: Machine) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Cores of workers: of each cluster none, all for one, or even shares."""
    ways = [[(), (one.cores,), *even(one.cores)] for one in machine.clusters]
    for sizes in product(*ways):
        teams = tuple(
            team
            for cluster, own in enumerate(sizes)
            for team in of_sizes(machine.cores(cluster), own)
        )
        if teams:
            yield teams


def _to_end(costs: Costs, clusters: Sequence[int]) -> Sequence[float]:
    """Seconds from each task's begin to the end of the step, if each is as fast as these clusters have it."""
    graph = costs.graph
    return graph.to_end(
        [
            min(float(costs.table(task, one).min()) for one in clusters)
            for task in range(len(graph.tasks))
        ]
    )


def earliest(costs: Costs, clusters: Sequence[int], thrift: float) -> Schedule:
    """Tasks by how much of the step waits for them, each on the cores of the cluster where it ends first.

    Args:
        costs: Of the tasks.
        clusters: That are used.
        thrift: As of `THRIFT`.
    """
    graph, machine = costs.graph, costs.machine
    count = len(graph.tasks)
    to_end = _to_end(costs, clusters)
    free_at = [0.0] * machine.count
    ends = [0.0] * count
    memories = Memories(graph, machine)
    started: list[tuple[Start, float, float]] = []
    for task in sorted(range(count), key=lambda number: (-to_end[number], number)):
        ready = max((ends[other] for other in graph.after[task]), default=0.0)
        options = []
        for cluster in clusters:
            copy_s = memories.copy_s(task, cluster)
            cores = sorted(machine.cores(cluster), key=lambda core: (free_at[core], core))
            for threads in _counts(costs, task, cluster):
                own = tuple(cores[:threads])
                seconds = copy_s + costs.seconds(task, threads, cluster)
                begin = max(ready, *(free_at[core] for core in own))
                price = begin + seconds * (1 + thrift * threads / machine.clusters[cluster].cores)
                options.append(
                    (
                        price,
                        threads,
                        begin,
                        begin + seconds,
                        cluster,
                        tuple(sorted(own)),
                    )
                )
        _, _, begin, end, cluster, own = min(options)
        memories.run(task, cluster)
        for core in own:
            free_at[core] = end
        ends[task] = end
        started.append(((task, own), begin, end))
    return planned(graph, started, "heterogeneous")  # fmt: skip


def _counts(costs: Costs, task: int, cluster: int) -> set[int]:
    """Numbers of threads that are weighed: powers of two, and the fastest."""
    cores = costs.machine.clusters[cluster].cores
    return {costs.fastest(task, cluster, cores), *(1 << n for n in range(cores.bit_length()) if 1 << n <= cores)}  # fmt: skip
