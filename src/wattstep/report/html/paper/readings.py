"""The runs of a report as the paper's figures read them: grouped by configuration, each quantity by its name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from wattstep.insight.observe.estimates import as_figure, of_processes
from wattstep.insight.observe.evidence import Observed, observed_of
from wattstep.insight.observe.groups import Group, groups_of, settings_by_letter
from wattstep.insight.observe.memory import INTERMEDIATE
from wattstep.run.three_steps import ThreeSteps
from wattstep.schema.channel import parts_once
from wattstep.schema.daily_report import DailyReport
from wattstep.schema.figure import Figure, missing, weakest
from wattstep.schema.figures import Figures, Metrics
from wattstep.schema.run_report import RunReport

WITH_IDLE = "energy_per_step_with_idle"
WHOLE = "energy.whole"
PASSING = (
    "activations_and_rest",
    "kernel_scratch",
)  # of a device: space that a step takes and gives back


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """Run as figures of the paper read it.

    Attributes:
        observed: As the observations see it; its metrics have lists and mappings taken apart:
            "idle_state_ratio.0", "energy.gpu" (all rails of a part), "memory.intermediate".
        report: Its report.
        three_steps: Three of its steps.
    """

    observed: Observed
    report: RunReport
    three_steps: ThreeSteps

    @property
    def kinds(self) -> Mapping[int, str]:
        """The kind of each core, where the board has several kinds."""
        clusters = self.report.device.get("clusters") or ()
        by_core = {int(core): str(one["kind"]) for one in clusters for core in one["cores"]}
        return by_core if len(set(by_core.values())) > 1 else {}


@dataclass(frozen=True, kw_only=True, eq=False)
class Readings:
    """Everything that the figures are drawn from.

    Attributes:
        runs: The runs of the report.
        daily: Results of daily trainings.
    """

    runs: Sequence[Reading] = ()
    daily: Sequence[DailyReport] = ()

    @cached_property
    def groups(self) -> Sequence[Group]:
        """Runs that differ in batch size only."""
        return groups_of([run.observed for run in self.runs])

    @cached_property
    def letters(self) -> Mapping[str, str]:
        """Conditions by the letters in the labels of groups."""
        return settings_by_letter([run.observed for run in self.runs])

    def of(self, observed: Observed) -> Reading:
        """The reading of a run."""
        return next(run for run in self.runs if run.observed is observed)


def reading(report: RunReport, three_steps: ThreeSteps, state: str = "") -> Reading:
    """A run from its report and three of its steps.

    Args:
        report: Where its figures know their place, so do those that are drawn.
        three_steps: Of the run; none where there are none.
        state: State of the device that a sweep had set.
    """
    observed = observed_of(report, state, _flat_metrics(report))
    return Reading(observed=observed, report=report, three_steps=three_steps)


def pooled(group: Group, name: str, batch: int, unit: str) -> Figure:
    """A quantity at a batch size: of one process its own figure, of several their mean."""
    figures = group.figures(name, batch, unit)
    within = (0.0, 1.0) if unit == "ratio" else (0.0, math.inf)
    return (
        figures[0] if len(figures) == 1 else as_figure(of_processes(figures, within=within), unit)
    )


def names_of(group: Group, prefix: str) -> list[str]:
    """The quantities with a prefix that any run of a group has, in order: "energy.gpu", ..."""
    names = (name for run in group.runs for name in run.metrics if name.startswith(f"{prefix}."))
    return list(dict.fromkeys(names))


def _flat_metrics(report: RunReport) -> Figures:
    """Figures by name."""
    metrics = report.metrics
    figures = {
        name if key is None else f"{name}.{key}": figure
        for name, key, figure in metrics.each()
        if not metrics.parts(name)
    }
    whole = figures.get(WITH_IDLE, figures.get("energy_per_step"))
    if whole is not None:
        figures[WHOLE] = whole
    return Figures({**figures, **_by_part(report), **_memory(metrics)})


def _by_part(report: RunReport) -> dict[str, Figure]:
    """Energy of a step of each part of the machine that has rails of its own."""
    rails = report.energy_by_rail
    parts: dict[str, list[Figure]] = {}
    for channel in parts_once(report.channels):
        if channel.name in rails:
            parts.setdefault(f"energy.{channel.domain}", []).append(rails[channel.name])
    return {name: _sum(figures, "J", "rails") for name, figures in parts.items()}


def _memory(metrics: Metrics) -> dict[str, Figure]:
    """Memory by the paper's categories, each at its highest within a step."""
    if on_device := metrics.parts("device_memory_breakdown"):
        return _of_device(on_device)
    highest = metrics.parts("memory_highest")
    known = [highest[name] for name in INTERMEDIATE if name in highest]
    if not any(figure.value for figure in known):  # no step was followed
        return {}
    figures = {f"memory.{name}": figure for name, figure in highest.items()}
    return {**figures, "memory.intermediate": _sum(known, "B", "categories, each at its highest")}


def _of_device(breakdown: Mapping[str, Figure]) -> dict[str, Figure]:
    """Of a GPU's memory, by the paper's categories; what is no tensor of the model is intermediate."""
    known = {name: figure for name, figure in breakdown.items() if not figure.missing}
    passing = [known[name] for name in (*INTERMEDIATE, *PASSING) if name in known]
    figures = {f"memory.{name}": figure for name, figure in known.items()}
    return figures | ({"memory.intermediate": _sum(passing, "B", "categories")} if passing else {})


def _sum(figures: Sequence[Figure], unit: str, what: str) -> Figure:
    """Without an interval where there are several: whether they vary together is not known."""
    if len(figures) == 1:
        return figures[0]
    lacking = [figure.reason for figure in figures if figure.value is None]
    if lacking:
        return missing(unit, lacking[0] or "a part of it is not known")
    return Figure(
        value=sum(figure.value or 0.0 for figure in figures),
        unit=unit,
        status=weakest(figure.status for figure in figures),
        method=f"sum of {len(figures)} {what}",
        source=", ".join(dict.fromkeys(figure.source or "" for figure in figures)),
    )
