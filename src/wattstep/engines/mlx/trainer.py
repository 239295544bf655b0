"""Trains an exported graph on MLX: loss, gradients and update in one evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from wattstep.engines.exported.folder import ExportedFolder
from wattstep.engines.exported.trainer import JOINT, ExportedTrainer
from wattstep.engines.exported.updates import Update
from wattstep.engines.mlx.graph import Graph
from wattstep.schema.engine import Engine, Mark

Array = npt.NDArray[Any]
Arrays = dict[str, Any]  # of mlx.core.array


class MlxTrainer(ExportedTrainer):
    """A training on MLX, which differentiates the graph by itself.

    Args:
        engine: MLX.
        folder: The exported training.
        threads: Of an operation: 1.
    """

    def __init__(self, engine: Engine, folder: ExportedFolder, threads: int) -> None:
        super().__init__(engine, folder)
        mx.set_default_device(mx.cpu)
        self._graph = Graph(folder)
        optimizer, parameters = self.training.optimizer, self.training.parameters
        self._update = Update(engine.name, optimizer.name, optimizer.options, optimizer.rate)
        self._decay = {each.name: each.decay for each in parameters}
        values = folder.weights()
        self._frozen: Arrays = {
            each.name: mx.array(values[each.name]) for each in parameters if not each.trainable
        }
        self._weights: Arrays = {
            each.name: mx.array(values[each.name]) for each in parameters if each.trainable
        }
        self._states = {
            name: {state: mx.zeros_like(weight) for state in self._update.states}
            for name, weight in self._weights.items()
        }
        self._updates = 0

    def take(self, batch: Mapping[str, Array], mark: Mark) -> float:
        """As `ExportedTrainer.take`."""
        mark(JOINT)
        inputs = [mx.array(each) for each in batch.values()]
        self._updates += 1
        loss = self._step(inputs, self._update.scalars(self._updates))
        mx.eval(loss, self._weights, self._states, self._graph.state)
        return float(loss.item())

    def _step(self, inputs: list[Any], scalars: Mapping[str, float]) -> Any:
        """The loss; weights and states after the step are not computed before they are asked for."""

        def of(weights: Arrays) -> Any:
            return self._graph.loss({**weights, **self._frozen}, self._graph.state, inputs)

        (loss, changed), gradients = mx.value_and_grad(of)(self._weights)
        self._graph.state.update(changed)
        for name, gradient in gradients.items():
            self._weights[name] = self._update(
                self._weights[name],
                gradient,
                self._states[name],
                self._decay[name],
                scalars,
                mx.sqrt,
            )
        return loss

    def weights(self) -> dict[str, Array]:
        """As `ExportedTrainer.weights`."""
        return {name: np.array(each) for name, each in {**self._weights, **self._frozen}.items()}
