"""One operation after the other, each kind and shape with its own number of threads; changes of it are costed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from wattstep.schedule.machine import Machine
from wattstep.schedule.placing import Costs, Look, one_by_one
from wattstep.schedule.policies.global_threads import best_cores, name_of
from wattstep.schedule.tasks import Schedule, TaskGraph
from wattstep.schedule.times import Times
from wattstep.schema.arrays import FloatArray, IntArray

PASSES: Final = 4
Cores = tuple[int, ...]
Choice = dict[Look, Cores]


def plan(graph: TaskGraph, times: Times, machine: Machine) -> Schedule:
    """As of `policies.Plan`."""
    costs = Costs(graph, times, machine)
    cores = cores_by_look(costs)
    [first, *others] = {*cores.values()} or {costs.cpu_cores}
    policy = "per-kind" if others else name_of(costs, first)
    return one_by_one(graph, lambda task: cores[costs.looks[task]], policy)


def cores_by_look(costs: Costs, *, joule_s: float = 0.0) -> Choice:
    """The cores of each kind and shape, from what is best for all, or for each alone, improved one by one.

    Args:
        costs: Of the tasks.
        joule_s: Seconds that a joule is worth.
    """
    if not costs.looks:
        return {}
    step = _Step.of(costs, joule_s)
    common = step.options.index(best_cores(costs))
    starts = (np.full(len(step.prices), common), step.prices.argmin(axis=1))
    choice = min((step.improved(start) for start in starts), key=step.price)
    return {look: step.options[one] for look, one in zip(step.looks, choice, strict=True)}


@dataclass(frozen=True, kw_only=True, eq=False)
class _Step:
    """Prices of a step's operations, one after the other: seconds, with those that their joules are worth.

    Attributes:
        looks: Kinds and shapes, shape (k,).
        options: Sets of cores, shape (o,).
        prices: Of all calls of a kind and shape, shape (k, o).
        neighbours: How often a kind and shape stands beside another, shape (k, k).
        changes: Of a change from one set of cores to another, shape (o, o).
    """

    looks: tuple[Look, ...]
    options: list[Cores]
    prices: FloatArray
    neighbours: FloatArray
    changes: FloatArray

    @classmethod
    def of(cls, costs: Costs, joule_s: float) -> _Step:
        machine = costs.machine
        examples = {look: task for task, look in enumerate(costs.looks)}
        numbers = {look: number for number, look in enumerate(examples)}
        options = [
            tuple(machine.cores(cluster))[:threads]
            for cluster in machine.cpus()
            for threads in range(1, machine.clusters[cluster].cores + 1)
        ]
        tables = [
            np.concatenate([costs.table(task, cluster) for cluster in machine.cpus()])
            for task in examples.values()
        ]
        if len(machine.cpus()) > 1:
            options.append(costs.cpu_cores)
            tables = [
                np.append(table, costs.spanning(task))
                for table, task in zip(tables, examples.values(), strict=True)
            ]
        watts = np.array([machine.idle_w + machine.watts(cores) for cores in options])
        calls = Counter(costs.looks)
        neighbours = np.zeros((len(numbers), len(numbers)))
        for first, second in pairwise((*costs.looks[-1:], *costs.looks)):  # steps repeat
            if first != second:
                neighbours[numbers[first], numbers[second]] += 1
                neighbours[numbers[second], numbers[first]] += 1
        counts = range(1, max(map(len, options)) + 1)
        switches = np.array([[costs.times.switch_s(a, b) for b in counts] for a in counts])
        threads = np.array(list(map(len, options))) - 1
        return cls(
            looks=tuple(examples),
            options=options,
            prices=np.array(tables)
            * (1 + joule_s * watts)
            * np.array([calls[look] for look in examples])[:, None],
            neighbours=neighbours,
            changes=(1 + machine.idle_w * joule_s) * switches[np.ix_(threads, threads)],
        )

    def improved(self, choice: IntArray) -> IntArray:
        """A choice in which no kind and shape alone can be made cheaper, or after some passes."""
        choice = choice.copy()
        for _ in range(PASSES):
            previous = choice.copy()
            for look in range(len(choice)):
                beside = np.bincount(choice, self.neighbours[look], minlength=len(self.options))
                prices = self.prices[look] + self.changes @ beside
                best = int(prices.argmin())
                if prices[best] < prices[choice[look]]:
                    choice[look] = best
            if np.array_equal(choice, previous):
                break
        return choice

    def price(self, choice: IntArray) -> float:
        """Of the whole step."""
        work = self.prices[np.arange(len(choice)), choice].sum()
        return float(work + (self.neighbours * self.changes[np.ix_(choice, choice)]).sum() / 2)
