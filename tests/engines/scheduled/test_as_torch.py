"""What is learnt by a plan is what torch learns, in as much memory."""

from __future__ import annotations

import gc
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engines.scheduled.made import (
    STEPS,
    Made,
    Views,
    Words,
    assert_same,
    in_order,
    shuffled,
    trained,
)

from wattstep import workloads
from wattstep.engines.torch.memory import MemoryTracker
from wattstep.engines.torch.scheduled.learning import learn
from wattstep.engines.torch.scheduled.trainer import ScheduledTrainer
from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.schedule.machine import equal_cores
from wattstep.schedule.memory import peak_bytes
from wattstep.schedule.model import TaskTimes
from wattstep.schema.workload import OptimizerSettings, Preparation
from wattstep.workloads.torch.workload import TorchWorkload

LONG = pytest.mark.system


@pytest.mark.parametrize("plan", [in_order, shuffled])
@pytest.mark.parametrize(
    ("name", "optimizer"),
    [
        ("lenet", None),
        ("lenet", "adam"),
        pytest.param("autoencoder", None, marks=LONG),
        pytest.param("char-cnn", None, marks=LONG),
        pytest.param("ds-cnn", None, marks=LONG),
        pytest.param("resnet8", None, marks=LONG),
        pytest.param("dcgan", None, marks=LONG),
        pytest.param("squeezenet", None, marks=LONG),
    ],
)
def test_losses_and_weights_are_those_of_torch_to_the_last_bit(
    name: str, optimizer: str | None, plan: Any
) -> None:
    preparation = Preparation(
        batch_size=2,
        optimizer=None if optimizer is None else OptimizerSettings.parse(optimizer),
    )
    workload = TorchWorkload(workloads.find(name))
    plain = trained(TorchTrainer(workload, preparation, threads=1))
    trainer = ScheduledTrainer(workload, preparation, threads=1, plan=plan)
    assert_same(plain, trained(trainer))
    assert trainer.executors


FOREACH = [
    (torch.optim.SGD, {}),
    (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    (torch.optim.Adam, {}),
    (torch.optim.Adam, {"amsgrad": True}),
    (torch.optim.AdamW, {}),
    (torch.optim.Adagrad, {}),
    (torch.optim.RMSprop, {"momentum": 0.9}),
]
FUSED = [each for each in FOREACH if each[0] is not torch.optim.RMSprop]  # torch has none


@pytest.mark.parametrize("plan", [in_order, shuffled])
@pytest.mark.parametrize(
    ("kernel", "optimizer", "options"),
    [*(("foreach", *each) for each in FOREACH), *(("fused", *each) for each in FUSED)],
)
def test_kernels_that_change_lists_of_weights_are_carried_out(
    optimizer: Any, options: dict[str, Any], kernel: str, plan: Any
) -> None:
    make = partial(optimizer, **options, **{kernel: True})
    torch.manual_seed(1)
    batches = [torch.randn(5, 6) for _ in range(8)]
    plain = trained(TorchTrainer(Made(Views, batches, make), Preparation(batch_size=5)), 8)
    trainer = ScheduledTrainer(Made(Views, batches, make), Preparation(batch_size=5), plan=plan)
    assert_same(plain, trained(trainer, 8))
    assert trainer.executors
    assert len(set(plain[0])) > 1


@pytest.mark.parametrize("seed", range(4))
def test_aliases_and_changes_in_place_are_dependencies(seed: int) -> None:
    torch.manual_seed(1)
    batches = [torch.randn(5, 6) for _ in range(STEPS)]
    plain = trained(TorchTrainer(Made(Views, batches), Preparation(batch_size=5)))
    plan = lambda graph: shuffled(graph, seed=seed)  # noqa: E731
    trainer = ScheduledTrainer(Made(Views, batches), Preparation(batch_size=5), plan=plan)
    assert_same(plain, trained(trainer))


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_measuring_tasks_leaves_the_training_as_it_was(optimizer: Any) -> None:
    torch.manual_seed(1)
    batches = [torch.randn(5, 6) for _ in range(8)]
    made = Made(Views, batches, optimizer)
    plain = trained(TorchTrainer(made, Preparation(batch_size=5)), 8)
    trainer = ScheduledTrainer(made, Preparation(batch_size=5, policy="per-kind"))
    assert_same(plain, trained(trainer, 8))


def test_measuring_that_is_interrupted_leaves_the_training_as_it_was() -> None:
    batches = [torch.tensor([1, 2, 3])] * 4
    made = Made(Words, batches, torch.optim.Adam)
    trainer = ScheduledTrainer(made, Preparation(batch_size=3))
    before = trained(trainer, 3)[1]
    captured, optimizer = trainer.executors[0].captured, trainer.updates[0].optimizer
    steps = []

    def optimize(*gradients: Any) -> None:
        captured.optimize(*gradients)
        steps.append(1)
        if len(steps) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(
            replace(captured, optimize=optimize), [batches[0]], equal_cores(1), optimizer, TaskTimes("here", (1,))
        )  # fmt: skip
    after = list(trainer.model.state_dict().values())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    plain = TorchTrainer(made, Preparation(batch_size=3))
    assert trained(plain, 4)[0][3] == trainer.step()


def test_tensors_take_no_more_memory_than_with_torch() -> None:
    workload, preparation = TorchWorkload(workloads.find("lenet")), Preparation(batch_size=16)
    peaks = []
    for kind in (TorchTrainer, ScheduledTrainer):
        trainer = kind(workload, preparation, threads=1)
        trained(trainer, 4)
        gc.collect()  # else what tests before left may go during the step, and begin as its peak
        tracker = MemoryTracker(trainer.model, [trainer.updates[0].optimizer])
        with tracker:
            trainer.step(tracker.phase)
        memory = tracker.result()
        peaks.append(sum(memory.categories.values()) - memory.before)
    assert peaks[1] <= 1.1 * peaks[0]


def test_the_peak_of_a_plan_by_its_times_is_what_a_tracker_of_tensors_counts() -> None:
    workload, preparation = TorchWorkload(workloads.find("lenet")), Preparation(batch_size=16)
    trainer = ScheduledTrainer(workload, preparation, threads=1)
    trained(trainer, 4)
    gc.collect()
    tracker = MemoryTracker(trainer.model, [trainer.updates[0].optimizer])
    with tracker:
        trainer.step(tracker.phase)
    memory = tracker.result()
    counted = sum(memory.categories.values()) - memory.before
    (executor,) = trainer.executors
    captured, times = executor.captured, executor.trace()
    trainer.step()
    graph = captured.graph
    told = times[: 2 * len(graph.tasks)]
    drawn = {captured.layouts[slot].storage for slot in captured.given}
    batch = sum(graph.storage_bytes[one] for one in drawn)  # which the plan does not make
    assert peak_bytes(graph, told[::2], told[1::2]) + batch == pytest.approx(counted, rel=0.02)


def test_a_training_goes_on_from_its_checkpoint_as_with_torch(tmp_path: Path) -> None:
    workload = TorchWorkload(workloads.find("lenet"))
    preparation = Preparation(batch_size=2, optimizer=OptimizerSettings.parse("sgd,momentum=0.9"))
    courses = []
    for kind in (TorchTrainer, ScheduledTrainer):
        trainer = kind(workload, preparation, threads=1)
        trained(trainer, 5)
        trainer.save(tmp_path / "checkpoint")
        trained(trainer, 5)
        trainer.load(tmp_path / "checkpoint")
        courses.append(trained(trainer, 6))
    assert_same(*courses)
