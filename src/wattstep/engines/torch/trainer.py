"""Trains a workload on torch, a step at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from wattstep.engines.torch import checkpoint as torch_checkpoint
from wattstep.engines.torch.daily import TorchClassifier
from wattstep.engines.torch.engine import ENGINE
from wattstep.engines.torch.memory import MemoryTracker
from wattstep.engines.torch.parts import optimizers_told
from wattstep.engines.torch.processor import find_device, move, place
from wattstep.schema.engine import Mark, Trainer, ignore_phase
from wattstep.schema.step_memory import Meter
from wattstep.schema.workload import Preparation, Turn
from wattstep.workloads.torch.workload import TorchWorkload


class TorchTrainer(Trainer):
    """Model, optimizer and data of a workload; data stay with the CPU and go over by the batch.

    Args:
        workload: Workload to train.
        preparation: Batch size, seed, data and shape.
        threads: Of the operations; torch's own choice where None.
        processor: "cpu", or "cuda" for the first GPU that torch sees.
        precision: "fp32"; "bf16": weights, gradients and activations in bfloat16; "amp": weights
            in fp32, products of matrices in bfloat16 (torch's autocast).

    Raises:
        InvalidValueError: A setting cannot be used.
    """

    engine = ENGINE

    def __init__(
        self,
        workload: TorchWorkload,
        preparation: Preparation,
        *,
        threads: int | None = None,
        processor: str = "cpu",
        precision: str = "fp32",
    ) -> None:
        self._device = find_device(processor)
        workload.specification.check_precision(precision)
        if threads is not None:
            torch.set_num_threads(threads)
        with optimizers_told(preparation):
            self.training = workload.prepare(preparation)
        self.model: torch.nn.Module = self.training.model
        self.data = self.training.data
        self.model.train()
        self.samples_per_step = preparation.batch_size * preparation.accumulate
        self._accumulate = preparation.accumulate
        self._mark: Mark = ignore_phase
        self._updates = tuple(self.training.turns)
        self._autocast: Callable[[], Any] = nullcontext
        if processor != "cpu" or precision == "bf16":
            preparation.begin("model")  # which changes in place, now that optimizers hold it
        if processor != "cpu":
            place(self.model, self._device)
        if precision == "bf16":
            _to_bfloat16(self.model)
        elif precision == "amp":
            self._autocast = self._mixed
        one = len(self._updates) == 1 and self._accumulate == 1
        self._plain = one and precision != "amp" and processor == "cpu"

    @property
    def classifier(self) -> TorchClassifier | None:
        """As `Trainer.classifier`."""
        fits = getattr(self.training, "classifies", False)
        return TorchClassifier(self.training) if fits else None

    @property
    def options(self) -> Mapping[str, Any]:
        """Frames of a game that go by in each step, where one is played."""
        frames = getattr(self.training, "frames_per_step", None)
        return {} if frames is None else {"frames_per_step": frames}

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        """A part of the data phase that has a name of its own."""
        self._mark(name)
        yield
        self._mark("data")

    def step(self, mark: Mark = ignore_phase) -> float:
        """Runs one training step; `mark` is told where each phase begins. Returns the loss."""
        self._mark = mark
        if self._plain:  # the most common step, without a call more than it needs
            update = self._updates[0]
            mark("data")
            batch = update.next_batch(self._phase)
            mark("forward")
            loss = update.loss(batch)
            mark("backward")
            loss.backward()
            mark("optimizer")
            update.optimizer.step()
            update.optimizer.zero_grad()
            return float(loss.item())
        return sum(self._take(update, mark) for update in self._updates)

    def _take(self, update: Turn, mark: Mark) -> float:
        """Makes one parameter update: gradients of all its batches, added up, then its optimizer."""
        total = 0.0
        # What another update left behind (a generator's loss reaches the discriminator) is dropped.
        update.optimizer.zero_grad()
        for _ in range(self._accumulate):
            mark("data")
            batch = update.next_batch(self._phase)
            if self._device.type != "cpu":
                batch = move(batch, self._device)
            mark("forward")
            with self._autocast():
                loss = update.loss(batch)
            mark("backward")
            (loss / self._accumulate if self._accumulate > 1 else loss).backward()
            total += float(loss.item()) / self._accumulate
        mark("optimizer")
        update.optimizer.step()
        update.optimizer.zero_grad()
        return total

    def _mixed(self) -> Any:
        return torch.autocast(self._device.type, dtype=torch.bfloat16)

    def evaluate(self) -> Mapping[str, float]:
        """Measures of the model on samples that it never trains on; see `Training.evaluate`."""
        with self._autocast():
            return self.training.evaluate()

    def model_facts(self) -> dict[str, Any]:
        """Parameters (all and trainable) and layers that hold any."""
        return count_model(self.model)

    def memory(self) -> dict[str, int]:
        """Bytes of what training keeps or makes at every step, from the tensors themselves."""
        model = self.model
        state = [
            value
            for update in self._updates
            for values in update.optimizer.state.values()
            for value in values.values()
            if isinstance(value, torch.Tensor)
        ]
        return {
            "parameters": _size(model.parameters()),
            "buffers": _size(model.buffers()),
            "gradients": _size(p for p in model.parameters() if p.requires_grad),
            "optimizer_state": _size(state),
        }

    def memory_tracker(self, meter: Meter, device: str = "cpu") -> MemoryTracker:
        """As `Trainer.memory_tracker`."""
        optimizers = [update.optimizer for update in self._updates]
        return MemoryTracker(self.model, optimizers, meter, device)

    def save(self, path: Path) -> int:
        """As `Trainer.save`."""
        return torch_checkpoint.save(self.training, path)

    def load(self, path: Path) -> None:
        """As `Trainer.load`."""
        torch_checkpoint.load(self.training, path)


def count_model(model: torch.nn.Module) -> dict[str, Any]:
    """Parameters (all and trainable) and layers; shared parameters count once.

    `layers` hold parameters of any kind, `weight_layers` a matrix or a kernel: normalisation is
    left out of them, as in the literature.
    """
    parameters = list(model.parameters())
    held = [list(m.parameters(recurse=False)) for m in model.modules()]
    return {
        "parameters": sum(p.numel() for p in parameters),
        "trainable_parameters": sum(p.numel() for p in parameters if p.requires_grad),
        "layers": sum(1 for own in held if own),
        "weight_layers": sum(1 for own in held if any(p.dim() > 1 for p in own)),
    }


def _to_bfloat16(model: torch.nn.Module) -> None:
    """Weights in place, so that the optimizer keeps them, and whatever enters the model."""
    model.to(torch.bfloat16)
    model.register_forward_pre_hook(_narrow, with_kwargs=True)


def _narrow(module: Any, arguments: Any, named: Any) -> Any:
    return pytree.tree_map(_to_bf16, (arguments, named))


def _to_bf16(value: Any) -> Any:
    floats = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(torch.bfloat16) if floats else value


def _size(tensors: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
