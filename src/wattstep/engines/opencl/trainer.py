"""Trains an exported graph on an OpenCL device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from wattstep.engines.exported.aten import read_graph
from wattstep.engines.exported.folder import ExportedFolder
from wattstep.engines.exported.trainer import ExportedTrainer
from wattstep.engines.exported.updates import Update
from wattstep.engines.opencl.execution import Execution
from wattstep.engines.opencl.lowering import Lowering
from wattstep.engines.opencl.plan import Plan
from wattstep.errors import DamagedRunError
from wattstep.opencl.device import Device, Opened
from wattstep.recorded.memory import AT_PEAK
from wattstep.schema.engine import Engine, Mark
from wattstep.schema.opencl import FUSED
from wattstep.schema.run_documents import TrainingOptions

Array = npt.NDArray[Any]


class OpenClTrainer(ExportedTrainer):
    """A training on OpenCL.

    Args:
        engine: OpenCL.
        folder: The exported training.
        device: That trains.
        mode: One of `schema.opencl.MODES`.

    Attributes:
        execution: The training on its device.
    """

    def __init__(self, engine: Engine, folder: ExportedFolder, device: Device, mode: str) -> None:
        super().__init__(engine, folder)
        training = self.training
        graph, constants = read_graph(folder)
        shapes = {name: value.shape for name, value in constants.items()}
        shapes |= dict(zip(graph.inputs, (each.shape for each in training.inputs), strict=True))
        plan = Lowering(
            graph, shapes, training.parameters, training.optimizer, fused=mode == FUSED
        ).plan()
        self._names = dict(zip((each.name for each in training.inputs), graph.inputs, strict=True))
        self._check_targets(plan.classes)
        optimizer = training.optimizer
        self._update = Update(engine.name, optimizer.name, optimizer.options, optimizer.rate)
        self._updates = 0
        self._mode = mode
        values = {**folder.weights(), **constants}
        self.execution = Execution(Opened(device), plan, mode, values)
        # Views without a file behind them: a mapped array takes microseconds to cut.
        self._arrays = {name: np.asarray(array) for name, array in self._arrays.items()}
        self._next: tuple[int, dict[str, Array]] | None = None

    @property
    def plan(self) -> Plan:
        """The step."""
        return self.execution.plan

    @property
    def threads(self) -> int | None:
        """Those that PoCL has on a CPU, a compute unit each; of other devices they are no threads."""
        device = self.execution.opened.device
        return device.units if device.kind == "cpu" else None

    @property
    def options(self) -> TrainingOptions:
        """As `Trainer.options`."""
        return {"opencl_mode": self._mode}

    def _check_targets(self, classes: int | None) -> None:
        """Refuses targets that are no classes: the kernel of the loss would look beyond the scores."""
        targets = self.folder.arrays.get("targets")
        if classes is None or targets is None:
            return
        for each in (int(targets.min()), int(targets.max())):
            if not 0 <= each < classes:
                raise DamagedRunError(
                    f"{self.folder.path}: the target {each} is none of the {classes} classes",
                    id="damaged-export",
                )

    def batch(self, step: int) -> dict[str, Array]:
        """As `ExportedTrainer.batch`; what was made while the device was busy is made once."""
        if self._next is not None and self._next[0] == step:
            return self._next[1]
        return super().batch(step)

    def _given(self, batch: Mapping[str, Array], update: int) -> dict[str, Array]:
        """A batch by the plan's names, in the types of its kernels, with the optimizer's numbers."""
        wanted = self.plan.inputs
        given = {
            self._names[name]: np.ascontiguousarray(
                array, np.int32 if array.dtype.kind == "i" else np.float32
            )
            for name, array in batch.items()
            if self._names[name] in wanted
        }
        if self.plan.scalars:
            scalars = self._update.scalars(update)
            given["scalars"] = np.array([scalars[name] for name in self.plan.scalars], np.float32)
        return given

    def take(self, batch: Mapping[str, Array], mark: Mark) -> float:
        """As `ExportedTrainer.take`."""
        step = self.steps

        def upcoming() -> dict[str, Array]:
            following = self.batch(step + 1)
            self._next = step + 1, following
            return self._given(following, self._updates + 1)

        self._updates += 1
        return self.execution.step(self._given(batch, self._updates), mark, upcoming)

    def weights(self) -> dict[str, Array]:
        """As `ExportedTrainer.weights`."""
        shapes = {each.name: each.shape for each in self.training.parameters}
        read = self.execution.read
        return {
            name: read(tensor).reshape(shapes[name])
            for name, tensor in self.plan.parameters.items()
        }

    def memory(self) -> dict[str, int]:
        """As `Trainer.memory`: all buffers, which are there all the time, by category, and their sum.

        Of a CPU by category alone: there they are memory of this process.
        """
        sizes, device = self.execution.memory.bytes, self.execution.opened.device
        if device.kind == "cpu":
            return dict(sizes)
        whole = sum(sizes.values())
        shared = int(device.unified)
        return {
            **{AT_PEAK + name: size for name, size in sizes.items()},
            "allocated": whole, "reserved": whole, "shared": shared, "counted": 1,
        }  # fmt: skip
