"""The door of ExecuTorch."""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from wattstep.engines.executorch.export import RUNTIME
from wattstep.engines.exported.engine import ExportedEngine
from wattstep.engines.exported.folder import ExportedFolder
from wattstep.engines.exported.trainer import ExportedTrainer
from wattstep.engines.exported.updates import Update
from wattstep.errors import InvalidValueError, MissingPartError
from wattstep.schema.tracer import Code, Tracer
from wattstep.schema.workload import Preparation, Specification

VERSION: Final = "1.5."  # whose training API is experimental, and whose files the next may not read


class ExecuTorchEngine(ExportedEngine):
    """ExecuTorch 1.5: forward and backward passes in one program, the optimizer outside it.

    Its Python runtime is linked against torch's libraries, so that torch is in the training process.
    """

    name = "executorch"
    module = "executorch"
    extra = "executorch"
    writes = "wattstep.engines.executorch.export:write"

    def load(self) -> None:
        """As `Engine.load`.

        Raises:
            MissingPartError: It is not installed, or another version is, or a library of its.
        """
        install = 'pip install "wattstep[executorch]", then pip install --no-deps executorch==1.5.1'
        try:
            present = version("executorch")
            if present.startswith(VERSION):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # that its interface is experimental
                    import_module(RUNTIME)
                return
        except (ImportError, PackageNotFoundError) as error:
            raise MissingPartError(
                f"executorch is not installed, or a library of its ({error}): {install}",
                id="missing-extra",
            ) from error
        raise MissingPartError(
            f"executorch {present} is installed, {VERSION}* is needed: {install}",
            id="other-engine-version",
        )

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
                f"--threads {threads}: executorch's portable kernels run on one thread",
                id="threads-not-for-engine",
            )
        from wattstep.engines.executorch.trainer import ExecuTorchTrainer

        return ExecuTorchTrainer(self, folder)

    def version(self) -> str:
        """As `Engine.version`."""
        return f"{self.name} {version('executorch')}"

    def threads(self) -> int | None:
        """As `Engine.threads`."""
        return 1

    def tracer(self, code: Code) -> Tracer | None:
        """As `Engine.tracer`."""
        from wattstep.engines.executorch.tracer import ExecuTorchTracer

        return ExecuTorchTracer(code)


ENGINE: Final = ExecuTorchEngine()
