"""Observation 7: power repeats from step to step.

As observation 2, of power: the paper sees the power of GPU, CPU and memory follow the same course
in every step. What must hold for each configuration: the correlation of one step's course of power
with another's (`analysis/repeatability.py`), the level of the step apart, has its interval above
0.5, and power moves by more than 5 % of its mean (root mean square; what moves less has no pattern,
and cannot be tested); this of the device as a whole and of each part whose rail is told apart and
can be seen. It does not hold where such a power has an interval below 0.5, and still does when all that differs from sample to sample is taken as noise of the
sensor; nor is that said of runs that other work disturbed in half of their steps or more. What a
sensor averages over must be no longer than a fifth of a step. Power that a model
computed from the cores' activity repeats as that does, and is no test of it; recorded sensors do
not follow the steps beside which they are played.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from wattstep.analysis.power import EnergySource, summed
from wattstep.observations.concluding import conclude
from wattstep.observations.configurations import Configuration, configurations_of
from wattstep.observations.evidence import Evidence
from wattstep.observations.groups import NO_RUNS
from wattstep.observations.observation import (
    About,
    Case,
    Column,
    Judged,
    Observation,
)
from wattstep.observations.repeating import (
    ALIKE,
    STEADY,
    Sampled,
    of_counter,
    of_gauge,
    parts_of,
    prefixed,
    too_short,
)
from wattstep.observations.sensors import (
    CIRCULAR,
    NOT_FOLLOWING,
    computed_power,
    replayed,
    without_gpus,
)
from wattstep.observations.wording import across, in_how_many, plain_number
from wattstep.records.figure import Figure, missing
from wattstep.run import Run

GPU = "gpu_utilization"
PARTS = {"gpu": "the GPU", "cpu": "the CPU", "memory": "memory"}
ABOUT = About(
    number=7,
    title="Power repeats from step to step",
    claim="The power of the device and of its parts follows the same course in every step.",
    criterion="The correlation of one step's course of power with another's has its 95 % interval "
    f"above {ALIKE}, and power moves by more than {100 * STEADY:.0f} % of its mean (what moves less is "
    "not tested), in every configuration; it does not hold where the interval lies below in any, noise of the sensor "
    "allowed for (confidence raised for the number of comparisons).",
    metrics=("mean_power", "energy_by_rail"),
    columns=(
        Column("total", "all"),
        Column("gpu", "GPU"),
        Column("cpu", "CPU"),
        Column("memory", "memory"),
    ),
    published=(),
)


def measure(run: Run) -> Mapping[str, Figure]:
    """`alike`, `alike_at_most` and `movement` of the power of all, and of each part's rails."""
    series = run.series
    found: dict[str, Figure] = {}
    total = series.energy
    if isinstance(total, str):
        found["reason"] = missing("1", total)
    else:
        found |= _of(run, "total", total)
    for part in PARTS:
        rails = [
            source
            for name, source in series.rails.items()
            if series.channels[name].domain == part
            and series.channels[name].role in ("power_part", "energy_part")
        ]
        if rails:
            found |= _of(run, part, summed(rails))
    return found


def _of(run: Run, name: str, source: EnergySource) -> dict[str, Figure]:
    """Of one source, its power relative to the mean over the recording."""
    curve, status = source.curve, source.status
    seconds = float(curve.covered_ns[-1]) * 1e-9 if len(curve.t_ns) else 0.0
    mean = float(curve.total[-1]) / seconds if seconds > 0 else 0.0
    if not mean > 0:
        return prefixed(name, {"alike": missing("1", f"{source.source}: it has no mean power")})
    if reason := too_short(run, source.shortest[0], "the power sensor"):
        return prefixed(name, {"alike": missing("1", reason)})
    relative = replace(curve, total=curve.total / mean)
    about = Sampled(source=source.source, status=status)
    if source.gauge is not None:
        t_ns, power = source.gauge
        return prefixed(name, of_gauge(run, t_ns, power / mean, relative, about))
    spacing = float(np.median(np.diff(curve.t_ns))) * 1e-9
    return prefixed(name, of_counter(run, relative, spacing, about))


def observe(evidence: Evidence) -> Observation:
    """The verdict on these runs."""
    cases = [_case(each) for each in configurations_of(evidence.runs)]
    return conclude(ABOUT, cases, _sentences, NO_RUNS)


def _case(configuration: Configuration) -> Case:
    runs = configuration.runs
    if replayed(runs):
        return Case(label=configuration.label, runs=runs, reason=NOT_FOLLOWING)
    if computed_power(runs):
        return Case(label=configuration.label, runs=runs, reason=CIRCULAR)
    idle = without_gpus(runs) and any(not run.figure(GPU, "ratio").missing for run in runs)
    keys = {key for run in runs for key in run.extra.get("7", {})}
    names = {"total": "the power of the device"} | {
        part: f"the power of {words}"
        for part, words in PARTS.items()
        if any(key.startswith(f"{part}_") for key in keys) and not (part == "gpu" and idle)
    }
    parts = tuple(
        part
        for name, words in names.items()
        for part in parts_of(runs, "7", name, words, needed=name == "total")
    )
    return Case(label=configuration.label, parts=parts, runs=runs, batches=configuration.batches)


def _sentences(tested: Sequence[Judged]) -> list[str]:
    told = [
        f"{in_how_many(tested, 'configuration')} the power of one step shows that of any other."
    ]
    values = across(tested, "total_alike", plain_number)
    if values != "unknown":
        told.append(f"One step's course of power goes with another's by a correlation of {values}.")
    return told
