"""Graphs and times made by hand, for tests of plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wattstep.schedule.machine import Cluster, Machine
from wattstep.schedule.tasks import Task, TaskGraph
from wattstep.schedule.times import Factor, Running, Seconds


def task(
    name: str,
    *,
    reads: tuple[int, ...] = (),
    writes: tuple[int, ...] = (),
    flops: int = 0,
    bytes_moved: int = 0,
    kind: str = "other",
) -> Task:
    """A task whose shape is its name, so that no two have one time."""
    return Task(
        name=name,
        kind=kind,
        shape=name,
        reads=reads,
        writes=writes,
        flops=flops,
        bytes_moved=bytes_moved,
    )


def graph(after: Sequence[tuple[int, ...]], *, storage: int = 0) -> TaskGraph:
    """Tasks named a, b, c, ... that each write a storage of their own and wait for these."""
    return TaskGraph(
        tasks=tuple(
            task(f"{number}", reads=waits, writes=(number,)) for number, waits in enumerate(after)
        ),
        after=tuple(after),
        storage_bytes=(storage,) * len(after),
    )


class Table:
    """Times written down: by task, then cluster, seconds on 1, 2, ... threads.

    Args:
        rows: By name of the task; a list is of cluster 0.
        beside: Factor of every task for each that runs beside it.
        switch: Seconds of any change of threads.
        handover: Seconds until another worker begins what waited.
    """

    def __init__(
        self,
        rows: Mapping[str, Sequence[float] | Mapping[int, Sequence[float]]],
        *,
        beside: float = 1.0,
        switch: float = 0.0,
        handover: float = 0.0,
    ) -> None:
        self._rows, self._beside, self._switch = rows, beside, switch
        self._handover = handover

    def seconds(self, task: Task, threads: int, cluster: int = 0) -> Seconds:
        row = self._rows[task.name]
        values = row[cluster] if isinstance(row, Mapping) else row
        value = values[min(threads, len(values)) - 1]
        return Seconds(value, value, value)

    def switch_s(self, from_threads: int, to_threads: int) -> float:
        return 0.0 if from_threads == to_threads else self._switch

    def slowdown(self, one: Running, others: Sequence[Running]) -> Factor:
        return Factor(*[self._beside ** len(others)] * 3)

    def handover_s(self) -> float:
        return self._handover


def machine(
    *cores: int, link: float | None = None, idle_w: float = 0.0, core_w: float = 1.0
) -> Machine:
    """CPU clusters of so many cores; with a link, one accelerator beside them."""
    clusters = [
        Cluster(
            name=f"c{number}", cores=count, core_flops=1e9, core_bandwidth=1e9,
            bandwidth=1e9 * count, core_w=core_w,
        )
        for number, count in enumerate(cores)
    ]  # fmt: skip
    if link is not None:
        clusters.append(
            Cluster(
                name="gpu", kind="accelerator", cores=1, core_flops=1e12, core_bandwidth=1e11,
                bandwidth=1e11, core_w=core_w, link=link,
            )
        )  # fmt: skip
    return Machine(
        name="made",
        title="made",
        clusters=tuple(clusters),
        bandwidth=1e9 * max(cores),
        idle_w=idle_w,
    )
