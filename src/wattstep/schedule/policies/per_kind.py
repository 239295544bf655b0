"""One operation after the other, each kind and shape with its own number of threads; changes of it are costed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from wattstep.schedule.machine import Machine
from wattstep.schedule.placing import Costs, Look, one_by_one
from wattstep.schedule.policies.global_threads import best_cores
from wattstep.schedule.tasks import Schedule, TaskGraph
from wattstep.schedule.times import Times

PASSES: Final = 4
Cores = tuple[int, ...]
Choice = dict[Look, Cores]


def plan(graph: TaskGraph, times: Times, machine: Machine) -> Schedule:
    """As of `policies.Plan`."""
    costs = Costs(graph, times, machine)
    cores = cores_by_look(costs)
    return one_by_one(graph, lambda task: cores[costs.looks[task]])


def cores_by_look(costs: Costs, *, joule_s: float = 0.0) -> Choice:
    """The cores of each kind and shape, from what is best for all, or for each alone, improved one by one.

    Args:
        costs: Of the tasks.
        joule_s: Seconds that a joule is worth.
    """
    if not costs.looks:
        return {}
    step = _Step.of(costs, joule_s)
    alone = {
        look: min(prices, key=lambda cores, prices=prices: prices[cores])  # type: ignore[misc]  # bound at once
        for look, prices in step.prices.items()
    }
    starts = (dict.fromkeys(step.prices, best_cores(costs)), alone)
    return min((step.improved(start) for start in starts), key=step.price)


@dataclass(frozen=True, kw_only=True)
class _Step:
    """Prices of a step's operations, one after the other.

    Attributes:
        times: The performance model.
        calls: Of each kind and shape.
        prices: Of one call on each set of cores: seconds, with those that its joules are worth.
        neighbours: How often another one stands before or after it.
        change: Price of a second of changing.
    """

    times: Times
    calls: Counter[Look]
    prices: Mapping[Look, Mapping[Cores, float]]
    neighbours: Mapping[Look, Counter[Look]]
    change: float

    @classmethod
    def of(cls, costs: Costs, joule_s: float) -> _Step:
        neighbours: dict[Look, Counter[Look]] = defaultdict(Counter)
        for first, second in pairwise((*costs.looks[-1:], *costs.looks)):  # steps repeat
            if first != second:
                neighbours[first][second] += 1
                neighbours[second][first] += 1
        examples = {look: task for task, look in enumerate(costs.looks)}
        return cls(
            times=costs.times,
            calls=Counter(costs.looks),
            prices={look: _prices(costs, task, joule_s) for look, task in examples.items()},
            neighbours=neighbours,
            change=1 + costs.machine.idle_w * joule_s,
        )

    def improved(self, choice: Choice) -> Choice:
        """A choice in which no kind and shape alone can be made cheaper, or after some passes."""
        for _ in range(PASSES):
            previous = dict(choice)
            for look, prices in self.prices.items():
                choice[look] = min(
                    [choice[look], *prices],
                    key=lambda cores, look=look: self._price_of(look, cores, choice),  # type: ignore[misc]  # bound at once
                )
            if choice == previous:
                break
        return choice

    def price(self, choice: Choice) -> float:
        """Of the whole step."""
        work = sum(self.calls[look] * self.prices[look][cores] for look, cores in choice.items())
        return work + sum(self._changes(look, cores, choice) for look, cores in choice.items()) / 2

    def _price_of(self, look: Look, cores: Cores, choice: Choice) -> float:
        return self.calls[look] * self.prices[look][cores] + self._changes(look, cores, choice)

    def _changes(self, look: Look, cores: Cores, choice: Choice) -> float:
        return self.change * sum(
            count * self.times.switch_s(len(cores), len(choice[other]))
            for other, count in self.neighbours[look].items()
        )


def _prices(costs: Costs, task: int, joule_s: float) -> dict[Cores, float]:
    machine = costs.machine
    seconds = {
        tuple(machine.cores(cluster))[:threads]: costs.seconds(task, threads, cluster)
        for cluster in machine.cpus()
        for threads in range(1, machine.clusters[cluster].cores + 1)
    }
    if len(machine.cpus()) > 1:
        seconds[costs.cpu_cores] = costs.spanning(task)
    return {
        cores: alone * (1 + joule_s * (machine.idle_w + machine.watts(cores)))
        for cores, alone in seconds.items()
    }
