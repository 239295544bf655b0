"""Trains a program of ExecuTorch: forward and backward passes in one call, then the update."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wattstep.engines.executorch.export import KERNELS, METHOD, PREFIX, PROGRAM, RUNTIME
from wattstep.engines.exported.folder import ExportedFolder
from wattstep.engines.exported.silence import silenced
from wattstep.engines.exported.trainer import JOINT, ExportedTrainer
from wattstep.engines.exported.updates import Update
from wattstep.errors import DamagedRunError, RecordingError
from wattstep.schema.engine import Engine, Mark

Array = npt.NDArray[Any]
# Events of steps that nobody traces are dropped after so many, for they stay in memory.
_KEPT: Final = 64


class Program:
    """A program in the runtime.

    Args:
        folder: The exported training.

    Attributes:
        kernels: What each kernel call is, in order.
        called: When the last step was called and when it returned, in ns.
        updates: Of each parameter its shape, and when its update in that step began and ended, in ns.
    """

    def __init__(self, folder: ExportedFolder) -> None:
        self._buffer = folder.file(PROGRAM).read_bytes()
        self.kernels: list[dict[str, Any]] = json.loads(
            folder.file(KERNELS).read_text(encoding="utf-8")
        )
        self.called = (0, 0)
        self.updates: list[tuple[tuple[int, ...], int, int]] = []
        self._events: bool | None = None
        self._last: tuple[tuple[Any, ...], list[Array]] | None = None  # inputs, weights
        self._load(events=False)

    def _load(self, *, events: bool) -> None:
        load = sys.modules[RUNTIME]._load_for_executorch_from_buffer
        try:
            self._module = load(self._buffer, enable_etdump=events)
        except RuntimeError as error:
            raise DamagedRunError(f"{PROGRAM}: {error}", id="damaged-export") from error
        self._events, self._unread = events, 0
        (self._gradients,), (self._weights,), self.names = (
            self._module.run_method(f"__et_training_{what}_{METHOD}", ())
            for what in ("gradients_index", "parameters_index", "fqn")
        )

    def tell_events(self) -> None:
        """From now on the runtime keeps events of its kernels.

        It has to load the program anew for that, which begins with the initial weights: where steps were
        made, theirs are put in their place, which a call without an update shows.
        """
        if self._events:
            return
        last = self._last
        kept = [each.copy() for each in last[1]] if last else []
        self._load(events=True)
        if last:
            _, _, weights = self.run(last[0])
            for weight, value in zip(weights, kept, strict=True):
                weight[...] = value

    def events(self, path: Path) -> None:
        """Writes the events since the last time into a file; none are written before a step was made.

        The runtime crashes where it is asked for events of nothing.
        """
        if not self._unread:
            return
        self._module.write_etdump_result_to_file(str(path))
        self._unread = 0

    def run(self, inputs: tuple[Any, ...]) -> tuple[float, list[Array], list[Array]]:
        """Loss, gradients and weights, the latter two as they lie in the runtime's memory."""
        begin = time.perf_counter_ns()
        try:
            with (
                silenced() if self.called == (0, 0) else nullcontext()
            ):  # of the processor it tells
                outputs = self._module.run_method(METHOD, inputs, clone_outputs=False)
        except RuntimeError as error:
            raise RecordingError(
                f"executorch cannot run the program: {error}", id="engine-failed"
            ) from error
        self.called = (begin, time.perf_counter_ns())
        self._unread += 1
        if self._events and self._unread >= _KEPT:
            self.events(Path(os.devnull))
        arrays = [each.numpy() for each in outputs]
        weights = arrays[self._weights :]
        self._last = inputs, weights
        return float(arrays[0]), arrays[self._gradients : self._weights], weights


class ExecuTorchTrainer(ExportedTrainer):
    """A training on ExecuTorch, whose optimizer is ours: numpy on the weights in its memory.

    Args:
        engine: ExecuTorch.
        folder: The exported training.
        threads: Of an operation: 1.
    """

    def __init__(self, engine: Engine, folder: ExportedFolder, threads: int) -> None:
        super().__init__(engine, folder)
        self.model = self._program = Program(folder)
        optimizer = self.training.optimizer
        self._update = Update(engine.name, optimizer.name, optimizer.options, optimizer.rate)
        self._decay = {each.name: each.decay for each in self.training.parameters}
        self._values = {each.name: folder.weights()[each.name] for each in self.training.parameters}
        self._states: dict[str, dict[str, Array]] = {}
        self._updates = 0

    def take(self, batch: Mapping[str, Array], mark: Mark) -> float:
        """As `ExportedTrainer.take`."""
        torch: Any = sys.modules["torch"]  # which the runtime has loaded
        inputs = tuple(torch.from_numpy(value) for value in batch.values())
        mark(JOINT)
        loss, gradients, weights = self._program.run(inputs)
        mark("optimizer")
        self._updates += 1
        scalars = self._update.scalars(self._updates)
        updates = []
        begin = time.perf_counter_ns()
        for full, gradient, weight in zip(self._program.names, gradients, weights, strict=True):
            name = full.removeprefix(PREFIX)
            if name not in self._states:
                self._states[name] = {each: np.zeros_like(weight) for each in self._update.states}
            weight[...] = self._update(
                weight, gradient, self._states[name], self._decay[name], scalars, np.sqrt
            )
            self._values[name] = weight
            end = time.perf_counter_ns()
            updates.append((weight.shape, begin, end))
            begin = end
        self._program.updates = updates
        return loss

    def weights(self) -> dict[str, Array]:
        """As `ExportedTrainer.weights`."""
        return {name: np.array(value) for name, value in self._values.items()}
