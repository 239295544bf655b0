"""Of the ready operations first the one that most of the step still waits for; others together with it, or beside it."""

from __future__ import annotations

from functools import partial

from wattstep.schedule.machine import Machine
from wattstep.schedule.placing import Costs, Start, State, along_the_clock, best_of
from wattstep.schedule.policies import co_running, filling
from wattstep.schedule.tasks import Schedule, TaskGraph
from wattstep.schedule.teams import even, in_teams, of_sizes, uneven
from wattstep.schedule.times import Times


def plan(graph: TaskGraph, times: Times, machine: Machine) -> Schedule:
    """As of `policies.Plan`: the best of both ways in this order, and of the plans of `co_running` and `filling`."""
    plans = [policy.plan(graph, times, machine) for policy in (co_running, filling)]
    if graph.tasks:
        costs = Costs(graph, times, machine)
        cluster = co_running.best_cluster(costs)
        cores = machine.cores(cluster)
        to_end = graph.to_end(
            [float(costs.table(task, cluster).min()) for task in range(len(graph.tasks))]
        )
        if machine.keeps_teams:
            plans += [
                in_teams(costs, of_sizes(cores, sizes), rank=to_end, policy="critical-path")
                for sizes in dict.fromkeys((*even(len(cores)), *uneven(len(cores))))
            ]
            return best_of(plans, graph, times, machine)
        threads = filling.threads_by_look(costs, cluster)

        def both(state: State) -> list[Start]:
            return co_running.together(costs, cluster, state) or filling.filled(
                costs, cluster, threads, state
            )

        plans += [
            along_the_clock(costs, cores, choose, rank=to_end, policy="critical-path")
            for choose in (both, partial(filling.filled, costs, cluster, threads))
        ]
    return best_of(plans, graph, times, machine)  # fmt: skip
