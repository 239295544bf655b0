"""A script under the agent over a connection: nothing is lost with the connection, nothing stays there."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.agent.boards import HERE, python
from tests.agent.test_tracing import STUBBED
from tests.refusals import refused
from tests.wording import saying

from wattstep.errors import DamagedRunError, RecordingError, RunExistsError
from wattstep.remote.agent.joining import join
from wattstep.remote.ssh import ConnectionLostError, Finished
from wattstep.remote.ssh.agent import profile_with_agent
from wattstep.train.script import ProfileSettings


class Shell:
    """A connection to this machine: sh below a folder that stands for the board's home.

    Args:
        folder: Where it may write.
        losses: By number of the command: which of them find the connection lost.
        lost: Text in a command, and how often its answer is lost after it was done.
    """

    shown = "board"

    def __init__(
        self, folder: Path, losses: range = range(0), lost: tuple[str, int] = ("", 0)
    ) -> None:
        self.folder = folder
        self.lost, self.times = lost
        self.losses = losses
        self.commands: list[str] = []
        folder.mkdir()

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "PYTHONPATH": str(HERE / "stub"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 60.0) -> Finished:
        self.commands.append(command)
        if len(self.commands) in self.losses:
            raise ConnectionLostError("the board cannot be reached")
        done = subprocess.run(
            ["sh", "-c", command], input=stdin, capture_output=True, timeout=timeout_s, check=False,
            env=self._environment(), cwd=self.folder,
        )  # fmt: skip
        if self.times and self.lost in command:
            self.times -= 1
            raise ConnectionLostError("the answer was lost")
        return Finished(code=done.returncode, output=done.stdout, errors=done.stderr)

    def push(self, files: Mapping[str, Path | bytes], folder: str) -> int:
        sent = 0
        for name, content in files.items():
            data = content if isinstance(content, bytes) else content.read_bytes()
            (Path(folder) / name).write_bytes(data)
            sent += len(data)
        return sent

    def pull(self, folder: str, target: Path) -> int:
        packed = self.run(f"tar -C {folder} -cf - .")
        if packed.code != 0:
            raise RecordingError(packed.last_error)
        with tarfile.open(fileobj=io.BytesIO(packed.output)) as archive:
            archive.extractall(target, filter="data")
        return len(packed.output)

    def close(self) -> None:
        pass


def soon(_: float) -> None:
    time.sleep(0.05)


def settings(folder: Path, **changed: object) -> ProfileSettings:
    script = folder / "script.py"
    if not script.exists():
        script.write_text(STUBBED)
    given = {
        "script": str(script), "arguments": ("3",), "trace": "every:9", "target": "ssh://board",
        "script_output": "stderr", **changed,
    }  # fmt: skip
    return ProfileSettings(**given)  # type: ignore[arg-type]


def test_a_script_is_recorded_there_and_nothing_stays(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shell, said = Shell(tmp_path / "board"), list[str]()
    code, path = profile_with_agent(
        shell, settings(tmp_path), str(tmp_path / "run"), said.append,
        python=python("3.6"), sleep=soon,
    )  # fmt: skip
    assert (code, path) == (5, tmp_path / "run")
    assert len(pq.read_table(path / "steps.parquet")) == 60
    assert len(pq.read_table(path / "operations.parquet")) > 0
    assert "__main__ 60 ['script.py', '3']" in capfd.readouterr().err
    assert list(shell.folder.iterdir()) == []
    assert saying(said, "nothing is installed")
    document = json.loads((path / "run.json").read_text())
    assert document["environment"]["python"].startswith("3.6")
    assert str(tmp_path) not in (path / "run.json").read_text()
    assert document["target"] == "ssh:board"


def test_the_training_goes_on_while_the_connection_is_lost(tmp_path: Path) -> None:
    # Four commands come before the first look at how far it is.
    shell = Shell(tmp_path / "board", losses=range(5, 15))
    code, path = profile_with_agent(
        shell, settings(tmp_path), str(tmp_path / "run"), lambda _: None,
        python=python("3.6"), sleep=soon,
    )  # fmt: skip
    assert code == 5
    assert len(shell.commands) > 16
    assert len(pq.read_table(path / "steps.parquet")) == 60
    assert list(shell.folder.iterdir()) == []


def test_a_board_that_does_not_come_back_keeps_what_it_recorded(tmp_path: Path) -> None:
    shell, said = Shell(tmp_path / "board", losses=range(5, 10**9)), list[str]()
    with pytest.raises(ConnectionLostError):
        profile_with_agent(
            shell, settings(tmp_path), str(tmp_path / "run"), said.append,
            python=python("3.6"), sleep=soon, patience_s=0.05,
        )  # fmt: skip
    assert not (tmp_path / "run").exists()
    (folder,) = shell.folder.glob(".cache/wattstep-board/agent-*")
    assert any(f"scp -r BOARD:{folder}/recording" in line for line in said)
    # The training was not ended by it; wait for its own end, so that nothing outlives the test.
    done = subprocess.run(
        ["sh", "-c", "n=0; until test -f code || test $n -ge 1200; do sleep 0.1; n=$((n+1)); done; cat code"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "5\n"


class Interrupted(Shell):
    """Ctrl-C here, once the script there is being recorded."""

    done = False

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 60.0) -> Finished:
        if "cat code" in command and not self.done:
            recordings = list(
                self.folder.glob(".cache/wattstep-board/agent-*/recording/windows.jsonl")
            )
            if recordings and recordings[0].stat().st_size:
                self.done = True
                raise KeyboardInterrupt
        return super().run(command, stdin=stdin, timeout_s=timeout_s)


def test_ctrl_c_here_ends_the_script_there_and_keeps_what_was_recorded(tmp_path: Path) -> None:
    shell = Interrupted(tmp_path / "board")
    code, path = profile_with_agent(
        shell, settings(tmp_path, arguments=("100000",)), str(tmp_path / "run"), lambda _: None,
        python=python("3.6"), sleep=soon,
    )  # fmt: skip
    assert code == 130
    document = json.loads((path / "run.json").read_text())
    assert document["state"] == "closed"
    assert saying(document["notes"], "SIGTERM")
    assert len(pq.read_table(path / "steps.parquet")) > 6  # those before the first window
    assert list(shell.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("changed", "id", "named"),
    [
        ({"module": True, "script": "json.tool"}, "agent-needs-file", "-m"),
        ({"step_marker": "backward"}, "agent-step-marker", "--step-marker backward"),
        ({"power_model": "vcpu"}, "agent-power-model", "--power-model"),
        ({"script": "nowhere.py"}, "no-such-script", "nowhere.py"),
    ],
)
def test_what_the_agent_cannot_do_is_refused_before_anything_travels(
    tmp_path: Path, changed: dict[str, object], id: str, named: str
) -> None:
    shell = Shell(tmp_path / "board")
    with refused(id, named):
        profile_with_agent(shell, settings(tmp_path, **changed), "run", lambda _: None)
    assert shell.commands == []


def test_a_python_that_is_too_old_or_missing_is_named(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "board")
    with refused("no-python", "Python 3.6", "python0"):
        profile_with_agent(
            shell, settings(tmp_path), str(tmp_path / "run"), lambda _: None, python="python0"
        )
    assert list(shell.folder.iterdir()) == []


def test_an_agent_that_cannot_record_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "board")
    with refused("nothing-recorded", "1ms"):
        profile_with_agent(
            shell, settings(tmp_path, interval="1.0 ms", trace="none"),
            str(tmp_path / "run"), lambda _: None, python=_refusing(tmp_path), sleep=soon,
        )  # fmt: skip
    assert list(shell.folder.iterdir()) == []


def _refusing(folder: Path) -> str:
    """A Python under which the agent is given another interval than it can take."""
    path = folder / "python"
    path.write_text(
        f'#!/bin/sh\ntest "$3" = run && exec {python("3.6")} "$2" run --interval 0.1ms script.py\n'
        f'exec {python("3.6")} "$@"\n'
    )
    path.chmod(0o755)
    return str(path)


class Steering(Shell):
    """A board whose complaints and answers would steer a terminal.

    Args:
        folder: As `Shell` has it.
        action: A part of the command at which it does so.
        answer: What it answers then, in place of doing it.
        code: With which exit code.
    """

    def __init__(self, folder: Path, action: str, answer: bytes, code: int) -> None:
        super().__init__(folder)
        self.action, self.answer, self.code = action, answer, code

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 60.0) -> Finished:
        if self.action not in command:
            return super().run(command, stdin=stdin, timeout_s=timeout_s)
        errors = b"\x1b[2J/home/me/x: it says\r\x1b]0;owned\x07 \xe2\x80\xaeno"
        return Finished(code=self.code, output=self.answer, errors=errors)


@pytest.mark.parametrize(
    ("action", "answer", "code", "id", "named"),
    [
        ("version_info", b"", 1, "no-python", "3.6"),
        (" look", b"", 1, "remote-command-failed", "look"),
        (" look", b'{"format": "\x1b[2J"}', 0, "damaged-look", "wattstep_agent.py look"),
        ("umask", b"", 1, "remote-command-failed", "folder"),
        ("umask", b"/tmp/\x1b[31m/agent-0", 0, "no-folder-made", "board"),
        ("mkdir started", b"", 1, "agent-not-started", "board"),
    ],
)
def test_what_a_board_complains_of_steers_no_terminal(
    tmp_path: Path, action: str, answer: bytes, code: int, id: str, named: str
) -> None:
    shell, told = Steering(tmp_path / "board", action, answer, code), list[str]()
    with refused(id, named) as raised:
        profile_with_agent(
            shell, settings(tmp_path), str(tmp_path / "run"), told.append,
            python=python("3.6"), sleep=soon,
        )  # fmt: skip
    for line in (str(raised.value), *told):
        assert line.isprintable()
        assert "/home/me" not in line


@pytest.mark.parametrize("garbled", [b"--5", b"\xc2\xb2", b"9" * 5000, b"\x1b[2J", b"5\n6"])
def test_an_exit_code_that_is_none_is_waited_for(tmp_path: Path, garbled: bytes) -> None:
    class Garbling(Shell):
        times = 2

        def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 60.0) -> Finished:
            done = super().run(command, stdin=stdin, timeout_s=timeout_s)
            if "kill -s 0" in command and "started" not in command:
                return Finished(code=0, output=b"", errors=b"")
            if "cat code 2" in command and done.output and self.times:
                self.times -= 1
                return Finished(code=0, output=garbled, errors=b"")
            return done

    code, _ = profile_with_agent(
        Garbling(tmp_path / "board"), short(tmp_path), str(tmp_path / "run"), lambda _: None,
        python=python("3.6"), sleep=soon,
    )  # fmt: skip
    assert code == 5


def test_a_run_that_is_there_already_costs_no_recording(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "board")
    (tmp_path / "run").mkdir()
    with pytest.raises(RunExistsError):
        profile_with_agent(
            shell, settings(tmp_path), str(tmp_path / "run"), lambda _: None, python=python("3.6")
        )
    assert shell.commands == []


# --- nothing that was recorded is lost -------------------------------------------------------------


def short(folder: Path) -> ProfileSettings:
    """Twenty steps, none of them traced."""
    return settings(folder, arguments=("1",), trace="none")


def recording_there(shell: Shell) -> Path:
    """The recording that stays on the board."""
    (folder,) = shell.folder.glob(".cache/wattstep-board/agent-*/recording")
    return folder


class NoRoomHere(Shell):
    """The disk here is full when the recording comes."""

    def pull(self, folder: str, target: Path) -> int:
        (target / "agent.json.part").write_text("{")
        raise RecordingError("the disk here is full: make room")


class StoppedHere(Shell):
    """Ctrl-C here while the recording comes."""

    def pull(self, folder: str, target: Path) -> int:
        raise KeyboardInterrupt


class Garbled(Shell):
    """What comes is no recording."""

    def pull(self, folder: str, target: Path) -> int:
        size = super().pull(folder, target)
        (target / "agent.json").write_text("{")
        return size


@pytest.mark.parametrize(
    ("kind", "error"),
    [(NoRoomHere, RecordingError), (StoppedHere, KeyboardInterrupt), (Garbled, DamagedRunError)],
)
def test_a_recording_that_does_not_become_a_run_here_stays_there(
    tmp_path: Path, kind: type[Shell], error: type[BaseException]
) -> None:
    shell, said = kind(tmp_path / "board"), list[str]()
    with pytest.raises(error):
        profile_with_agent(
            shell, short(tmp_path),
            str(tmp_path / "runs" / "run"), said.append, python=python("3.6"), sleep=soon,
        )  # fmt: skip
    there = recording_there(shell)
    assert any(f"scp -r BOARD:{there} ." in line for line in said)
    # It is whole: by hand it becomes the run.
    assert len(pq.read_table(join(there, tmp_path / "by-hand") / "steps.parquet")) == 20
    left = [path.name for path in (tmp_path / "runs").iterdir()]
    if kind is Garbled:  # all of it came: it is kept here as well
        (local,) = left
        assert any(f"--join {tmp_path / 'runs' / local} -o" in line for line in said)
    else:
        assert left == []


@pytest.mark.parametrize("lost", ["mkdir started", "tar -C", "rm -rf"])
def test_an_answer_that_is_lost_costs_nothing(tmp_path: Path, lost: str) -> None:
    shell, said = Shell(tmp_path / "board", lost=(lost, 2)), list[str]()
    code, path = profile_with_agent(
        shell, short(tmp_path), str(tmp_path / "run"),
        said.append, python=python("3.6"), sleep=soon,
    )  # fmt: skip
    assert shell.times == 0
    assert code == 5
    assert len(pq.read_table(path / "steps.parquet")) == 20  # it was started once
    assert len(saying(said, "answers again")) == 1
    assert list(shell.folder.iterdir()) == []


def test_a_folder_that_cannot_be_removed_is_said_and_the_run_is_here(tmp_path: Path) -> None:
    shell, said = Shell(tmp_path / "board", lost=("rm -rf", 10**9)), list[str]()
    code, path = profile_with_agent(
        shell, short(tmp_path), str(tmp_path / "run"),
        said.append, python=python("3.6"), sleep=soon, patience_s=0.01,
    )  # fmt: skip
    assert code == 5
    assert len(pq.read_table(path / "steps.parquet")) == 20
    assert saying(said, "but /", "remove it there")


@pytest.mark.parametrize("lost", ["mkdir -p", " look"])
def test_a_board_that_is_lost_before_the_start_has_recorded_nothing(
    tmp_path: Path, lost: str
) -> None:
    shell, said = Shell(tmp_path / "board", lost=(lost, 1)), list[str]()
    with pytest.raises(ConnectionLostError):
        profile_with_agent(
            shell, settings(tmp_path), str(tmp_path / "run"), said.append,
            python=python("3.6"), sleep=soon,
        )  # fmt: skip
    assert not any("what was recorded" in line for line in said)
    assert list(shell.folder.iterdir()) == []


def test_folders_that_were_there_before_stay(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "board")
    (shell.folder / ".cache").mkdir()
    profile_with_agent(
        shell, short(tmp_path), str(tmp_path / "run"),
        lambda _: None, python=python("3.6"), sleep=soon,
    )  # fmt: skip
    assert [str(path.relative_to(shell.folder)) for path in shell.folder.rglob("*")] == [".cache"]


class Restarted(Shell):
    """A board that was restarted: the number of the recording's process is now another's."""

    process = 0

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 60.0) -> Finished:
        for who in self.folder.glob(".cache/wattstep-board/agent-*/who"):
            if who.read_text().count("\n") == 2 and (who.parent / "recording/agent.json").exists():
                who.write_text("another-boot\n1\n")
                self.process = int((who.parent / "pid").read_text())
        return super().run(command, stdin=stdin, timeout_s=timeout_s)


def test_a_process_with_the_same_number_is_not_taken_for_the_recording(tmp_path: Path) -> None:
    shell = Restarted(tmp_path / "board")
    given = short(tmp_path)
    Path(given.script).write_text(STUBBED.replace("sys.exit(5)", "import time; time.sleep(600)"))
    try:
        code, path = profile_with_agent(
            shell, given, str(tmp_path / "run"), lambda _: None, python=python("3.6"), sleep=soon
        )
    finally:
        os.killpg(shell.process, signal.SIGKILL)
    assert code == 137
    assert json.loads((path / "run.json").read_text())["state"] == "recovered"
