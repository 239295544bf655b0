"""Training of anybody's module on random inputs, as much of one as a capture needs."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parameter import is_lazy

from wattstep.errors import InvalidValueError
from wattstep.schema.workload import (
    ModuleSource,
    ParameterUpdate,
    Phase,
    Preparation,
    Specification,
    WorkloadFacts,
)
from wattstep.workloads.torch.freezing import freeze
from wattstep.workloads.torch.workload import make_optimizer


class ModuleWorkload:
    """A module of the user's as a workload of the engine.

    Args:
        source: What gives it.
    """

    def __init__(self, source: ModuleSource) -> None:
        self._source = source
        self.facts = WorkloadFacts(
            name=source.name,
            title=source.name,
            domain="",
            task="",
            dominant_layer="",
            dataset="random inputs",
            input_shape=source.input_shape,
            source="",
            classes=source.classes,
        )
        self.specification = Specification(facts=self.facts, optimizer=source.optimizer)

    def prepare(self, preparation: Preparation) -> ModuleTraining:
        """Builds the module and its optimizer.

        Raises:
            InvalidValueError: A setting does not fit, what makes it gives no module, or one without parameters that train.
        """
        preparation.check(self.facts)
        source = self._source
        made = source.make
        model = _copied(made) if isinstance(made, nn.Module) else made()
        if not isinstance(model, nn.Module):
            raise InvalidValueError(
                f"{source.name} gives what is no torch.nn.Module: {type(model).__name__}",
                id="not-a-module",
            )
        if not any(each.requires_grad for each in model.parameters()):
            raise InvalidValueError(
                f"{source.name} has no parameters that train", id="nothing-to-train"
            )
        shape = (preparation.batch_size, *source.input_shape)
        if any(map(is_lazy, (*model.parameters(), *model.buffers()))):
            with torch.no_grad():  # it learns its shapes from what it is given
                model(_random(source, shape))
        freeze(model, preparation)
        optimizer = make_optimizer(source.optimizer, model, preparation)
        return ModuleTraining(model, optimizer, source, shape)


class ModuleTraining:
    """Its one update is itself; the loss is cross entropy, of several outputs their sum."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        source: ModuleSource,
        shape: tuple[int, ...],
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self.data = None
        self._source, self._shape = source, shape

    @property
    def updates(self) -> Sequence[ParameterUpdate]:
        """Itself alone."""
        return (self,)

    def next_batch(self, phase: Phase) -> Tensor:
        """Random inputs."""
        return _random(self._source, self._shape)

    def loss(self, batch: Tensor) -> Tensor:
        """Cross entropy with random classes.

        Raises:
            InvalidValueError: The module gives something else than scores, or of other classes.
        """
        given = self.model(batch)
        losses = [self._judge(each) for each in _outputs(given)]
        return torch.stack(losses).sum() if len(losses) > 1 else losses[0]

    def _judge(self, scores: Tensor) -> Tensor:
        classes = self._source.classes
        if classes is not None and scores.shape[1] != classes:
            raise InvalidValueError(
                f"{self._source.name} gives {scores.shape[1]} scores of a sample, not {classes}",
                id="other-scores",
            )
        targets = torch.zeros((scores.shape[0], *scores.shape[2:]), dtype=torch.int64)
        return functional.cross_entropy(scores, targets)


def _random(source: ModuleSource, shape: tuple[int, ...]) -> Tensor:
    if source.integers:
        return torch.randint(0, source.classes or 2, shape)
    return torch.randn(shape)


def _copied(module: nn.Module) -> nn.Module:
    """The same module with weights of its own, of any values: where tensors are fake, with fake ones."""
    tensors: dict[int, Any] = {
        id(each): nn.Parameter(torch.empty_like(each), requires_grad=each.requires_grad)
        for each in module.parameters()
    }
    tensors |= {id(each): torch.zeros_like(each) for each in module.buffers()}
    return deepcopy(module, tensors)


def _outputs(given: Any) -> list[Tensor]:
    """Tensors of scores that a module gave: one, or several as of auxiliary classifiers."""
    several = list(given.values()) if isinstance(given, dict) else given
    outputs = [several] if isinstance(several, Tensor) else list(several or ())
    if not outputs or not all(isinstance(each, Tensor) and each.dim() >= 2 for each in outputs):
        raise InvalidValueError("the module gives no scores (B, classes) to train on")
    return outputs
