"""Observation 3: GPU utilization grows with the batch size, CPU utilization does not.

From batch 4 to 64 the paper's GPU gains 10 to 15 points (DenseNet40 81.6 to 96.4 %, SqueezeNet 71.4
to 84.5 %, ResNet50 85.6 to 95.6 %), while its CPU changes by 2.1 points on average. The margin is
5 points, between the two. What must hold for each group of runs that differ in batch size only: GPU
utilization at the largest batch less that at the smallest has its interval above 0.05, and the same
of CPU utilization within ±0.05. It does not hold where either lies on the other side. Without a GPU
that takes part, the half about the CPU is shown and does not decide. Recorded sensors do not follow
the batch size of a training beside them.
"""

from __future__ import annotations

from collections.abc import Sequence

from wattstep.observations.concluding import conclude
from wattstep.observations.deciding import Part, Region
from wattstep.observations.estimates import as_figure
from wattstep.observations.evidence import Evidence
from wattstep.observations.groups import NO_RUNS, Group, groups_of
from wattstep.observations.growth import Ends, above, ends_of
from wattstep.observations.observation import (
    About,
    Case,
    Column,
    Judged,
    Observation,
    Published,
)
from wattstep.observations.sensors import NOT_FOLLOWING, replayed, without_gpus
from wattstep.observations.spreads import LOADS, OWN_LOADS
from wattstep.observations.wording import across, of_part, points

MARGIN = 0.05
ABOUT = About(
    number=3,
    title="GPU utilization grows with the batch size, CPU utilization does not",
    claim="The GPU is used more with a larger batch; the CPU is not.",
    criterion="From the smallest batch to the largest, GPU utilization has the 95 % interval of its "
    f"change above {100 * MARGIN:.0f} points and CPU utilization within ±{100 * MARGIN:.0f} points, "
    "for every model; it does not hold where either lies on the other side for any (confidence "
    "raised for the number of comparisons).",
    metrics=("gpu_utilization", "cpu_utilization"),
    columns=(
        Column("gpu_change", "GPU, change", "points"),
        Column("cpu_change", "CPU, change", "points"),
    ),
    published=(
        Published(what="GPU, change from batch 4 to 64", value=0.10, high=0.148, notation="points"),
        Published(what="CPU, mean difference", value=0.021, notation="points"),
    ),
)


def observe(evidence: Evidence) -> Observation:
    """The verdict on these runs."""
    cases = [_case(group) for group in groups_of(evidence.runs)]
    return conclude(ABOUT, cases, _sentences, NO_RUNS)


def _case(group: Group) -> Case:
    if replayed(group.runs):
        return Case(label=group.label, runs=group.runs, reason=NOT_FOLLOWING)
    cpu = ends_of(group, "cpu_utilization", "ratio", logarithm=False, between=LOADS)
    change = cpu if isinstance(cpu, str) else cpu.change
    if reason := without_gpus(group.runs):
        figures = {"cpu_change": as_figure(change, "ratio")}
        return Case(label=group.label, runs=group.runs, reason=reason, figures=figures)
    gpu = ends_of(group, "gpu_utilization", "ratio", logarithm=False, between=OWN_LOADS)
    parts = (
        Part(name="gpu_change", words="change of GPU utilization with the batch",
             estimate=gpu if isinstance(gpu, str) else gpu.change, region=above(MARGIN)),
        Part(name="cpu_change", words="change of CPU utilization with the batch",
             estimate=change, region=Region(low=-MARGIN, high=MARGIN)),
    )  # fmt: skip
    batches = gpu.batches if isinstance(gpu, Ends) else ""
    return Case(label=group.label, parts=parts, runs=group.runs, batches=batches)


def _sentences(tested: Sequence[Judged]) -> list[str]:
    return [
        f"With the largest batch the GPU is used more than with the smallest "
        f"{of_part(tested, 'gpu_change', 'model')}, by {across(tested, 'gpu_change', points)}.",
        f"The CPU is used as much as before {of_part(tested, 'cpu_change', 'model')}: it changes by "
        f"{across(tested, 'cpu_change', points)}.",
    ]
