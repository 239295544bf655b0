"""Observation 1: the GPU is used far more than the CPU, and one is high when the other is low.

The paper has the GPU close to 100 % most of the time and each CPU core between 0 and 60 %, and adds
that one is low while the other is high. "Far" is given no number: here it is 10 points, about the
gap between the least GPU utilization that it prints (71.4 %) and the most of a core (60 %). What
must hold for each configuration of runs: (a) GPU utilization less CPU utilization (mean over cores,
its equation 2), slice by slice of the same time, has its interval above 0.10; (b) the correlation
of both loads over windows of 100 ms (longer, where sensors give values more slowly) has its interval below
-0.1: a correlation of a tenth explains one per cent of what moves. It does not hold where either
lies on the other side. Where one of the loads moves by less than 5 points (standard deviation over
the windows), nothing is high while the other is low: (b) cannot be told, and with (a) alone it is
undecided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from wattstep.analysis.steps import FloatArray, IntArray
from wattstep.observations.concluding import conclude
from wattstep.observations.configurations import Configuration, configurations_of
from wattstep.observations.deciding import Part, Region
from wattstep.observations.estimates import of_processes
from wattstep.observations.evidence import Evidence
from wattstep.observations.groups import NO_RUNS
from wattstep.observations.growth import above
from wattstep.observations.measuring import (
    WINDOW_NS,
    correlation,
    mean_busy,
    paired_difference,
    parts_of,
)
from wattstep.observations.observation import (
    About,
    Case,
    Column,
    Judged,
    Observation,
    Published,
)
from wattstep.observations.sensors import without_gpus
from wattstep.observations.spreads import COURSES, LOADS
from wattstep.observations.wording import across, of_part, percent, plain_number
from wattstep.records.figure import Figure, missing
from wattstep.run import Run

MARGIN = 0.10
OPPOSED = -0.1
MOVES = 0.05  # of full load: a load that moves less is never high or low
STILL = "the load of the {} moves by less than 5 points: it is never high while the other is low"
ABOUT = About(
    number=1,
    title="The GPU is used far more than the CPU",
    claim="GPU utilization is far above CPU utilization, and one is high when the other is low.",
    criterion=f"GPU less CPU utilization has its 95 % interval above {100 * MARGIN:.0f} points, and "
    f"the correlation of both over time below {OPPOSED}, in every configuration; it does not hold "
    "where either lies on the other side in any (confidence raised for the number of comparisons), and "
    "is undecided where a load hardly moves.",
    metrics=("gpu_utilization", "cpu_utilization"),
    columns=(
        Column("gpu_utilization", "GPU"),
        Column("cpu_utilization", "CPU"),
        Column("correlation", "correlation"),
    ),
    published=(
        Published(what="GPU utilization, vision", value=0.714, high=0.964, unit="ratio"),
        Published(what="utilization of a CPU core", value=0.0, high=0.60, unit="ratio"),
    ),
)


def measure(run: Run) -> Mapping[str, Figure]:
    """`gap` and `correlation` of the two loads."""
    series = run.series
    gpus, cores = list(series.with_role("gpu_utilization")), series.load_channels
    if not gpus or not cores:
        return {}
    channels = [*gpus, *cores.values()]
    status = series.status(*channels)
    spacing = max(series.refresh(channel).spacing_s for channel in channels)
    gpu = [series.curve(channel) for channel in gpus]
    cpu = list(series.core_busy.values())
    parts, source = parts_of(run, spacing), "load of GPU and cores"
    gap = paired_difference(
        mean_busy(gpu, parts), mean_busy(cpu, parts), parts, "ratio", source, status
    )
    windows = _windows(run, max(WINDOW_NS, round(spacing * 1e9)))
    loads = {"GPU": mean_busy(gpu, windows), "CPU": mean_busy(cpu, windows)}
    still = [name for name, load in loads.items() if not _spread(load) > MOVES]
    together = correlation(loads["GPU"], loads["CPU"], source, status)
    if still and not together.missing:
        together = missing("1", STILL.format(" and ".join(still)))
    return {"gap": gap, "correlation": together}


def _spread(load: FloatArray) -> float:
    """Standard deviation over the windows that were sampled."""
    known = load[np.isfinite(load)]
    return float(known.std()) if len(known) else 0.0


def _windows(run: Run, length_ns: int) -> IntArray:
    """Windows of one length within the counted time; shape (w, 2) in ns."""
    found = []
    for begin, end in run.series.steps.stretches():
        edges = np.arange(begin, end + 1, length_ns)
        found.append(np.stack([edges[:-1], edges[1:]], axis=1))
    return np.concatenate(found) if found else np.empty((0, 2), np.int64)


def observe(evidence: Evidence) -> Observation:
    """The verdict on these runs."""
    cases = [_case(each) for each in configurations_of(evidence.runs)]
    return conclude(ABOUT, cases, _sentences, NO_RUNS)


def _case(configuration: Configuration) -> Case:
    runs = configuration.runs
    if reason := without_gpus(runs):
        return Case(label=configuration.label, runs=runs, reason=reason)
    gaps = [run.measured("1", "gap", "ratio") for run in runs]
    together = [run.measured("1", "correlation", "1") for run in runs]
    parts = (
        Part(name="gap", words="GPU less CPU utilization", estimate=of_processes(gaps, between=LOADS),
             region=above(MARGIN)),
        Part(name="correlation", words="correlation of GPU and CPU load over time", unit="1",
             estimate=of_processes(together, within=(-1.0, 1.0), between=COURSES),
             region=Region(high=OPPOSED), needed=False, left_open=True),
    )  # fmt: skip
    own = parts[1].estimate
    return Case(
        label=configuration.label, parts=parts, runs=runs, batches=configuration.batches,
        figures=configuration.figures("gpu_utilization", "cpu_utilization", unit="ratio"),
        notes=(f"{configuration.label}: {own}",) if isinstance(own, str) else (),
    )  # fmt: skip


def _sentences(tested: Sequence[Judged]) -> list[str]:
    told = [
        f"The GPU is used far more than the CPU {of_part(tested, 'gap', 'configuration')}: GPU "
        f"{across(tested, 'gpu_utilization', percent)}, CPU "
        f"{across(tested, 'cpu_utilization', percent)} of the time."
    ]
    if any(each.figures()["correlation"].value is not None for each in tested):
        told.append(
            f"The two take turns {of_part(tested, 'correlation', 'configuration')}: their "
            f"correlation over time is {across(tested, 'correlation', plain_number)}; below 0, one "
            "is high when the other is low."
        )
    return told
