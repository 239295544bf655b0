"""Records a script on a board whose Python is old, or where nothing may be installed: with the agent's one file."""

from __future__ import annotations

import codecs
import contextlib
import re
import secrets
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TextIO

from wattstep.errors import (
    InvalidValueError,
    RecordingError,
    RunExistsError,
    before_recording,
)
from wattstep.remote.agent.joining import join
from wattstep.remote.agent.looking import Look, parse_look
from wattstep.remote.agent.making import bare_agent, make_agent
from wattstep.remote.ssh import Connection, ConnectionLostError, Finished
from wattstep.remote.ssh.answers import complaint
from wattstep.remote.ssh.archive import cannot_write
from wattstep.remote.ssh.install import FOLDER
from wattstep.remote.ssh.job import RECONNECT_S, Patience, Say
from wattstep.train.script import ProfileSettings

AGENT: Final = "wattstep_agent.py"
OLDEST: Final = "3.6"
LOOK_S: Final = 120.0
POLL_S: Final = 1.0
MARKER: Final = "optimizer"
STOP_S: Final = 60  # for the script's own end, and the recording's, after SIGTERM
STOPPED: Final = 130
KILLED: Final = 137
TARGET: Final = "ssh:board"
_CODE: Final = re.compile(r"[0-9]{1,3}")
_PYTHON_TOLD: Final = "import sys; sys.exit(sys.version_info < (3, 6))"
# Below our folder, else below the one for temporary files, which a restart empties. "made" holds
# what was made on the way to it, innermost first: it goes again.
_MAKE: Final = """umask 077; above={above}; name={name}
absent=$(at=$above; while ! test -e "$at"; do printf '%s\\n' "$at"; at=$(dirname "$at"); done)
if mkdir -p "$above/$name" 2>/dev/null && cd "$above/$name" 2>/dev/null; then
test -e made || printf '%s\\n' "$absent" >made
else
cd "${{TMPDIR:-/tmp}}" && {{ mkdir "$name" || test -O "$name"; }} && cd "$name"
fi && pwd"""
_REMOVE: Final = """for at in {folders}; do
cd "$at" 2>/dev/null || continue
made=$(cat made 2>/dev/null); cd / && rm -rf -- "$at" || exit 1
printf '%s\\n' "$made" | while read -r each; do rmdir -- "$each" 2>/dev/null; done
done; true"""
# Which process it is: a number alone may be another's after a restart, or later on.
_WHO: Final = """boot() { cat /proc/sys/kernel/random/boot_id 2>/dev/null; }
who() { boot; cut -d" " -f22 "/proc/$1/stat" 2>/dev/null; }
"""
# Once, however often it is asked for: an answer may be lost on its way.
_START: Final = (
    "test -d started || {{ mkdir started && {{ {line} & }} && {{ who $! >who; echo $! >pid; }}; }}"
)
_ALIVE: Final = 'p=$(cat pid) && kill -s 0 $p && test "$(who $p)" = "$(cat who)"'
# Its session may go on without its first process; after a restart there is none.
_STOP: Final = """if test -f pid && ! test -f code && test "$(boot)" = "$(head -n 1 who)"; then
p=$(cat pid); kill -s TERM -- -$p; n=0
while kill -s 0 -- -$p && test $n -lt {seconds}; do sleep 1; n=$((n+1)); done
kill -s KILL -- -$p; fi 2>/dev/null; true"""


def profile_with_agent(
    connection: Connection,
    settings: ProfileSettings,
    out: str,
    say: Say,
    *,
    python: str = "python3",
    folder: str = FOLDER,
    patience_s: float = RECONNECT_S,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[int, Path]:
    """Runs somebody's own script on a board under the agent, and brings the run home.

    What travels: the agent (about 200 kB) and the script's file. The training goes on while the
    connection is lost; it is asked for again until `patience_s` have passed. Its folder on the
    board is removed once the run is here, or where nothing was recorded; never before.

    Args:
        connection: To the board.
        settings: The script and its options.
        out: Folder of the new run.
        say: Takes lines for the user.
        python: Command of the board's Python.
        folder: Of ours there; may begin with "~". The recording gets a folder of its own in it.
        patience_s: How long a lost connection is waited for.
        sleep: Waits.

    Returns:
        The script's exit code (130 after Ctrl-C here), and the run.

    Raises:
        InvalidValueError: The agent cannot do what is asked.
        RunExistsError: The run is there already.
        RecordingError: The board's Python is too old, its disk is full, or the agent failed.
        ConnectionLostError: The board did not come back; what was said names what stays there.
    """
    _check(settings)
    if Path(out).exists():
        raise RunExistsError(f"{out} exists already: choose another folder, or remove it first")
    board = _Board(connection, python, say)
    patience = Patience(patience_s, say, sleep)
    board.check_python()
    try:
        with before_recording():
            board.make_folder(folder)
            board.put(board.look(), Path(settings.script))
    except BaseException:
        _remove(board, "nothing was recorded")
        raise
    try:
        patience.keep_at(lambda: board.start(settings), "it may have begun there")
        code = _attend(board, _output(settings), lambda: sleep(POLL_S), patience)
        path = _bring_home(board, Path(out), code, patience, say)
    except _NothingRecordedError:
        _remove(board, "nothing was recorded")
        raise
    except BaseException as error:
        say(board.advice)
        if not isinstance(error, ConnectionLostError):
            with contextlib.suppress(RecordingError):
                board.stop()
        raise
    _remove(board, "the run is here", patience)
    return code, path


class _NothingRecordedError(RecordingError):
    """The board has nothing that could be lost."""


def _remove(board: _Board, known: str, patience: Patience | None = None) -> None:
    """Leaves nothing of ours there; what cannot be removed is a line, not an error."""
    try:
        if patience is None:
            board.remove()
        else:
            patience.keep_at(board.remove, known)
    except RecordingError as error:
        board.say(f"{known}, but {board.folder} stays on the board ({error}): remove it there")
    except BaseException:
        board.say(f"{known}, but {board.folder} stays on the board: remove it there")
        raise


def _check(settings: ProfileSettings) -> None:
    """Refuses what the agent cannot do, instead of leaving it out."""
    if settings.module:
        raise InvalidValueError(
            "the agent runs a script's file, not -m: name the file", id="agent-needs-file"
        )
    if settings.step_marker != MARKER:
        raise InvalidValueError(
            f"--step-marker {settings.step_marker}: on a board with the agent the optimizer ends a "
            "step; mark other steps in the script with wattstep_agent.Recorder",
            id="agent-step-marker",
        )
    if settings.power_model is not None:
        raise InvalidValueError(
            "--power-model: the agent records what the board measures only", id="agent-power-model"
        )
    if settings.keep is not None:
        raise InvalidValueError("--keep: the agent keeps every sample", id="agent-keep")
    if not Path(settings.script).is_file():
        raise InvalidValueError(f"{settings.script}: there is no such script", id="no-such-script")
    if Path(settings.script).name == AGENT:
        raise InvalidValueError(f"a script of the name {AGENT} cannot be recorded by it: rename it")


def _output(settings: ProfileSettings) -> TextIO:
    return sys.stderr if settings.script_output == "stderr" else sys.stdout


class _Board:
    """The agent's folder on a board, and what happens in it."""

    def __init__(self, connection: Connection, python: str, say: Say) -> None:
        self._connection = connection
        self._python = shlex.quote(python)
        self.say = say
        # Chosen here: it can be named, and removed, even where the answer to making it is lost.
        self._name = f"agent-{secrets.token_hex(8)}"
        self.folder = ""
        self._folders = ""  # as the shell there takes it
        self._script = ""

    @property
    def advice(self) -> str:
        """Advice about a recording that stays there."""
        return (
            f"what was recorded stays on the board, in {self.folder}: once it has ended, "
            f"`scp -r BOARD:{self.folder}/recording .` and `wattstep agent --join recording -o RUN` "
            "make a run of it; then remove the folder there"
        )

    def _run(self, command: str, *, timeout_s: float = 60.0) -> Finished:
        return self._connection.run(command, timeout_s=timeout_s)

    def _must(self, command: str, what: str, *, timeout_s: float = 60.0) -> Finished:
        done = self._run(command, timeout_s=timeout_s)
        if done.code != 0:
            raise RecordingError(
                f"{self._connection.shown}: {what}: {complaint(done)}", id="remote-command-failed"
            )
        return done

    def check_python(self) -> None:
        """Checks that there is a Python that the agent runs on."""
        done = self._run(f"{self._python} -c {shlex.quote(_PYTHON_TOLD)}")
        if done.code != 0:
            raise RecordingError(
                f"{self._connection.shown}: the agent needs Python {OLDEST} or later, and "
                f"{self._python} is none ({complaint(done)}): name another one",
                id="no-python",
            )

    def make_folder(self, above: str) -> None:
        """A folder of our own, for nobody else."""
        home = '"${HOME:-${TMPDIR:-/tmp}}"' if above.startswith("~/") else ""
        parent = home + shlex.quote(above[1:] if home else above)
        self.folder = f"{above}/{self._name}"  # until it is known in full
        self._folders = f'{parent}/{self._name} "${{TMPDIR:-/tmp}}"/{self._name}'
        done = self._must(
            _MAKE.format(above=parent, name=self._name), "no folder can be made there"
        )
        folder = done.output.decode(errors="replace").strip()
        ours = folder.startswith("/") and folder.endswith(f"/{self._name}")
        if not ours or not folder.isprintable():  # it stands in commands, and is shown
            raise RecordingError(
                f"{self._connection.shown}: it has made no folder", id="no-folder-made"
            )
        self.folder, self._folders = folder, shlex.quote(folder)

    def _inside(self, command: str) -> str:
        return f"cd {shlex.quote(self.folder)} && {command}"

    def look(self) -> Look:
        """Looks for the board's sensors."""
        self._connection.push({AGENT: bare_agent().encode()}, self.folder)
        command = self._inside(f"{self._python} {AGENT} look")
        return parse_look(self._must(command, "the agent cannot look", timeout_s=LOOK_S).output)

    def put(self, look: Look, script: Path) -> None:
        """The agent for this board, and the script."""
        self._script = script.name
        files: dict[str, Path | bytes] = {
            AGENT: make_agent(look).encode(),
            self._script: script,
        }
        sent = self._connection.push(files, self.folder)
        self.say(
            f"sent to {self._connection.shown}: the agent and {self._script}, "
            f"{sent / 1000:.0f} kB; nothing is installed there"
        )

    def start(self, settings: ProfileSettings) -> None:
        """Starts the recording in a session of its own: it outlives the connection."""
        options = ["--out", "recording", "--interval", settings.interval]
        options += ["--warmup", str(settings.warmup), *_trace_options(settings.trace)]
        words = [AGENT, "run", *options, self._script, *settings.arguments]
        command = " ".join([self._python, "-u", *map(shlex.quote, words)])
        # The code is written whole, by one rename: whoever finds it knows that all has ended.
        inner = f"{command} >output 2>errors; echo $? >code.new; mv code.new code"
        line = f"nohup setsid sh -c {shlex.quote(inner)} </dev/null >/dev/null 2>&1"
        done = self._run(self._inside(f"{_WHO}{_START.format(line=line)}"))
        if done.code != 0:
            raise _NothingRecordedError(
                f"{self._connection.shown}: the recording cannot be started: {complaint(done)}",
                id="agent-not-started",
            )

    def code(self) -> int | None:
        """The exit code, or None while it runs."""
        done = self._must(self._inside("cat code 2>/dev/null || true"), "its folder is gone")
        text = done.output.decode(errors="replace").strip()
        return int(text) if _CODE.fullmatch(text) else None

    def alive(self) -> bool:
        """True if its session still runs."""
        return self._run(self._inside(f"{_WHO}{_ALIVE}")).code == 0

    def output(self, name: str, since: int) -> bytes:
        """Output of the script from byte `since` on."""
        command = self._inside(f"tail -c +{since + 1} {name} 2>/dev/null | head -c 1000000")
        return self._run(command).output

    def stop(self) -> None:
        """Ends what runs: told first, so that the recording is closed; killed if it goes on."""
        command = f"{_WHO}{_STOP.format(seconds=STOP_S)}"
        self._run(self._inside(command), timeout_s=2.0 * STOP_S)

    def recorded(self) -> bool:
        """True if the agent began to record."""
        return self._run(self._inside("test -f recording/agent.json")).code == 0

    def fetch(self, target: Path) -> None:
        """Brings the recording into a local folder."""
        self._connection.pull(f"{self.folder}/recording", target)

    def remove(self) -> None:
        """Leaves nothing behind.

        Raises:
            RecordingError: Something stays.
        """
        command = _REMOVE.format(folders=self._folders)
        self._must(command, "files of ours cannot be removed", timeout_s=300.0)


def _trace_options(trace: str) -> list[str]:
    """`--trace` as the agent takes it."""
    if trace.startswith("every:"):
        return ["--every", trace.partition(":")[2]]
    return ["--trace", trace]


def _attend(board: _Board, output: TextIO, pause: Callable[[], None], patience: Patience) -> int:
    """Passes on what the script says until it has ended; its exit code.

    Ctrl-C here ends the script there; what was recorded is kept.
    """
    watch = _Watch(board, output)
    try:
        while (code := patience.keep_at(watch.look, "the training goes on there")) is None:
            pause()
        if code != KILLED:
            return code
    except KeyboardInterrupt:
        code = STOPPED
    # What it started may go on without it.
    patience.keep_at(board.stop, "the training goes on there")
    return code


class _Watch:
    """Progress of a script, and its output so far."""

    def __init__(self, board: _Board, output: TextIO) -> None:
        self._board = board
        self._streams = {"output": output, "errors": sys.stderr}
        self._shown = dict.fromkeys(self._streams, 0)
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {name: decoder(errors="replace") for name in self._streams}

    def look(self) -> int | None:
        """Passes on what is new; the exit code once it has ended, also by a kill or a reboot."""
        ended = not self._board.alive()
        code = self._board.code()
        for name, stream in self._streams.items():
            while data := self._board.output(name, self._shown[name]):
                self._shown[name] += len(data)
                stream.write(self._decoders[name].decode(data))
                stream.flush()
        return KILLED if ended and code is None else code


def _bring_home(board: _Board, out: Path, code: int, patience: Patience, say: Say) -> Path:
    """The recording as a run; on failure it stays where it is, and here as well if all of it came."""
    meanwhile = "what was recorded is kept there"
    if not patience.keep_at(board.recorded, meanwhile):
        errors = patience.keep_at(lambda: board.output("errors", 0), meanwhile)
        why = complaint(Finished(code=code, output=b"", errors=errors)).removeprefix("wattstep: ")
        raise _NothingRecordedError(f"nothing was recorded: {why}", id="nothing-recorded")
    local = _folder_beside(out)
    whole = False
    try:
        patience.keep_at(lambda: board.fetch(local), meanwhile)
        whole = True
        join(local, out, TARGET)
    except BaseException:
        if whole:
            say(f"it is here as well: wattstep agent --join {local} -o {out}")
        else:
            shutil.rmtree(local, ignore_errors=True)
        raise
    shutil.rmtree(local, ignore_errors=True)
    return out


def _folder_beside(out: Path) -> Path:
    """Makes the folder for the recording, on the disk of the run."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f"{out.name}.recording-", dir=out.parent))
    except OSError as error:
        raise RecordingError(cannot_write(out, error)) from error
