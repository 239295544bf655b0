"""What is cut short before anything trains on a board: by Ctrl-C here, or by a connection that is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.fleet.remote.server import LONG_S, MISSING, WHY_NOT, Server, serving
from tests.waiting import gone, until
from tests.wording import assert_says, saying

from wattstep.cli import UNRECORDED
from wattstep.remote.ssh import bootstrap as on_board
from wattstep.remote.ssh import install
from wattstep.remote.ssh.board import BoardOptions
from wattstep.remote.ssh.leftovers import Leftovers

pytestmark = pytest.mark.skipif(bool(MISSING), reason=WHY_NOT)

# The board's Pythons wait there with these words on their command line until the test lets them go.
HOLDING = """\
import os, sys, time
word = {word!r}
if word in sys.orig_argv and not os.path.exists(os.path.expanduser("~/../go")):
    open(os.path.expanduser("~/../held"), "w").close()
    for _ in range(15000):  # five minutes, should the test have died
        if os.path.exists(os.path.expanduser("~/../go")):
            break
        time.sleep(0.02)
"""
HOLDING_TAR = """\
#!/bin/sh
cat >/dev/null
touch ~/../held
sleep 300
"""


def hold_python(server: Server, word: str) -> None:
    """Lets Pythons there wait that have a word on their command line."""
    folder = server.folder / "holding"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HOLDING.format(word=word))
    server.environment["PYTHONPATH"] = str(folder)
    server.write_shell()


def hold_tar(server: Server) -> None:
    """Lets files wait that have come there and are to be stored."""
    (server.path / "tar").write_text(HOLDING_TAR)
    (server.path / "tar").chmod(0o755)


@contextmanager
def training(server: Server, out: Path, **options: str) -> Iterator[subprocess.Popen[str]]:
    """`wattstep run` here, at a board where it is held; it waits until that is so."""
    target = ",".join([server.target, *(f"{key}={value}" for key, value in options.items())])
    command = [
        *(sys.executable, "-m", "wattstep", "run", "lenet", "--target", target, "--steps", "1"),
        *("--warmup", "1", "--trace", "none", "--out", str(out), "--name", "mine"),
    ]
    environment = {**os.environ, "WATTSTEP_SSH_CONFIG": str(server.client_config)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as host:
        try:
            until(lambda: (server.folder / "held").exists() or host.poll() is not None, LONG_S)
            yield host
        finally:
            host.kill()


def end_held(server: Server) -> None:
    """What is held there ends without a word, as by a power cut."""
    pids = server.processes()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    until(lambda: all(gone(pid) for pid in pids), LONG_S)


def starting_within(seconds: float) -> bytes:
    """What travels there, with another time in which a job's files may be on their way."""
    text = Path(on_board.__file__).read_text()
    assert "\nSTARTING_S = 60.0" in text
    return text.replace("\nSTARTING_S = 60.0", f"\nSTARTING_S = {seconds}").encode()


@pytest.mark.parametrize("held", ["files", "environment"])
def test_ctrl_c_in_the_middle_of_the_installation_leaves_nothing_there(
    held: str, tmp_path: Path
) -> None:
    with serving(tmp_path / "board") as server:
        if held == "files":
            hold_tar(server)
        else:
            hold_python(server, "venv")
        with training(server, tmp_path / "runs") as host:
            (half,) = server.home.glob(".cache/wattstep-board/environment-*")
            assert "." in half.name  # a whole one has another name
            host.send_signal(signal.SIGINT)
            out, errors = host.communicate()
        assert host.returncode == 130, errors
        # What went there is said as it happens; how it ended is one line.
        first, last = errors.splitlines()
        assert_says(first, "to the board:", "wheel of wattstep")
        assert last == f"wattstep: stopped{UNRECORDED}"
        assert out == ""
        until(lambda: server.processes() == [], LONG_S)
        assert server.left() == []
    assert not (tmp_path / "runs/mine").exists()


def test_a_connection_that_is_cut_in_an_installation_ends_it_and_leaves_nothing_there(
    tmp_path: Path,
) -> None:
    with serving(tmp_path / "board") as server:
        hold_python(server, "venv")
        with training(server, tmp_path / "runs") as host:
            server.cut()
            _, errors = host.communicate()
        assert host.returncode == 2, errors
        first, last = errors.splitlines()
        assert_says(first, "to the board:", "wheel of wattstep")
        assert_says(last, "wattstep: the connection", "lost")
        until(lambda: server.processes() == [], LONG_S)
        assert server.left() == []
    assert not (tmp_path / "runs/mine").exists()


def test_a_connection_that_is_cut_before_the_start_is_made_again_and_it_trains(
    tmp_path: Path,
) -> None:
    with serving(tmp_path / "board") as server:
        hold_python(server, "start")
        with training(server, tmp_path / "runs") as host:
            (job,) = server.home.glob(".cache/wattstep-board/jobs/*")
            assert [path.name for path in job.iterdir()] == ["job.json"]
            server.stop()
            end_held(server)
            (server.folder / "go").touch()
            server.start()
            _, errors = host.communicate()
        assert host.returncode == 0, errors
        assert saying(errors.splitlines(), "connection lost", "trying again")
        assert saying(errors.splitlines(), "answers again")
        until(lambda: server.processes() == [], LONG_S)
        assert server.left() == []
    assert json.loads((tmp_path / "runs/mine/run.json").read_text())["target"] == "ssh:board"


def test_a_board_that_stays_away_before_the_start_is_cleared_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path / "board") as server:
        hold_python(server, "start")
        with training(server, tmp_path / "runs", reconnect="500ms") as host:
            server.stop()
            end_held(server)
            _, errors = host.communicate()
        (server.folder / "go").touch()
        assert host.returncode == 2, errors
        assert "Traceback" not in errors
        last = errors.splitlines()[-1]
        assert_says(last, "wattstep: the board", "0 s")
        assert "wattstep targets" in errors
        server.start()
        said: list[str] = []
        with closing(Leftovers(server.connect(), BoardOptions(), said.append)) as leftovers:
            # As long as its files may be on their way it is nobody's to take away.
            monkeypatch.setattr(install, "script", lambda: starting_within(1e9))
            (job,) = leftovers.look().jobs
            assert (job.state, job.recorded) == ("running", False)
            monkeypatch.setattr(install, "script", lambda: starting_within(0.0))
            assert leftovers.look().jobs[0].state == "died"
            assert leftovers.fetch(tmp_path / "fetched") == []
            assert said == [f"{job.id} had recorded nothing"]
            leftovers.clean(force=False)
        assert server.left() == []
    assert not (tmp_path / "runs/mine").exists()
