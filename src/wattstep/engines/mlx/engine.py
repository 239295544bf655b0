"""The door of MLX."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Final

from wattstep.engines.exported.engine import ExportedEngine
from wattstep.engines.exported.folder import ExportedFolder
from wattstep.engines.exported.trainer import ExportedTrainer
from wattstep.engines.exported.updates import Update
from wattstep.errors import InvalidValueError, MissingPartError
from wattstep.schema.workload import Preparation, Specification


class MlxEngine(ExportedEngine):
    """MLX on the CPU.

    It tells no times of operations: nothing runs before a result is asked for, and then all of it,
    so that it has no tracer.
    """

    name = "mlx"
    module = "mlx"
    extra = "mlx"
    writes = "wattstep.engines.mlx.export:write"

    def load(self) -> None:
        """As `Engine.load`; mlx without its back end for the CPU is not enough.

        Raises:
            MissingPartError: It is not installed.
        """
        super().load()
        try:
            import_module("mlx.core")
        except ImportError as error:
            raise MissingPartError(
                f'mlx cannot run here ({error}): pip install "wattstep[mlx]"', id="missing-extra"
            ) from error

    def check(self, workload: Specification, preparation: Preparation, precision: str) -> None:
        """As `ExportedEngine.check`; refuses an optimizer that is not made here."""
        super().check(workload, preparation, precision)
        settings = preparation.optimizer or workload.optimizer
        if settings is not None:
            Update(self.name, settings.name, settings.options)

    def open(self, folder: ExportedFolder, threads: int | None) -> ExportedTrainer:
        """As `ExportedEngine.open`."""
        if threads not in (None, 1):
            raise InvalidValueError(
                f"--threads {threads}: mlx computes on one thread of the CPU",
                id="threads-not-for-engine",
            )
        from wattstep.engines.mlx.trainer import MlxTrainer

        return MlxTrainer(self, folder)

    def version(self) -> str:
        """As `Engine.version`."""
        return f"{self.name} {version('mlx')}"

    def threads(self) -> int | None:
        """As `Engine.threads`."""
        return 1


ENGINE: Final = MlxEngine()
