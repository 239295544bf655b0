"""Busy stretch of an imported log by its power, whether steps were found in it or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from wattstep.attribution.step_energy import power_over
from wattstep.recorded.imported import is_span
from wattstep.recorded.power import EnergySource
from wattstep.recorded.series import Series
from wattstep.run.energy import IDLE, idle_power, recorded
from wattstep.schema.figure import Figure, Missing, missing

BUSY = "busy stretch"
METHOD = "from the first to the last sample beyond idle power; its ends by the samples around them"
UNKNOWN_NS = 500_000_000  # what its ends are known to in runs that do not say: bins of that length


def busy_figures(series: Series) -> dict[str, Any]:
    """`busy_time`, `busy_power`, `busy_energy`, and without steps `idle_power`, too.

    Nothing where no idle level showed: the recording as a whole is what there is.
    """
    power_steps = series.imported.power_steps
    energy = series.energy_by_its_clock
    ends = _ends(power_steps)
    if not power_steps.get("idle") or ends is None or isinstance(energy, Missing):
        return {}
    begin, end = ends
    gained, least, most = (
        recorded(energy, span)
        for span in ((begin[1], end[1]), (begin[2], end[0]), (begin[0], end[2]))
    )
    if gained.value is not None:
        off = _sampling_error(energy, begin[1], end[1])
        gained = replace(
            gained, low=max(_first(least.low, least.value, gained.value) - off, 0.0),
            high=_first(most.high, most.value, gained.value) + off, confidence=0.95,
            method=f"over the {BUSY}",
        )  # fmt: skip
    figures: dict[str, Any] = {
        "busy_time": Figure(
            value=(end[1] - begin[1]) * 1e-9, low=max(end[0] - begin[2], 0) * 1e-9,
            high=(end[2] - begin[0]) * 1e-9, unit="s", confidence=0.95, status=energy.status,
            source=energy.source, method=METHOD,
        ),
        "busy_power": power_over(energy, np.array([[begin[1], end[1]]], np.int64), BUSY),
        "busy_energy": gained,
    }  # fmt: skip
    if series.steps.absent:
        spans = series.steps.rest_ns
        figures["idle_power"] = {
            when: idle_power(series, when, spans[name])
            if name in spans
            else missing("W", f"the recording shows no idle stretch {when} the busy one")
            for when, name in IDLE.items()
        }
    return figures


def _first(*values: float | None) -> float:
    """The first that is known."""
    return next(value for value in values if value is not None)


def _sampling_error(energy: EnergySource, begin: int, end: int) -> float:
    """Half width in J of the 95 % interval of an integral over samples.

    Between two samples the power may pass from one to the other at any time: the error of each is
    uniform over the difference of their gains.
    """
    inside = (energy.curve.t_ns >= begin) & (energy.curve.t_ns <= end)
    gains = np.diff(energy.curve.total[inside])
    return float(1.96 * np.sqrt(np.nansum(np.diff(gains) ** 2) / 12))


def _ends(power_steps: Mapping[str, Any]) -> tuple[list[int], list[int]] | None:
    """Earliest, likely and latest times in ns of the stretch's begin and end."""
    span: Any = power_steps.get("busy_ns")
    if not is_span(span):
        return None
    begin, end = (
        [at - UNKNOWN_NS, at, at + UNKNOWN_NS] if edge is None else edge
        for edge, at in (
            (_edge(power_steps.get("begin_ns")), span[0]),
            (_edge(power_steps.get("end_ns")), span[1]),
        )
    )
    return (begin, end) if begin[2] < end[0] else None


def _edge(times: Any) -> list[int] | None:
    """Earliest, likely and latest time of an end as `run.json` has it, where it does."""
    if not isinstance(times, (list, tuple)) or len(times) != 3 or not is_span((times[0], times[2])):
        return None
    inside = isinstance(times[1], int) and times[0] <= times[1] <= times[2]
    return list(times) if inside else None
