"""Evidence of the observations: runs with their figures, days of training, configurations that did not fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wattstep.insight.observe.domains import DOMAINS, RECURRENT
from wattstep.schema.figure import Figure, missing
from wattstep.schema.figures import Figures
from wattstep.schema.run_report import RunFacts, RunReport

LEAST_SHARE = 0.05  # of the steps: with more of them throttled or disturbed, a run is marked


@dataclass(frozen=True, kw_only=True)
class Observed:
    """Run, recorded or not, as a process of one configuration.

    Attributes:
        path: Folder, as it was named.
        info: Description of the run.
        metrics: As `Run.metrics`; figures are asked for by name.
        extra: Figures that observations measured beside that, by observation and name.
        disturbed: Share of the counted steps that something else disturbed; None: not known.
        throttled: Share of the counted steps in which the device was throttled.
        state: State of the device that a sweep had set; "": as it was.
    """

    path: str
    info: RunFacts
    metrics: Figures
    extra: Mapping[str, Mapping[str, Figure]] = field(default_factory=dict)
    disturbed: float | None = None
    throttled: float = 0.0
    state: str = ""

    def figure(self, name: str, unit: str) -> Figure:
        """A metric that is one figure; missing where the run has none of that name."""
        return self.metrics.figure(name) or missing(unit, "the run does not tell it")

    def measured(self, observation: str, name: str, unit: str) -> Figure:
        """A figure that an observation measured itself."""
        figures = self.extra.get(observation, {})
        if name in figures:
            return figures[name]
        return figures.get("reason") or missing(unit, "the run does not tell it")

    @property
    def domain(self) -> str:
        """Application domain of the workload, where it is one of ours; ""."""
        return DOMAINS.get(self.info.workload, "")

    @property
    def recurrent(self) -> bool:
        """True if its dominant layer is an LSTM."""
        return self.info.workload in RECURRENT

    @property
    def scheme(self) -> str:
        """Scheme of its target, i.e. of the place of its sensors: "local", "replay", "emulate", "imported", ..."""
        return self.info.target.partition(":")[0]


Reader = Callable[[Observed], Figure]  # of a figure of a run


def metric(name: str, unit: str = "ratio") -> Reader:
    """Reads a metric."""
    return lambda run: run.figure(name, unit)


def own(observation: int, name: str, unit: str = "ratio") -> Reader:
    """Reads a figure that an observation measured itself."""
    return lambda run: run.measured(str(observation), name, unit)


def observed_of(report: RunReport, state: str = "", metrics: Figures | None = None) -> Observed:
    """Figures of a report alone: all but those that observations measure in a record.

    Args:
        report: Of a run, recorded or not.
        state: State of the device that a sweep had set; "": as it was.
        metrics: In place of those of the report.
    """
    flags = report.conditions
    marred = {} if report.record is None else report.record.marred
    unseen = flags is None or flags.disturbed_steps is None
    return Observed(
        path=report.run,
        info=report,
        metrics=report.metrics if metrics is None else metrics,
        disturbed=None if unseen else marred.get("disturbed"),
        throttled=marred.get("throttled", 0.0),
        state=state,
    )


@dataclass(frozen=True, kw_only=True)
class DailyCourse:
    """A daily training of one batch size.

    Attributes:
        folder: The folder of the daily training.
        workload: Name of the workload.
        settings: Further settings that must be the same in trainings that are taken together, by name.
        batch_size: Its batch size.
        days: Number of days that are done.
        images_per_day: New samples a day.
        first: Accuracy on day 0.
        last: Accuracy on the last day.
        gain: The change between them, on the same samples.
        stand_in: True if the data stand in for official ones; None: not known.
    """

    folder: str
    workload: str
    settings: Mapping[str, object]
    batch_size: int
    days: int
    images_per_day: int
    first: Figure
    last: Figure
    gain: Figure
    stand_in: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A configuration of a sweep, and what became of it.

    Attributes:
        sweep: Folder of the sweep.
        family: Workload and all that it shares with configurations of other batch sizes.
        workload: Its name.
        batch_size: Its batch size.
        status: "trained", "out of memory", "skipped" after a smaller batch that ran out, ...
        limit: The memory limit and how it was enforced; "": that of the machine.
    """

    sweep: str
    family: tuple[Any, ...]
    workload: str
    batch_size: int
    status: str
    limit: str = ""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All of it.

    Attributes:
        runs: Recorded runs.
        daily: Daily trainings.
        attempts: Outcomes of sweeps.
    """

    runs: Sequence[Observed] = ()
    daily: Sequence[DailyCourse] = ()
    attempts: Sequence[Attempt] = ()
