"""Ways to plan a step, one file each: `plan(graph, times, machine)` gives a `Schedule`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final, Protocol

from wattstep.errors import InvalidValueError
from wattstep.schedule.machine import Machine
from wattstep.schedule.tasks import Schedule, TaskGraph
from wattstep.schedule.times import Times

# By name: the file's name and what it does, from the simplest on.
POLICIES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "default": ("default", "one operation after the other on all CPU cores"),
        "global": ("global_threads", "one number of threads for all operations"),
        "per-kind": ("per_kind", "a number of threads for each kind and shape"),
        "co-run": ("co_running", "ready operations together where that gains"),
        "fill": ("filling", "small operations on the cores that large ones leave"),
        "critical-path": ("critical_path", "what the end of the step waits for comes first"),
        "joules": ("joules", "least energy within a bound of the time"),
        "heterogeneous": ("heterogeneous", "all clusters and accelerators, with copies"),
    }
)

UNEQUAL: Final = (
    "heterogeneous"  # the policy that tells kinds of cores apart where plans are carried out
)

FIRST_STEPS: Final = (
    3  # of a training, before which there is no plan: one as it is, two that are recorded
)


class Plan(Protocol):
    """A policy's function."""

    def __call__(self, graph: TaskGraph, times: Times, machine: Machine) -> Schedule:
        """A plan of the graph's tasks on the machine."""


def find(name: str) -> Plan:
    """The policy of this name.

    Raises:
        InvalidValueError: There is none.
    """
    check_name(name)
    plan: Plan = import_module(f"{__name__}.{POLICIES[name][0]}").plan
    return plan


def check_name(name: str) -> None:
    """Refuses a name that is none of a policy.

    Raises:
        InvalidValueError: There is none.
    """
    if name not in POLICIES:
        raise InvalidValueError(
            f"{name!r} is no policy: there are {', '.join(POLICIES)}", id="unknown-policy"
        )
