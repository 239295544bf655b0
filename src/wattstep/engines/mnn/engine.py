"""The door of MNN: says what the engine can without loading it."""

from __future__ import annotations

import os

from wattstep.engines.exported.engine import ExportedEngine
from wattstep.engines.exported.folder import ExportedFolder
from wattstep.engines.exported.trainer import ExportedTrainer
from wattstep.schema.extras import require

MOST_THREADS = 4  # MNN's own choice where nobody says otherwise


class MnnEngine(ExportedEngine):
    """Trains one graph of forward pass, backward pass and update with MNN, on the CPU."""

    name = "mnn"
    module = "MNN"
    extra = "mnn"
    requires = ("mnn>=3.6",)
    writes = "wattstep.engines.mnn.export:write"

    def version(self) -> str:
        """As `Engine.version`."""
        from wattstep.engines.mnn.library import load_mnn

        return f"MNN {load_mnn().version()}"

    def open(self, folder: ExportedFolder, threads: int | None) -> ExportedTrainer:
        """As `ExportedEngine.open`."""
        chosen = min(len(os.sched_getaffinity(0)), MOST_THREADS) if threads is None else threads
        trainer: ExportedTrainer = require("wattstep.engines.mnn.trainer").MnnTrainer(
            self, folder, chosen
        )
        return trainer


ENGINE = MnnEngine()
