"""Trains an exported network on ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from wattstep.engines.exported.folder import ExportedFolder
from wattstep.engines.exported.trainer import ExportedTrainer
from wattstep.engines.exported.updates import Update
from wattstep.engines.onnxruntime.layout import lay_out
from wattstep.engines.onnxruntime.step import GRAPHS, Step, zeros
from wattstep.schema.engine import Engine, Mark

Array = npt.NDArray[Any]


class OnnxRuntimeTrainer(ExportedTrainer):
    """A training whose weights, gradients and states lie in one array each.

    Args:
        engine: ONNX Runtime.
        folder: The exported training.
        threads: Of an operation.
    """

    def __init__(self, engine: Engine, folder: ExportedFolder, threads: int) -> None:
        super().__init__(engine, folder)
        self._threads = threads
        self._updates = 0
        self._held: list[str] = []  # parameters and running statistics
        self._sizes: dict[str, int] = {}
        optimizer = self.training.optimizer
        self._update = Update(engine.name, optimizer.name, optimizer.options, optimizer.rate)
        graphs = {name: folder.file(f"{name}.onnx") for name in GRAPHS}
        self.model: Step = Step(graphs, self._arrays_to_bind(), self._threads)

    @property
    def threads(self) -> int:
        """As `Trainer.threads`."""
        return self._threads

    def _arrays_to_bind(self) -> dict[str, Array]:
        """Weights, gradients and states, by their names in the graphs."""
        parameters = self.training.parameters
        layout = lay_out(parameters)
        states = self._update.states
        flat = {name: zeros([layout.size]) for name in ("weight", "gradient", *states)}
        arrays = self.folder.weights()
        self._held = list(arrays)
        names = {each.name for each in parameters}
        self._sizes = {
            "parameters": sum(array.nbytes for name, array in arrays.items() if name in names),
            "buffers": sum(array.nbytes for name, array in arrays.items() if name not in names),
            "gradients": flat["gradient"].nbytes,
            "optimizer_state": sum(flat[name].nbytes for name in states),
        }
        for each in parameters:
            if each.trainable:
                begin = layout.places[each.name]
                place = slice(begin, begin + prod(each.shape))
                weight = flat["weight"][place].reshape(each.shape)
                weight[...] = arrays[each.name]
                arrays[each.name] = weight
                arrays[f"{each.name}_grad"] = flat["gradient"][place].reshape(each.shape)
        for number, block in enumerate(layout.blocks):
            for name, values in flat.items():
                arrays[f"{name}{number}"] = values[block.begin : block.begin + block.size]
        return arrays | {name: zeros([]) for name in self._update.scalars(1)}

    def take(self, batch: Mapping[str, Array], mark: Mark) -> float:
        """As `ExportedTrainer.take`."""
        step = self.model
        mark("forward")
        step.run("forward", batch)
        mark("backward")
        step.run("backward", batch)
        mark("optimizer")
        self._updates += 1
        for name, value in self._update.scalars(self._updates).items():
            step.arrays[name][...] = value
        step.run("optimizer", {})
        return float(step.arrays["loss"])

    def memory(self) -> dict[str, int]:
        """As `Trainer.memory`."""
        return self._sizes

    def weights(self) -> dict[str, Array]:
        """As `ExportedTrainer.weights`, with what the network holds besides (running statistics)."""
        step = self.model
        return {
            name: step.arrays[name] * np.float32(step.variances[name])
            if name in step.variances
            else np.array(step.arrays[name])
            for name in self._held
        }
