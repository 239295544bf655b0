"""Measures what the tasks of an update take on each number of threads, on its own tensors, which are as before afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Final

import torch

from wattstep.engines.torch.memory import tensors_in
from wattstep.engines.torch.scheduled.capture import Captured
from wattstep.engines.torch.scheduled.threads import TorchThreads
from wattstep.schedule.machine import Machine
from wattstep.schedule.model import TaskTimes
from wattstep.schedule.tasks import Placed, Schedule
from wattstep.schedule.times import MachineTimes

ROUNDS: Final = 16
REPEATS: Final = 3  # of a round that count, after one that does not
LEAST_S: Final = 1e-9  # of a task: the clock's own step


def learn(
    captured: Captured,
    batch: Sequence[torch.Tensor],
    machine: Machine,
    optimizer: torch.optim.Optimizer,
) -> TaskTimes:
    """A performance model of the tasks of an update, from carrying it out again and again.

    All tasks have the same number of threads in a round: the one that most of them want to be tried next.
    Then every other task has one thread, which tells what a change of the number costs.

    Args:
        captured: The update.
        batch: Tensors that it takes.
        machine: Of one cluster: its cores.
        optimizer: Whose state it changes.
    """
    cores = machine.count
    model = TaskTimes(machine.name, (cores,), prior=MachineTimes(machine))
    tasks = captured.graph.tasks
    looks = {(task.kind, task.shape) for task in tasks}
    with _restored(captured, optimizer):
        for _ in range(ROUNDS):
            wanted = Counter(
                threads
                for look in sorted(looks)
                if (threads := model.next_to_try(*look)) is not None
            )
            if not wanted:
                break
            threads = wanted.most_common(1)[0][0]
            for seconds in _seconds(captured, batch, [threads] * len(tasks)):
                for task, value in zip(tasks, seconds, strict=True):
                    model.add(task.kind, task.shape, threads, value)
        if cores > 1:
            _learn_switch(captured, batch, cores, model)
    return model


def _learn_switch(
    captured: Captured, batch: Sequence[torch.Tensor], cores: int, model: TaskTimes
) -> None:
    """What tasks take longer after a change of the number of threads than without."""
    tasks = captured.graph.tasks
    threads = [1 if number % 2 else cores for number in range(len(tasks))]
    for seconds in _seconds(captured, batch, threads):
        for (_, before), (number, after) in pairwise(enumerate(threads)):
            alone = model.seconds(tasks[number], after).value
            model.add_switch(before, after, seconds[number] - alone)


def _seconds(
    captured: Captured, batch: Sequence[torch.Tensor], threads: Sequence[int]
) -> Iterator[list[float]]:
    """Times of all tasks, one after the other, a few times over."""
    placed = [Placed(task=task, worker=0, threads=each) for task, each in enumerate(threads)]
    executor = TorchThreads(captured, Schedule(workers=1, placed=tuple(placed)))
    executor.step(batch)
    for _ in range(REPEATS):
        times = executor.trace()
        executor.step(batch)
        spans = zip(times[::2], times[1::2], strict=True)
        yield [max((end - begin) * 1e-9, LEAST_S) for begin, end in spans]


@contextmanager
def _restored(captured: Captured, optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Afterwards tensors that all steps share, the optimizer's state and torch's generator are as before."""
    tensors = [*captured.outside.values(), *tensors_in(list(optimizer.state.values()))]
    copies = [each.detach().clone() for each in tensors]
    generator, threads = torch.get_rng_state(), torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(generator)
        with torch.no_grad():
            for tensor, copy in zip(tensors, copies, strict=True):
                tensor.copy_(copy)
