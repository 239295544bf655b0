"""What goes wrong in a step of a plan: errors of workers, interruptions, plans and models that are refused."""

from __future__ import annotations

import gc
import os
import re
import signal
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.engines.scheduled.made import (
    Made,
    Words,
    assert_same,
    in_order,
    on_worker,
    shuffled,
    trained,
)
from tests.refusals import refused
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

from wattstep import workloads
from wattstep.engines.torch.scheduled.threads import TorchThreads, check
from wattstep.engines.torch.scheduled.trainer import ScheduledTrainer
from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.schedule.tasks import Placed, Schedule, Task, TaskGraph
from wattstep.schema.workload import Preparation
from wattstep.workloads.torch.workload import TorchWorkload


@pytest.mark.parametrize("worker", [0, 1])
def test_a_worker_that_raises_fails_the_step_as_torch_would_and_names_operation_and_layer(
    worker: int,
) -> None:
    good, bad = torch.tensor([1, 2, 3]), torch.tensor([1, 99, 3])
    batches = [good] * 4 + [bad] + [good] * 3
    plain = TorchTrainer(Made(Words, batches), Preparation(batch_size=3))
    trainer = ScheduledTrainer(
        Made(Words, batches), Preparation(batch_size=3), plan=on_worker(worker)
    )
    assert_same(trained(plain, 4), trained(trainer, 4))
    with pytest.raises(IndexError) as eager:
        plain.step()
    with pytest.raises(IndexError) as error:
        trainer.step()
    assert str(error.value).startswith(str(eager.value))
    assert {"aten::embedding", "words", "forward"} <= set(re.split(r"[ ,()]+", str(error.value)))
    plain.updates[0].optimizer.zero_grad()
    assert_same(trained(plain, 3), trained(trainer, 3))  # both go on from where they were


def test_other_workers_stop_where_they_would_wait_for_the_one_that_failed() -> None:
    good, bad = torch.tensor([1, 2, 3]), torch.tensor([1, 99, 3])
    trainer = ScheduledTrainer(
        Made(Words, [good] * 4 + [bad, good]), Preparation(batch_size=3), plan=shuffled
    )
    before = trained(trainer, 4)[1]
    with pytest.raises(IndexError, match="aten::embedding"):
        trainer.step()
    after = list(trainer.model.state_dict().values())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    trainer.step()


def test_an_interruption_in_the_middle_is_raised_when_all_workers_have_stopped() -> None:
    batches = [torch.tensor([1, 2, 3])] * 6
    plan = on_worker(1)
    trainer = ScheduledTrainer(
        Made(Words, batches, torch.optim.Adam), Preparation(batch_size=3), plan=plan
    )
    trained(trainer, 3)
    (executor,) = trainer.executors
    captured = executor.captured
    ended = []

    def optimize(*gradients: Any) -> None:
        signal.raise_signal(signal.SIGINT)  # Ctrl-C while the first thread waits
        captured.optimize(*gradients)
        ended.append(True)

    interrupted = TorchThreads(replace(captured, optimize=optimize), plan(captured.graph))
    with pytest.raises(KeyboardInterrupt):
        interrupted.step([batches[0]])
    assert ended == [True]
    interrupted.close()
    trainer.step()


def test_a_batch_of_another_shape_is_refused() -> None:
    batches = [torch.tensor([1, 2, 3])] * 4 + [torch.tensor([1, 2])]
    trainer = ScheduledTrainer(Made(Words, batches), Preparation(batch_size=3))
    trained(trainer, 4)
    with refused("another-batch", (2,), (3,)):
        trainer.step()


class Asks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.head(inputs)
        return outputs * float(outputs.detach().amax()) if outputs.shape[0] else outputs


class Lists(Asks):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.head(inputs)
        return outputs * outputs[0].tolist()[0]


class Grows(Asks):
    factor = 0.0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.factor += 1.0
        outputs: torch.Tensor = self.head(inputs)
        return outputs * self.factor


class Unseen(Asks):
    """Changes a buffer where no operation is seen, as a library of its own may."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.head(inputs) + self.seen
        with _disable_current_modes():
            self.seen.add_(1)
        return outputs


def test_a_change_that_no_operation_tells_is_refused() -> None:
    trainer = ScheduledTrainer(Made(Unseen, [torch.ones(3, 4)] * 4), Preparation(batch_size=3))
    with refused("not-schedulable", "made", "no operation"):
        trained(trainer, 4)


@pytest.mark.parametrize(
    ("model", "operation"),
    [(Asks, "_local_scalar_dense"), (Lists, "tolist"), (Grows, "aten::mul")],
)
def test_what_depends_on_values_is_refused_with_operation_and_layer(
    model: Any, operation: str
) -> None:
    batches = [torch.ones(3, 4)] * 4
    trainer = ScheduledTrainer(Made(model, batches), Preparation(batch_size=3))
    with refused("not-schedulable", "made", operation, model.__name__):
        trained(trainer, 4)


@pytest.mark.system  # the network is large
def test_sequences_of_unequal_lengths_are_refused_by_name() -> None:
    trainer = ScheduledTrainer(
        TorchWorkload(workloads.find("seq2seq")), Preparation(batch_size=1), threads=1
    )
    with refused("not-schedulable", "seq2seq", "_pack_padded_sequence"):
        trained(trainer, 3)


@pytest.mark.parametrize(
    ("options", "how", "named"),
    [
        ({"compiled": True}, {}, "--compile"),
        ({"checkpointing": True}, {}, "--checkpointing"),
        ({"offload": True}, {}, "--offload"),
        ({}, {"processor": "cuda"}, "--processor cuda"),
        ({}, {"precision": "amp-fp16"}, "--precision amp-fp16"),
    ],
)
def test_what_plans_are_not_for_is_refused(
    options: dict[str, Any], how: dict[str, Any], named: str
) -> None:
    with refused("not-schedulable", "--policy", named):
        ScheduledTrainer(
            TorchWorkload(workloads.find("lenet")), Preparation(batch_size=1, **options), **how
        )


def plan_of(*placed: Placed, workers: int = 1) -> tuple[TaskGraph, Schedule]:
    task = Task(name="t", kind="k", shape="", reads=(), writes=(), flops=0, bytes_moved=0)
    graph = TaskGraph(tasks=(task,) * 2, after=((), (0,)), storage_bytes=())
    return graph, Schedule(workers=workers, placed=placed)


def test_plans_that_cannot_be_carried_out_here_are_refused() -> None:
    cores = os.sched_getaffinity(0)
    first, second = (Placed(task=number, worker=0, threads=1) for number in range(2))
    check(*plan_of(first, second))
    wrong: list[tuple[tuple[Placed, ...], int, str, object]] = [
        ((first,), 1, "invalid-schedule", 2),
        ((first, replace(second, worker=1)), 1, "invalid-schedule", 1),
        ((second, first), 1, "invalid-schedule", ""),
        ((first, replace(second, threads=0)), 1, "invalid-schedule", ""),
        ((first, replace(second, threads=len(cores) + 1)), 1, "too-many-threads", len(cores)),
        ((first, second), len(cores) + 1, "too-many-threads", len(cores)),
        ((first, replace(second, cores=(4096,))), 1, "refused-affinity", 4096),
    ]
    for placed, workers, id, named in wrong:
        with refused(id, named):
            check(*plan_of(*placed, workers=workers))


def test_workers_run_on_the_cores_of_the_plan_and_the_caller_where_it_was() -> None:
    batches = [torch.tensor([1, 2, 3])] * 4
    core = len(os.sched_getaffinity(0)) - 1

    def pinned(graph: TaskGraph) -> Schedule:
        plan = in_order(graph)
        return replace(plan, placed=tuple(replace(each, cores=(core,)) for each in plan.placed))

    before = os.sched_getaffinity(0)
    trainer = ScheduledTrainer(Made(Words, batches), Preparation(batch_size=3), plan=pinned)
    trained(trainer, 4)
    (worker,) = trainer.executors[0].crew
    assert worker.native_id is not None
    assert os.sched_getaffinity(worker.native_id) == {sorted(before)[core]}
    assert os.sched_getaffinity(0) == before


def test_workers_end_with_their_trainer() -> None:
    trainer = ScheduledTrainer(
        Made(Words, [torch.tensor([1, 2, 3])] * 4), Preparation(batch_size=3), plan=on_worker(1)
    )
    trained(trainer, 4)
    (worker,) = trainer.executors[0].crew
    assert worker.is_alive()
    del trainer
    gc.collect()
    assert not worker.is_alive()


def test_a_system_that_refuses_affinity_fails_the_step_with_one_line() -> None:
    batches = [torch.tensor([1, 2, 3])] * 4
    trainer = ScheduledTrainer(Made(Words, batches), Preparation(batch_size=3))
    trained(trainer, 3)
    captured = trainer.executors[0].captured
    placed = [replace(each, cores=(0,)) for each in in_order(captured.graph).placed]
    executor = TorchThreads(captured, Schedule(workers=1, placed=tuple(placed)))
    # Seen by the worker alone: a process whose cores were taken away after the plan was made.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda process: {4096})
        with refused("refused-affinity", [0]):
            executor.step([batches[0]])
    executor.close()


def test_more_threads_than_cores_are_refused_before_anything_is_trained() -> None:
    most = len(os.sched_getaffinity(0))
    with refused("too-many-threads", "--threads", most + 1, most):
        ScheduledTrainer(
            TorchWorkload(workloads.find("lenet")), Preparation(batch_size=2), threads=most + 1
        )
