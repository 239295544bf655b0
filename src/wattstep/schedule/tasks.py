"""The calls of operations of one training step with what each must wait for, and a plan of where each runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from wattstep.errors import InvalidValueError


@dataclass(frozen=True, kw_only=True)
class Task:
    """One call of one operation.

    Attributes:
        name: Of the operation, e.g. "aten::convolution".
        kind: As `schema.operation_kinds` names them.
        shape: Of its inputs, spelt so that calls of one kind with equal shapes take the same time.
        reads: Numbers of the storages that it takes.
        writes: Numbers of the storages that it makes or changes.
        flops: Floating-point operations, multiply-adds as two.
        bytes_moved: Bytes that it reads and writes.
        layer: Path of the module that it belongs to; "" where none is known.
        phase: "data", "forward", "backward" or "optimizer"; "" where not known.
    """

    name: str
    kind: str
    shape: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    flops: int
    bytes_moved: int
    layer: str = ""
    phase: str = ""


@dataclass(frozen=True, kw_only=True)
class TaskGraph:
    """The tasks of a step in the order of the framework, which is one that their dependencies allow.

    Attributes:
        tasks: In the framework's order, shape (n,).
        after: The tasks that each waits for, all earlier than itself, shape (n,).
        storage_bytes: Size of each storage.

    Raises:
        InvalidValueError: A task waits for a later one or itself, or names a storage that is not there.
    """

    tasks: tuple[Task, ...]
    after: tuple[tuple[int, ...], ...]
    storage_bytes: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.after) != len(self.tasks):
            raise InvalidValueError(
                f"dependencies of {len(self.after)} tasks were given for {len(self.tasks)}"
            )
        for number, (task, earlier) in enumerate(zip(self.tasks, self.after, strict=True)):
            if not all(0 <= other < number for other in earlier):
                raise InvalidValueError(
                    f"task {number} ({task.name}) waits for one that does not come before it: {earlier}"
                )
            if not all(0 <= one < len(self.storage_bytes) for one in task.reads + task.writes):
                raise InvalidValueError(
                    f"task {number} ({task.name}) uses a storage beyond the {len(self.storage_bytes)} there are"
                )

    @classmethod
    def of(cls, tasks: Sequence[Task], storage_bytes: Sequence[int]) -> TaskGraph:
        """The graph of tasks whose dependencies follow from the storages that they read and write."""
        return cls(
            tasks=tuple(tasks), after=dependencies(tasks), storage_bytes=tuple(storage_bytes)
        )

    def before(self) -> tuple[tuple[int, ...], ...]:
        """The tasks that wait for each, shape (n,): the inverse of `after`."""
        later: list[list[int]] = [[] for _ in self.tasks]
        for number, earlier in enumerate(self.after):
            for other in earlier:
                later[other].append(number)
        return tuple(map(tuple, later))

    def to_end(self, seconds: Sequence[float]) -> tuple[float, ...]:
        """Seconds from the beginning of each task to the end of the step at least, shape (n,).

        Args:
            seconds: That each task takes, shape (n,).
        """
        longest = list(seconds)
        for number in range(len(self.tasks) - 1, -1, -1):
            for other in self.after[number]:
                longest[other] = max(longest[other], seconds[other] + longest[number])
        return tuple(longest)

    def critical_path(self, seconds: Sequence[float]) -> float:
        """Seconds of the longest chain of tasks that wait for each other.

        Args:
            seconds: That each task takes, shape (n,).
        """
        return max(self.to_end(seconds), default=0.0)

    def bound(self, seconds: Sequence[float], workers: int) -> float:
        """Seconds that no plan on so many workers can go below: the critical path, or the work shared evenly.

        Args:
            seconds: That each task takes on one worker, shape (n,).
            workers: That run one task each at a time.
        """
        return max(self.critical_path(seconds), sum(seconds) / workers)


def dependencies(tasks: Sequence[Task]) -> tuple[tuple[int, ...], ...]:
    """The tasks that each must wait for, shape (n,).

    Read after write, write after read, write after write. A write waits for the readers since the last
    write, which have waited for that one themselves, or else for that write.

    Args:
        tasks: In an order that is right.
    """
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    after = []
    for number, task in enumerate(tasks):
        waits = {writer[one] for one in task.reads if one in writer}
        for one in task.writes:
            waits.update(readers.get(one, ()) or ([writer[one]] if one in writer else ()))
        for one in task.reads:
            readers.setdefault(one, []).append(number)
        for one in task.writes:
            writer[one], readers[one] = number, []
        after.append(tuple(sorted(waits)))
    return tuple(after)


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Where a task runs.

    Attributes:
        task: Its number in the graph.
        worker: That begins it, from 0 on.
        threads: That it is divided among.
        cores: Numbers of the cores (accelerators count as one each, after the cores) that these are
            pinned to; empty: wherever the system puts them.
        waits: Tasks that must have ended before it begins, beside those of the graph and the one before it on
            its worker: they hold its cores until then.
    """

    task: int
    worker: int
    threads: int
    cores: tuple[int, ...] = ()
    waits: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A static plan of one step.

    Attributes:
        workers: Threads that begin tasks.
        placed: In the order in which each worker begins its own.
        policy: That made it: the simplest one that comes to it, which may be another than was asked; "" for none.
    """

    workers: int
    placed: tuple[Placed, ...]
    policy: str = ""

    def by_worker(self) -> tuple[tuple[Placed, ...], ...]:
        """The tasks of each worker in its order, shape (workers,)."""
        return tuple(
            tuple(one for one in self.placed if one.worker == worker)
            for worker in range(self.workers)
        )

    def on_cores(self, numbers: Sequence[int]) -> Schedule:
        """The same plan with other numbers of cores.

        Args:
            numbers: For each number that it has, shape (cores,).
        """
        placed = (
            replace(one, cores=tuple(numbers[core] for core in one.cores)) for one in self.placed
        )
        return replace(self, placed=tuple(placed))

    @property
    def keeps_teams(self) -> bool:
        """True if nothing runs beside anything else, or each worker always has the same cores."""
        return (
            self.workers == 1
            or len({(one.worker, one.cores) for one in self.placed}) <= self.workers
        )

    def waits(self, graph: TaskGraph) -> tuple[tuple[int, ...], ...]:
        """All tasks that each must wait for in this plan: the graph's, the plan's, its worker's one before; shape (n,).

        Args:
            graph: The plan's.
        """
        waits = [set(earlier) for earlier in graph.after]
        for own in self.by_worker():
            for one in own:
                waits[one.task].update(one.waits)
            for first, second in pairwise(own):
                waits[second.task].add(first.task)
        return tuple(tuple(sorted(each)) for each in waits)
