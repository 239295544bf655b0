"""Observation 4: cores of different kinds are used differently.

On the paper's board two Denver2 cores idle most, up to 65 % of the time, beside four Cortex-A57. It
gives no margin; here it is 5 points of utilization. What must hold for each configuration on a
device with two kinds of cores or more: the mean utilization of the cores of one kind less that of
another, slice by slice of the same time, has its interval beside ±0.05 (of more than two kinds: for
the pair that is furthest apart, at a confidence raised for the number of pairs). It does not hold
where the interval lies within. The idle state ratio of each kind stands beside. That each core
changes differently with the batch size, which the paper adds, is a remark without a bound, and is
not tested. Cores of one kind that are used differently are what a scheduler does, and no case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from wattstep.observations.concluding import conclude
from wattstep.observations.configurations import Configuration, configurations_of
from wattstep.observations.deciding import Part, Region
from wattstep.observations.estimates import Estimate, of_processes
from wattstep.observations.evidence import Evidence, Observed
from wattstep.observations.groups import NO_RUNS
from wattstep.observations.measuring import mean_busy, paired_difference, parts_of
from wattstep.observations.observation import (
    About,
    Case,
    Column,
    Judged,
    Observation,
    Published,
)
from wattstep.observations.spreads import KINDS
from wattstep.observations.wording import across, in_how_many, points
from wattstep.records.figure import Figure, missing
from wattstep.run import Run

MARGIN = 0.05
ONE_KIND = "the device has one kind of cores only"
OTHERS = (
    "the kinds of cores are those of this machine, the sampled load is that of recorded sensors"
)
ABOUT = About(
    number=4,
    title="Cores of different kinds are used differently",
    claim="Cores of different kinds have different utilization during training.",
    criterion="The difference of the mean utilization of two kinds of cores has its 95 % interval "
    f"beside ±{100 * MARGIN:.0f} points in every configuration; it does not hold where it lies "
    "within in any (confidence raised for the number of comparisons).",
    metrics=("cpu_cluster_utilization", "cpu_core_utilization", "idle_state_ratio"),
    columns=(
        Column("difference", "utilization", "points"),
        Column("idle_difference", "idle share", "points"),
    ),
    published=(
        Published(what="idle state ratio of a Denver2 core, up to", value=0.65, unit="ratio"),
    ),
)


def measure(run: Run) -> Mapping[str, Figure]:
    """Differences between kinds of cores: "KIND less KIND", and the same of the idle share."""
    kinds = _kinds(run)
    if isinstance(kinds, str):
        return {"reason": missing("ratio", kinds)}
    series, parts = run.series, parts_of(run)
    status = series.status(*series.load_channels.values())
    busy = {
        kind: mean_busy([series.core_busy[core] for core in cores], parts)
        for kind, cores in kinds.items()
    }
    found = {
        f"{a} less {b}": paired_difference(
            busy[a], busy[b], parts, "ratio", "load of the cores", status
        )
        for a, b in combinations(kinds, 2)
    }
    return {**found, **_idle(run, kinds)}


def _kinds(run: Run) -> dict[str, list[int]] | str:
    """Sampled cores by kind, or why they cannot be told apart."""
    device = run.info.device
    if "sensors_of" in device:
        return OTHERS
    found: dict[str, list[int]] = {}
    for cluster in device.get("clusters") or ():
        found.setdefault(str(cluster["kind"]), []).extend(cluster["cores"])
    if len(found) < 2:
        return ONE_KIND if found else "which kinds of cores the device has is not known"
    busy = run.series.core_busy
    if not busy:
        return run.series.without("busy time of cores was not sampled")
    sampled = {kind: [core for core in cores if core in busy] for kind, cores in found.items()}
    sampled = {kind: cores for kind, cores in sampled.items() if cores}
    return sampled if len(sampled) > 1 else "only one kind of cores was online and sampled"


def _idle(run: Run, kinds: Mapping[str, Sequence[int]]) -> dict[str, Figure]:
    """The idle state ratio of each kind: the mean over its cores, without an interval."""
    ratios = run.metrics()["idle_state_ratio"]
    cores = sorted(run.series.core_idle or run.series.core_busy)
    if len(ratios) != len(cores):
        return {}
    by_core = dict(zip(cores, ratios, strict=True))
    found = {}
    for kind, members in kinds.items():
        own = [by_core[core] for core in members if core in by_core]
        values = [figure.value for figure in own if figure.value is not None]
        if values:
            found[f"idle {kind}"] = Figure(
                value=sum(values) / len(values), unit="ratio", status=own[0].status, n=len(values),
                method=f"mean over cores; {own[0].method}", source=own[0].source,
            )  # fmt: skip
    return found


def observe(evidence: Evidence) -> Observation:
    """The verdict on these runs."""
    cases = [_case(each) for each in configurations_of(evidence.runs)]
    return conclude(ABOUT, cases, _sentences, NO_RUNS)


def _case(configuration: Configuration) -> Case:
    runs = configuration.runs
    pairs = _pairs(runs)
    if isinstance(pairs, str):
        return Case(label=configuration.label, runs=runs, reason=pairs)
    name = max(pairs, key=lambda key: abs(pairs[key].value))
    part = Part(
        name="difference", words=f"mean utilization of the cores, {name}", estimate=pairs[name],
        region=Region(low=-MARGIN, high=MARGIN, beside=True), picked_from=len(pairs),
    )  # fmt: skip
    a, _, b = name.partition(" less ")
    return Case(
        label=configuration.label, parts=(part,), runs=runs, batches=configuration.batches,
        figures=_idle_figures(runs, a, b), notes=(f"utilization and idle share: {name}",),
    )  # fmt: skip


def _pairs(runs: Sequence[Observed]) -> dict[str, Estimate] | str:
    """By pair of kinds."""
    extra = [run.extra.get("4", {}) for run in runs]
    names = list(dict.fromkeys(name for own in extra for name in own if " less " in name))
    found = {}
    for name in names:
        figures = [run.measured("4", name, "ratio") for run in runs]
        estimate = of_processes(figures, between=KINDS)
        if isinstance(estimate, Estimate):
            found[name] = estimate
    if found:
        return found
    reasons = [run.measured("4", names[0] if names else "", "ratio").reason for run in runs]
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason))


def _idle_figures(runs: Sequence[Observed], a: str, b: str) -> dict[str, Figure]:
    """Of both kinds, and their difference where both are known."""
    own = {
        kind: of_processes([run.measured("4", f"idle {kind}", "ratio") for run in runs])
        for kind in (a, b)
    }
    known = {kind: found for kind, found in own.items() if isinstance(found, Estimate)}
    figures = {f"idle {kind}": found.figure() for kind, found in known.items()}
    if len(known) == 2:
        first, second = known[a], known[b]
        figures["idle_difference"] = Figure(
            value=first.value - second.value, unit="ratio", status=first.status,
            n=first.processes, method="difference of the means over cores", source=first.source,
        )  # fmt: skip
    return figures


def _sentences(tested: Sequence[Judged]) -> list[str]:
    kinds = dict.fromkeys(note for each in tested for note in each.case.notes)
    pair = next(iter(kinds)).partition(": ")[2].replace(" less ", " and ")
    return [
        f"{in_how_many(tested, 'configuration')} the kinds of cores are used differently: "
        f"{pair} differ by {across(tested, 'difference', points)} of utilization."
    ]
