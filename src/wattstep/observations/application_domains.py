"""Observation 5: GPU utilization depends on the application domain.

In the paper the GPU is busy for about 25 % of the time with an LSTM, and about 95 % with models of
vision. What must hold, among workloads of at least two domains trained under equal conditions with
the same batch size (the one that most of them share, of several the largest): for at least one pair
of workloads of different domains GPU utilization differs by more than 15 points, the 95 % interval
of the difference, at a confidence raised for the number of pairs, lying beside ±0.15. It does not
hold where the 95 % intervals of all pairs lie within. Fifteen points is more than the paper's models
of vision differ among themselves at one batch size (85.6 and 71.4 %: 14 points at batch 4; 12 at 64):
less may be the models and not their domains. Domains are those of the workloads of this project; those of a user's own script are not known. Recorded
sensors do not follow the training beside which they are played.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

from wattstep.observations.concluding import conclude
from wattstep.observations.configurations import Configuration, configurations_of
from wattstep.observations.deciding import HOLDS, Part, Region
from wattstep.observations.estimates import Estimate, difference, of_processes
from wattstep.observations.evidence import Evidence
from wattstep.observations.groups import NO_RUNS
from wattstep.observations.observation import (
    About,
    Case,
    Column,
    Judged,
    Observation,
    Published,
)
from wattstep.observations.sensors import NOT_FOLLOWING, replayed, without_gpus
from wattstep.observations.spreads import OWN_LOADS
from wattstep.observations.wording import percent

MARGIN = 0.15
ONE_DOMAIN = (
    "no two workloads of different application domains were trained under equal conditions with "
    "the same batch size"
)
UNKNOWN = "the application domain is not known: it is none of the workloads of this project"
ABOUT = About(
    number=5,
    title="GPU utilization depends on the application domain",
    claim="The GPU is used much less in language (LSTM) than in computer vision.",
    criterion="For any pair of workloads of different domains, under equal conditions and with the "
    "same batch size, the interval of the difference of GPU utilization lies beside "
    f"±{100 * MARGIN:.0f} points (confidence raised for the number of pairs); it does not hold "
    "where those of all pairs lie within.",
    metrics=("gpu_utilization",),
    columns=(
        Column("first", "GPU, first"),
        Column("second", "GPU, second"),
        Column("difference", "difference", "points"),
    ),
    published=(
        Published(what="GPU utilization, LSTM", value=0.25, unit="ratio"),
        Published(what="GPU utilization, computer vision", value=0.95, unit="ratio"),
    ),
)


def observe(evidence: Evidence) -> Observation:
    """The verdict on these runs."""
    sites: dict[tuple[tuple[str, str], ...], list[Configuration]] = {}
    unusable: list[Case] = []
    for each in configurations_of(evidence.runs):
        if reason := _unusable(each):
            unusable.append(Case(label=each.label, runs=each.runs, reason=reason))
        else:
            sites.setdefault(each.group.site, []).append(each)
    cases = [case for members in sites.values() for case in _pairs(members)]
    lacking = ONE_DOMAIN if sites else NO_RUNS
    return conclude(ABOUT, [*cases, *unusable], _sentences, lacking, somewhere=True)


def _unusable(configuration: Configuration) -> str | None:
    runs = configuration.runs
    if replayed(runs):
        return NOT_FOLLOWING
    if reason := without_gpus(runs):
        return reason
    return UNKNOWN if runs[0].domain is None else None


def _pairs(members: Sequence[Configuration]) -> list[Case]:
    """Pairs of different domains at the batch size that most workloads share."""
    counts = Counter(each.batch for each in members)
    batch = max(counts, key=lambda size: (counts[size], size))
    chosen = [each for each in members if each.batch == batch]
    cases = []
    for a, b in combinations(chosen, 2):
        if a.runs[0].domain == b.runs[0].domain:
            continue
        cases.append(_case(a, b))
    if cases:
        return cases
    label, runs = "; ".join(each.label for each in chosen), tuple(r for e in chosen for r in e.runs)
    return [Case(label=label, runs=runs, reason=ONE_DOMAIN)]


def _case(a: Configuration, b: Configuration) -> Case:
    loads = [_load(each) for each in (a, b)]
    first, second = loads
    label = f"{a.group.label} ({a.runs[0].domain}), {b.group.label} ({b.runs[0].domain})"
    if isinstance(first, str) or isinstance(second, str):
        reason = first if isinstance(first, str) else str(second)
        return Case(label=label, runs=a.runs + b.runs, reason=reason)
    part = Part(
        name="difference", words="GPU utilization of the second less the first",
        estimate=difference(first, second),
        region=Region(low=-MARGIN, high=MARGIN, beside=True),
    )  # fmt: skip
    return Case(
        label=label, parts=(part,), runs=a.runs + b.runs, batches=a.batches,
        figures={"first": first.figure(), "second": second.figure()},
    )  # fmt: skip


def _load(configuration: Configuration) -> Estimate | str:
    figures = [run.figure("gpu_utilization", "ratio") for run in configuration.runs]
    return of_processes(figures, between=OWN_LOADS)


def _sentences(tested: Sequence[Judged]) -> list[str]:
    def apart(judged: Judged) -> float:
        value = judged.figures()["difference"].value
        return abs(value or 0.0)

    most = max(tested, key=apart)
    first, second = (most.case.figures[key].value or 0.0 for key in ("first", "second"))
    count = sum(each.verdict == HOLDS for each in tested)
    return [
        f"Furthest apart are {most.case.label}: the GPU is busy {percent(first)} and "
        f"{percent(second)} of the time.",
        f"{count} of {len(tested)} pairs of workloads of different domains differ by more than "
        f"{100 * MARGIN:.0f} points beyond doubt.",
    ]
