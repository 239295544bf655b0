"""The runs of a report as the paper's figures read them: grouped by configuration, each quantity by its name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from wattstep.observations.estimates import as_figure, of_processes
from wattstep.observations.evidence import Observed
from wattstep.observations.groups import Group, conditions_by_letter, groups_of
from wattstep.observations.memory_by_batch import INTERMEDIATE
from wattstep.records.figure import Figure, missing, weakest
from wattstep.records.run_info import RunInfo
from wattstep.records.workload import DataFacts
from wattstep.reports.values import is_figure

Document = Mapping[str, Any]

WITH_IDLE = "energy_per_step_with_idle"
WHOLE = "energy.whole"
_PART_ROLES = ("power_part", "energy_part")


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """One run.

    Attributes:
        observed: As the observations see it; its metrics have lists and mappings taken apart:
            "idle_state_ratio.0", "energy.gpu" (all rails of a part), "memory.intermediate".
        document: Its document.
        timeline: Three of its steps; `{}` if there are none.
        figures: Those of the document by the same names, as they stand there.
    """

    observed: Observed
    document: Document
    timeline: Document
    figures: Document

    @property
    def kinds(self) -> Mapping[int, str]:
        """The kind of each core, where the board has several kinds."""
        clusters = (self.document.get("device") or {}).get("clusters") or ()
        found = {int(core): str(one["kind"]) for one in clusters for core in one["cores"]}
        return found if len(set(found.values())) > 1 else {}


@dataclass(frozen=True, kw_only=True, eq=False)
class Readings:
    """Everything that the figures are drawn from.

    Attributes:
        runs: The runs of the report.
        daily: Documents of daily trainings.
    """

    runs: Sequence[Reading] = ()
    daily: Sequence[Document] = ()

    @cached_property
    def groups(self) -> Sequence[Group]:
        """Runs that differ in batch size only."""
        return groups_of([run.observed for run in self.runs])

    @cached_property
    def letters(self) -> Mapping[str, str]:
        """What the letters in the labels of groups mean."""
        return conditions_by_letter([run.observed for run in self.runs])

    def of(self, observed: Observed) -> Reading:
        """The reading of a run."""
        return next(run for run in self.runs if run.observed is observed)


def reading(document: Document, timeline: Document, state: str = "") -> Reading:
    """A run from its document and timeline.

    Args:
        document: As `--json` prints it.
        timeline: Three steps, or `{}`.
        state: State of the device that a sweep had set.
    """
    figures = _taken_apart(document)
    observed = Observed(
        path=str(document.get("run") or ""),
        info=_info(document),
        metrics={name: Figure.from_dict(figure) for name, figure in figures.items()},
        state=state,
    )
    return Reading(observed=observed, document=document, timeline=timeline, figures=figures)


def pooled(group: Group, name: str, batch: int, unit: str) -> Figure:
    """A quantity at a batch size: of one process its own figure, of several their mean."""
    figures = group.figures(name, batch, unit)
    within = (0.0, 1.0) if unit == "ratio" else (0.0, math.inf)
    return (
        figures[0] if len(figures) == 1 else as_figure(of_processes(figures, within=within), unit)
    )


def shown(readings: Readings, group: Group, name: str, batch: int, unit: str) -> Mapping[str, Any]:
    """The same for a table: of one process the figure of its document, which knows its place there."""
    runs = group.batches[batch]
    own = readings.of(runs[0]).figures.get(name) if len(runs) == 1 else None
    found: Mapping[str, Any] = pooled(group, name, batch, unit).to_dict() if own is None else own
    return found


def names_of(group: Group, prefix: str) -> list[str]:
    """The quantities with a prefix that any run of a group has, in order: "energy.gpu", ..."""
    found = (name for run in group.runs for name in run.metrics if name.startswith(f"{prefix}."))
    return list(dict.fromkeys(found))


def _info(document: Document) -> RunInfo:
    """What must be equal in runs whose figures are pooled."""
    data = document.get("data") or {}
    facts = DataFacts(
        name=str(data.get("name")), stand_in=bool(data.get("stand_in")), stands_for=None,
        sha256="", samples=0,
    )  # fmt: skip
    return RunInfo(
        state=str(document.get("state") or ""),
        created=str(document.get("created") or ""),
        workload=str(document.get("workload") or document.get("title") or "a training"),
        title=str(document.get("title") or ""),
        engine=str(document.get("engine") or ""),
        batch_size=document.get("batch_size"),
        threads=document.get("threads"),
        precision=document.get("precision"),
        processor=document.get("processor"),
        seed=document.get("seed"),
        interval_s=0.0,
        warmup=0,
        trace="",
        data=facts if data else None,
        device=document.get("device") or {},
        target=str(document.get("target") or "local"),
        options=document.get("options") or {},
        power_model=document.get("power_model"),
    )


def _taken_apart(document: Document) -> dict[str, Mapping[str, Any]]:
    """Figures by name."""
    metrics: Mapping[str, Any] = document.get("metrics") or {}
    found: dict[str, Mapping[str, Any]] = {}
    for name, thing in metrics.items():
        if is_figure(thing):
            found[name] = thing
        elif isinstance(thing, (list, tuple)):
            found |= {f"{name}.{number}": figure for number, figure in enumerate(thing)}
    whole = found.get(WITH_IDLE, found.get("energy_per_step"))
    if whole is not None:
        found[WHOLE] = whole
    return {**found, **_by_part(document), **_memory(metrics)}


def _by_part(document: Document) -> dict[str, Mapping[str, Any]]:
    """Energy of a step of each part of the machine that has rails of its own."""
    rails = document.get("energy_by_rail") or {}
    parts: dict[str, list[Mapping[str, Any]]] = {}
    for channel in document.get("channels") or ():
        if channel.get("role") in _PART_ROLES and channel.get("name") in rails:
            own = parts.setdefault(f"energy.{channel.get('domain')}", [])
            own.append(rails[channel["name"]])
    return {name: _sum(figures, "J", "rails") for name, figures in parts.items()}


def _memory(metrics: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Memory by the paper's categories, each at its highest within a step."""
    highest = {
        name: figure
        for name, figure in dict(metrics.get("memory_highest") or {}).items()
        if is_figure(figure)
    }
    known = [highest[name] for name in INTERMEDIATE if name in highest]
    if not any(figure["value"] for figure in known):  # no step was followed
        return {}
    found = {f"memory.{name}": figure for name, figure in highest.items()}
    return {**found, "memory.intermediate": _sum(known, "B", "categories, each at its highest")}


def _sum(documents: Sequence[Mapping[str, Any]], unit: str, what: str) -> Mapping[str, Any]:
    """Without an interval where there are several: whether they vary together is not known."""
    if len(documents) == 1:
        return documents[0]
    figures = [Figure.from_dict(document) for document in documents]
    lacking = [figure.reason for figure in figures if figure.value is None]
    if lacking:
        return missing(unit, lacking[0] or "a part of it is not known").to_dict()
    return Figure(
        value=sum(figure.value or 0.0 for figure in figures),
        unit=unit,
        status=weakest(figure.status for figure in figures),
        method=f"sum of {len(figures)} {what}",
        source=", ".join(dict.fromkeys(figure.source or "" for figure in figures)),
    ).to_dict()
