"""Which part of a training is being made: told where somebody listens, and nothing left behind."""

from __future__ import annotations

import pytest
import torch

from wattstep.engines.torch.parts import optimizers_told
from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.schema.workload import Preparation
from wattstep.workloads.torch import find


def parts(name: str, **settings: str) -> list[str]:
    heard: list[str] = []
    TorchTrainer(find(name), Preparation(batch_size=2, on_part=heard.append), **settings)  # type: ignore[arg-type]
    return heard


def test_a_preparation_tells_of_model_data_and_optimizer() -> None:
    assert parts("lenet") == ["model", "data", "optimizer", "data"]


def test_two_optimizers_are_told_of_twice() -> None:
    assert parts("dcgan") == ["model", *["data", "optimizer"] * 2, "data"]


def test_weights_that_are_narrowed_belong_to_the_model() -> None:
    assert parts("lenet", precision="bf16") == ["model", "data", "optimizer", "data", "model"]


def test_torch_is_as_it_was_afterwards() -> None:
    construct = torch.optim.Optimizer.__init__
    with optimizers_told(Preparation(batch_size=1)):
        assert torch.optim.Optimizer.__init__ is construct
    told = Preparation(batch_size=1, on_part=lambda part: None)
    with pytest.raises(ValueError, match="empty parameter"), optimizers_told(told):
        torch.optim.SGD([])
    assert torch.optim.Optimizer.__init__ is construct


def test_whoever_listens_makes_no_other_preparation() -> None:
    assert Preparation(batch_size=1, on_part=print) == Preparation(batch_size=1)
