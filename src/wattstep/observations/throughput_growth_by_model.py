"""Observation 11: by how much throughput grows with the batch size differs between models.

In the paper, from batch 4 to 64: deep RL 15.3 times, ResNet50 6.1 times, DenseNet 1.7 times. What
must hold here, among models trained under equal conditions (device, engine, threads, precision,
sensors) over the same range of batch sizes: for at least one pair of models the exponents e of
throughput as batch to the power e differ by more than 0.05 (15 % over sixteen times the batch: less
than the paper's closest pair by far), their 95 % interval of the difference, at a confidence raised
for the number of pairs, lying beside ±0.05. It does not hold where the 95 % intervals of all pairs
lie within. Cochran's Q and the I² of Higgins and Thompson (2002) are given beside: Q asks whether
the exponents differ at all, I² how much of their spread is more than chance. They do not decide:
with enough steps any two models differ by something.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations

import numpy as np
from scipy.special import fdtrc

from wattstep.observations.concluding import conclude
from wattstep.observations.deciding import HOLDS, Part, Region
from wattstep.observations.estimates import Estimate, difference, of_processes, over
from wattstep.observations.evidence import Evidence
from wattstep.observations.groups import NO_RUNS, Group, groups_of
from wattstep.observations.observation import (
    About,
    Case,
    Column,
    Judged,
    Observation,
    Published,
)
from wattstep.observations.spreads import TIMES
from wattstep.observations.wording import plain_number
from wattstep.records.figure import Figure, Status

MARGIN = 0.05
METRIC = "throughput"
ONE_MODEL = (
    "one model only (with two batch sizes or more): give runs of at least two models under equal "
    "conditions"
)
NO_RANGE = "no two models were trained with the same two batch sizes under equal conditions"
ABOUT = About(
    number=11,
    title="By how much throughput grows differs between models",
    claim="Across models, throughput grows differently as the batch grows.",
    criterion="Throughput goes as batch to the power e; holds where for any pair of models under "
    f"equal conditions the interval of the difference of their e lies beside ±{MARGIN} (confidence "
    "raised for the number of pairs), does not hold where those of all pairs lie within.",
    metrics=(METRIC,),
    columns=(
        Column("first", "e, first"),
        Column("second", "e, second"),
        Column("difference", "difference"),
    ),
    published=(
        Published(what="deep RL, batch 4 to 64, exponent", value=0.984, unit="1"),
        Published(what="ResNet50, batch 4 to 64, exponent", value=0.653, unit="1"),
        Published(what="DenseNet40, batch 4 to 64, exponent", value=0.191, unit="1"),
    ),
)  # fmt: skip


def observe(evidence: Evidence) -> Observation:
    """The verdict on these runs."""
    cases: list[Case] = []
    figures: dict[str, Figure] = {}
    exponents: dict[str, float] = {}
    sites = _sites(groups_of(evidence.runs))
    for groups in sites:
        found = _exponents(groups)
        cases += _pairs(groups, found)
        exponents |= {label: estimate.value for label, (estimate, _, _) in found.items()}
        if len(found) > 1 and not figures:
            figures = _heterogeneity(found)
    lacking = NO_RUNS if not evidence.runs else NO_RANGE if _several(sites) else ONE_MODEL
    sentences = partial(_sentences, exponents)
    return conclude(ABOUT, cases, sentences, lacking, somewhere=True, figures=figures)


def _several(sites: Sequence[Sequence[Group]]) -> bool:
    return any(len({group.settings["workload"] for group in groups}) > 1 for groups in sites)


def _sites(groups: Sequence[Group]) -> list[list[Group]]:
    """Groups by the conditions that they were trained under."""
    found: dict[tuple[tuple[str, str], ...], list[Group]] = {}
    for group in groups:
        found.setdefault(group.site, []).append(group)
    return list(found.values())


def _exponents(groups: Sequence[Group]) -> dict[str, tuple[Estimate, int, int]]:
    """By label, over the widest range of batch sizes that most of the groups have."""
    by_group: dict[str, Mapping[int, Estimate]] = {}
    for group in groups:
        table = {
            batch: estimate
            for batch in group.known
            if isinstance(
                estimate := of_processes(
                    group.figures(METRIC, batch, "samples/s"), logarithm=True, between=TIMES
                ),
                Estimate,
            )
        }
        if len(table) >= 2:
            by_group[group.label] = table
    pair = _widest([set(table) for table in by_group.values()])
    if pair is None:
        return {}
    least, most = pair
    return {
        label: (_exponent(table, least, most), least, most)
        for label, table in by_group.items()
        if least in table and most in table
    }


def _widest(sizes: Sequence[set[int]]) -> tuple[int, int] | None:
    """The two batch sizes that most have in common; of several such the furthest apart."""
    counts = Counter(
        (small, large) for own in sizes for small, large in combinations(sorted(own), 2)
    )
    shared = {pair: count for pair, count in counts.items() if count > 1}
    if not shared:
        return None
    return max(shared, key=lambda pair: (shared[pair], pair[1] / pair[0], pair))


def _exponent(table: Mapping[int, Estimate], least: int, most: int) -> Estimate:
    growth = difference(table[least], table[most])
    return over(growth, math.log(most / least), "1", "logarithm of the ratio over that of batches")


def _pairs(groups: Sequence[Group], found: Mapping[str, tuple[Estimate, int, int]]) -> list[Case]:
    by_label = {group.label: group for group in groups}
    cases = []
    for first, second in combinations(found, 2):
        if by_label[first].settings["workload"] == by_label[second].settings["workload"]:
            continue
        (a, least, most), (b, _, _) = found[first], found[second]
        part = Part(
            name="difference", words="difference of the exponents", unit="1",
            estimate=difference(a, b), region=Region(low=-MARGIN, high=MARGIN, beside=True),
        )  # fmt: skip
        runs = by_label[first].runs + by_label[second].runs
        case = Case(
            label=f"{first}, {second}", parts=(part,), runs=runs, batches=f"{least} to {most}",
            figures={"first": a.figure(), "second": b.figure()},
        )  # fmt: skip
        cases.append(case)
    return cases


def _heterogeneity(found: Mapping[str, tuple[Estimate, int, int]]) -> dict[str, Figure]:
    """Q with the p-value of Welch's (1951) test, which allows for few processes, and I²."""
    estimates = [estimate for estimate, _, _ in found.values()]
    errors = np.array([estimate.error for estimate in estimates])
    if not (np.isfinite(errors).all() and (errors > 0).all()):
        return {}
    values = np.array([estimate.value for estimate in estimates])
    count, weight = len(values), errors**-2.0
    mean = float((weight * values).sum() / weight.sum())
    q = float((weight * (values - mean) ** 2).sum())
    freedom = np.array([min(estimate.freedom, 1e6) for estimate in estimates])
    lack = float(((1 - weight / weight.sum()) ** 2 / freedom).sum())
    f = q / (count - 1) / (1 + 2 * (count - 2) / (count**2 - 1) * lack)
    p = float(fdtrc(count - 1, (count**2 - 1) / (3 * lack), f)) if lack > 0 else math.nan
    source = ", ".join(found)
    excess = max(0.0, (q - (count - 1)) / q) if q > 0 else 0.0
    figures = {
        "q": _statistic(q, "1", f"Cochran's Q over {count} models", source, count),
        "i_squared": _statistic(excess, "ratio", "I² of Higgins and Thompson", source, count),
    }
    if not math.isnan(p):
        figures["p_equal"] = _statistic(
            p, "1", "Welch's test that all exponents are equal: p-value", source, count
        )
    return figures


def _statistic(value: float, unit: str, method: str, source: str, n: int) -> Figure:
    return Figure(value=value, unit=unit, status=Status.MEASURED, n=n, method=method, source=source)


def _sentences(exponents: Mapping[str, float], tested: Sequence[Judged]) -> list[str]:
    ordered = sorted(exponents, key=lambda name: exponents[name])
    least, most = ordered[0], ordered[-1]
    told = [
        f"From batch {tested[0].case.batches} throughput grows least in {least} (e = "
        f"{plain_number(exponents[least])}) and most in {most} (e = "
        f"{plain_number(exponents[most])})."
    ]
    if len(tested) > 1:
        apart = sum(each.verdict == HOLDS for each in tested)
        told.append(
            f"{apart} of {len(tested)} pairs of models differ by more than {MARGIN} in e beyond "
            "doubt."
        )
    return told
