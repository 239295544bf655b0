"""Trains a workload on torch, a step at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch

from wattstep.engines.torch import checkpoint as torch_checkpoint
from wattstep.engines.torch.checkpointing import checkpoint_blocks, explaining
from wattstep.engines.torch.compiling import COMPILED, Compiling, compiling
from wattstep.engines.torch.daily import TorchClassifier
from wattstep.engines.torch.engine import ENGINE
from wattstep.engines.torch.gpu import facts
from wattstep.engines.torch.memory import MemoryTracker
from wattstep.engines.torch.offload import Offload
from wattstep.engines.torch.parts import optimizers_told
from wattstep.engines.torch.precision import (
    AMPERE,
    WITHOUT_TF32,
    Scaling,
    autocast_of,
    check_hardware,
    set_tf32,
    to_bfloat16,
)
from wattstep.engines.torch.processor import find_device, move, place
from wattstep.engines.torch.shaping import lay_channels_last
from wattstep.engines.torch.tuned import choose_kernel, nudge, use_interop_threads
from wattstep.engines.trained import UNKNOWN, read_trained
from wattstep.errors import InvalidValueError
from wattstep.schema.condition_documents import CompilingFacts
from wattstep.schema.engine import Mark, Trainer, ignore_phase
from wattstep.schema.run_documents import ModelFacts, TrainingOptions
from wattstep.schema.step_memory import Meter
from wattstep.schema.workload import ParameterUpdate, Preparation
from wattstep.workloads.torch.workload import TorchWorkload


class TorchTrainer(Trainer):
    """Model, optimizer and data of a workload; data stay with the CPU and go over by the batch.

    Args:
        workload: Workload to train.
        preparation: Batch size, seed, data and shape.
        threads: Of the operations; torch's own choice where None.
        processor: "cpu", "cuda" for torch's current GPU, or "cuda:1" for the second that it sees.
        precision: "fp32"; "tf32": fp32 whose products are rounded to TF32; "bf16": weights,
            gradients and activations in bfloat16; "amp", "amp-fp16": weights in fp32, products of
            matrices in bfloat16 or float16 (torch's autocast, the latter with its scaler).

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
        workload.specification.check_precision(precision)
        self._device = find_device(processor, precision)
        self._numerics: TrainingOptions = {}
        self._remarks: list[str] = []
        if preparation.compiled:
            self._check_compiled(workload.facts.name)
        if self._device.type == "cuda":
            self._set_numerics(precision)
        if threads is not None:
            torch.set_num_threads(threads)
        if preparation.interop_threads is not None:
            use_interop_threads(preparation.interop_threads)
        optimizer = preparation.optimizer
        if (
            optimizer is not None
            and optimizer.name.startswith("paged")
            and self._device.type == "cpu"
        ):
            raise InvalidValueError(
                f"--optimizer {optimizer.name}: state is paged out of a GPU's memory; "
                f"on a CPU there is {optimizer.name.removeprefix('paged-')}",
                id="needs-gpu",
            )
        with optimizers_told(preparation):
            self.training = workload.prepare(preparation)
        self.model: torch.nn.Module = self.training.model
        self.data = self.training.data
        self.model.train()
        self.samples_per_step = preparation.batch_size * preparation.accumulate
        self._accumulate = preparation.accumulate
        self._mark: Mark = ignore_phase
        self.updates = tuple(self.training.updates)
        self._autocast = autocast_of(precision, self._device)
        self._scaling = Scaling(self._device) if precision == "amp-fp16" else None
        self._steps = 0
        shaped = preparation.channels_last or preparation.compiled or preparation.checkpointing
        if processor != "cpu" or precision == "bf16" or shaped:
            preparation.begin("model")  # which changes in place, now that optimizers hold it
        if processor != "cpu":
            place(self.model, self._device)
        if precision == "bf16":
            to_bfloat16(self.model)
        if preparation.optimizer_kernel is not None:
            for update in self.training.updates:
                choose_kernel(update.optimizer, preparation.optimizer_kernel)
        if preparation.channels_last:
            lay_channels_last(self.model, workload.facts.name)
        self._compiling = Compiling(self.model) if preparation.compiled else None
        if self._compiling is not None:
            self._remarks += self._compiling.remarks
        self._check_blocks: Callable[[], None] | None = None
        if preparation.checkpointing:
            self._check_blocks = checkpoint_blocks(self.model, workload.facts.name)
        self._explaining: Callable[[], AbstractContextManager[None]] = (
            partial(explaining, workload.facts.name) if preparation.checkpointing else nullcontext
        )
        self._saving = self._offloading(preparation.offload)
        self._compiled = preparation.compiled
        one = len(self.updates) == 1 and self._accumulate == 1
        plain_precision = precision in ("fp32", "bf16")
        strategies = preparation.checkpointing or preparation.offload
        plain = one and plain_precision and processor == "cpu"
        self._plain = plain and not (self._compiled or strategies)

    def _check_compiled(self, workload: str) -> None:
        """Refuses what torch trains wrongly when it is compiled, and says what was never tried."""
        tried = read_trained().get(COMPILED, {})
        reason = tried.get(workload, UNKNOWN)
        if reason and not reason.startswith(UNKNOWN):
            raise InvalidValueError(
                f"--compile: torch trains {workload} wrongly when it is compiled: {reason}",
                id="wrong-training",
            )
        if reason:
            self._remarks.append(
                f"compiled, {workload} was never held against plain torch: docs/engines.md"
            )

    def _offloading(self, wanted: bool) -> Callable[[], AbstractContextManager[None]]:
        """What a forward pass runs in, so that what it saves goes elsewhere."""
        if not wanted:
            return nullcontext
        device = self._device
        shared = device.type == "cpu" or facts(torch.cuda, str(device))["shares_memory"]
        return Offload(self.model, device, shared=shared).active

    def _set_numerics(self, precision: str) -> None:
        """What a GPU rounds, stated for both ways that it may."""
        name = torch.cuda.get_device_name(self._device)
        capability = torch.cuda.get_device_capability(self._device)
        check_hardware(precision, name, capability)
        self._numerics = set_tf32(precision == "tf32")
        if precision == "fp32" and capability >= AMPERE:
            self._remarks.append(WITHOUT_TF32)

    @property
    def classifier(self) -> TorchClassifier | None:
        """As `Trainer.classifier`."""
        fits = getattr(self.training, "classifies", False)
        return TorchClassifier(self.training) if fits else None

    @property
    def options(self) -> TrainingOptions:
        """Frames of a game that go by in each step, where one is played; TF32 on a GPU; compiled."""
        frames = getattr(self.training, "frames_per_step", None)
        options: TrainingOptions = {} if frames is None else {"frames_per_step": frames}
        if self._compiled:
            options["compiled"] = True
        return {**options, **self._numerics}

    def compiling(self) -> CompilingFacts | None:
        """As `Trainer.compiling`."""
        return None if self._compiling is None else self._compiling.facts()

    def remarks(self) -> Sequence[str]:
        """As `Trainer.remarks`."""
        remark = None if self._scaling is None else self._scaling.remark
        return self._remarks if remark is None else [*self._remarks, remark]

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
            update = self.updates[0]
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
        with compiling(self._compiled):
            losses = [self.take(update, mark) for update in self.updates]
        self._steps += 1
        # One wait for a GPU a step, when all of the step's work is on its way.
        return sum(
            sum(float(each.item()) / self._accumulate for each in update) for update in losses
        )

    def take(self, update: ParameterUpdate, mark: Mark) -> list[torch.Tensor]:
        """Makes one parameter update: gradients of all its batches, added up, then its optimizer.

        Returns:
            The loss of each batch.
        """
        losses = []
        # What another update left behind (a generator's loss reaches the discriminator) is dropped.
        update.optimizer.zero_grad()
        for _ in range(self._accumulate):
            mark("data")
            batch = update.next_batch(self._phase)
            if self._device.type != "cpu":
                batch = move(batch, self._device)
            mark("forward")
            with self._autocast(), self._saving():
                loss = update.loss(batch)
            mark("backward")
            part = loss / self._accumulate if self._accumulate > 1 else loss
            with self._explaining():
                (part if self._scaling is None else self._scaling.scaled(part)).backward()
            losses.append(loss.detach())
        mark("optimizer")
        if self._scaling is None:
            update.optimizer.step()
        else:
            self._scaling.update(update.optimizer, self._steps)
        update.optimizer.zero_grad()
        if self._check_blocks is not None and update is self.updates[-1]:
            self._check_blocks()
            self._check_blocks = None
        return losses

    def nudge(self) -> None:
        """As `Trainer.nudge`."""
        nudge(self.model)

    def evaluate(self) -> Mapping[str, float]:
        """Measures of the model on samples that it never trains on; see `Training.evaluate`."""
        with compiling(self._compiled), self._autocast():
            return self.training.evaluate()

    def model_facts(self) -> ModelFacts:
        """Parameters (all and trainable) and layers that hold any."""
        return count_model(self.model)

    def memory(self) -> dict[str, int]:
        """Bytes of what training keeps or makes at every step, from the tensors themselves."""
        model = self.model
        state = {
            id(value): value  # tables of 8-bit states are shared by all
            for update in self.updates
            for values in update.optimizer.state.values()
            for value in values.values()
            if isinstance(value, torch.Tensor)
        }
        return {
            "parameters": _size(model.parameters()),
            "buffers": _size(model.buffers()),
            "gradients": _size(p for p in model.parameters() if p.requires_grad),
            "optimizer_state": _size(state.values()),
        }

    def memory_tracker(self, meter: Meter, device: str = "cpu") -> MemoryTracker | None:
        """As `Trainer.memory_tracker`."""
        optimizers = [update.optimizer for update in self.updates]
        return MemoryTracker(self.model, optimizers, meter, device)

    def save(self, path: Path) -> int:
        """As `Trainer.save`."""
        return torch_checkpoint.save(self.training, path, self._scaling)

    def load(self, path: Path) -> None:
        """As `Trainer.load`."""
        torch_checkpoint.load(self.training, path, self._scaling)


def count_model(model: torch.nn.Module) -> ModelFacts:
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


def _size(tensors: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
