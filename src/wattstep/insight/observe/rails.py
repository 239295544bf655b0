"""Energy of GPU, CPU and memory over the same time: which of them draws most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from wattstep.insight.observe.deciding import UNTESTABLE, above
from wattstep.insight.observe.evaluators import Number, held
from wattstep.insight.observe.evidence import Observed, own
from wattstep.insight.observe.groups import Group
from wattstep.insight.observe.measuring import parts_of
from wattstep.insight.observe.observation import Case, Observation
from wattstep.insight.observe.sensors import CIRCULAR, without_gpus
from wattstep.insight.observe.spreads import TIMES
from wattstep.recorded.power import EnergySource, summed
from wattstep.run import Run
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.channel import parts_once
from wattstep.schema.figure import Figure, Missing, missing, weakest
from wattstep.stats.statistics import ratio_figure

PARTS = ("gpu", "cpu", "memory")
ONE_HALF = (
    "record both: workloads in which an LSTM dominates (char-cnn) and others; one half of the claim was "
    "not seen"
)


def measure(run: Run) -> Mapping[str, Figure]:
    """Ratios of energies over the same time: "gpu/cpu" and so on, and "gpu/all"."""
    rails = _apart(run)
    if isinstance(rails, Missing):
        return {"reason": missing("1", rails)}
    least = max(source.shortest[0] for source in rails.values())
    spans = parts_of(run, least)
    gains = {name: _gains(source, spans) for name, source in rails.items()}
    pairs = [(a, b) for a in PARTS for b in PARTS if a != b]
    total = run.series.energy
    if not isinstance(total, Missing):
        rails = {**rails, "all": total}
        gains["all"] = _gains(total, spans)
        pairs.append(("gpu", "all"))
    return {f"{a}/{b}": _ratio(gains[a], gains[b], [rails[a], rails[b]]) for a, b in pairs}


def rails_by_part(run: Run) -> dict[str, list[EnergySource]]:
    """The rails of each part of the machine."""
    series = run.series
    sources: dict[str, list[EnergySource]] = {}
    for channel in parts_once(series.channels[name] for name in series.rails):
        sources.setdefault(channel.domain, []).append(series.rails[channel.name])
    return sources


def _apart(run: Run) -> dict[str, EnergySource] | Missing:
    """Energy of GPU, CPU and memory, each by rails of its own, or why that is not known."""
    series = run.series
    by_part = rails_by_part(run)
    lacking = [part for part in PARTS if part not in by_part]
    if len(lacking) == len(PARTS):
        if run.info.power_model:
            return Missing(CIRCULAR)
        return series.without("no rails: the power of GPU, CPU and memory is not measured apart")
    if lacking:
        return Missing(f"no rail of {' and '.join(lacking)} alone")
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


def case(configuration: Group) -> Case:
    """Case of the part that should draw most: memory where an LSTM dominates, else the GPU."""
    most, other = _parts(configuration.runs)
    made = held(
        _over("over_cpu", most, "cpu"),
        _over("over_other", most, other),
        shown=[Number(name="gpu_share", read=_share)],
    )(configuration)
    return replace(made, label=f"{configuration.label} ({most})", batches="")


def lacking(runs: Sequence[Observed]) -> str | None:
    """Reason why it cannot be determined which part draws most: no rails, or a GPU that takes no part."""
    figures = [run.measured("6", f"{_parts(runs)[0]}/cpu", "1") for run in runs]
    if all(figure.missing for figure in figures):
        return "; ".join(dict.fromkeys(figure.reason or "" for figure in figures))
    # Where the load of the GPU was not sampled at all, its power has to tell.
    untold = all(run.figure("gpu_utilization", "ratio").missing for run in runs)
    return None if untold else without_gpus(runs)


def unseen(observation: Observation) -> str:
    """Advice where only an LSTM was seen, or none; "" else."""
    tested = [each.case for each in observation.cases if each.verdict != UNTESTABLE]
    return "" if len({run.recurrent for case in tested for run in case.runs}) > 1 else ONE_HALF


def _parts(runs: Sequence[Observed]) -> tuple[str, str]:
    return ("memory", "gpu") if runs[0].recurrent else ("gpu", "memory")


def _over(name: str, most: str, other: str) -> Number:
    return Number(
        name=name, words=f"energy of the {most} over that of the {other}", unit="1",
        read=own(6, f"{most}/{other}", "1"), logarithm=True, between=TIMES, region=above(0.0),
    )  # fmt: skip


def _share(run: Observed) -> Figure:
    share = run.measured("6", "gpu/all", "1")
    return share if share.missing else share.scaled(1.0, "ratio")
