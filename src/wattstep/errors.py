"""The errors that wattstep raises: one base, a handful of children, each a line that says what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class WattstepError(Exception):
    """Anything that the user can do something about; the command line prints it as one line.

    Args:
        args: The line.
        id: Which refusal it is, where that is more than the class says.

    Attributes:
        id: Stays the same whatever the line says: what scripts and tests ask for.
    """

    id: str = "error"

    def __init__(self, *args: object, id: str = "") -> None:
        super().__init__(*args)
        if id:
            self.id = id


class InvalidValueError(WattstepError, ValueError):
    """A value that cannot be used: a batch of 0, an unknown workload, a malformed duration."""

    id = "invalid-value"


class RunExistsError(WattstepError):
    """The folder of a run is taken, or another recorder is writing into it."""

    id = "run-exists"


class DamagedRunError(WattstepError):
    """A run, or a file of it, that cannot be read."""

    id = "damaged-run"


class RecordingError(WattstepError):
    """Recording cannot begin or go on: no permission, no disk, no sampler."""

    id = "recording"


class DeviceFaultError(WattstepError):
    """The device that trains failed: it is gone, was reset, or a kernel on it crashed."""

    id = "device-fault"


class ExportError(WattstepError):
    """An export that cannot be written: it is there already, no room, no permission."""

    id = "export"


class MissingPartError(WattstepError):
    """An optional dependency or system part that is not installed."""

    id = "missing-part"


class UnrecordedInterrupt(KeyboardInterrupt):
    """Ctrl-C before anything of a run was recorded."""


@contextmanager
def before_recording() -> Iterator[None]:
    """Ctrl-C in here stops what has recorded nothing yet."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise UnrecordedInterrupt from stop
