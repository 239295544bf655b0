"""The least energy within a bound of the shortest step: fewer threads where more of them save little time."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Final

from wattstep.schedule.machine import Machine
from wattstep.schedule.placing import Costs, one_by_one
from wattstep.schedule.policies import critical_path, global_threads, heterogeneous
from wattstep.schedule.policies.per_kind import Choice, cores_by_look
from wattstep.schedule.simulate import simulate
from wattstep.schedule.tasks import Schedule, TaskGraph
from wattstep.schedule.times import Times

SLOWDOWN: Final = 1.1
# What a joule is worth, in parts of the seconds that it lasts at the machine's full power.
WORTH: Final = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)


def plan(graph: TaskGraph, times: Times, machine: Machine, slowdown: float = SLOWDOWN) -> Schedule:
    """As of `policies.Plan`.

    Args:
        graph: Of the step.
        times: The performance model.
        machine: Where.
        slowdown: Times as long as the shortest plan that is known it may take.
    """
    costs = Costs(graph, times, machine)
    full = machine.idle_w + sum(one.cores * one.core_w for one in machine.clusters)
    plans: list[Schedule] = [
        policy.plan(graph, times, machine)
        for policy in (global_threads, critical_path, heterogeneous)
    ]
    for worth in WORTH if graph.tasks and full > 0 else ():
        choice = cores_by_look(costs, joule_s=worth / full)
        plans.append(one_by_one(graph, partial(_cores, costs, choice), "joules"))
    timelines = [simulate(graph, each, times, machine) for each in plans]
    most = slowdown * min(each.makespan_s for each in timelines)
    joules = [each.joules if each.makespan_s <= most else inf for each in timelines]
    return plans[joules.index(min(joules))]


def _cores(costs: Costs, choice: Choice, task: int) -> tuple[int, ...]:
    return choice[costs.looks[task]]
