"""One operation after the other, each kind and shape with its own number of threads; changes of it are costed."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Final

from wattstep.schedule.machine import Machine
from wattstep.schedule.placing import Costs, Look, one_by_one
from wattstep.schedule.policies.default import all_cpu_cores
from wattstep.schedule.policies.global_threads import best_cores
from wattstep.schedule.simulate import alone_s
from wattstep.schedule.tasks import Placed, Schedule, TaskGraph
from wattstep.schedule.times import Times

PASSES: Final = 4
Cores = tuple[int, ...]


def plan(graph: TaskGraph, times: Times, machine: Machine) -> Schedule:
    """As of `policies.Plan`."""
    costs = Costs(graph, times, machine)
    cores = cores_by_look(costs)
    return one_by_one(graph, lambda task: cores[costs.looks[task]])


def cores_by_look(costs: Costs, *, joule_s: float | None = None) -> dict[Look, Cores]:
    """The cores of each kind and shape, from those that are best for all improved one kind and shape at a time.

    Args:
        costs: Of the tasks.
        joule_s: Seconds that a joule is worth; None: energy does not count.
    """
    machine, times = costs.machine, costs.times
    common = best_cores(costs)
    choice = dict.fromkeys(costs.looks, common)
    prices = {look: _prices(costs, task, joule_s) for task, look in enumerate(costs.looks)}
    calls = Counter(costs.looks)
    neighbours: dict[Look, Counter[Look]] = defaultdict(Counter)
    for first, second in pairwise((*costs.looks[-1:], *costs.looks)):  # steps repeat
        neighbours[first][second] += 1
        neighbours[second][first] += 1
    watts = 0.0 if joule_s is None else machine.idle_w * joule_s

    def price(look: Look, cores: Cores) -> float:
        changes = sum(
            count * times.switch_s(len(cores), len(choice[other]))
            for other, count in neighbours[look].items()
            if other != look
        )
        return calls[look] * prices[look][cores] + changes * (1 + watts)

    for _ in range(PASSES):
        previous = dict(choice)
        for look in choice:
            choice[look] = min([choice[look], *prices[look]], key=lambda cores: price(look, cores))
        if choice == previous:
            break
    return choice


def _prices(costs: Costs, task: int, joule_s: float | None) -> dict[Cores, float]:
    """Of one call on each set of cores: its seconds, with those that its joules are worth."""
    machine = costs.machine
    sets = [
        tuple(machine.cores(cluster))[:threads]
        for cluster in machine.cpus()
        for threads in range(1, machine.clusters[cluster].cores + 1)
    ]
    if len(machine.cpus()) > 1:
        sets.append(all_cpu_cores(machine))
    prices = {}
    for cores in sets:
        placed = Placed(task=task, worker=0, threads=len(cores), cores=cores)
        seconds = alone_s(costs.graph, placed, costs.times, machine)
        watts = machine.idle_w + sum(
            machine.clusters[machine.cluster_of(core)].core_w for core in cores
        )
        prices[cores] = seconds * (1 + (0.0 if joule_s is None else watts * joule_s))
    return prices
