"""Names of figures in somebody's logger: unit in the name, and never measured where it is not."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from wattstep.schema.figure import Figure, Status
from wattstep.schema.figures import Figures

ROOM: Final = "wattstep"
LONGEST: Final = 200  # characters of a name, 250 are the most that MLflow takes
_STRONG = (Status.COUNTED, Status.MEASURED, Status.ATTRIBUTED)
_UNITS = {"samples/s": "samples_per_s", "°C": "degC", "FLOP/s": "FLOP_per_s", "B/s": "B_per_s"}
_STRANGE = re.compile(r"[^A-Za-z0-9_.\-]+")


@dataclass(frozen=True, kw_only=True)
class Named:
    """The figures of a run as loggers take them.

    Attributes:
        numbers: Values and the ends of their intervals, in SI units.
        words: Status, source, and why a figure is missing.
    """

    numbers: dict[str, float] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)


def named(metrics: Figures) -> Named:
    """Names the metrics of a run, as `Run.metrics` gives them."""
    names = Named()
    for entry, key, figure in metrics.each():
        name = entry if key is None else f"{entry}/{_STRANGE.sub('_', key)[:LONGEST]}"
        names.words[f"{ROOM}/status/{name}"] = figure.status.value
        if figure.value is None:
            names.words[f"{ROOM}/reason/{name}"] = figure.reason or ""
            continue
        number = metric_name(name, figure)
        names.numbers[number] = float(figure.value)
        if figure.low is not None and figure.high is not None:
            names.numbers[f"{number}_low"] = float(figure.low)
            names.numbers[f"{number}_high"] = float(figure.high)
        if figure.source:
            names.words[f"{ROOM}/source/{name}"] = figure.source
    return names


def metric_name(name: str, figure: Figure) -> str:
    """For example "wattstep/energy_per_step_J", "wattstep/modelled/energy_per_step_J"."""
    room = ROOM if figure.status in _STRONG else f"{ROOM}/{figure.status.value}"
    unit = _UNITS.get(figure.unit, _STRANGE.sub("_", figure.unit))
    parts = name.split("/", 1)
    parts[0] = f"{parts[0]}_{unit}" if unit not in ("", "1") else parts[0]
    return f"{room}/{'/'.join(parts)}"
