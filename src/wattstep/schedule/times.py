"""What plans ask of a performance model, and one worked out from rates of a machine, for machines that are not here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import log2
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from wattstep.schedule.machine import ACCELERATOR, Machine
from wattstep.schedule.tasks import Task


class Seconds(NamedTuple):
    """Time of a task with the ends of an interval that holds it in 90 % of cases."""

    value: float
    low: float
    high: float


class Running(NamedTuple):
    """A task on some threads of a cluster."""

    task: Task
    threads: int
    cluster: int = 0


class Factor(NamedTuple):
    """Times as long as alone, 1 or more, with the ends of an interval that holds it in 90 % of cases."""

    value: float
    low: float
    high: float


ALONE: Final = Factor(1.0, 1.0, 1.0)


class Times(Protocol):
    """A performance model."""

    def seconds(self, task: Task, threads: int, cluster: int = 0) -> Seconds:
        """Time of a task alone on a cluster's cores."""

    def switch_s(self, from_threads: int, to_threads: int) -> float:
        """Seconds that a worker's change of its number of threads costs."""

    def slowdown(self, one: Running, others: Sequence[Running]) -> Factor:
        """Times as long that a task takes while others run beside it."""

    def handover_s(self) -> float:
        """Seconds from the end of a task until another worker, which waits for it, begins its own."""


# Assumptions about operations on a CPU, for machines on which nothing was measured. The part of an operation that
# one thread does alone, the part of the peak rate that its arithmetic reaches.
SERIAL: Final[Mapping[str, float]] = MappingProxyType(
    {
        "convolution": 0.005, "matrix product": 0.005, "recurrent": 0.02, "attention": 0.01,
        "elementwise": 0.005, "activation": 0.005, "optimizer": 0.01, "gradient accumulation": 0.005,
        "data movement": 0.02, "pooling": 0.01, "normalization": 0.02, "reduction": 0.05,
        "embedding": 0.1, "loss": 0.1,
    }
)  # fmt: skip
SERIAL_OTHER: Final = 0.1
DENSE_EFFICIENCY: Final = 0.5
OTHER_EFFICIENCY: Final = 0.1
GRAIN_BYTES: Final = (
    131_072  # what a thread is given at least: torch divides nothing below 32,768 numbers
)
GRAIN_FLOPS: Final = 500_000
FORK_S: Final = 1.5e-6  # beginning and end of a parallel stretch, for each doubling of the threads
THREAD_S: Final = 1e-7  # and for each thread
SWITCH_S: Final = 2e-5  # a team of another size is put together
UNSURE: Final = 2.0  # factor of the interval of a time that nobody measured
DENSE: Final = ("convolution", "matrix product", "recurrent", "attention")


class MachineTimes:
    """Times from a machine's rates: start, serial part, and the longer of arithmetic and memory traffic.

    Nothing of it was measured: intervals are a factor `UNSURE` wide.

    Args:
        machine: Whose.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._parts = cache(self._parts_of)

    def seconds(self, task: Task, threads: int, cluster: int = 0) -> Seconds:
        """As `Times`."""
        value = self._parts(task.kind, task.flops, task.bytes_moved, threads, cluster)[0]
        return Seconds(value, value / UNSURE, value * UNSURE)

    def switch_s(self, from_threads: int, to_threads: int) -> float:
        """As `Times`."""
        return 0.0 if from_threads == to_threads else SWITCH_S

    def slowdown(self, one: Running, others: Sequence[Running]) -> Factor:
        """As `Times`: the part that waits for memory takes as many times as long as more is asked of it than it gives.

        A memory of its own is shared with nobody.
        """
        memory = self.machine.memory_of(one.cluster)
        _, waiting, demand = self._parts_of_running(one)
        for other in others:
            if self.machine.memory_of(other.cluster) == memory:
                demand += self._parts_of_running(other)[2]
        longer = waiting * max(0.0, demand - 1.0)
        return Factor(1.0 + longer, 1.0 + longer / UNSURE, 1.0 + longer * UNSURE)

    def handover_s(self) -> float:
        """As `Times`: taken to be nothing."""
        return 0.0

    def _parts_of_running(self, one: Running) -> tuple[float, float, float]:
        task = one.task
        return self._parts(task.kind, task.flops, task.bytes_moved, one.threads, one.cluster)

    def _parts_of(
        self, kind: str, flops: int, moved: int, threads: int, cluster: int
    ) -> tuple[float, float, float]:
        """Seconds, the part of them that waits for memory, the part of the memory's bandwidth that is taken."""
        place = self.machine.clusters[cluster]
        dense = DENSE_EFFICIENCY if place.efficiency is None else place.efficiency
        efficiency = dense if kind in DENSE else OTHER_EFFICIENCY
        is_cpu = place.kind != ACCELERATOR
        serial = SERIAL.get(kind, SERIAL_OTHER) if is_cpu else 0.0
        most = max(1, -(-moved // GRAIN_BYTES), -(-flops // GRAIN_FLOPS)) if is_cpu else 1
        sharing = min(threads, most)
        shared = self.machine.bandwidth if place.link is None else place.bandwidth
        bandwidth = min(sharing * place.core_bandwidth, place.bandwidth, shared)
        arithmetic = flops / (place.core_flops * efficiency)
        alone = max(arithmetic, moved / min(place.core_bandwidth, shared))
        divided = (1 - serial) * max(arithmetic / sharing, moved / bandwidth)
        fork = THREAD_S * (threads - 1) + FORK_S * log2(threads)
        total = place.launch_s + fork + serial * alone + divided
        waiting = divided / total if moved / bandwidth >= arithmetic / sharing else 0.0
        return total, waiting, moved / total / shared
