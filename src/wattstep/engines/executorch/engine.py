"""The door of ExecuTorch."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Final

from wattstep.engines.executorch.export import RUNTIME
from wattstep.engines.exported.engine import ExportedEngine
from wattstep.engines.exported.silence import silenced
from wattstep.schema.tracer import Code, Tracer


class ExecuTorchEngine(ExportedEngine):
    """ExecuTorch 1.5: forward and backward passes in one program, the optimizer outside it.

    Its Python runtime is linked against torch's libraries, so that torch is in the training process.
    Its training API is experimental, and what the next version reads is not known.
    """

    name = "executorch"
    package = "executorch"
    series = "1.5"
    extra = "executorch"
    writes = "wattstep.engines.executorch.export:write"
    trains = "wattstep.engines.executorch.trainer:ExecuTorchTrainer"
    one_thread = "executorch's portable kernels run on one thread"

    @property
    def how(self) -> str:
        """As `ExportedEngine.how`."""
        return f"{super().how}, then pip install --no-deps executorch==1.5.1"

    def import_framework(self) -> None:
        """As `Engine.import_framework`, without what it prints of the processor."""
        with silenced(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that its interface is experimental
            import_module(RUNTIME)

    def tracer(self, code: Code) -> Tracer | None:
        """As `Engine.tracer`."""
        from wattstep.engines.executorch.tracer import ExecuTorchTracer

        return ExecuTorchTracer(code)


ENGINE: Final = ExecuTorchEngine()
