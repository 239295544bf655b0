"""ONNX Runtime's training build as an engine."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from wattstep.engines.exported.engine import ExportedEngine
from wattstep.engines.exported.folder import ExportedFolder
from wattstep.engines.exported.trainer import ExportedTrainer
from wattstep.engines.onnxruntime.updates import options_of
from wattstep.errors import MissingPartError
from wattstep.schema.tracer import Code, Tracer
from wattstep.schema.workload import Preparation, Specification

PACKAGE: Final = "onnxruntime-training-cpu"
VERSION: Final = "1.19"  # the last, of 2024; what later ones would do nobody knows


class OnnxRuntimeEngine(ExportedEngine):
    """ONNX Runtime 1.19, the last with training, on the CPU."""

    name = "onnxruntime"
    module = "onnxruntime"
    extra = "onnxruntime"
    requires = ("onnxruntime-training-cpu==1.19.2",)
    writes = "wattstep.engines.onnxruntime.export:write"

    def load(self) -> None:
        """As `Engine.load`; of the builds of ONNX Runtime one alone trains.

        Raises:
            MissingPartError: It is not installed, or is another version.
        """
        super().load()
        try:
            present = version(PACKAGE)
        except PackageNotFoundError as error:
            raise MissingPartError(
                f"the onnxruntime that is installed does not train: {PACKAGE} does, in an environment "
                'without the other: pip install "wattstep[onnxruntime]"',
                id="missing-extra",
            ) from error
        if not present.startswith(VERSION + "."):
            raise MissingPartError(
                f"{PACKAGE} {present} is installed, {VERSION} is needed: "
                'pip install "wattstep[onnxruntime]"',
                id="other-engine-version",
            )
        import_module(self.module)

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
        return f"{PACKAGE} {version(PACKAGE)}"

    def tracer(self, code: Code) -> Tracer | None:
        """As `Engine.tracer`."""
        from wattstep.engines.onnxruntime.tracer import OnnxRuntimeTracer

        return OnnxRuntimeTracer(code)


ENGINE: Any = OnnxRuntimeEngine()
