"""Training of anybody's module on random inputs, as much of one as a capture needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from wattstep.errors import InvalidValueError
from wattstep.schema.workload import (
    OptimizerSettings,
    ParameterUpdate,
    Phase,
    Preparation,
    Specification,
    WorkloadFacts,
)
from wattstep.workloads.torch.workload import OPTIMIZERS, make_optimizer

Judge = Callable[[Any, Tensor], Tensor]


class ModuleWorkload:
    """A module as a workload of the engine: cross entropy over classes, of one input.

    Args:
        make: What gives the module.
        name: What to call it.
        input_shape: One sample, without the batch.
        classes: That the loss tells apart; None: as many as the module gives scores.
        optimizer: How its parameters are updated.
        dtype: Of the inputs; integers are indices below `classes`, or 2.
    """

    def __init__(
        self,
        make: Callable[[], nn.Module],
        *,
        name: str,
        input_shape: Sequence[int],
        classes: int | None = None,
        optimizer: OptimizerSettings,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if optimizer.name not in OPTIMIZERS:
            raise InvalidValueError(
                f"optimizer {optimizer.name}: there are {', '.join(sorted(OPTIMIZERS))}"
            )
        self._make, self._dtype, self._classes = make, dtype, classes
        self._shape = tuple(input_shape)
        self._optimizer = optimizer
        self.facts = WorkloadFacts(
            name=name,
            title=name,
            domain="",
            task="",
            dominant_layer="",
            dataset="random inputs",
            input_shape=self._shape,
            source="",
            classes=classes,
        )
        self.specification = Specification(facts=self.facts, optimizer=optimizer)

    def prepare(self, preparation: Preparation) -> ModuleTraining:
        """Builds the module and its optimizer.

        Raises:
            InvalidValueError: What makes it gives no module, or one without parameters that train.
        """
        model = self._make()
        if not isinstance(model, nn.Module):
            raise InvalidValueError(
                f"{self.facts.name} gives a {type(model).__name__}, no torch.nn.Module"
            )
        if not any(each.requires_grad for each in model.parameters()):
            raise InvalidValueError(f"{self.facts.name} has no parameters that train")
        optimizer = make_optimizer(self._optimizer, model, preparation)
        shape = (preparation.batch_size, *self._shape)
        return ModuleTraining(model, optimizer, shape, self._dtype, self._classes)


class ModuleTraining:
    """Its one update is itself; the loss is cross entropy, of several outputs their sum."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        classes: int | None,
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self.data = None
        self._shape, self._dtype, self._classes = shape, dtype, classes

    @property
    def updates(self) -> Sequence[ParameterUpdate]:
        """Itself alone."""
        return (self,)

    def next_batch(self, phase: Phase) -> Tensor:
        """Random inputs."""
        if self._dtype.is_floating_point:
            return torch.randn(self._shape, dtype=self._dtype)
        return torch.randint(0, self._classes or 2, self._shape, dtype=self._dtype)

    def loss(self, batch: Tensor) -> Tensor:
        """Cross entropy with random classes.

        Raises:
            InvalidValueError: The module gives something else than scores, or of other classes.
        """
        given = self.model(batch)
        losses = [self._judge(each) for each in _outputs(given)]
        return torch.stack(losses).sum() if len(losses) > 1 else losses[0]

    def _judge(self, scores: Tensor) -> Tensor:
        if self._classes is not None and scores.shape[1] != self._classes:
            raise InvalidValueError(
                f"the module gives {scores.shape[1]} scores of a sample, not {self._classes}"
            )
        targets = torch.zeros((scores.shape[0], *scores.shape[2:]), dtype=torch.int64)
        return functional.cross_entropy(scores, targets)


def _outputs(given: Any) -> list[Tensor]:
    """Tensors of scores that a module gave: one, or several as of auxiliary classifiers."""
    several = list(given.values()) if isinstance(given, dict) else given
    outputs = [several] if isinstance(several, Tensor) else list(several or ())
    if not outputs or not all(isinstance(each, Tensor) and each.dim() >= 2 for each in outputs):
        raise InvalidValueError("the module gives no scores (B, classes) to train on")
    return outputs
