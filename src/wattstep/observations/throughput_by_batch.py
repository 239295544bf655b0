"""Observation 10: throughput grows with the batch size.

The paper says it of all its models (ResNet50: 9 to 55 samples a second from batch 4 to 64) without
a margin. What must hold here, for each group of runs that differ in batch size only: throughput is
batch to the power e between the smallest and the largest batch, and the interval of e lies above
0.02. The margin is 5.7 % over sixteen times the batch, what is lost in a warm room; an e of 0.02
would be of no use to anybody. It does not hold where the interval of some group lies below. Falls
between neighbouring batch sizes are told, and do not decide: at large batches throughput levels off
and wavers.
"""

from __future__ import annotations

from collections.abc import Sequence

from wattstep.observations.concluding import conclude
from wattstep.observations.deciding import Part
from wattstep.observations.evidence import Evidence
from wattstep.observations.groups import NO_RUNS, Group, groups_of
from wattstep.observations.growth import above, ends_of
from wattstep.observations.observation import (
    About,
    Case,
    Column,
    Judged,
    Observation,
    Published,
)
from wattstep.observations.spreads import TIMES
from wattstep.observations.wording import across, in_how_many, plain_number, times

MARGIN = 0.02
METRIC = "throughput"
ABOUT = About(
    number=10,
    title="Throughput grows with the batch size",
    claim="For all models, more samples are trained in a second as the batch grows.",
    criterion="Throughput goes as batch to the power e from the smallest batch to the largest; "
    f"holds where the 95 % interval of e lies above {MARGIN} for every model, does not hold where "
    "it lies below for any (confidence raised for the number of models).",
    metrics=(METRIC,),
    columns=(
        Column("growth", "throughput", "times"),
        Column("exponent", "exponent e"),
    ),
    published=(
        Published(what="ResNet50, batch 4 to 64, exponent", value=0.653, unit="1"),
        Published(what="ResNet50, batch 4 to 64, growth", value=55 / 9, notation="times"),
        Published(
            what="growth of all models, batch 4 to 64", value=1.7, high=15.3, notation="times"
        ),
    ),
)


def observe(evidence: Evidence) -> Observation:
    """The verdict on these runs."""
    cases = [_case(group) for group in groups_of(evidence.runs)]
    return conclude(ABOUT, cases, _sentences, NO_RUNS)


def _case(group: Group) -> Case:
    ends = ends_of(group, METRIC, "samples/s", logarithm=True, between=TIMES)
    if isinstance(ends, str):
        return Case(label=group.label, runs=group.runs, reason=ends)
    part = Part(
        name="exponent", words="power of the batch with which throughput grows",
        estimate=ends.exponent, region=above(MARGIN), unit="1",
    )  # fmt: skip
    falls = [
        f"{group.label}: throughput falls from batch {small} to {large}, to "
        f"{ratio.value:.3g} of what it was"
        for small, large, ratio in ends.falls()
    ]
    return Case(
        label=group.label, parts=(part,), runs=group.runs, notes=tuple(falls),
        figures={"growth": ends.change.figure()}, batches=ends.batches,
    )  # fmt: skip


def _sentences(tested: Sequence[Judged]) -> list[str]:
    return [
        f"{in_how_many(tested, 'model')} more samples are trained in a second with the largest "
        f"batch than with the smallest: {across(tested, 'growth', times)}.",
        f"Doubling the batch raises throughput by a factor of 2 to the power e, with e = "
        f"{across(tested, 'exponent', plain_number)}; 1 would be in proportion, 0 not at all.",
    ]
