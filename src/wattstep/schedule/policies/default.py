"""What frameworks do: one operation after the other, each on all CPU cores."""

from __future__ import annotations

from wattstep.schedule.machine import Machine
from wattstep.schedule.placing import Costs, one_by_one
from wattstep.schedule.tasks import Schedule, TaskGraph
from wattstep.schedule.times import Times


def plan(graph: TaskGraph, times: Times, machine: Machine) -> Schedule:
    """As of `policies.Plan`; of `times` nothing is asked."""
    cores = Costs(graph, times, machine).cpu_cores
    return one_by_one(graph, lambda task: cores, "default")
