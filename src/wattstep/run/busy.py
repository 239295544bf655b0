"""What the power of an imported log tells of its busy stretch, whether steps were found in it or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from wattstep.records.figure import Figure, Status, missing
from wattstep.run.energy import IDLE, idle_power, power_over, recorded
from wattstep.run.imported import is_span
from wattstep.run.series import Series

BUSY = "busy stretch"
METHOD = "from the first to the last sample of high power; the ends are known to a sample"


def busy_figures(series: Series) -> dict[str, Any]:
    """`busy_time`, `busy_power`, `busy_energy`, and without steps `idle_power`, too.

    Nothing where no idle level showed: the recording as a whole is what there is.
    """
    found = series.imported.power_steps
    span: Any = found.get("busy_ns")
    energy = series.energy_by_its_clock
    if not found.get("idle") or not is_span(span) or isinstance(energy, str):
        return {}
    begin, end = span
    spacing_s = float(np.median(np.diff(energy.curve.t_ns))) * 1e-9
    length_s = (end - begin) * 1e-9
    gained = recorded(energy, (begin, end))
    figures: dict[str, Any] = {
        "busy_time": Figure(
            value=length_s, low=length_s - 2 * spacing_s, high=length_s + 2 * spacing_s, unit="s",
            confidence=0.95, status=Status.MEASURED, source=energy.source, method=METHOD,
        ),
        "busy_power": power_over(energy, np.array([[begin, end]], np.int64), BUSY),
        "busy_energy": gained if gained.missing else replace(gained, method=f"over the {BUSY}"),
    }  # fmt: skip
    if series.steps.absent:
        rests = series.steps.rest_ns
        figures["idle_power"] = {
            when: idle_power(series, when, rests[name])
            if name in rests
            else missing("W", f"the recording shows no idle stretch {when} the busy one")
            for when, name in IDLE.items()
        }
    return figures
