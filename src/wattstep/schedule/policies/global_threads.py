"""One operation after the other, all with the one number of threads that makes the step shortest."""

from __future__ import annotations

import numpy as np

from wattstep.schedule.machine import Machine
from wattstep.schedule.placing import Costs, one_by_one
from wattstep.schedule.policies.default import all_cpu_cores
from wattstep.schedule.simulate import simulate
from wattstep.schedule.tasks import Schedule, TaskGraph
from wattstep.schedule.times import Times


def plan(graph: TaskGraph, times: Times, machine: Machine) -> Schedule:
    """As of `policies.Plan`."""
    cores = best_cores(Costs(graph, times, machine))
    return one_by_one(graph, lambda task: cores)


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
    if len(machine.cpus()) > 1:
        every = all_cpu_cores(machine)
        alone = simulate(
            costs.graph, one_by_one(costs.graph, lambda task: every), costs.times, machine
        )
        if alone.makespan_s < best[0]:
            return every
    return best[1]
