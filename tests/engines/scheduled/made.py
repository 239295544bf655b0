"""Trainings of a plan that tests carry out: networks, plans, and what they are held against."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from wattstep.schedule.tasks import Placed, Schedule, TaskGraph
from wattstep.schema.workload import Preparation

STEPS = 20


def in_order(graph: TaskGraph) -> Schedule:
    """The framework's own plan: one worker, its order, and its number of threads."""
    threads = torch.get_num_threads()
    placed = [Placed(task=task, worker=0, threads=threads) for task in range(len(graph.tasks))]
    return Schedule(workers=1, placed=tuple(placed))


def shuffled(graph: TaskGraph, *, seed: int = 0) -> Schedule:
    """Two workers, and an order drawn from those that the dependencies allow."""
    draw = random.Random(seed)
    left = set(range(len(graph.tasks)))
    placed = []
    while left:
        ready = sorted(task for task in left if not left & set(graph.after[task]))
        task = draw.choice(ready)
        left.remove(task)
        placed.append(Placed(task=task, worker=draw.randrange(2), threads=1))
    return Schedule(workers=2, placed=tuple(placed))


def on_worker(worker: int) -> Callable[[TaskGraph], Schedule]:
    """All tasks on one of two workers."""
    return lambda graph: Schedule(
        workers=2,
        placed=tuple(
            Placed(task=task, worker=worker, threads=1) for task in range(len(graph.tasks))
        ),
    )


class Made:
    """A workload of a model of a test's own, trained on the batches that it is given in turn."""

    def __init__(
        self, make: Callable[[], nn.Module], batches: list[Any], optimizer: Any = torch.optim.SGD
    ) -> None:
        self.facts = SimpleNamespace(name="made")
        self.specification = SimpleNamespace(check_precision=lambda precision: None)
        self._make, self._batches, self._optimizer = make, batches, optimizer

    def prepare(self, preparation: Preparation) -> Any:
        torch.manual_seed(0)
        model = self._make()
        left = iter(self._batches)
        update = SimpleNamespace(
            optimizer=self._optimizer(model.parameters(), lr=0.1),
            next_batch=lambda phase: next(left),
            loss=lambda batch: model(batch).square().mean(),
        )
        return SimpleNamespace(model=model, data=None, updates=[update])


def trained(trainer: Any, steps: int = STEPS) -> tuple[list[float], list[torch.Tensor]]:
    losses = [trainer.step() for _ in range(steps)]
    return losses, [each.detach().clone() for each in trainer.model.state_dict().values()]


def assert_same(one: Any, other: Any) -> None:
    assert one[0] == other[0]
    assert all(torch.equal(a, b) for a, b in zip(one[1], other[1], strict=True))


class Views(nn.Module):
    """Changes views in place, draws at random, keeps running statistics, uses a weight twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(6, 6), nn.BatchNorm1d(6)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("seen", torch.zeros(6))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.first(inputs)
        both = hidden.clone()
        left, right = both[:, :3], both[:, 3:]
        right.mul_(2.0)
        left.add_(right)
        with torch.no_grad():
            self.seen.lerp_(hidden.mean(dim=0), 0.1)
        hidden = self.drop(self.norm(hidden)) + both
        return self.drop(self.first(torch.relu_(hidden)).t()).contiguous().view(-1) + self.seen[0]


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(8, 4), nn.Linear(4, 4)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.head(self.words(numbers))
        return output
