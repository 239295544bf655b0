"""A board that is reached by the system's own `ssh`: the user's configuration, keys and known hosts count."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from wattstep.errors import InvalidValueError, MissingPartError, RecordingError
from wattstep.remote.ssh import ConnectionLostError, Finished
from wattstep.remote.ssh.archive import check_name, pack, unpack
from wattstep.remote.ssh.command import Command
from wattstep.remote.ssh.socket_folder import make_socket_folder
from wattstep.remote.ssh.wording import inert

CONFIG: Final = "WATTSTEP_SSH_CONFIG"  # a configuration file in place of ~/.ssh/config
CONNECT_S: Final = 15
ALIVE_S: Final = 5  # asked for a sign of life so often; three without one and the board is lost
SILENT_S: Final = 120.0  # files on their way that stand still for so long do not come any more
ANSWER_MOST: Final = 16 * 1024**2  # bytes of what a command answers
LINE_MOST: Final = 1024**2  # bytes of a line
_LOST: Final = 255  # ssh's own exit code; a command that ends with it is made to end with 254
_CONNECT_MOST_S: Final = 60.0  # greeting, keys and the login shell
_ENDING_S: Final = 15.0  # what a command there may take to end when it is told to
_ADDRESS = re.compile(
    r"(?:(?P<user>[^\s@:/,-][^\s@:/,]*)@)?(?P<host>[\w.][\w.-]*|\[[0-9A-Fa-f:.%\w]+\])(?::(?P<port>\d{1,5}))?"
)
_NUMBER = re.compile(r"[0-9]{1,18}")
# Nothing that the user's configuration adds for logging in by hand belongs to these connections;
# and what went wrong is told apart by ssh's own words, which LogLevel=QUIET would keep from us.
_QUIET: Final = (
    "BatchMode=yes",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "LogLevel=INFO",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "Tunnel=no",
    f"ConnectTimeout={CONNECT_S}",
    f"ServerAliveInterval={ALIVE_S}",
    "ServerAliveCountMax=3",
)
# Ends a command there with all that it started in its group, which is its session's: sshd makes
# one for each command without a terminal. A login shell that made none leads no group.
_END_THERE: Final = """
kill -TERM -{number} 2>/dev/null || kill -TERM {number} 2>/dev/null || exit 0
turn=0
while kill -0 -{number} 2>/dev/null && [ $turn -lt 50 ]; do
    sleep 0.1 2>/dev/null || sleep 1
    turn=$((turn + 1))
done
kill -KILL -{number} 2>/dev/null
"""
# Files whose names cannot stand in a list of lines are told apart before the list is made.
_LISTED: Final = r"""find . -type f ! -path '*
*' -exec cksum {} + && find . -type f -path '*
*' -exec echo . \;"""
# Only GNU's tar takes a backslash in a list of names for the beginning of an escape.
_PACKED: Final = r"""case $(tar --version 2>/dev/null) in
*GNU*) sed 's/\\/\\\\/g' ;;
*) cat ;;
esac | tar cf - -T -"""


@dataclass(frozen=True, kw_only=True)
class Address:
    """Whom to call: what stands behind ssh://, or a name of the user's configuration."""

    host: str
    user: str | None = None
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        """From "user@board:22", "board", "user@[::1]:22".

        Raises:
            InvalidValueError: It is none of these.
        """
        match = _ADDRESS.fullmatch(text.rstrip("/"))
        port = int(match["port"]) if match and match["port"] else None
        if match is None or (port is not None and not 0 < port < 65536):
            user, at, _ = text.rpartition("@")
            if at and ":" in user:  # never shown again: it would lie in logs
                raise InvalidValueError(
                    "--target ssh: no password is taken here: put a key on the board (ssh-copy-id "
                    "USER@BOARD), and write ssh://USER@BOARD",
                    id="no-password-taken",
                )
            raise InvalidValueError(
                "--target ssh: this is no board: write ssh://USER@BOARD or ssh://USER@BOARD:PORT",
                id="not-a-board-address",
            )
        return cls(host=match["host"].strip("[]"), user=match["user"], port=port)

    @property
    def arguments(self) -> list[str]:
        """For ssh."""
        user = [] if self.user is None else ["-l", self.user]
        port = [] if self.port is None else ["-p", str(self.port)]
        return [*user, *port, "--", self.host]


class SshConnection:
    """Connection over which every command and file goes; it is made again when it was lost.

    Commands may be run by several threads at once. What is under way here when a command is given
    up (Ctrl-C, too long without a word) is ended there as well.

    Args:
        address: Whom to call.
        config: A configuration of ssh in place of the user's own; what the environment variable
            `WATTSTEP_SSH_CONFIG` names where it is None.
        say: Takes lines for the user: files that stay there. Standard error where it is None.

    Raises:
        MissingPartError: There is no ssh here.
        ConnectionLostError: The board cannot be reached.
        RecordingError: It, or its host key, is refused.
    """

    def __init__(
        self,
        address: Address,
        config: Path | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.shown = "board"
        if shutil.which("ssh") is None:
            raise MissingPartError("ssh is not installed here: install OpenSSH's client")
        self._address = address
        self._say = say or _tell
        named = os.environ.get(CONFIG)
        self._config = config or (Path(named) if named else None)
        self._folder = make_socket_folder()
        self._token = f"wattstep-{secrets.token_hex(8)}"
        self._lock = threading.Lock()  # of what follows
        self._closed = False
        self._master: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 60.0) -> Finished:
        """See `Connection.run`; a command that ends with 255 is said to have ended with 254.

        Raises:
            RecordingError: Also where it answers with more than `ANSWER_MOST` bytes.
        """
        end = time.monotonic() + timeout_s
        with self._started(command) as begun:
            begun.feed(lambda stream: _write(stdin, stream))
            output = bytearray()
            while data := self._read(begun, timeout_s, end):
                output += data
                if len(output) > ANSWER_MOST:
                    raise RecordingError(
                        f"the board answers with more than {ANSWER_MOST // 1024**2} MiB",
                        id="answer-too-long",
                    )
            return self._finished(begun, bytes(output))

    def push(self, files: Mapping[str, Path | bytes], folder: str) -> int:
        """See `Connection.push`."""
        for name in files:
            check_name(name)
        quoted = shlex.quote(folder)
        command = f"umask 077; mkdir -p {quoted} && cd {quoted} && exec tar xf -"
        sent = 0

        def send(stream: IO[bytes]) -> None:
            nonlocal sent
            sent = pack(files, stream)

        with self._started(command) as begun:
            begun.feed(send)
            while self._read(begun, SILENT_S):
                pass  # tar writes nothing when it extracts
            finished = self._finished(begun)
        if finished.code != 0:
            raise _cannot_store(finished)
        return sent

    def pull(self, folder: str, target: Path) -> int:
        """See `Connection.pull`; equal are files of the same POSIX checksum and size.

        Files whose names cannot be written here, or stand in a list, stay there, which is said.
        """
        quoted = shlex.quote(folder)
        listed = self.run(f"cd {quoted} && {_LISTED}", timeout_s=600.0)
        if listed.code != 0:
            raise RecordingError(f"the files there cannot be listed: {listed.last_error}")
        target.mkdir(parents=True, exist_ok=True)
        listing, strange = _read_list(listed.output.decode(errors="surrogateescape"))
        if strange:
            self._say(
                f"on the board stay {len(strange)} files whose names cannot be used here: "
                f"{', '.join(strange[:5])}"
            )
        missing = _missing(listing, target)
        if not missing:
            return 0
        names = "".join(f"./{name}\n" for name in missing).encode(errors="surrogateescape")
        with self._started(f"cd {quoted} && {_PACKED}") as begun:
            begun.feed(lambda stream: _write(names, stream))
            try:
                self._begin(begun, _CONNECT_MOST_S)
                received = unpack(begun.stream(SILENT_S), target, missing)
                while self._read(begun, SILENT_S):
                    pass
            except EOFError as error:
                finished = self._finished(begun)
                if finished.errors:
                    raise RecordingError(
                        f"files there cannot be read: {finished.last_error}"
                    ) from error
                raise ConnectionLostError("the connection was lost while files came") from error
            finished = self._finished(begun)
        if finished.code != 0:
            raise RecordingError(f"files there cannot be read: {finished.last_error}")
        return received

    def lines(self, command: str, *, stdin: bytes = b"", silent_s: float = 60.0) -> Iterator[bytes]:
        """Output of a command, line by line, until it ends.

        Args:
            command: As `run` takes it.
            stdin: As `run` takes it.
            silent_s: After so long without a word the board counts as lost.

        Raises:
            ConnectionLostError: As `run`; also where the command ended in any other way than well.
            RecordingError: As `run`; also where a line is longer than `LINE_MOST` bytes.
        """
        with self._started(command) as begun:
            begun.feed(lambda stream: _write(stdin, stream))
            unread = b""
            while data := self._read(begun, silent_s):
                *whole, unread = (unread + data).split(b"\n")
                if len(unread) > LINE_MOST:
                    raise RecordingError(
                        f"the board writes a line of more than {LINE_MOST // 1024**2} MiB",
                        id="line-too-long",
                    )
                yield from whole
            finished = self._finished(begun)
        if finished.code != 0:
            raise ConnectionLostError(f"what follows it there ended: {finished.last_error}")

    def close(self) -> None:
        """Ends the connection, and what listens for it here; nothing can be run any more."""
        with self._lock:
            self._closed = True
            self._end_master()
            self._folder.remove()

    # --- the connection itself --------------------------------------------------------------

    @property
    def _command(self) -> list[str]:
        options = [f"-o{option}" for option in (*_QUIET, f"ControlPath={self._folder.path / 's'}")]
        config = [] if self._config is None else ["-F", str(self._config)]
        return ["ssh", *config, *options]

    def _ssh(self, control: str, line: str, errors: IO[bytes]) -> subprocess.Popen[bytes]:
        command = [*self._command, f"-oControlMaster={control}", "-oControlPersist=no"]
        try:
            return subprocess.Popen(
                [*command, *self._address.arguments, line],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=dict(os.environ),
                start_new_session=True,  # Ctrl-C is for us: the board is told by a command
            )
        except OSError as error:
            raise RecordingError(f"ssh cannot be started here: {error.strerror}") from error

    def _open(self) -> None:
        """The master: it ends there and here when our end of its input closes, however we end."""
        self._errors = _aside()
        # A greeting may end without a new line: the empty one ends it.
        line = f"echo; echo {self._token} $$; exec cat >/dev/null"
        self._master = self._ssh("yes", line, self._errors)
        master = Command(self._master, self._errors, self._token)
        try:
            master.begin(_CONNECT_MOST_S)
        except EOFError:
            code = self._master.wait()
            raise self._refused(code, master.complaint()) from None
        except BaseException:
            self._end_master()
            raise

    def _end_master(self) -> None:
        master, errors = self._master, self._errors
        self._master = self._errors = None
        if errors is not None:
            errors.close()
        if master is None:
            return
        assert master.stdin is not None
        assert master.stdout is not None
        master.stdin.close()
        master.terminate()
        try:
            master.wait(5.0)
        except subprocess.TimeoutExpired:
            master.kill()
            master.wait()
        master.stdout.close()

    @contextmanager
    def _started(self, command: str) -> Iterator[Command]:
        """A command there; where the block ends before it, it is ended there and here."""
        with self._lock:
            if self._closed:
                raise ConnectionLostError("the connection was closed", id="connection-closed")
            if self._master is None or self._master.poll() is not None:
                self._end_master()
                self._open()
        line = (
            f"echo; echo {self._token} $$; (\n{command}\n); "
            "code=$?; [ $code != 255 ] || code=254; exit $code"
        )
        with _aside() as errors:
            process = self._ssh("no", f"exec sh -c {shlex.quote(line)}", errors)
            started = Command(process, errors, self._token)
            try:
                yield started
            finally:
                try:
                    if process.poll() is None:
                        self._end_remote(started)
                finally:
                    started.close()

    def _end_remote(self, command: Command) -> None:
        """Ends what a command does there, and waits for its end, where the board is reached."""
        with suppress(RecordingError, EOFError):
            command.begin(5.0)
        master = self._master
        if command.number is None or master is None or master.poll() is not None:
            return
        line = f"exec sh -c {shlex.quote(_END_THERE.format(number=command.number))}"
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                [*self._command, "-oControlMaster=no", *self._address.arguments, line],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                timeout=_ENDING_S,
                check=False,
                env=dict(os.environ),
            )

    def _begin(self, command: Command, wait_s: float) -> None:
        """Passes over what a login shell writes before our command begins.

        Raises:
            RecordingError: The command never began.
        """
        try:
            command.begin(wait_s)
        except EOFError:
            raise self._refused(command.process.wait(), command.complaint()) from None

    def _read(self, command: Command, silent_s: float, end: float | None = None) -> bytes:
        """The next bytes that a command writes; b"" at its end."""
        self._begin(command, _CONNECT_MOST_S if end is None else min(silent_s, _CONNECT_MOST_S))
        return command.read(silent_s, end)

    def _finished(self, command: Command, output: bytes = b"") -> Finished:
        """Result of a command, told apart from that of ssh."""
        code = command.wait(SILENT_S)
        if code == _LOST or code < 0:
            raise self._refused(code, command.complaint())
        command.raise_failure()
        return Finished(code=code, output=output, errors=command.complaint().encode())

    def _refused(self, code: int, errors: str) -> RecordingError:
        """Reason why ssh ended, in words that name no user, host or key."""
        if code not in (_LOST,) and code >= 0 and "ssh:" not in errors:
            return RecordingError(
                "the board lets us in but runs no commands: its login shell ended with "
                f"exit code {code}"
            )
        return refusal(errors, self._address)


def refusal(errors: str, address: Address) -> RecordingError:
    """The error that ssh's own words stand for.

    Args:
        errors: Output of ssh on standard error (the messages of OpenSSH 7 to 10).
        address: Whose names are left out of it.
    """
    for words, error in _REFUSALS:
        if any(word in errors for word in words):
            return type(error)(*error.args, id=error.id)
    lines = [line for line in errors.strip().splitlines() if line.strip()]
    last = inert(_nameless(lines[-1], address)) if lines else "ssh ended without a word"
    return ConnectionLostError(f"the connection to the board was lost: {last}")


_REFUSALS: Final[tuple[tuple[tuple[str, ...], RecordingError], ...]] = (
    (
        ("REMOTE HOST IDENTIFICATION HAS CHANGED",),
        RecordingError(
            "the board's host key has CHANGED since the last time: another machine may be answering in "
            "its place, or the connection is being intercepted; nothing was sent. If the board was set up anew, "
            "compare the fingerprint there (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), remove "
            "the old key here (ssh-keygen -R BOARD) and log in once by hand",
            id="host-key-changed",
        ),
    ),
    (
        ("Host key verification failed", "No matching host key", "is revoked"),
        RecordingError(
            "the board's host key is not known here: log in once by hand (ssh USER@BOARD), compare the "
            "fingerprint it shows with the board's own (ssh-keygen -lf "
            "/etc/ssh/ssh_host_ed25519_key.pub, typed there), and try again",
            id="host-key-unknown",
        ),
    ),
    (
        ("Permission denied", "Too many authentication failures", "No supported authentication"),
        RecordingError(
            "the board refuses us: it accepts no key of ours for that user, or has no such user; "
            "passwords are never asked for here. Put a key there (ssh-copy-id USER@BOARD) or load it "
            "(ssh-add), until ssh USER@BOARD logs in without a question",
            id="key-refused",
        ),
    ),
    (
        ("Could not resolve hostname",),
        ConnectionLostError(
            "the board's name cannot be resolved (DNS, ~/.ssh/config): check it, or use its address",
            id="name-not-resolved",
        ),
    ),
    (
        ("Connection refused",),
        ConnectionLostError(
            "the board refuses the connection: it is on, but no ssh server listens at that port "
            "(sudo systemctl start ssh)",
            id="no-ssh-server",
        ),
    ),
    (
        ("No route to host", "Network is unreachable", "Host is down"),
        ConnectionLostError(
            "the board cannot be reached: is it on, and in the same network?",
            id="unreachable",
        ),
    ),
    (
        ("timed out", "not responding"),
        ConnectionLostError(
            "the board does not answer (timed out): is it on, and in the same network?",
            id="no-answer",
        ),
    ),
    (
        ("Bad owner or permissions", "Bad configuration option", "Can't open user config"),
        RecordingError(
            "ssh does not accept its configuration here: see what `ssh USER@BOARD` says",
            id="ssh-configuration",
        ),
    ),
    (
        ("Unable to negotiate",),
        RecordingError(
            "the board and this ssh have no algorithm in common: see what `ssh USER@BOARD` says",
            id="no-common-algorithm",
        ),
    ),
)


def _nameless(text: str, address: Address) -> str:
    """A message of ssh's without user, host, addresses and paths."""
    for name in filter(None, (address.user, address.host)):
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", "…", text)
    text = re.sub(r"\b\d{1,3}(?:\.\d{1,3}){3}\b|\b[0-9A-Fa-f]*(?::[0-9A-Fa-f]*){2,}\b", "…", text)
    return re.sub(r"(?<!\w)/[^\s:\"']+", "…", text)


def _cannot_store(finished: Finished) -> RecordingError:
    errors = finished.errors.decode(errors="replace")
    # GNU tar says "Wrote only 512 of 10240 bytes" where the disk fills within a block.
    if any(words in errors for words in ("No space left", "Wrote only", "quota")):
        return RecordingError(
            "the board's disk is full: make room there, or name another folder (folder=DIR)",
            id="remote-disk-full",
        )
    return RecordingError(
        f"files cannot be written on the board: {finished.last_error}", id="remote-write-failed"
    )


def _read_list(listed: str) -> tuple[dict[str, tuple[str, int]], list[str]]:
    """Checksum and size of each file in a list of cksum's, and what of it cannot be used here."""
    listing: dict[str, tuple[str, int]] = {}
    strange: list[str] = []
    for line in listed.split("\n"):
        checksum, _, rest = line.partition(" ")
        size, _, name = rest.partition(" ")
        try:
            if _NUMBER.fullmatch(size) and _NUMBER.fullmatch(checksum):
                listing[check_name(name.removeprefix("./"))] = checksum, int(size)
            elif line:
                strange.append("one with a new line in it" if line == "." else repr(line[:80]))
        except InvalidValueError:
            strange.append(repr(name[:80]))
    return listing, strange


def _missing(listing: Mapping[str, tuple[str, int]], target: Path) -> dict[str, int]:
    """Size of each of the listed files that are not here in full.

    Raises:
        RecordingError: A file here cannot be read.
    """
    alike = [
        name
        for name, (_, size) in listing.items()
        if (target / name).is_file() and (target / name).stat().st_size == size
    ]
    here = _checksums(alike, target)
    return {name: size for name, (checksum, size) in listing.items() if here.get(name) != checksum}


def _checksums(names: list[str], folder: Path) -> dict[str, str]:
    """Checksums of files here by cksum; of each through its input, so that no name is spelt anew."""
    checksums: dict[str, str] = {}
    for name in names:
        try:
            with (folder / name).open("rb") as file:
                done = subprocess.run(
                    ["cksum"], stdin=file, capture_output=True, check=True, env=dict(os.environ)
                )
        except (OSError, subprocess.SubprocessError) as error:
            raise RecordingError(f"{folder / name} cannot be read") from error
        checksums[name] = done.stdout.decode().split()[0]
    return checksums


def _write(content: bytes, stream: IO[bytes]) -> None:
    stream.write(content)


def _aside() -> IO[bytes]:
    """Temporary file for the errors of ssh."""
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        raise RecordingError(f"no file can be made in {tempfile.gettempdir()}") from error


def _tell(text: str) -> None:
    print(text, file=sys.stderr)
