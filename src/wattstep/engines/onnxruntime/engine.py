"""ONNX Runtime's training build as an engine."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Final

from wattstep.engines.exported.engine import ExportedEngine
from wattstep.schema.engine import is_installed
from wattstep.schema.tracer import Code, Tracer

FRONT_END: Final = "onnxruntime.training"


class OnnxRuntimeEngine(ExportedEngine):
    """ONNX Runtime 1.19, the last with training, on the CPU."""

    name = "onnxruntime"
    package = "onnxruntime-training-cpu"
    series = "1.19"  # the last, of 2024; what later ones would do nobody knows
    extra = "onnxruntime"
    requires = ("onnxruntime-training-cpu==1.19.2",)
    writes = "wattstep.engines.onnxruntime.export:write"
    trains = "wattstep.engines.onnxruntime.trainer:OnnxRuntimeTrainer"

    @property
    def how(self) -> str:
        """As `ExportedEngine.how`; one build of ONNX Runtime alone trains."""
        other = " in place of the onnxruntime that is there, which does not train"
        return super().how + (other if is_installed(self.module) else "")

    def import_framework(self) -> None:
        """As `Engine.import_framework`, without ONNX Runtime's front end for torch, which would import torch."""
        if self.module in sys.modules:
            return
        modules: dict[str, Any] = sys.modules
        modules[FRONT_END] = None  # as of a module that is not installed
        try:
            import_module(self.module)
        finally:
            del modules[FRONT_END]

    def tracer(self, code: Code) -> Tracer | None:
        """As `Engine.tracer`."""
        from wattstep.engines.onnxruntime.tracer import OnnxRuntimeTracer

        return OnnxRuntimeTracer(code)


ENGINE: Any = OnnxRuntimeEngine()
