"""Trains a workload on torch, a step at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from wattstep.errors import InvalidValueError
from wattstep.records.workload import Workload

Mark = Callable[[str], None]


def ignore_phase(name: str) -> None:
    """For steps that nobody records."""


class TorchEngine:
    """Model, optimizer and data of a workload on the CPU.

    Args:
        workload: What to train.
        batch_size: Samples of a step.
        threads: Of the operations; torch's own choice where None.
        processor: "cpu".
        seed: Of everything that is drawn.
        data_dir: Where official data lies.
    """

    def __init__(
        self,
        workload: Workload,
        *,
        batch_size: int,
        threads: int | None = None,
        processor: str = "cpu",
        seed: int = 0,
        data_dir: Path | None = None,
    ) -> None:
        if processor != "cpu":
            raise InvalidValueError(f"--processor {processor}: torch trains on cpu in this version")
        if threads is not None:
            torch.set_num_threads(threads)
        self.training = workload.prepare(batch_size=batch_size, seed=seed, data_dir=data_dir)
        self.training.model.train()
        self._mark: Mark = ignore_phase

    @property
    def version(self) -> str:
        """As in a run's description."""
        return f"torch {torch.__version__}"

    @property
    def threads(self) -> int:
        """Threads of an operation."""
        return torch.get_num_threads()

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        """A part of the data phase that has a name of its own."""
        self._mark(name)
        yield
        self._mark("data")

    def step(self, mark: Mark = ignore_phase) -> float:
        """One training step; `mark` is told where each phase begins. Returns the loss."""
        training = self.training
        self._mark = mark
        mark("data")
        batch = training.next_batch(self._phase)
        mark("forward")
        loss = training.loss(batch)
        mark("backward")
        loss.backward()
        mark("optimizer")
        training.optimizer.step()
        training.optimizer.zero_grad()
        return float(loss.item())

    def model_facts(self) -> dict[str, Any]:
        """Parameters (all and trainable) and layers that hold any."""
        model = self.training.model
        parameters = list(model.parameters())
        return {
            "parameters": sum(p.numel() for p in parameters),
            "trainable_parameters": sum(p.numel() for p in parameters if p.requires_grad),
            "layers": sum(
                1 for m in model.modules() if next(m.parameters(recurse=False), None) is not None
            ),
        }

    def memory(self) -> dict[str, int]:
        """Bytes of what training keeps or makes at every step, from the tensors themselves."""
        model, optimizer = self.training.model, self.training.optimizer
        state = [
            value
            for values in optimizer.state.values()
            for value in values.values()
            if isinstance(value, torch.Tensor)
        ]
        return {
            "parameters": _size(model.parameters()),
            "buffers": _size(model.buffers()),
            "gradients": _size(p for p in model.parameters() if p.requires_grad),
            "optimizer_state": _size(state),
        }


def _size(tensors: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
