"""MNNs that train wrongly: one gradient two percent too large, one parameter cut off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import wattstep.engines.mnn.export as export
from wattstep.engines.mnn.engine import MnnEngine
from wattstep.engines.mnn.graph import TrainingGraph


class LargerGradient(TrainingGraph):
    def add_updates(self, *of: Any) -> None:
        factor = self._number(1.02)
        self._gradients["classifier.1.weight"] = self._gradients["classifier.1.weight"] * factor
        super().add_updates(*of)


class BrokenEngine(MnnEngine):
    writes = f"{__name__}:write"


def write(source: Any, folder: Path) -> Any:
    right = export.TrainingGraph
    export.TrainingGraph = LargerGradient  # type: ignore[misc]
    try:
        return export.write(source, folder)
    finally:
        export.TrainingGraph = right  # type: ignore[misc]
