"""Idle and loaded power of this machine, and how warm its power makes it, where sensors tell."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from wattstep.live.meters import chosen_meters
from wattstep.record.sensors import probe_all
from wattstep.run import load
from wattstep.schema.channel import Absent, Present
from wattstep.schema.figure import Figure
from wattstep.train.child.local import train_in_child
from wattstep.train.settings import TrainingSettings

WORKLOAD: Final = "resnet8"
BATCH: Final = 16
IDLE: Final = "20s"
LOADED_S: Final = 60.0  # with all cores; a thermal step as well
NO_METER: Final = (
    "no sensor here tells the power of the whole machine, so that no training was made for it: wattstep doctor "
    "says what was looked for"
)

PowerFigures = dict[str, Any]  # JSON, as a calibration keeps it until it has ended


def measure_power(root: Path = Path("/")) -> PowerFigures:
    """Figures as documents by name ("idle", "full", "resistance", "time_constant"), and why others are not there ("reasons").

    Where no sensor tells power there is a "reason" alone, and nothing is trained.

    Args:
        root: Of the files of this machine's sensors.
    """
    if not has_meter(probe_all(root, os.getpid()).values()):
        return {"reason": NO_METER}
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingSettings(
            workload=WORKLOAD, batch_size=BATCH, seconds=LOADED_S, idle=IDLE, trace="none",
            out=str(Path(folder, "power")),
        )  # fmt: skip
        run = train_in_child(settings, lambda progress: None, lambda warning: None)
        return described(load(run).metrics)


def has_meter(sensors: Iterable[Present | Absent]) -> bool:
    """True if one of these tells the power or the energy of the whole machine."""
    found = [each for each in sensors if isinstance(each, Present)]
    return bool(chosen_meters([c for each in found for read in each.reads for c in read.channels]))


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
