"""The door of MNN: says what the engine can without loading it."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from wattstep.engines.exported.engine import ExportedEngine
from wattstep.engines.exported.folder import ExportedFolder
from wattstep.engines.exported.trainer import ExportedTrainer
from wattstep.errors import MissingPartError
from wattstep.schema.extras import require
from wattstep.schema.tracer import Code, Tracer

if TYPE_CHECKING:
    from wattstep.engines.mnn.trainer import MnnTrainer

LEAST: Final = "3.6"  # whose gradients the conformance tests were made with
MOST_THREADS: Final = 4  # MNN's own choice where nobody says otherwise


class MnnEngine(ExportedEngine):
    """Trains one graph of forward pass, backward pass and update with MNN, on the CPU.

    Attributes:
        trainer: Of this process, the one that was opened last; None: none was.
    """

    name = "mnn"
    module = "MNN"
    extra = "mnn"
    requires = ("mnn>=3.6",)
    writes = "wattstep.engines.mnn.export:write"
    trainer: MnnTrainer | None = None

    def missing(self) -> str | None:
        """As `Engine.missing`; another version may train otherwise, or not at all."""
        if (reason := super().missing()) is not None:
            return reason
        there = version("MNN")
        if [int(part) for part in there.split(".")[:2]] < [int(part) for part in LEAST.split(".")]:
            return (
                f'mnn {there} is too old: pip install "wattstep[{self.extra}]" (at least {LEAST})'
            )
        return None

    def load(self) -> None:
        """As `Engine.load`."""
        if (reason := self.missing()) is not None:
            raise MissingPartError(reason, id="missing-extra")
        require("wattstep.engines.mnn.library").load_mnn()

    def version(self) -> str:
        """As `Engine.version`."""
        return f"{self.name} {version('MNN')}"

    def bytes_of_tensors(self) -> int:
        """As `Engine.bytes_of_tensors`: all that MNN holds for the graph."""
        return 0 if self.trainer is None else self.trainer.session_bytes

    def open(self, folder: ExportedFolder, threads: int | None) -> ExportedTrainer:
        """As `ExportedEngine.open`."""
        chosen = min(len(os.sched_getaffinity(0)), MOST_THREADS) if threads is None else threads
        trainer: MnnTrainer = require("wattstep.engines.mnn.trainer").MnnTrainer(
            self, folder, chosen
        )
        self.trainer = trainer
        return trainer

    def tracer(self, code: Code) -> Tracer:
        """As `Engine.tracer`."""
        from wattstep.engines.mnn.tracer import MnnTracer

        return MnnTracer(code, lambda: self.trainer)


ENGINE = MnnEngine()
