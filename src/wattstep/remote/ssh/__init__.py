"""Devices that are not this machine: how they are reached, what is put there, and how runs come back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from wattstep.errors import RecordingError
from wattstep.remote.ssh.wording import inert


class ConnectionLostError(RecordingError):
    """The device cannot be reached any more; what it does goes on, and may be reached later."""

    id = "connection-lost"


@dataclass(frozen=True, kw_only=True)
class Finished:
    """Result of a command on a device.

    Attributes:
        code: Its exit code.
        output: Its standard output.
        errors: Its standard error.
    """

    code: int
    output: bytes
    errors: bytes

    @property
    def last_error(self) -> str:
        """The last line that it complained with, as a person may see it, or its exit code."""
        lines = self.errors.decode(errors="replace").strip().splitlines()
        return inert(lines[-1]) if lines else f"exit code {self.code}"


class Connection(Protocol):
    """A way to one device. Commands are lines of a POSIX shell; paths are the device's own.

    Attributes:
        shown: Name of the device in messages; no user name, no key, no serial number.
    """

    shown: str

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 60.0) -> Finished:
        """Runs a command to its end.

        Raises:
            ConnectionLostError: The device cannot be reached, or not any more.
            RecordingError: It refuses us (key, host key, authorisation), with what to do.
        """
        ...

    def push(self, files: Mapping[str, Path | bytes], folder: str) -> int:
        """Writes files below a folder there, which is made; returns how many bytes went over.

        Raises:
            ConnectionLostError: As `run`.
            RecordingError: As `run`, or the disk there is full.
        """
        ...

    def pull(self, folder: str, target: Path) -> int:
        """Brings the contents of a folder into a local one, which is made; returns the bytes.

        Files that are here already in full are not sent again, so that it can be repeated after a
        lost connection. Nothing that the device sends is written outside of `target`.

        Raises:
            ConnectionLostError: As `run`; what came is kept.
            RecordingError: As `run`, or the disk here is full.
        """
        ...

    def close(self) -> None:
        """Ends what was started for it."""
        ...
