"""Execution hosts: a child process here, or a device that is reached over a cable or a network."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from wattstep.errors import InvalidValueError, before_recording
from wattstep.record.hosts import EXECUTION_HOSTS, Target, parse_target
from wattstep.train.child.limits import MemoryLimit
from wattstep.train.child.local import train_in_child
from wattstep.train.loop import Progress
from wattstep.train.script import ProfileSettings, profile_in_child
from wattstep.train.settings import TrainingSettings

OnProgress = Callable[[Progress], None]
OnWarning = Callable[[str], None]
# Scheme to the function that opens the host: (target, say) -> ExecutionHost; `say` takes lines for the user.
OPENERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ssh": "wattstep.remote.ssh.board:open_execution_host",
        "adb": "wattstep.remote.phone.host:open_execution_host",
    }
)


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


def open_execution_host(target: str | None, say: Callable[[str], None]) -> ExecutionHost:
    """Opens the execution host that `--target` names.

    Args:
        target: As given, or None.
        say: Takes a line for the user: what is installed, what stays there.

    Raises:
        WattstepError: The device cannot be reached, or nothing can run there.
        UnrecordedInterrupt: The user stopped it.
    """
    parsed: Target = parse_target(target)
    if parsed.scheme not in EXECUTION_HOSTS:
        return LocalHost()
    module, _, function = OPENERS[parsed.scheme].partition(":")
    with before_recording():
        host: ExecutionHost = getattr(importlib.import_module(module), function)(parsed, say)
    return host
