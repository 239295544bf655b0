"""What is saved is taken up again: weights, buffers and the state of every optimizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from wattstep import engines, workloads
from wattstep.engines.torch import checkpoint as torch_checkpoint
from wattstep.schema.workload import Preparation


def engine(name: str, seed: int) -> Any:
    return engines.find("torch").prepare(workloads.find(name), Preparation(batch_size=2, seed=seed))


def test_a_training_that_is_taken_up_has_the_weights_and_the_momentum(tmp_path: Path) -> None:
    first, second = engine("lenet", 0), engine("lenet", 1)
    first.step()
    size = torch_checkpoint.save(first.training, tmp_path / "file.pt")
    assert size == (tmp_path / "file.pt").stat().st_size
    torch_checkpoint.load(second.training, tmp_path / "file.pt")
    for saved, loaded in zip(
        first.training.model.parameters(), second.training.model.parameters(), strict=True
    ):
        assert torch.equal(saved, loaded)
        states = [e.training.updates[0].optimizer.state for e in (first, second)]
        assert torch.equal(
            states[0][saved]["momentum_buffer"], states[1][loaded]["momentum_buffer"]
        )


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    torch_checkpoint.save(engine("lenet", 0).training, tmp_path / "file.pt")
    with pytest.raises(RuntimeError, match="state_dict"):
        torch_checkpoint.load(engine("squeezenet", 0).training, tmp_path / "file.pt")


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        torch_checkpoint.save(engine("lenet", 0).training, tmp_path / "nowhere" / "file.pt")
