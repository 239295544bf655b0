"""One run as a comparison sees it: a process of a configuration, with the figures that count and what mars them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wattstep.comparison.configuration import Configuration, configuration_of
from wattstep.comparison.drift import Canary, canary_of
from wattstep.records.figure import Figure, missing
from wattstep.records.run_info import RunInfo
from wattstep.run import Run, load
from wattstep.run.operations import RunBreakdown

UNITS = {
    "step_time": "s",
    "cpu_time_per_step": "s",
    "throughput": "samples/s",
    "energy_per_step": "J",
    "energy_per_sample": "J",
    "mean_power": "W",
    "peak_memory": "B",
}
ENERGY = ("energy_per_step", "energy_per_sample", "mean_power")
A_STEP = (
    "step_time",
    "cpu_time_per_step",
    "energy_per_step",
)  # of these, steps of other sizes tell nothing
Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Process:
    """A run.

    Attributes:
        path: Its folder.
        info: Its own description.
        configuration: What it was a run of.
        figures: By the names of `UNITS`.
        samples: Of a step; None: not known, or not the same in all steps.
        sensors: What its energy rests on, to be compared with other runs'; "" without energy.
        rounding: Relative error of its energy that comes from steps of the sensor: it stays where
            two runs share a sensor.
        temperature: Mean of the hottest sensor while it trained in °C, or None.
        canary: Of the machine before and after, or None.
        operations: Rows of a mean step; empty where `no_operations` says why.
        no_operations: Why there are none, or None.
        marred: Share of the steps that count that were "throttled", "disturbed".
        warnings: What else mars it, in words.
    """

    path: Path
    info: RunInfo
    configuration: Configuration
    figures: Mapping[str, Figure]
    samples: float | None
    sensors: str
    rounding: float
    temperature: float | None
    canary: Canary | None
    operations: Sequence[Row]
    no_operations: str | None
    marred: Mapping[str, float]
    warnings: tuple[str, ...]


def read_process(path: Path, *, operations: bool) -> Process:
    """Opens a run and works out what comparisons need.

    Args:
        path: Its folder.
        operations: Whether those are needed, too.

    Raises:
        DamagedRunError: It is no run or cannot be read.
    """
    run = load(path)
    breakdown = run.lean_breakdown(("energy",)) if operations else None
    return process_of(run, breakdown, run.headline())


def process_of(run: Run, breakdown: RunBreakdown | None, metrics: Mapping[str, Any]) -> Process:
    """What comparisons need of a run that is open.

    Args:
        run: The run.
        breakdown: Of it, with energy; None: without operations.
        metrics: Of it; no more than its headline is needed.
    """
    found = metrics
    rows, no_operations = ((), "not asked for") if breakdown is None else _operations(breakdown)
    sensors, rounding = _sensors(run, found["mean_power"])
    return Process(
        path=run.path,
        info=run.info,
        configuration=configuration_of(run.info),
        figures={name: found.get(name, missing(unit, "not known")) for name, unit in UNITS.items()},
        samples=_samples(run),
        sensors=sensors,
        rounding=rounding,
        temperature=_hottest(found.get("temperature", {})),
        canary=canary_of(run.info.canary),
        operations=rows,
        no_operations=no_operations,
        marred=_marred(run),
        warnings=tuple(_warnings(run)),
    )


def _operations(breakdown: RunBreakdown) -> tuple[Sequence[Row], str | None]:
    """Rows of a mean step, or why there are none."""
    if breakdown.reason is not None:
        return (), breakdown.reason
    if breakdown.operations_of == "recording":
        return (), "the trace marks no steps: times are of the whole recording"
    return breakdown.operations(), None


def _samples(run: Run) -> float | None:
    """Samples of a step, where all clean steps have as many."""
    steps = run.series.steps
    sizes = np.unique(steps.samples[steps.clean])
    return float(sizes[0]) if len(sizes) == 1 and math.isfinite(sizes[0]) else None


def _sensors(run: Run, power: Figure) -> tuple[str, float]:
    """What the energy rests on, and the relative error that its smallest step leaves."""
    energy = run.series.energy
    if isinstance(energy, str):
        return "", 0.0
    channels = sorted(f"{c.name} {c.source}" for c in run.series.power_channels())
    words = f"{channels}; calibration {run.info.calibration}; model {run.info.power_model}"
    watts = abs(power.value or 0.0)
    return words, energy.half_step_w / watts if watts else 0.0


def _hottest(temperatures: Mapping[str, Figure]) -> float | None:
    known = [figure.value for figure in temperatures.values() if figure.value is not None]
    return max(known, default=None)


def _warnings(run: Run) -> list[str]:
    found = []
    if run.info.state == "recording":
        found.append("is still being recorded")
    if run.info.state == "recovered":
        found.append("was never closed: it was recovered from its journals")
    if run.info.gaps:
        seconds = sum(until - since for since, until in run.info.gaps) * 1e-9
        found.append(f"has {len(run.info.gaps)} gaps in its samples, {seconds:.1f} s")
    return found + [f"lost its {part} before its end" for part in run.info.lost]


def _marred(run: Run) -> dict[str, float]:
    clean = run.series.steps.clean
    count, conditions = max(int(clean.sum()), 1), run.conditions
    states = {"throttled": conditions.throttled, "disturbed": conditions.disturbed}
    return {name: float(marked[clean].sum()) / count for name, marked in states.items()}
