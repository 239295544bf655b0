"""A job on a board as the host sees it: begun, followed through lost connections, brought back, removed."""

from __future__ import annotations

import base64
import codecs
import hashlib
import json
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from wattstep.errors import (
    DamagedRunError,
    InvalidValueError,
    RecordingError,
    RunExistsError,
)
from wattstep.remote.ssh import Connection, ConnectionLostError
from wattstep.remote.ssh.answers import (
    JobEnd,
    one_of,
    parse_answer,
    parse_end,
    part,
    texts,
    unclear,
)
from wattstep.remote.ssh.bootstrap import FOLLOWED, JOB, NEWS, WRITTEN, digest
from wattstep.remote.ssh.description import JobDescription
from wattstep.remote.ssh.install import call, remove, script
from wattstep.remote.ssh.wording import inert

RECONNECT_S: Final = 600.0
NEWS_MOST: Final = 1024**2  # bytes of a line of news
_PAUSES: Final = (0.2, 1.0, 2.0, 5.0)  # before trying again; the last one from then on
_STARTING: Final = "import sys; del sys.path[0]; from {module} import main; sys.exit(main())"
_ENTRY: Final = _STARTING.format(module="wattstep.remote.ssh.remote_entry")

Say = Callable[[str], None]
T = TypeVar("T")


class Followed(Connection, Protocol):
    """A connection over which a command can be listened to."""

    def lines(self, command: str, *, stdin: bytes = b"", silent_s: float = 60.0) -> Iterator[bytes]:
        """Output of a command, line by line; see `SshConnection.lines`."""
        ...


class Listening(Protocol):
    """Listener of a job's messages while it runs."""

    def news(self, line: dict[str, Any]) -> None:
        """Progress, or a warning."""
        ...

    def output(self, name: str, text: str) -> None:
        """Takes what the job wrote on "stdout" or "stderr"."""
        ...


class Patience:
    """Tries again while a connection is lost, for so long.

    Args:
        seconds: How long the board may be away at a time.
        say: Told when it is lost, and when it is back.
        sleep: Waits.
        clock: In seconds.
    """

    def __init__(
        self,
        seconds: float,
        say: Say,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds, self._say, self._sleep, self._clock = seconds, say, sleep, clock
        self._lost_s: float | None = None
        self._tries = 0

    def back(self) -> None:
        """The board answers."""
        if self._lost_s is not None:
            self._say("the board answers again")
        self._lost_s, self._tries = None, 0

    def lost(self, error: ConnectionLostError, meanwhile: str) -> None:
        """Waits before the next try.

        Args:
            error: The loss.
            meanwhile: State there until then, in words for the user.

        Raises:
            ConnectionLostError: It has been away for too long.
        """
        now = self._clock()
        if self._lost_s is None:
            self._lost_s = now
            self._say(f"connection lost, {meanwhile}; trying again ({error})")
        if now - self._lost_s >= self._seconds:
            raise ConnectionLostError(
                f"the board could not be reached for {self._seconds:.0f} s: {error}"
            ) from error
        self._sleep(_PAUSES[min(self._tries, len(_PAUSES) - 1)])
        self._tries += 1

    def keep_at(self, action: Callable[[], T], meanwhile: str) -> T:
        """Result of an action that can be repeated."""
        while True:
            try:
                result = action()
            except ConnectionLostError as error:
                self.lost(error, meanwhile)
            else:
                self.back()
                return result


class Job:
    """Job on a board.

    Args:
        connection: To the board.
        python: Any Python there, for what needs nothing installed.
        root: Our folder there.
        identity: The job's name.
    """

    def __init__(self, connection: Followed, python: str, root: str, identity: str) -> None:
        self._connection, self._python = connection, python
        self._reader = _Reader()
        self.identity = identity
        self.folder = f"{root}/jobs/{identity}"

    def send(
        self, description: JobDescription, files: Mapping[str, Path | bytes], patience: Patience
    ) -> int:
        """Sends what it needs; returns the bytes that went there.

        Args:
            description: The job.
            files: Into the folder in which a script runs.
            patience: With a connection that is lost meanwhile.

        Raises:
            RecordingError: It cannot be stored there.
        """
        sent = {name: _digest(content) for name, content in files.items()}
        # The description first: by it the folder is known for ours.
        document = {**description.to_dict(), "sent": sent}
        contents: dict[str, Path | bytes] = {JOB: json.dumps(document).encode()}
        contents |= {f"work/{name}": content for name, content in files.items()}
        return patience.keep_at(
            lambda: self._connection.push(contents, self.folder), "nothing runs there yet"
        )

    def start(self, environment: str, patience: Patience) -> bool:
        """Starts it, once, however often it is asked for.

        Args:
            environment: The interpreter of our environment there.
            patience: With a connection that is lost meanwhile.

        Returns:
            Whether that environment was there.

        Raises:
            RecordingError: It could not be started.
        """
        words = ("start", self.folder, environment, "-c", _ENTRY)
        answer = patience.keep_at(
            lambda: call(self._connection, self._python, *words), "it may have begun there"
        )
        if answer.get("absent"):
            return False
        part(answer, "pid", int)
        return True

    def forget(self) -> bool:
        """Of a job that did not begin; whether nothing of it is left, as far as that is known."""
        try:
            self.remove()
        except RecordingError:
            return False  # said by what went wrong before
        return True

    def follow(self, listening: Listening, patience: Patience) -> JobEnd:
        """Waits for its end, and passes on what it says until then.

        Raises:
            ConnectionLostError: The board was away for too long; the job goes on.
            RecordingError: The board refuses us now; the job goes on.
        """
        reader = self._reader
        while True:
            offsets = shlex.quote(json.dumps(reader.offsets))
            words = f"follow {shlex.quote(self.folder)} {offsets}"
            command = f"exec {shlex.quote(self._python)} -u - {words}"
            try:
                for line in self._connection.lines(command, stdin=script()):
                    patience.back()
                    message = parse_answer(line)
                    if "file" in message:
                        reader.take(message, listening)
                    elif "state" in message:
                        reader.end(listening)
                        return parse_end(message)
                raise ConnectionLostError("what follows the job there ended")
            except ConnectionLostError as error:
                patience.lost(error, "the job goes on there")

    def stop(self, signal: int) -> bool:
        """Sends it a signal; whether anything of it was there to take it.

        SIGKILL is for all that it started, be it in a session of its own, and waits for their end.
        """
        answer = call(self._connection, self._python, "stop", self.folder, str(int(signal)))
        return part(answer, "told", int) > 0

    def bring_back(self, out: Path) -> bool:
        """Brings its run, and what lies beside it, to where it belongs here.

        Args:
            out: The run's folder here.

        Returns:
            Whether it had recorded anything.

        Raises:
            RunExistsError: The folder is taken; what came is kept, and the job stays there.
            ConnectionLostError: As `Connection.pull`; a second call goes on.
            RecordingError: The disk here is full.
        """
        coming = out.with_name(f".{out.name}.coming")
        source = f"{self.folder}/runs"
        if self._connection.run(f"[ -d {shlex.quote(source)} ]").code != 0:
            return False
        self._connection.pull(source, coming)
        try:
            for path in sorted(coming.iterdir()):
                if path.name != out.name and not path.name.startswith(f"{out.name}."):
                    raise RecordingError(
                        f"the board sent {path.name!r}, which is no part of {out.name}"
                    )
                if out.with_name(path.name).exists():
                    raise RunExistsError(f"{out.with_name(path.name)} exists already: move it away")
                path.replace(out.with_name(path.name))
            coming.rmdir()
        except OSError as error:
            raise RecordingError(f"{out} cannot be written: {error.strerror}") from error
        return out.exists()

    def bring_written(self, target: Path, say: Say) -> int:
        """Brings what a script wrote into its folder there; returns the bytes.

        Args:
            target: Made where anything was written.
            say: Told what has another name here, and what is no file and cannot be brought.

        Raises:
            ConnectionLostError: As `Connection.pull`; a second call goes on.
            RecordingError: Something cannot be brought; the job stays there.
        """
        answer = call(self._connection, self._python, "gather", self.folder)
        count, size = part(answer, "files", int), part(answer, "bytes", int)
        if count:
            self._connection.pull(f"{self.folder}/{WRITTEN}", target)
        for pair in part(answer, "renamed", list):
            if not isinstance(pair, list) or not all(isinstance(each, str) for each in pair):
                raise unclear("renamed")
            say(f"{inert(' is called '.join(pair))} in {target}")
        if links := texts(answer, "links"):
            say(f"not brought, since they are links or no files: {inert(', '.join(links))}")
        if left := texts(answer, "kept"):
            raise RecordingError(
                f"the script wrote what cannot be brought: {inert(', '.join(left))}; it stays on the "
                "board"
            )
        return size if count else 0

    def remove(self) -> None:
        """Ends what is left of it there, and takes its folder away.

        Raises:
            RecordingError: It is still there.
        """
        remove(self._connection, self._python, self.folder)


def _digest(content: Path | bytes) -> str:
    """SHA-256, as `bootstrap` finds it of what was sent.

    Raises:
        InvalidValueError: The file cannot be read.
    """
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    try:
        return digest(content)
    except OSError as error:
        raise InvalidValueError(f"{content}: {(error.strerror or str(error)).lower()}") from error


class _Reader:
    """Puts the pieces of a job's files together again: lines of news, text of outputs."""

    def __init__(self) -> None:
        self.offsets: dict[str, int] = {}
        self._unread = b""
        self._texts: dict[str, codecs.IncrementalDecoder] = {}

    def take(self, message: dict[str, Any], listening: Listening) -> None:
        """The next piece of a file."""
        name = one_of(message, "file", FOLLOWED)
        try:
            data = base64.b64decode(part(message, "data", str), validate=True)
        except ValueError as error:
            raise unclear("data") from error
        self.offsets[name] = part(message, "next", int)
        if name != NEWS:
            decoder = self._texts.setdefault(name, codecs.getincrementaldecoder("utf-8")("replace"))
            listening.output(name, decoder.decode(data))
            return
        *lines, self._unread = (self._unread + data).split(b"\n")
        if len(self._unread) > NEWS_MOST:
            raise unclear("news")
        for line in lines:
            with suppress(RecordingError):  # half a line, where the disk there was full
                listening.news(parse_answer(line))

    def end(self, listening: Listening) -> None:
        """Nothing more comes."""
        for name, decoder in self._texts.items():
            if rest := decoder.decode(b"", final=True):
                listening.output(name, rest)


def complete(run: Path, note: str | None = None) -> None:
    """Makes what came from a board a run like any other: of the board, and closed.

    Args:
        run: Its folder here.
        note: A note for its reader, or None.

    Raises:
        DamagedRunError: It cannot be closed; its files are kept.
    """
    from dataclasses import replace

    from wattstep.run import load
    from wattstep.schema.journal import HOLDER, JOURNAL
    from wattstep.store.files import read_info, write_info
    from wattstep.store.folder import Folder

    try:  # A process of the board held it; one of the same number here must not pass for that one.
        with Folder(run) as folder, folder.inside(JOURNAL) as journal:
            journal.remove(HOLDER)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise DamagedRunError(f"{run} came from the board as something else than a run") from error
    info = read_info(run)
    notes = info.notes if note is None else (*info.notes, note)
    write_info(run, replace(info, target="ssh:board", notes=notes))
    if (run / JOURNAL).is_dir():
        load(run)
    if not (run / "steps.parquet").exists():
        raise DamagedRunError(f"{run} came from the board without its tables")
