"""What frameworks do: one operation after the other, each on all CPU cores."""

from __future__ import annotations

from wattstep.schedule.machine import Machine
from wattstep.schedule.placing import one_by_one
from wattstep.schedule.tasks import Schedule, TaskGraph
from wattstep.schedule.times import Times


def plan(graph: TaskGraph, times: Times, machine: Machine) -> Schedule:
    """As of `policies.Plan`; of `times` nothing is asked."""
    cores = all_cpu_cores(machine)
    return one_by_one(graph, lambda task: cores)


def all_cpu_cores(machine: Machine) -> tuple[int, ...]:
    """The cores of all CPU clusters."""
    return tuple(core for cluster in machine.cpus() for core in machine.cores(cluster))
