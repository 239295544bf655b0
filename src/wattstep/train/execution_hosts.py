"""Execution hosts: where a training runs, a child process here or a device that is reached from here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from wattstep.errors import InvalidValueError
from wattstep.record.hosts import EXECUTION_HOSTS, parse_target
from wattstep.train.child.limits import MemoryLimit
from wattstep.train.child.local import train_in_child
from wattstep.train.progress import Progress
from wattstep.train.script import ProfileSettings, profile_in_child
from wattstep.train.settings import TrainingSettings

OnProgress = Callable[[Progress], None]
OnWarning = Callable[[str], None]


class ExecutionHost(Protocol):
    """A device on which trainings run, one at a time."""

    def train(
        self,
        settings: TrainingSettings,
        on_progress: OnProgress,
        on_warning: OnWarning,
        limit: MemoryLimit | None,
    ) -> Path:
        """Trains there, and brings the run into `settings.out`.

        Raises:
            WattstepError: Training failed there; what was recorded is brought back all the same.
        """
        ...

    def profile(self, settings: ProfileSettings, out: str, *sent: str) -> tuple[int, Path]:
        """Runs somebody's own script or command there; its exit code, and the run.

        Args:
            settings: The script and its options.
            out: Folder of the new run, here.
            sent: Files that go along into the folder in which it runs.

        Raises:
            WattstepError: It cannot be run there, or takes no files along.
        """
        ...

    def close(self) -> None:
        """Leaves the device as it was."""
        ...


class LocalHost:
    """This machine; a target that is no execution host is where its sensors are."""

    def train(
        self,
        settings: TrainingSettings,
        on_progress: OnProgress,
        on_warning: OnWarning,
        limit: MemoryLimit | None,
    ) -> Path:
        """In a child process."""
        return train_in_child(settings, on_progress, on_warning, limit=limit)

    def profile(self, settings: ProfileSettings, out: str, *sent: str) -> tuple[int, Path]:
        """In a child process."""
        if sent:
            raise InvalidValueError("--with sends files to a board: here they are here already")
        return profile_in_child(settings, out)

    def close(self) -> None:
        """Nothing was opened."""


def is_elsewhere(target: str | None) -> bool:
    """True if the target is a device that trains by itself."""
    return parse_target(target).scheme in EXECUTION_HOSTS
