"""Trains the exported graph with MNN: forward pass, backward pass and update are one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wattstep.engines.exported.folder import ExportedFolder
from wattstep.engines.exported.silence import silenced
from wattstep.engines.exported.trainer import JOINT, ExportedTrainer
from wattstep.engines.exported.updates import Update
from wattstep.engines.mnn.graph import GRAPH, LOSS, OPERATIONS, UPDATE, read_operations
from wattstep.engines.mnn.library import load_mnn
from wattstep.schema.engine import Engine, Mark

Array = npt.NDArray[Any]
# Called with an operation's tensors and facts: before it, whether it is to run; after it, whether to go on.
Call = Callable[[Any, Any], bool]
MEGABYTE: Final = 1 << 20
_MEMORY: Final = 0  # what to ask a session for, in MNN's numbers


class MnnTrainer(ExportedTrainer):
    """As `ExportedTrainer`.

    Args:
        engine: MNN's.
        folder: The exported training.
        threads: Of an operation.

    Attributes:
        calls: What is called before and after each operation, while a step is traced; else None.
        graph: What the graph's operations are for, by name.

    Raises:
        InvalidValueError: MNN does not take the graph.
    """

    calls: tuple[Call, Call] | None = None

    def __init__(self, engine: Engine, folder: ExportedFolder, threads: int) -> None:
        super().__init__(engine, folder)
        self._mnn = load_mnn()
        self._threads = threads
        with silenced():
            self._interpreter = self._mnn.Interpreter(str(folder.file(GRAPH)))
            self._session = self._interpreter.createSession(
                {"numThread": threads, "backend": "CPU"}
            )
        self._inputs = self._interpreter.getSessionInputAll(self._session)
        self._loss = self._interpreter.getSessionOutput(self._session, LOSS)
        optimizer = self.training.optimizer
        self._update = Update(engine.name, optimizer.name, optimizer.options, optimizer.rate)
        self._steps_made = 0
        self.graph = read_operations(folder.file(OPERATIONS))

    @property
    def threads(self) -> int:
        """As `Trainer.threads`."""
        return self._threads

    @property
    def session_bytes(self) -> int:
        """Memory of the session, as MNN tells it: parameters, state, and all that a step makes."""
        held: float = self._interpreter.getSessionInfo(self._session, _MEMORY)
        return round(held * MEGABYTE)

    def take(self, batch: Mapping[str, Array], mark: Mark) -> float:
        """As `ExportedTrainer.take`."""
        self._steps_made += 1
        scalars = self._update.scalars(self._steps_made)
        values = dict(batch) | {name: np.array(value) for name, value in scalars.items()}
        for name, tensor in self._inputs.items():
            self._fill(tensor, values[name])
        mark(JOINT)
        if self.calls is None:
            self._interpreter.runSession(self._session)
        else:
            self._interpreter.runSessionWithCallBackInfo(self._session, *self.calls)
        return float(self._loss.getData()[0])

    def _fill(self, tensor: Any, value: Array) -> None:
        kind = tensor.getDataType()
        mnn = self._mnn
        dtype = np.int32 if np.issubdtype(value.dtype, np.integer) else np.float32
        array = np.ascontiguousarray(value, dtype)
        tensor.copyFrom(
            mnn.Tensor(tuple(tensor.getShape()), kind, array, mnn.Tensor_DimensionType_Caffe)
        )

    def weights(self) -> dict[str, Array]:
        """As `ExportedTrainer.weights`: read where each update would take its parameter, none of which runs."""
        kept: dict[str, Array] = {}
        trainable = {each.name: each.shape for each in self.training.parameters if each.trainable}

        def keep(tensors: Any, info: Any) -> bool:
            name = info.getName().removeprefix(UPDATE)
            if name in trainable and info.getName() != name:
                kept[name] = np.array(tensors[0].getData(), np.float32).reshape(trainable[name])
            return False

        self.call_without_running(keep)
        return kept

    def call_without_running(self, begin: Call) -> None:
        """Calls with each operation in turn; none runs, where that says no."""
        self._interpreter.runSessionWithCallBackInfo(
            self._session, begin, lambda tensors, info: True
        )
