"""Observation 8: the energy of a step grows with the batch size, less than in proportion.

The paper has 2.2 to 10.5 times the energy for 16 times the samples. What must hold here, for each
group of runs that differ in batch size only: the energy of a step is batch to the power e between
the smallest and the largest batch, and the interval of e lies between 0.02 and 0.98. The margin of
0.02 is 5.7 % over sixteen times the batch: no less than board sensors are off by. Gain errors of a
sensor cancel in the ratio; offsets do not. It does not hold where the interval of some group lies
beside. Energy that a model computed from the cores' activity can be tested, and is marked: what it
shows is the growth of the step's time and load. Recorded sensors do not follow the training beside
which they are played.
"""

from __future__ import annotations

from collections.abc import Sequence

from wattstep.observations.concluding import conclude
from wattstep.observations.deciding import Part, Region
from wattstep.observations.evidence import Evidence
from wattstep.observations.groups import NO_RUNS, Group, groups_of
from wattstep.observations.growth import ends_of
from wattstep.observations.observation import (
    About,
    Case,
    Column,
    Judged,
    Observation,
    Published,
)
from wattstep.observations.sensors import NOT_FOLLOWING, computed_power, replayed
from wattstep.observations.spreads import TIMES
from wattstep.observations.wording import across, in_how_many, plain_number, times

MARGIN = 0.02
METRIC = "energy_per_step"
COMPUTED = (
    "energy is computed from the activity of the cores: what is seen is how time and load of a step "
    "grow, not what a sensor says"
)
ABOUT = About(
    number=8,
    title="Energy grows with the batch size, less than in proportion",
    claim="A step with a larger batch takes more energy, but less than in proportion to its samples.",
    criterion="Energy of a step goes as batch to the power e from the smallest batch to the "
    f"largest; holds where the 95 % interval of e lies between {MARGIN} and {1 - MARGIN} for every "
    "model, does not hold where it lies beside for any (confidence raised for the number of "
    "models).",
    metrics=(METRIC,),
    columns=(
        Column("growth", "energy of a step", "times"),
        Column("exponent", "exponent e"),
    ),
    published=(
        Published(what="growth from batch 4 to 64", value=2.2, high=10.5, notation="times"),
        Published(what="the same as an exponent", value=0.284, high=0.848, unit="1"),
    ),
)


def observe(evidence: Evidence) -> Observation:
    """The verdict on these runs."""
    cases = [_case(group) for group in groups_of(evidence.runs)]
    return conclude(ABOUT, cases, _sentences, NO_RUNS)


def _case(group: Group) -> Case:
    if replayed(group.runs):
        return Case(label=group.label, runs=group.runs, reason=NOT_FOLLOWING)
    ends = ends_of(group, METRIC, "J", logarithm=True, between=TIMES)
    if isinstance(ends, str):
        return Case(label=group.label, runs=group.runs, reason=ends)
    part = Part(
        name="exponent", words="power of the batch with which the energy of a step grows",
        estimate=ends.exponent, region=Region(low=MARGIN, high=1 - MARGIN), unit="1",
    )  # fmt: skip
    return Case(
        label=group.label, parts=(part,), runs=group.runs, batches=ends.batches,
        figures={"growth": ends.change.figure()},
        notes=(COMPUTED,) if computed_power(group.runs) else (),
    )  # fmt: skip


def _sentences(tested: Sequence[Judged]) -> list[str]:
    return [
        f"{in_how_many(tested, 'model')} a step with the largest batch takes more energy than with "
        f"the smallest, and less than in proportion: {across(tested, 'growth', times)} as much.",
        f"Energy of a step goes as batch to the power e = "
        f"{across(tested, 'exponent', plain_number)}; below 1, a larger batch is cheaper by the "
        "sample.",
    ]
