"""A command on a device behind `ssh`: what goes to it, what comes from it, both within bounds."""

from __future__ import annotations

import io
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Final

from wattstep.errors import RecordingError
from wattstep.remote.ssh import ConnectionLostError
from wattstep.schema.processes import readable

GREETING_MOST: Final = 64 * 1024  # bytes that a login shell may write before a command
ERRORS_MOST: Final = 16 * 1024**2  # bytes on standard error
_BLOCK: Final = 65536
_LOOK_EVERY_S: Final = 1.0  # at how much went out, and how long the errors are


class Command:
    """Started command; its output begins behind a line of a token and its process number.

    Args:
        process: ssh, with unbuffered pipes; it is ended with this.
        errors: File that it writes its errors to.
        token: A word that nothing else there writes.
    """

    def __init__(self, process: subprocess.Popen[bytes], errors: IO[bytes], token: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.number: int | None = None  # of the process there, once it has begun
        self._stdin, self._stdout, self._errors = process.stdin, process.stdout, errors
        self._begun = re.compile(rb"(?:^|\n)" + token.encode() + rb" ([1-9]\d{0,9})\n")
        self._unread = b""
        self._sending: _Sending | None = None
        self._feeding: threading.Thread | None = None
        self._failure: Exception | None = None

    def feed(self, write: Callable[[IO[bytes]], None]) -> None:
        """Writes its whole input in a thread, while what it writes is read.

        Args:
            write: Takes the stream; what it raises is raised by `raise_failure`.
        """
        self._sending = _Sending(self._stdin.fileno())
        stream = io.BufferedWriter(self._sending)
        self._feeding = threading.Thread(target=self._feed, args=(stream, write), daemon=True)
        self._feeding.start()

    def _feed(self, stream: io.BufferedWriter, write: Callable[[IO[bytes]], None]) -> None:
        try:
            write(stream)
            stream.flush()
        except Exception as error:  # of another thread: `raise_failure` raises it in ours
            self._failure = error
        finally:
            self._stdin.close()  # the command sees the end of its input

    def raise_failure(self) -> None:
        """Raises what kept its input from being written."""
        if self._feeding is not None:
            self._feeding.join()
        if self._failure is not None:
            raise self._failure

    def begin(self, wait_s: float) -> None:
        """Passes over what a login shell writes before; nothing, where that was done already.

        Args:
            wait_s: How long that may take.

        Raises:
            EOFError: It never began.
            ConnectionLostError: It did not begin in time.
            RecordingError: The login shell writes without end.
        """
        end = time.monotonic() + wait_s
        while self.number is None:
            data = self._next(wait_s, end)
            if not data:
                raise EOFError
            self._unread += data
            if match := self._begun.search(self._unread):
                self.number = int(match[1])
                self._unread = self._unread[match.end() :]
            elif len(self._unread) > GREETING_MOST:
                raise RecordingError(
                    "the board's login shell writes without end before it runs a command: see what "
                    "`ssh USER@BOARD true` prints",
                    id="endless-greeting",
                )

    def read(self, silent_s: float, end: float | None = None) -> bytes:
        """The next bytes that it writes; b"" at the end.

        Args:
            silent_s: How long nothing may come or go.
            end: By when all of it must be over, on the monotonic clock; None for no such bound.

        Raises:
            ConnectionLostError: Nothing came in time.
            RecordingError: It complains without end.
        """
        if self._unread:
            data, self._unread = self._unread, b""
            return data
        return self._next(silent_s, end)

    def stream(self, silent_s: float) -> IO[bytes]:
        """Output as a file, which raises as `read` does."""
        return io.BufferedReader(_Arriving(self, silent_s), _BLOCK)  # type: ignore[type-var]

    def _next(self, silent_s: float, end: float | None) -> bytes:
        moved, sent = time.monotonic(), self._sent
        while True:
            now = time.monotonic()
            if self._sent != sent:
                moved, sent = now, self._sent
            left = min(moved + silent_s, moved + silent_s if end is None else end) - now
            if left <= 0:
                raise ConnectionLostError(
                    f"the board has not answered for {silent_s:.0f} s", id="no-answer"
                )
            if os.fstat(self._errors.fileno()).st_size > ERRORS_MOST:
                raise RecordingError(
                    "a command on the board complains without end", id="complaint-too-long"
                )
            if readable(self._stdout.fileno(), min(left, _LOOK_EVERY_S)):
                return os.read(self._stdout.fileno(), _BLOCK)

    @property
    def _sent(self) -> int:
        return 0 if self._sending is None else self._sending.sent

    def wait(self, most_s: float) -> int:
        """Its exit code, or ssh's own.

        Raises:
            ConnectionLostError: It does not end.
        """
        try:
            return self.process.wait(most_s)
        except subprocess.TimeoutExpired:
            raise ConnectionLostError(f"the board has not answered for {most_s:.0f} s") from None

    def complaint(self) -> str:
        """Complaint of the command, or of ssh."""
        self._errors.seek(0)
        return self._errors.read(ERRORS_MOST).decode(errors="replace")

    def close(self) -> None:
        """Ends ssh here, where it has not ended, and waits for the thread that feeds it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self._feeding is not None:
            self._feeding.join()
        for pipe in (self._stdin, self._stdout):
            with suppress(OSError):
                pipe.close()


class _Sending(io.RawIOBase):
    """The way to a command; when it has ended, what is written goes nowhere, and it says why."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._open = descriptor, True
        self.sent = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        block = memoryview(data)[:_BLOCK]  # type: ignore[arg-type]
        if self._open:
            try:
                written = os.write(self._descriptor, block)
            except BrokenPipeError:
                self._open = False
            else:
                self.sent += written
                return written
        return len(block)


class _Arriving(io.RawIOBase):
    """Output of a command, in pieces as they are asked for."""

    def __init__(self, command: Command, silent_s: float) -> None:
        self._command, self._silent_s = command, silent_s
        self._unread = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        data = self._unread or self._command.read(self._silent_s)
        taken = min(len(data), len(buffer))
        buffer[:taken] = data[:taken]
        self._unread = data[taken:]
        return taken
