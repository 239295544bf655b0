"""A sweep without training: outcomes that a test decides on, and a watcher that remembers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wattstep.cli.progress import Warned
from wattstep.schema.outcome import Configuration, Evidence, Outcome
from wattstep.sweep.folder import SweepFolder
from wattstep.sweep.plan import SweepPlan
from wattstep.train.child.limits import MemoryLimit
from wattstep.train.child.measuring import Listener
from wattstep.train.progress import Progress
from wattstep.train.settings import TrainingSettings

MACHINE = {"model": "board", "cpu": "core", "cores": 2}


def plan(**changes: Any) -> SweepPlan:
    given = {"workload": "lenet", "steps": 2, "trace": "none", **changes.pop("more", {})}
    settings = TrainingSettings(**given)
    chosen = {"workloads": ("lenet",), "batches": (1, 2), "threads": (1,), "cooldown": "none"}
    return SweepPlan(settings=settings, **{**chosen, **changes})


def outcome(name: str = "lenet", batch: int = 1, status: Any = "trained", **more: Any) -> Outcome:
    repeat = more.pop("repeat", 1)
    configuration = Configuration(workload=name, batch_size=batch, threads=1, repeat=repeat)
    return Outcome(configuration=configuration, status=status, **more)


def opened(path: Path, chosen: SweepPlan, warnings: list[str] | None = None) -> SweepFolder:
    told = [] if warnings is None else warnings
    return SweepFolder(path, chosen, MACHINE, told.append)


@dataclass
class Watched:
    """A watcher that remembers."""

    begun: list[str] = field(default_factory=list)
    ended: list[tuple[str, str]] = field(default_factory=list)
    left_s: list[float | None] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    warned: Warned = field(default_factory=lambda: Warned(quiet=False))
    on_progress: Callable[[Configuration, Progress], None] | None = None
    now: Configuration | None = None

    def begins(self, configuration: Configuration, done: int, total: int) -> None:
        self.begun.append(configuration.name)
        self.now = configuration

    def progresses(self, progress: Progress) -> None:
        if self.on_progress is not None and self.now is not None:
            self.on_progress(self.now, progress)

    def ends(self, outcome: Outcome, done: int, total: int, left_s: float | None) -> None:
        self.ended.append((outcome.configuration.name, outcome.status))
        self.left_s.append(left_s)

    def warns(self, text: str) -> None:
        self.warnings.append(text)


class Measured:
    """Trains nothing: each configuration ends as `ends` says by its name, else it "trained"."""

    def __init__(self, ends: Mapping[str, str] | None = None) -> None:
        self.ends = ends or {}
        self.done: list[str] = []

    def __call__(
        self,
        configuration: Configuration,
        settings: TrainingSettings,
        limit: MemoryLimit | None,
        listener: Listener,
    ) -> Outcome:
        self.done.append(configuration.name)
        status: Any = self.ends.get(configuration.name, "trained")
        if status == "Ctrl-C":
            raise KeyboardInterrupt
        return Outcome(
            configuration=configuration,
            status=status,
            evidence=Evidence(exit_code=0),
            started=100.0,
            ended=100.0 + configuration.batch_size,
        )
