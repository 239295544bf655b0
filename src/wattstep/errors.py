"""The errors that wattstep raises: one base, a handful of children, each a line that says what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypedDict

LONGEST_ID = 60
ID_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")


class ErrorDocument(TypedDict):
    """A refusal as JSON.

    Attributes:
        error: The line.
        id: Which refusal it is.
        kind: Its class, or the one of this module that it is a kind of.
    """

    error: str
    id: str
    kind: str


class WattstepError(Exception):
    """Anything that the user can do something about; the command line prints it as one line.

    Args:
        args: The line.
        id: Which refusal it is, where that is more than the class says: docs/errors.md lists them.

    Attributes:
        id: Stays the same whatever the line says: what scripts and tests ask for.
    """

    id: str = "error"

    def __init__(self, *args: object, id: str = "") -> None:
        super().__init__(*args)
        if id:
            self.id = id

    def document(self) -> ErrorDocument:
        """JSON-ready: what `--json` prints, and what a child tells its parent."""
        kinds = (kind for kind in type(self).__mro__ if kind.__module__ == __name__)
        return {"error": str(self), "id": self.id, "kind": next(kinds).__name__}


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


def error_of(
    document: Mapping[str, object], line: str, otherwise: type[WattstepError] = WattstepError
) -> WattstepError:
    """The error that another process told of.

    Args:
        document: As `WattstepError.document` gives it; what does not name one of ours is passed over.
        line: Of the error to be.
        otherwise: Its class where the document names none.
    """
    kind, id = globals().get(str(document.get("kind"))), document.get("id")
    if not (isinstance(kind, type) and issubclass(kind, WattstepError)):
        kind = otherwise
    known = isinstance(id, str) and len(id) <= LONGEST_ID and set(id) <= ID_CHARACTERS
    return kind(line, id=str(id) if known else "")


@contextmanager
def before_recording() -> Iterator[None]:
    """Ctrl-C in here stops what has recorded nothing yet."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise UnrecordedInterrupt from stop
