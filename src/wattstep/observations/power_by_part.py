"""Observation 6: the GPU draws most power of all parts, except where memory does (LSTM).

In the paper the GPU takes 4 times the power of the CPU and 2 times that of the memory in ResNet50
and VGG16, up to 57.4 % of the system; with the LSTM memory draws most. What must hold for each
configuration on a device that measures the rails of GPU, CPU and memory each by itself: the ratio
of the energies of the part that should draw most (memory for workloads whose dominant layer is an
LSTM, the GPU for all others) to each of the two others, over the same time, has its interval above
1. "Most" needs no margin; how much more is what the ratio says. It does not hold where an interval
lies below 1. Where all of these hold and no LSTM was among them, or nothing else, half of what is
observed was not seen, and it is undecided. A power model of the cores' activity cannot test it: it holds what was put in. A GPU
that takes no part in the training draws no power for it. The power of a replayed recording belongs
to what ran then: the case is told by the recording, not by the workload, and is marked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from wattstep.analysis.power import EnergySource, summed
from wattstep.analysis.statistics import ratio_figure
from wattstep.analysis.steps import FloatArray, IntArray
from wattstep.observations.concluding import conclude, held_back
from wattstep.observations.configurations import Configuration, configurations_of
from wattstep.observations.deciding import UNTESTABLE, Part
from wattstep.observations.estimates import as_figure, of_processes
from wattstep.observations.evidence import Evidence
from wattstep.observations.groups import NO_RUNS
from wattstep.observations.growth import above
from wattstep.observations.measuring import parts_of
from wattstep.observations.observation import (
    About,
    Case,
    Column,
    Judged,
    Observation,
    Published,
)
from wattstep.observations.sensors import CIRCULAR, computed_power, replayed, without_gpus
from wattstep.observations.spreads import TIMES
from wattstep.observations.wording import across, in_how_many, times
from wattstep.records.figure import Figure, missing, weakest
from wattstep.run import Run

PARTS = ("gpu", "cpu", "memory")
ONE_HALF = (
    "record both: workloads in which an LSTM dominates (char-cnn) and others; one half of the claim was "
    "not seen"
)
PLAYED = "the power is that of a recording, of whatever ran when it was made"
ABOUT = About(
    number=6,
    title="The GPU draws most power, except where memory does",
    claim="Of GPU, CPU and memory the GPU draws most power; with an LSTM the memory does.",
    criterion="The energy of the part that should draw most (memory where an LSTM dominates, else "
    "the GPU) over that of each other part has its 95 % interval above 1 in every configuration; "
    "it does not hold where one lies below 1 in any (confidence raised for the number of "
    "comparisons), and is undecided unless an LSTM and something else were seen.",
    metrics=("energy_by_rail",),
    columns=(
        Column("over_cpu", "over the CPU", "times"),
        Column("over_other", "over the other", "times"),
        Column("gpu_share", "GPU of all"),
    ),
    published=(
        Published(what="GPU over CPU, ResNet50 and VGG16", value=4.0, notation="times"),
        Published(what="GPU over memory, ResNet50 and VGG16", value=2.0, notation="times"),
        Published(what="GPU of the whole system, up to", value=0.574, unit="ratio"),
    ),
)


def measure(run: Run) -> Mapping[str, Figure]:
    """Ratios of energies over the same time: "gpu/cpu" and so on, and "gpu/all"."""
    rails = _rails(run)
    if isinstance(rails, str):
        return {"reason": missing("1", rails)}
    least = max(source.shortest[0] for source in rails.values())
    spans = parts_of(run, least)
    gains = {name: _gains(source, spans) for name, source in rails.items()}
    pairs = [(a, b) for a in PARTS for b in PARTS if a != b]
    total = run.series.energy
    if not isinstance(total, str):
        rails = {**rails, "all": total}
        gains["all"] = _gains(total, spans)
        pairs.append(("gpu", "all"))
    return {f"{a}/{b}": _ratio(gains[a], gains[b], [rails[a], rails[b]]) for a, b in pairs}


def _rails(run: Run) -> dict[str, EnergySource] | str:
    """Energy of GPU, CPU and memory, each by rails of its own, or why that is not known."""
    series = run.series
    by_part: dict[str, list[EnergySource]] = {}
    for name, source in series.rails.items():
        channel = series.channels[name]
        if channel.role in ("power_part", "energy_part"):
            by_part.setdefault(channel.domain, []).append(source)
    lacking = [part for part in PARTS if part not in by_part]
    if len(lacking) == len(PARTS):
        if run.info.power_model:
            return CIRCULAR
        return series.without("no rails: the power of GPU, CPU and memory is not measured apart")
    if lacking:
        return f"no rail of {' and '.join(lacking)} alone"
    return {part: summed(by_part[part]) for part in PARTS}


def _gains(source: EnergySource, spans: IntArray) -> FloatArray:
    """Energy in J of each span; NaN where it was not sampled throughout."""
    gains, covered = source.curve.difference(spans[:, 0], spans[:, 1])
    return np.where(covered > 0.99, gains, np.nan)


def _ratio(above_: FloatArray, below: FloatArray, sources: Sequence[EnergySource]) -> Figure:
    known = np.isfinite(above_) & np.isfinite(below) & (below >= 0)
    names = ", ".join(dict.fromkeys(source.source for source in sources))
    if not known.any():
        return missing("1", f"{names}: nothing was sampled in counted steps")
    status = weakest(source.status for source in sources)
    return ratio_figure(above_[known], below[known], "1", names, status)


def observe(evidence: Evidence) -> Observation:
    """The verdict on these runs."""
    cases = [_case(each) for each in configurations_of(evidence.runs)]
    found = conclude(ABOUT, cases, _sentences, NO_RUNS)
    kinds = {
        run.recurrent
        for each in found.cases
        if each.verdict != UNTESTABLE
        for run in each.case.runs
    }
    return found if len(kinds) > 1 else held_back(found, ONE_HALF)


def _case(configuration: Configuration) -> Case:
    runs = configuration.runs
    if computed_power(runs):
        return Case(label=configuration.label, runs=runs, reason=CIRCULAR)
    most, other = ("memory", "gpu") if runs[0].recurrent else ("gpu", "memory")
    lacking = [run.measured("6", f"{most}/cpu", "1") for run in runs]
    if all(figure.missing for figure in lacking):
        reason = "; ".join(dict.fromkeys(figure.reason or "" for figure in lacking))
        return Case(label=configuration.label, runs=runs, reason=reason)
    idle = None if _untold(configuration) else without_gpus(runs)
    if idle:
        return Case(label=configuration.label, runs=runs, reason=idle)
    parts = (
        _part(configuration, "over_cpu", most, "cpu"),
        _part(configuration, "over_other", most, other),
    )
    share = of_processes([run.measured("6", "gpu/all", "1") for run in runs])
    figure = as_figure(share, "1")
    return Case(
        label=f"{configuration.label} ({most})", parts=parts, runs=runs,
        figures={"gpu_share": figure if figure.missing else figure.scaled(1.0, "ratio")},
        notes=(PLAYED,) if replayed(runs) else (),
    )  # fmt: skip


def _untold(configuration: Configuration) -> bool:
    """Whether the load of the GPU was not sampled at all, so that its power has to tell."""
    return all(run.figure("gpu_utilization", "ratio").missing for run in configuration.runs)


def _part(configuration: Configuration, name: str, most: str, other: str) -> Part:
    figures = [run.measured("6", f"{most}/{other}", "1") for run in configuration.runs]
    return Part(
        name=name, words=f"energy of the {most} over that of the {other}", unit="1",
        estimate=of_processes(figures, logarithm=True, between=TIMES), region=above(0.0),
    )  # fmt: skip


def _sentences(tested: Sequence[Judged]) -> list[str]:
    return [
        f"{in_how_many(tested, 'configuration')} the part that should draw most does so: it takes "
        f"{across(tested, 'over_cpu', times)} the energy of the CPU and "
        f"{across(tested, 'over_other', times)} that of the other part."
    ]
