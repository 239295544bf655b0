"""Where a training runs: in a child process here, or on a device that is reached over a cable or a network."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from wattstep.errors import InvalidValueError, before_recording
from wattstep.fleet.limits import MemoryLimit
from wattstep.fleet.local import train_in_child
from wattstep.profiling import ProfileSettings, profile_in_child
from wattstep.targets import PLACES, Target, parse_target
from wattstep.training import Progress, TrainingSettings

OnProgress = Callable[[Progress], None]
OnWarning = Callable[[str], None]
# Scheme to the function that opens the place: (target, say) -> Place; `say` takes lines for the user.
OPENERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ssh": "wattstep.fleet.remote.board:open_place",
        "adb": "wattstep.fleet.phone:open_place",
    }
)


class Place(Protocol):
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
            WattstepError: What is wrong there; what was recorded is brought back all the same.
        """
        ...

    def profile(self, settings: ProfileSettings, out: str, *sent: str) -> tuple[int, Path]:
        """Runs somebody's own script or command there; its exit code, and the run.

        Args:
            settings: What to run.
            out: Folder of the new run, here.
            sent: Files that go along into the folder in which it runs.

        Raises:
            WattstepError: It cannot be run there, or takes no files along.
        """
        ...

    def close(self) -> None:
        """Leaves the device as it was."""
        ...


class Here:
    """This machine; a target that is no place of its own is where its sensors are."""

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
    """Whether it is a device that trains by itself."""
    return parse_target(target).scheme in PLACES


def open_place(target: str | None, say: Callable[[str], None]) -> Place:
    """Where `--target` says that a training runs.

    Args:
        target: As given, or None.
        say: Takes a line for the user: what is installed, what stays there.

    Raises:
        WattstepError: The device cannot be reached, or nothing can run there.
        UnrecordedInterrupt: The user stopped it.
    """
    parsed: Target = parse_target(target)
    if parsed.scheme not in PLACES:
        return Here()
    module, _, function = OPENERS[parsed.scheme].partition(":")
    with before_recording():
        place: Place = getattr(importlib.import_module(module), function)(parsed, say)
    return place
