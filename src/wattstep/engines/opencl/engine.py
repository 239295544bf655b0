"""The door of OpenCL."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, cast

from wattstep.engines.exported.engine import ExportedEngine
from wattstep.engines.exported.folder import ExportedFolder
from wattstep.engines.exported.trainer import ExportedTrainer
from wattstep.errors import InvalidValueError, WattstepError
from wattstep.schema.engine import Trainer
from wattstep.schema.extras import require
from wattstep.schema.opencl import FUSED, MODES
from wattstep.schema.run_documents import GpuFacts
from wattstep.schema.tracer import Code, Tracer
from wattstep.schema.workload import Preparation, Specification, kind_of

if TYPE_CHECKING:
    from wattstep.engines.opencl.trainer import OpenClTrainer

PROCESSOR: Final = "opencl"
POCL_THREADS: Final = "POCL_MAX_PTHREAD_COUNT"


class OpenClEngine(ExportedEngine):
    """Kernels of our own on an OpenCL device: a GPU where there is one, else the CPU through PoCL.

    Attributes:
        trainer: Of this process, the one that was opened last; None: none was.
    """

    name = "opencl"
    package = "pyopencl"
    module = "pyopencl"
    extra = "opencl"
    processors = (PROCESSOR,)
    fewer_threads = f"{POCL_THREADS}={{}}"
    options = ("optimizer", "opencl_mode")
    writes = "wattstep.engines.opencl.export:write"
    trains = "wattstep.engines.opencl.trainer:OpenClTrainer"
    trainer: OpenClTrainer | None = None
    _device: str | None = None  # of the training that is prepared
    _mode: str = FUSED

    def prepare(
        self,
        workload: Specification,
        preparation: Preparation,
        *,
        threads: int | None = None,
        processor: str = PROCESSOR,
        precision: str = "fp32",
    ) -> Trainer:
        """As `Engine.prepare`."""
        if threads is not None:
            raise InvalidValueError(
                f"--threads {threads}: an OpenCL device has the threads that its driver gives it: leave it "
                f"out; PoCL takes {POCL_THREADS}={threads} from the environment",
                id="threads-not-for-engine",
            )
        mode = preparation.opencl_mode or FUSED
        if mode not in MODES:
            raise InvalidValueError(
                f"--opencl-mode {mode}: there are {', '.join(MODES)}", id="unknown-opencl-mode"
            )
        self._device, self._mode = _which(processor), mode
        return super().prepare(
            workload, preparation, threads=None, processor=processor, precision=precision
        )

    def open(self, folder: ExportedFolder, threads: int | None) -> ExportedTrainer:
        """As `ExportedEngine.open`."""
        module, _, name = self.trains.partition(":")
        trainer = getattr(require(module), name)
        device = require("wattstep.opencl.device").choose(self._device)
        self.trainer = opened = trainer(self, folder, device, self._mode)
        return cast("ExportedTrainer", opened)

    def usual_threads(self, one_a_core: int) -> int:
        """As `Engine.usual_threads`: those of PoCL."""
        asked = os.environ.get(POCL_THREADS, "")
        return min(one_a_core, int(asked)) if asked.isdigit() and int(asked) else one_a_core

    def lacking(self, processor: str) -> str | None:
        """As `Engine.lacking`."""
        if kind_of(processor) != PROCESSOR:
            return super().lacking(processor)
        if (reason := self.missing()) is not None:
            return reason
        try:
            require("wattstep.opencl.device").choose(_which(processor))
        except WattstepError as error:
            return str(error)
        return None

    def device_facts(self, processor: str) -> GpuFacts:
        """As `Engine.device_facts`."""
        device = require("wattstep.opencl.device").choose(_which(processor))
        facts: Mapping[str, object] = {
            "name": device.name, "number": device.number, "kind": device.kind, "memory": device.memory,
            "multiprocessors": device.units, "shares_memory": device.unified, "driver": device.driver,
        }  # fmt: skip
        return cast(GpuFacts, facts)

    def bytes_of_tensors(self, absent: Callable[[int, int], int]) -> int:
        """As `Engine.bytes_of_tensors`: all buffers."""
        return 0 if self.trainer is None else sum(self.trainer.execution.memory.bytes.values())

    def tracer(self, code: Code) -> Tracer:
        """As `Engine.tracer`."""
        from wattstep.engines.opencl.tracer import OpenClTracer

        return OpenClTracer(code, lambda: self.trainer)


def _which(processor: str) -> str | None:
    """Number of a device among those of OpenCL; None: not said."""
    return processor.partition(":")[2] or None


ENGINE: Final = OpenClEngine()
