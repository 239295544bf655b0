"""Exports of trainings for tests of engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wattstep import workloads
from wattstep.schema.engine import Engine
from wattstep.schema.workload import Preparation


def export(engine: Engine, place: Path, name: str, batch: int, **of: Any) -> Path:
    """An exported training, which the export has held against torch's in float64.

    Args:
        engine: For which.
        place: A folder in which it is made.
        name: Of the workload.
        batch: Samples of a step.
        of: Further fields of its preparation.
    """
    out = place / "export"
    engine.export(workloads.find(name), Preparation(batch_size=batch, **of), out)
    return out
