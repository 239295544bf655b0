"""One operation after the other, all with the one number of threads that makes the step shortest."""

from __future__ import annotations

import numpy as np

from wattstep.schedule.machine import Machine
from wattstep.schedule.placing import Costs, one_by_one
from wattstep.schedule.tasks import Schedule, TaskGraph
from wattstep.schedule.times import Times


def plan(graph: TaskGraph, times: Times, machine: Machine) -> Schedule:
    """As of `policies.Plan`."""
    costs = Costs(graph, times, machine)
    cores = best_cores(costs)
    return one_by_one(graph, lambda task: cores, name_of(costs, cores))


def name_of(costs: Costs, cores: tuple[int, ...]) -> str:
    """The simplest policy that runs all operations on these cores."""
    return "default" if cores == costs.cpu_cores else "global"


def best_cores(costs: Costs) -> tuple[int, ...]:
    """The cores that one step takes least on: the first ones of a CPU cluster, or those of all."""
    machine, tasks = costs.machine, range(len(costs.graph.tasks))
    best: tuple[float, tuple[int, ...]] | None = None
    for cluster in machine.cpus():
        totals = np.zeros(machine.clusters[cluster].cores)
        for task in tasks:
            totals += costs.table(task, cluster)
        for threads, total in enumerate(totals, 1):
            if best is None or total < best[0]:
                best = (float(total), tuple(machine.cores(cluster))[:threads])
    assert best is not None  # a machine has CPU cores
    if len(machine.cpus()) > 1 and sum(costs.spanning(task) for task in tasks) < best[0]:
        return costs.cpu_cores
    return best[1]
