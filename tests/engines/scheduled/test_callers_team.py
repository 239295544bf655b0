"""The caller's thread divides no operation, and keeps no team, on cores that workers beside it take."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from wattstep import workloads
from wattstep.engines.torch.scheduled.trainer import ScheduledTrainer
from wattstep.schedule.tasks import Placed, Schedule, TaskGraph
from wattstep.schema.workload import Preparation
from wattstep.workloads.torch import TorchWorkload

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a team needs two cores")


@pytest.mark.parametrize(
    ("workers", "threads", "pinned", "drawn_by"),
    [(1, 2, False, 2), (2, 1, True, 1), (2, 1, False, 1), (1, 2, True, 1)],
)
def test_threads_by_which_batches_are_drawn(
    workers: int, threads: int, pinned: bool, drawn_by: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cores = sorted(os.sched_getaffinity(0))[:2]

    def plan(graph: TaskGraph) -> Schedule:
        own = cores[:threads]
        placed = [
            Placed(task=task, worker=0, threads=threads, cores=tuple(own if pinned else ()))
            for task in range(len(graph.tasks))
        ]
        return Schedule(workers=workers, placed=tuple(placed))

    before = torch.get_num_threads()
    trainer = ScheduledTrainer(
        TorchWorkload(workloads.find("lenet")), Preparation(batch_size=2), threads=2, plan=plan
    )
    (update,) = trainer.updates
    seen: list[int] = []

    def next_batch(phase: Any) -> Any:
        seen.append(torch.get_num_threads())
        return update.next_batch(phase)

    try:
        for _ in range(3):  # torch's own, and what is recorded
            trainer.step()
        (executor,) = trainer.executors
        watching = SimpleNamespace(next_batch=next_batch, optimizer=update.optimizer)
        trainer._carry_out(executor, watching, lambda phase: None)
        assert seen == [drawn_by]
        assert torch.get_num_threads() == 2  # as it was, after a step
    finally:
        torch.set_num_threads(before)
