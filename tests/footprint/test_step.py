"""Real steps, with memory of known size inside and outside of tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from wattstep import engines, workloads
from wattstep.engines.torch.memory import MemoryTracker
from wattstep.recorded.memory import AT_PEAK, breakdown, highest_of, peak, stretches
from wattstep.schema.workload import Preparation
from wattstep.train.memory.resident import ResidentMemory
from wattstep.train.memory.step import follow_step, track_step

MB = 10**6
SLACK = 4 * MB


@torch.library.custom_op("wattstep_test::greedy", mutates_args=())
def greedy(values: Tensor) -> Tensor:
    """An operation with 100 MB of scratch space that no tensor shows."""
    scratch = np.ones(100 * MB, np.uint8)
    return values + float(scratch[-1])


@dataclass
class ParameterUpdate:
    optimizer: Any


@dataclass
class Training:
    model: nn.Module
    updates: tuple[ParameterUpdate, ...]


class Trainer:
    """As much of a trainer as a footprint needs; `middle` runs between forward and backward."""

    engine = engines.find("torch")

    def __init__(self, middle: Callable[[Tensor], Any]) -> None:
        model = nn.Linear(100, 100, bias=False)
        self.training = Training(
            model, (ParameterUpdate(torch.optim.SGD(model.parameters(), lr=0.1)),)
        )
        self._middle = middle

    def memory_tracker(self, meter: Any, device: str = "cpu") -> MemoryTracker:
        optimizers = [update.optimizer for update in self.training.updates]
        return MemoryTracker(self.training.model, optimizers, meter, device)

    def step(self, mark: Callable[[str], None]) -> None:
        mark("data")
        batch = torch.randn(50, 100)
        mark("forward")
        loss = self.training.model(batch).sum()
        kept = self._middle(batch)
        mark("backward")
        loss.backward()
        del kept
        mark("optimizer")
        self.training.updates[0].optimizer.step()
        self.training.updates[0].optimizer.zero_grad()


def followed(middle: Callable[[Tensor], Any], resident: ResidentMemory) -> Any:
    engine: Any = Trainer(middle)
    engine.step(lambda name: None)
    return follow_step(engine, resident)


def explained(step: Any) -> int:
    others = step.kernel_scratch + step.library_pages + step.at_rest
    return int(sum(step.resident_tensors.values()) + others)


class Device:
    """An allocator of a device that hands out 1 MB to each operation, and keeps 8 MB for kernels."""

    kind = "cpu"  # where the tensors of this test are

    def begin(self) -> int:
        return 100 * MB

    def end(self) -> int:
        return 101 * MB

    def absent(self, address: int, size: int) -> int:
        return 0

    def cache(self) -> None:
        pass

    def at_rest(self) -> int:
        return 8 * MB


def test_a_devices_memory_is_what_its_own_allocator_hands_out(resident: ResidentMemory) -> None:
    engine: Any = Trainer(lambda batch: None)
    engine.step(lambda name: None)
    step = follow_step(engine, resident, Device())
    assert (step.demand, step.at_rest) == (101 * MB, 8 * MB)
    assert 0.9 * MB < step.kernel_scratch <= MB  # less what the operation made
    assert (step.library_pages, step.untouched) == (0, {})
    assert step.tensors["parameters"] == 100 * 100 * 4


def test_scratch_space_within_a_kernel_is_found(resident: ResidentMemory) -> None:
    step = followed(greedy, resident)
    assert step.operation == "wattstep_test.greedy.default"
    assert step.phase == "forward"
    assert step.kernel_scratch == pytest.approx(100 * MB, abs=SLACK)
    assert step.tensors["workspace"] < MB
    assert explained(step) == pytest.approx(step.demand, abs=SLACK)


def test_a_tensor_that_is_kept_for_the_backward_pass_is_a_feature_map(
    resident: ResidentMemory,
) -> None:
    step = followed(lambda batch: torch.ones(25 * MB), resident)
    assert step.tensors["feature_maps"] == pytest.approx(100 * MB, abs=MB)
    assert step.kernel_scratch < SLACK
    assert sum(step.untouched.values()) < SLACK
    assert explained(step) == pytest.approx(step.demand, abs=SLACK)


def test_a_tensor_that_nobody_writes_to_takes_no_memory_of_its_category(
    resident: ResidentMemory,
) -> None:
    step = followed(lambda batch: (torch.empty(25 * MB), torch.ones(10 * MB)), resident)
    assert step.tensors["feature_maps"] == pytest.approx(140 * MB, abs=MB)
    assert step.untouched["feature_maps"] == pytest.approx(100 * MB, abs=SLACK)
    assert step.resident_tensors["feature_maps"] == pytest.approx(40 * MB, abs=SLACK)
    assert explained(step) == pytest.approx(step.demand, abs=SLACK)


def test_objects_of_the_interpreter_stay_unexplained(resident: ResidentMemory) -> None:
    step = followed(lambda batch: (np.ones(50 * MB, np.uint8), torch.ones(5 * MB)), resident)
    assert step.demand - explained(step) == pytest.approx(50 * MB, abs=SLACK)


def test_a_tensor_of_before_that_nobody_wrote_to_is_no_memory_of_the_process(
    resident: ResidentMemory,
) -> None:
    untouched = torch.empty(4 * MB)
    step = followed(lambda batch: torch.ones(10 * MB), resident)
    assert step.demand - explained(step) == pytest.approx(0, abs=SLACK)
    del untouched


@pytest.mark.parametrize(
    ("name", "precision", "accumulate"),
    [("lenet", "fp32", 1), ("lenet", "amp", 2), ("lenet", "bf16", 1), ("squeezenet", "fp32", 1)],
)
def test_categories_of_a_workload_add_up_to_its_peak(
    name: str, precision: str, accumulate: int
) -> None:
    engine = engines.find("torch").prepare(
        workloads.find(name), Preparation(batch_size=2, accumulate=accumulate), precision=precision
    )
    engine.step()
    marks = track_step(engine)
    demand = sum(size for key, size in marks.items() if key.startswith(AT_PEAK))
    events = [*marks.items(), ("peak_resident", demand + 7 * MB)]
    figure = peak(stretches(events, range(len(events))))
    table = breakdown(events, figure)
    assert sum(part.value for part in table.values()) == figure.value == demand + 7 * MB
    assert min(part.value for name, part in table.items() if name != "unexplained") >= 0
    assert table["allocator_free"].value == 7 * MB
    assert abs(table["unexplained"].value) < 0.05 * figure.value
    size = 2 if precision == "bf16" else 4
    weights = engine.model_facts()["parameters"]
    assert table["parameters"].value == size * weights
    assert highest_of(list(marks.items()))["gradients"].value == size * weights
