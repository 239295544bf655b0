"""Idle and loaded power of this machine, and how warm its power makes it, where sensors tell."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from wattstep.run import load
from wattstep.schema.figure import Figure
from wattstep.train.child.local import train_in_child
from wattstep.train.settings import TrainingSettings

WORKLOAD: Final = "resnet8"
BATCH: Final = 16
IDLE: Final = "20s"
LOADED_S: Final = 60.0  # with all cores; a thermal step as well


PowerFigures = dict[str, Any]  # JSON, as a calibration keeps it until it has ended


def measure_power() -> PowerFigures:
    """Figures as documents by name ("idle", "full", "resistance", "time_constant"), and why others are not there ("reasons")."""
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingSettings(
            workload=WORKLOAD, batch_size=BATCH, seconds=LOADED_S, idle=IDLE, trace="none",
            out=str(Path(folder, "power")),
        )  # fmt: skip
        run = train_in_child(settings, lambda progress: None, lambda warning: None)
        return described(load(run).metrics)


def described(metrics: Mapping[str, Any]) -> PowerFigures:
    """As `measure_power`, of a run's metrics."""
    idle = metrics.get("idle_power")
    wanted = {
        "idle": idle.get("before") if isinstance(idle, Mapping) else idle,
        "full": metrics.get("mean_power"),
        "resistance": metrics.get("thermal_resistance"),
        "time_constant": metrics.get("thermal_time_constant"),
    }
    figures: PowerFigures = {"reasons": {}}
    for name, figure in wanted.items():
        if isinstance(figure, Figure) and figure.value is not None and figure.value > 0:
            figures[name] = figure.to_dict()
        else:
            reason = figure.reason if isinstance(figure, Figure) else None
            figures["reasons"][name] = reason or "no sensor tells"
    return figures
