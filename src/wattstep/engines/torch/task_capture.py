"""A training step as a graph of tasks for plans, captured as predictions capture it: without running it."""

from __future__ import annotations

import gc
from typing import Any, Final

from wattstep.engines.torch.capture import StepCapture, captured_as_it_can
from wattstep.engines.torch.memory import finding_tensors, tensors_in
from wattstep.schedule.tasks import Task, TaskGraph
from wattstep.schema.operation_kinds import kind_of
from wattstep.schema.workload import Preparation

UNTOUCHED: Final = ("empty", "new_empty", "empty_like", "empty_strided", "detach", "set_data")


class TaskCapture(StepCapture):  # type: ignore[no-untyped-call]
    """A capture that notes which storages each operation reads and writes, too."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # Of each operation: whether it is a view, its inputs' shapes, the storages that it reads and writes.
        self.uses: list[tuple[bool, str, tuple[int, ...], tuple[int, ...]]] = []
        self._numbers: dict[int, int] = {}  # of what the ledger holds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        count = len(self.sizes)
        made = super().__torch_dispatch__(func, types, args, kwargs)
        if len(self.sizes) == count:
            return made
        changed = [
            value
            for argument, value in zip(func._schema.arguments, args, strict=False)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        taken = tensors_in((args, kwargs or {}))
        shapes = " ".join("x".join(map(str, each.shape)) for each in taken)
        view = bool(getattr(func, "is_view", False)) or func.overloadpacket.__name__ in UNTOUCHED
        reads, writes = self._storages(taken), self._storages((changed, made))
        self.uses.append((view, shapes, reads, writes))
        return made

    def _storages(self, tree: Any) -> tuple[int, ...]:
        """Numbers of the storages of tensors, each once."""
        numbers: dict[int, None] = {}
        for leaf in tensors_in(tree):
            entry = self._see(leaf, recorded=False)
            if entry is not None:
                numbers[self._numbers.setdefault(id(entry), len(self._numbers))] = None
        return tuple(numbers)

    def tasks(self) -> TaskGraph:
        """What was noted, without views, which only look at what is there."""
        _, *names = self._names
        sizes = {id(entry): entry.size for entry in self.ledger.storages}
        tasks = []
        for (name, phase, layer), (flops, read, written), (view, shapes, reads, writes) in zip(
            names, self.sizes, self.uses, strict=True
        ):
            if view:
                continue
            called = "aten::" + name.split(".")[1]
            tasks.append(
                Task(
                    name=called,
                    kind="optimizer" if phase == "optimizer" else kind_of(called),
                    shape=f"{called} {shapes}",
                    reads=reads,
                    writes=writes,
                    flops=flops,
                    bytes_moved=read + written,
                    layer=layer or "",
                    phase=phase,
                )
            )
        return TaskGraph.of(tasks, [sizes[number] for number in self._numbers])


def capture_tasks(workload: Any, preparation: Preparation, *, precision: str) -> TaskGraph:
    """The tasks of a training step at the batch size of its preparation.

    Args:
        workload: As `TorchTrainer` takes it.
        preparation: Its batch size, and what it is built with.
        precision: As `TorchTrainer` takes it.
    """
    captures: list[TaskCapture] = []

    def follower(*arguments: Any, **options: Any) -> TaskCapture:
        captures.append(TaskCapture(*arguments, **options))
        return captures[-1]

    with finding_tensors() as there:
        captured_as_it_can(workload, preparation, precision, there, follower=follower)
    graph = captures[-1].tasks()
    captures.clear()
    gc.collect()  # the network of the capture, which another would take for its own
    return graph
