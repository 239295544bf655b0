"""Cores of different kinds: how far their utilization lies apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from wattstep.insight.observe.deciding import Part, apart
from wattstep.insight.observe.estimates import Estimate, of_processes
from wattstep.insight.observe.evidence import Observed
from wattstep.insight.observe.groups import Group
from wattstep.insight.observe.measuring import mean_busy, paired_difference, parts_of
from wattstep.insight.observe.observation import Case
from wattstep.insight.observe.spreads import KINDS
from wattstep.run import Run
from wattstep.schema.figure import Figure, Missing, missing

MARGIN = 0.05  # of utilization; the paper gives none
ONE_KIND = "the device has one kind of cores only"
OTHERS = (
    "the kinds of cores are those of this machine, the sampled load is that of recorded sensors"
)


def measure(run: Run) -> Mapping[str, Figure]:
    """Differences between kinds of cores: "KIND less KIND", and the same of the idle share."""
    kinds = _kinds(run)
    if isinstance(kinds, Missing):
        return {"reason": missing("ratio", kinds)}
    series, parts = run.series, parts_of(run)
    status = series.status(*series.load_channels.values())
    busy = {
        kind: mean_busy([series.core_busy[core] for core in cores], parts)
        for kind, cores in kinds.items()
    }
    differences = {
        f"{a} less {b}": paired_difference(
            busy[a], busy[b], parts, "ratio", "load of the cores", status
        )
        for a, b in combinations(kinds, 2)
    }
    return {**differences, **_idle(run, kinds)}


def _kinds(run: Run) -> dict[str, list[int]] | Missing:
    """Sampled cores by kind, or why they cannot be distinguished."""
    device = run.info.device
    if "sensors_of" in device:
        return Missing(OTHERS)
    clusters: dict[str, list[int]] = {}
    for cluster in device.get("clusters") or ():
        clusters.setdefault(str(cluster["kind"]), []).extend(cluster["cores"])
    if len(clusters) < 2:
        return Missing(ONE_KIND if clusters else "which kinds of cores the device has is not known")
    busy = run.series.core_busy
    if not busy:
        return run.series.without("busy time of cores was not sampled")
    sampled = {kind: [core for core in cores if core in busy] for kind, cores in clusters.items()}
    sampled = {kind: cores for kind, cores in sampled.items() if cores}
    return sampled if len(sampled) > 1 else Missing("only one kind of cores was online and sampled")


def _idle(run: Run, kinds: Mapping[str, Sequence[int]]) -> dict[str, Figure]:
    """The idle state ratio of each kind: the mean over its cores, without an interval."""
    ratios = run.metrics.listed("idle_state_ratio")
    cores = sorted(run.series.core_idle or run.series.core_busy)
    if len(ratios) != len(cores):
        return {}
    by_core = dict(zip(cores, ratios, strict=True))
    figures = {}
    for kind, members in kinds.items():
        own = [by_core[core] for core in members if core in by_core]
        values = [figure.value for figure in own if figure.value is not None]
        if values:
            figures[f"idle {kind}"] = Figure(
                value=sum(values) / len(values), unit="ratio", status=own[0].status, n=len(values),
                method=f"mean over cores; {own[0].method}", source=own[0].source,
            )  # fmt: skip
    return figures


def case(configuration: Group) -> Case:
    """The two kinds of a configuration that are furthest apart."""
    runs = configuration.runs
    pairs = _pairs(runs)
    if isinstance(pairs, Missing):
        return Case(label=configuration.label, runs=runs, reason=pairs)
    name = max(pairs, key=lambda key: abs(pairs[key].value))
    part = Part(
        name="difference", words=f"mean utilization of the cores, {name}", estimate=pairs[name],
        region=apart(MARGIN), picked_from=len(pairs),
    )  # fmt: skip
    a, _, b = name.partition(" less ")
    return Case(
        label=configuration.label, parts=(part,), runs=runs, batches=configuration.words,
        figures=_idle_figures(runs, a, b), notes=(f"utilization and idle share: {name}",),
        members=(a, b),
    )  # fmt: skip


def _pairs(runs: Sequence[Observed]) -> dict[str, Estimate] | Missing:
    """By pair of kinds."""
    extra = [run.extra.get("4", {}) for run in runs]
    names = list(dict.fromkeys(name for own in extra for name in own if " less " in name))
    estimates = {}
    for name in names:
        figures = [run.measured("4", name, "ratio") for run in runs]
        estimate = of_processes(figures, between=KINDS)
        if isinstance(estimate, Estimate):
            estimates[name] = estimate
    if estimates:
        return estimates
    reasons = [run.measured("4", names[0] if names else "", "ratio").reason for run in runs]
    return Missing("; ".join(dict.fromkeys(reason for reason in reasons if reason)))


def _idle_figures(runs: Sequence[Observed], a: str, b: str) -> dict[str, Figure]:
    """Of both kinds, and their difference where both are known."""
    own = {
        kind: of_processes([run.measured("4", f"idle {kind}", "ratio") for run in runs])
        for kind in (a, b)
    }
    known = {kind: estimate for kind, estimate in own.items() if isinstance(estimate, Estimate)}
    figures = {f"idle {kind}": estimate.figure() for kind, estimate in known.items()}
    if len(known) == 2:
        first, second = known[a], known[b]
        figures["idle_difference"] = Figure(
            value=first.value - second.value, unit="ratio", status=first.status,
            n=first.processes, method="difference of the means over cores", source=first.source,
        )  # fmt: skip
    return figures
