"""Trains an exported network on ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from wattstep.engines.exported.folder import ExportedFolder
from wattstep.engines.exported.trainer import ExportedTrainer
from wattstep.engines.onnxruntime.export import PREFIX
from wattstep.engines.onnxruntime.layout import lay_out
from wattstep.engines.onnxruntime.step import GRAPHS, Sessions, zeros
from wattstep.engines.onnxruntime.updates import options_of, scalars_of, states_of
from wattstep.schema.engine import Engine, Mark

Array = npt.NDArray[Any]


class OnnxRuntimeTrainer(ExportedTrainer):
    """A training whose weights, gradients and states lie in one array each.

    Args:
        engine: ONNX Runtime.
        folder: The exported training.
        threads: Of an operation; None: ONNX Runtime's own choice.
    """

    def __init__(self, engine: Engine, folder: ExportedFolder, threads: int | None) -> None:
        super().__init__(engine, folder)
        self._updates = 0
        self._threads = threads
        optimizer = self.training.optimizer
        self._options = options_of(optimizer.name, optimizer.options)
        self._arrays_by_name = self._bound()
        files = {name: folder.file(f"{name}.onnx") for name in GRAPHS}
        self.model = self.sessions = Sessions(files, self._arrays_by_name, threads)
        self._loss = self._arrays_by_name["loss"]
        self._scalars = [self._arrays_by_name[name] for name in ("rate", "correction")]

    @property
    def threads(self) -> int | None:
        """As `Trainer.threads`."""
        return self._threads

    def _bound(self) -> dict[str, Array]:
        """Arrays by their names in the graphs."""
        parameters = self.training.parameters
        layout = lay_out(parameters)
        states = states_of(self.training.optimizer.name, self._options)
        flat = {name: zeros([layout.size]) for name in ("weight", "gradient", *states)}
        arrays = {"rate": zeros([]), "correction": zeros([])}
        for name, values in self.folder.weights().items():
            arrays[PREFIX + name] = values
        for each in parameters:
            if not each.trainable:
                continue
            begin = layout.places[each.name]
            place = slice(begin, begin + prod(each.shape))
            weight = flat["weight"][place].reshape(each.shape)
            weight[...] = arrays[PREFIX + each.name]
            arrays[PREFIX + each.name] = weight
            arrays[f"{PREFIX}{each.name}_grad"] = flat["gradient"][place].reshape(each.shape)
        for number, block in enumerate(layout.blocks):
            for name, values in flat.items():
                arrays[f"{name}{number}"] = values[block.begin : block.begin + block.size]
        return arrays

    def take(self, batch: Mapping[str, Array], mark: Mark) -> float:
        """As `ExportedTrainer.take`."""
        sessions = self.sessions
        mark("forward")
        sessions.run("forward", batch)
        mark("backward")
        sessions.run("backward", batch)
        mark("optimizer")
        self._updates += 1
        optimizer = self.training.optimizer
        scalars = scalars_of(optimizer.name, self._options, optimizer.rate, self._updates)
        for name, value in scalars.items():
            self._arrays_by_name[name][...] = value
        sessions.run("optimizer", {})
        return float(self._loss)

    def weights(self) -> dict[str, Array]:
        """As `ExportedTrainer.weights`."""
        return {
            each.name: np.array(self._arrays_by_name[PREFIX + each.name])
            for each in self.training.parameters
        }
