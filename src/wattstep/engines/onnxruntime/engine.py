"""ONNX Runtime's training build as an engine."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from wattstep.engines.exported.engine import ExportedEngine
from wattstep.engines.exported.folder import ExportedFolder
from wattstep.engines.exported.trainer import ExportedTrainer
from wattstep.engines.onnxruntime.updates import options_of
from wattstep.errors import MissingPartError
from wattstep.schema.engine import is_installed
from wattstep.schema.tracer import Code, Tracer
from wattstep.schema.workload import Preparation, Specification

PACKAGE: Final = "onnxruntime-training-cpu"
FRONT_END: Final = "onnxruntime.training"
VERSION: Final = "1.19"  # the last, of 2024; what later ones would do nobody knows


class OnnxRuntimeEngine(ExportedEngine):
    """ONNX Runtime 1.19, the last with training, on the CPU."""

    name = "onnxruntime"
    module = "onnxruntime"
    extra = "onnxruntime"
    requires = ("onnxruntime-training-cpu==1.19.2",)
    writes = "wattstep.engines.onnxruntime.export:write"

    def missing(self) -> str | None:
        """As `Engine.missing`; one build of ONNX Runtime alone trains."""
        how = f'pip install "wattstep[{self.extra}]"'
        try:
            present = version(PACKAGE)
        except PackageNotFoundError:
            other = " (the onnxruntime that is installed does not train)"
            return f"{PACKAGE} is not installed{other if is_installed(self.module) else ''}: {how}"
        if not present.startswith(VERSION + "."):
            return f"{PACKAGE} {present} is installed, {VERSION} is needed: {how}"
        return None

    def load(self) -> None:
        """As `Engine.load`, without ONNX Runtime's front end for torch, which would import torch."""
        if (reason := self.missing()) is not None:
            raise MissingPartError(reason, id="missing-framework")
        if self.module in sys.modules:
            return
        modules: dict[str, Any] = sys.modules
        modules[FRONT_END] = None  # as of a module that is not installed
        try:
            import_module(self.module)
        finally:
            del modules[FRONT_END]

    def check(self, workload: Specification, preparation: Preparation, precision: str) -> None:
        """As `ExportedEngine.check`; refuses an optimizer that is not made here."""
        super().check(workload, preparation, precision)
        settings = preparation.optimizer or workload.optimizer
        if settings is not None:
            options_of(settings.name, settings.options)

    def open(self, folder: ExportedFolder, threads: int | None) -> ExportedTrainer:
        """As `ExportedEngine.open`."""
        from wattstep.engines.onnxruntime.trainer import OnnxRuntimeTrainer

        return OnnxRuntimeTrainer(self, folder, threads)

    def version(self) -> str:
        """As `Engine.version`."""
        return f"{self.name} {version(PACKAGE)}"

    def tracer(self, code: Code) -> Tracer | None:
        """As `Engine.tracer`."""
        from wattstep.engines.onnxruntime.tracer import OnnxRuntimeTracer

        return OnnxRuntimeTracer(code)


ENGINE: Any = OnnxRuntimeEngine()
