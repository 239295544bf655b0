"""Observation 2: utilization of the GPU and of the cores repeats from step to step.

The paper sees busy and less busy cycles alternate with the period of a step, and calls that
predictable; it gives no number. What must hold for each configuration: the correlation of one
step's course with another's (`analysis/repeatability.py`), the level of the step apart, has its
interval above 0.5, so that more than half of what moves within a step is the same in every step;
and the load moves by more than 5 points (root mean square of its fifths about the mean): a load that
hardly moves has no busy and less busy cycles, and cannot be tested. This is
asked of the training's CPU time, of the load of all cores together (on which of them a thread runs is the
scheduler's choice) and of the GPU, of those that can be seen. It does not hold where such a load has an
interval below 0.5, and still does when all that differs from sample to sample is taken as noise of the
sensor; nor is that said of runs that other work disturbed in half of their steps or more, since
what moves is then not the training's alone. A step must hold five values of what adds up: busy time of cores ticks in 10 ms and is
looked at in 20 ms. Recorded sensors do not follow the steps beside which they are played.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from wattstep.analysis.curves import Curve, add_curves
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
    of_none,
    parts_of,
    prefixed,
)
from wattstep.observations.sensors import NOT_FOLLOWING, replayed, without_gpus
from wattstep.observations.wording import across, in_how_many, plain_number
from wattstep.records.figure import Figure, missing
from wattstep.run import Run

TICK_S = 0.02  # busy time of cores ticks in 10 ms; half a tick either way at both ends
PARTS = {
    "training": "the training's CPU time",
    "cores": "the load of the cores",
    "gpu": "the load of the GPU",
}
ABOUT = About(
    number=2,
    title="Utilization repeats from step to step",
    claim="Utilization of the GPU and of each core follows the same course in every step.",
    criterion="The correlation of one step's course with another's has its 95 % interval above "
    f"{ALIKE}, and the load moves by more than {100 * STEADY:.0f} points (one that moves less is not "
    "tested), in every configuration; it does not hold where the interval lies below in any, noise of the sensor allowed for "
    "(confidence raised for the number of comparisons).",
    metrics=("process_cpu_cores", "cpu_core_utilization", "gpu_utilization"),
    columns=(
        Column("training", "training's CPU"),
        Column("cores", "cores"),
        Column("gpu", "GPU"),
    ),
    published=(),
)


def measure(run: Run) -> Mapping[str, Figure]:
    """`alike`, `alike_at_most` and `movement` of the training's CPU time, the cores and the GPU."""
    series = run.series
    found: dict[str, Figure] = {}
    if series.process_cpu is not None:
        curve, source = series.process_cpu
        status = series.status_of("process_cpu_time", "process_cpu_time_coarse")
        about = Sampled(source=source, status=status)
        found |= prefixed("training", of_counter(run, curve, _spacing(curve), about))
    if series.core_busy:
        found |= prefixed("cores", _cores(run))
    for channel in series.with_role("gpu_utilization"):
        about = Sampled(source=channel.source, status=series.status(channel))
        own = of_gauge(run, *series.raw(channel.name), series.curve(channel), about)
        found |= prefixed("gpu", own)
        break
    return found or {"reason": missing("1", series.without("no load was sampled"))}


def _cores(run: Run) -> dict[str, Figure]:
    """Of all cores together: the share of them that is busy."""
    curves, channels = run.series.core_busy, list(run.series.load_channels.values())
    busy = add_curves(list(curves.values()))
    share = replace(busy, total=busy.total / len(curves))
    ticks = TICK_S if any(channel.kind == "counter" for channel in channels) else 0.0
    about = Sampled(source=channels[0].source, status=run.series.status(*channels))
    return of_counter(run, share, max(ticks, _spacing(busy)), about)


def _spacing(curve: Curve) -> float:
    """Median time between reads in s."""
    return float(np.median(np.diff(curve.t_ns))) * 1e-9 if len(curve.t_ns) > 1 else np.inf


def observe(evidence: Evidence) -> Observation:
    """The verdict on these runs."""
    cases = [_case(each) for each in configurations_of(evidence.runs)]
    return conclude(ABOUT, cases, _sentences, NO_RUNS)


def _case(configuration: Configuration) -> Case:
    runs = configuration.runs
    if replayed(runs):
        return Case(label=configuration.label, runs=runs, reason=NOT_FOLLOWING)
    present = [name for name in PARTS if any(_has(run.extra.get("2", {}), name) for run in runs)]
    if "gpu" in present and without_gpus(runs):
        present.remove("gpu")
    if not present:
        return Case(label=configuration.label, runs=runs, reason=of_none(runs, "2"))
    parts = tuple(
        part for name in present for part in parts_of(runs, "2", name, PARTS[name], needed=False)
    )
    return Case(label=configuration.label, parts=parts, runs=runs, batches=configuration.batches)


def _has(figures: Mapping[str, Figure], name: str) -> bool:
    return any(key.startswith(f"{name}_") for key in figures)


def _sentences(tested: Sequence[Judged]) -> list[str]:
    told = [f"{in_how_many(tested, 'configuration')} one step shows the load of any other."]
    for name, words in PARTS.items():
        values = across(tested, f"{name}_alike", plain_number)
        if values != "unknown":
            told.append(
                f"One step's course of {words} goes with another's by a correlation of {values}."
            )
    return told
