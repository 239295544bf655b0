"""What the observations are tested on: runs with their figures, days of training, configurations that did not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wattstep.observations.domains import DOMAINS, RECURRENT
from wattstep.records.figure import Figure, missing
from wattstep.records.run_info import RunInfo

LEAST_SHARE = 0.05  # of the steps: with more of them throttled or disturbed, a run is marked


@dataclass(frozen=True, kw_only=True)
class Observed:
    """One recorded run: a process of one configuration.

    Attributes:
        path: Folder, as it was named.
        info: What ran.
        metrics: As `Run.metrics`.
        extra: What observations measured beside that, by observation: figures by name.
        disturbed: Share of the counted steps that something else disturbed; None: not known.
        throttled: Share of the counted steps in which the device was throttled.
        state: State of the device that a sweep had set; "": as it was.
    """

    path: str
    info: RunInfo
    metrics: Mapping[str, Any]
    extra: Mapping[str, Mapping[str, Figure]] = field(default_factory=dict)
    disturbed: float | None = None
    throttled: float = 0.0
    state: str = ""

    def figure(self, name: str, unit: str) -> Figure:
        """A metric that is one figure; missing where the run has none of that name."""
        found = self.metrics.get(name)
        return found if isinstance(found, Figure) else missing(unit, "the run does not tell it")

    def measured(self, observation: str, name: str, unit: str) -> Figure:
        """A figure that an observation measured itself."""
        found = self.extra.get(observation, {})
        if name in found:
            return found[name]
        return found.get("reason") or missing(unit, "the run does not tell it")

    @property
    def domain(self) -> str | None:
        """Application domain of the workload, where it is one of ours."""
        return DOMAINS.get(self.info.workload)

    @property
    def recurrent(self) -> bool:
        """Whether its dominant layer is an LSTM."""
        return self.info.workload in RECURRENT

    @property
    def scheme(self) -> str:
        """Where its sensors were: "local", "replay", "emulate", "imported", ..."""
        return self.info.target.partition(":")[0]


@dataclass(frozen=True, kw_only=True)
class DailyCourse:
    """A daily training of one batch size.

    Attributes:
        folder: The folder of the daily training.
        workload: What was trained.
        settings: What else must be the same in trainings that are taken together, by name.
        batch_size: Its batch size.
        days: How many days are done.
        images_per_day: New samples a day.
        first: Accuracy on day 0.
        last: Accuracy on the last day.
        gain: The change between them, on the same samples.
        stand_in: Whether the data stand in for official ones; None: not known.
    """

    folder: str
    workload: str
    settings: Mapping[str, Any]
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
