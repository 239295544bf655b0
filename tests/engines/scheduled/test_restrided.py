"""Tensors that are laid otherwise in place within a planned step: views of what they were, or refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.engines.scheduled.made import STEPS, Made, assert_same, shuffled, trained
from tests.refusals import refused
from torch import nn

from wattstep.engines.torch.scheduled.trainer import ScheduledTrainer
from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.schema.workload import Preparation


class Pooled(nn.Module):
    """Images with their channels last, whose mean torch lays anew by `as_strided_`."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 4, 1)
        )
        self.body.to(memory_format=torch.channels_last)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.body(inputs)
        return outputs


class Turned(nn.Module):
    """Turns a tensor of which a view is held, and changes either through the other."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.first(inputs).clone()
        left = hidden[:, :2]
        hidden.t_()
        hidden[0].mul_(2.0)
        left.add_(1.0)
        hidden.unsqueeze_(0)
        hidden.transpose_(1, 2)
        return torch.tanh(hidden.squeeze_(0)) * torch.sigmoid(left.sum())


class Held(nn.Module):
    """Turns what is there in the next step, too: each step finds it the other way round."""

    def __init__(self, of_batch: bool) -> None:
        super().__init__()
        self.of_batch, self.first = of_batch, nn.Linear(4, 4)
        self.register_buffer("seen", torch.arange(16.0).view(4, 4))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            (inputs if self.of_batch else self.seen).t_()
        return self.first(inputs) * self.seen


@pytest.mark.parametrize(
    ("model", "shape"), [(Pooled, (2, 3, 6, 6)), (Turned, (5, 6))], ids=["pooled", "turned"]
)
@pytest.mark.parametrize("seed", range(3))
def test_restrided_tensors_are_views(model: Any, shape: tuple[int, ...], seed: int) -> None:
    torch.manual_seed(1)
    batches = [torch.randn(shape) for _ in range(STEPS)]
    if len(shape) == 4:
        batches = [each.to(memory_format=torch.channels_last) for each in batches]
    plain = trained(TorchTrainer(Made(model, batches), Preparation(batch_size=2)))
    plan = lambda graph: shuffled(graph, seed=seed)  # noqa: E731
    trainer = ScheduledTrainer(Made(model, batches), Preparation(batch_size=2), plan=plan)
    assert_same(plain, trained(trainer))
    assert trainer.executors


@pytest.mark.parametrize("of_batch", [False, True])
def test_restrided_tensors_of_the_next_step_are_refused(of_batch: bool) -> None:
    batches = [torch.ones(4, 4) for _ in range(4)]
    made = Made(lambda: Held(of_batch), batches)
    trainer = ScheduledTrainer(made, Preparation(batch_size=4), plan=shuffled)
    with refused("not-schedulable", "made", "t_"):
        trained(trainer, 4)
