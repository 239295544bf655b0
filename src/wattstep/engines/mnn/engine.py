"""The door of MNN: says what the engine can without loading it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from wattstep.engines.exported.engine import ExportedEngine
from wattstep.engines.exported.folder import ExportedFolder
from wattstep.engines.exported.trainer import ExportedTrainer
from wattstep.schema.extras import require
from wattstep.schema.tracer import Code, Tracer

if TYPE_CHECKING:
    from wattstep.engines.mnn.trainer import MnnTrainer

MOST_THREADS: Final = 4  # MNN's own choice where nobody says otherwise


class MnnEngine(ExportedEngine):
    """Trains one graph of forward pass, backward pass and update with MNN, on the CPU.

    Attributes:
        trainer: Of this process, the one that was opened last; None: none was.
    """

    name = "mnn"
    module = "MNN"
    package = "MNN"
    series = "3.6 or newer"  # whose gradients the conformance tests were made with
    extra = "mnn"
    requires = ("mnn>=3.6",)
    writes = "wattstep.engines.mnn.export:write"
    trains = "wattstep.engines.mnn.trainer:MnnTrainer"
    trainer: MnnTrainer | None = None

    def fits(self, present: str) -> bool:
        """As `ExportedEngine.fits`."""
        return [int(part) for part in present.split(".")[:2]] >= [3, 6]

    def import_framework(self) -> None:
        """As `Engine.import_framework`, without what it prints."""
        require("wattstep.engines.mnn.library").load_mnn()

    def bytes_of_tensors(self, absent: Callable[[int, int], int]) -> int:
        """As `Engine.bytes_of_tensors`: all that MNN holds for the graph."""
        return 0 if self.trainer is None else self.trainer.session_bytes

    def usual_threads(self, one_a_core: int) -> int:
        """As `Engine.usual_threads`."""
        return min(one_a_core, MOST_THREADS)

    def open(self, folder: ExportedFolder, threads: int | None) -> ExportedTrainer:
        """As `ExportedEngine.open`."""
        trainer: MnnTrainer = super().open(folder, threads)  # type: ignore[assignment]
        self.trainer = trainer
        return trainer

    def tracer(self, code: Code) -> Tracer:
        """As `Engine.tracer`."""
        from wattstep.engines.mnn.tracer import MnnTracer

        return MnnTracer(code, lambda: self.trainer)


ENGINE = MnnEngine()
