"""The door of MLX."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from wattstep.engines.exported.engine import ExportedEngine


class MlxEngine(ExportedEngine):
    """MLX on the CPU.

    It tells no times of operations: nothing runs before a result is asked for, and then all of it,
    so that it has no tracer.
    """

    name = "mlx"
    package = "mlx"
    extra = "mlx"
    writes = "wattstep.engines.mlx.export:write"
    trains = "wattstep.engines.mlx.trainer:MlxTrainer"
    one_thread = "mlx computes on one thread of the CPU"

    def import_framework(self) -> None:
        """As `Engine.import_framework`: mlx without its back end for the CPU is not enough."""
        import_module("mlx.core")


ENGINE: Final = MlxEngine()
