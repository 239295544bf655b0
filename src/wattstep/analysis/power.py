"""Energy over time: from counters, from sampled power, or from a model of the cores' activity that is marked as such."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wattstep.analysis.curves import Curve, add_curves
from wattstep.analysis.steps import FloatArray, IntArray
from wattstep.records.figure import Status


@dataclass(frozen=True, kw_only=True, eq=False)
class EnergySource:
    """Cumulative energy in J, with what stands behind it.

    Attributes:
        curve: Energy since its first sample.
        gauge: The samples of power (t_ns, W) that it integrates, or None for a counter.
        status: "measured" or "modelled".
        source: Sensor or model.
        note: What the reader must know, or None.
    """

    curve: Curve
    status: Status
    source: str
    gauge: tuple[IntArray, FloatArray] | None = None
    note: str | None = None


def summed(sources: Sequence[EnergySource]) -> EnergySource:
    """The sum of rails that together make a whole; a gap in one is a gap in the sum."""
    if len(sources) == 1:
        return sources[0]
    return EnergySource(
        curve=add_curves([source.curve for source in sources]),
        status=sources[0].status,
        source=" + ".join(source.source for source in sources),
    )


def modelled(busy: Sequence[Curve], model: Mapping[str, Any]) -> EnergySource:
    """Energy by a linear model of the cores: idle watts always, the rest while a core is busy.

    Args:
        busy: Busy time of each core in s.
        model: "idle_watts_a_core", "busy_watts_a_core", "name" and "source".
    """
    idle, full = float(model["idle_watts_a_core"]), float(model["busy_watts_a_core"])
    parts = []
    for curve in busy:
        elapsed = curve.covered_ns * 1e-9
        energy = idle * elapsed + (full - idle) * np.minimum(curve.total, elapsed + 0.01)
        parts.append(
            EnergySource(
                curve=Curve(t_ns=curve.t_ns, total=energy, unit="J", covered_ns=curve.covered_ns),
                status=Status.MODELLED,
                source="",
            )
        )
    whole = summed(parts)
    name = f"power model {model['name']}: {idle:g} to {full:g} W a core over busy time of cores"
    note = f"computed from the activity of the cores, not measured; {model['source']}"
    return EnergySource(curve=whole.curve, status=Status.MODELLED, source=name, note=note)
