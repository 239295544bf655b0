"""Trainings and scripts on a board that a real OpenSSH server on loopback stands for, and what may go wrong."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.fleet.remote.server import MISSING, WHY_NOT, Server, serving
from tests.refusals import refused
from tests.small_disks import disk_of
from tests.waiting import until
from tests.wording import saying

from wattstep import load, workloads
from wattstep.engines import find
from wattstep.errors import InvalidValueError
from wattstep.remote.ssh import ConnectionLostError
from wattstep.remote.ssh.board import BoardOptions, RemoteBoard
from wattstep.remote.ssh.job import Job
from wattstep.remote.ssh.leftovers import Leftovers
from wattstep.schema.outcome import Configuration
from wattstep.schema.workload import Preparation
from wattstep.train.child.measuring import Listener
from wattstep.train.progress import Progress
from wattstep.train.script import ProfileSettings
from wattstep.train.settings import TrainingSettings

LONG_S = 120.0  # until something happens that takes a second where nothing else runs
pytestmark = pytest.mark.skipif(bool(MISSING), reason=WHY_NOT)

# Waits there until the test lets it go on, so that nothing depends on who is faster.
SCRIPT = """\
import os, sys, time
print("begun", *sys.argv[1:], flush=True)
print("noted", file=sys.stderr, flush=True)
for _ in range(15000):  # five minutes, should the test have died
    if os.path.exists(os.path.expanduser("~/go")):
        break
    time.sleep(0.02)
open("written.txt", "w").write(open("beside.txt").read() if os.path.exists("beside.txt") else "")
print("ended", flush=True)
raise SystemExit(7)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for most tests, whose installation is kept."""
    with serving(tmp_path_factory.mktemp("board")) as board:
        yield board


@contextmanager
def board(server: Server, said: list[str], **options: Any) -> Iterator[RemoteBoard]:
    given = BoardOptions(**{"keep": True, **options})
    with closing(RemoteBoard(server.connect(), given, said.append)) as opened:
        yield opened


def tiny(out: Path, **more: Any) -> TrainingSettings:
    return TrainingSettings(
        **{"workload": "lenet", "steps": 3, "warmup": 1, "trace": "none", "out": str(out), **more}
    )


@pytest.fixture
def script(tmp_path: Path, server: Server) -> Iterator[ProfileSettings]:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    (server.home / "go").unlink(missing_ok=True)
    yield ProfileSettings(
        script=str(path), arguments=("--rate", "1"), trace="none", target="ssh:board"
    )
    (server.home / "go").touch()


@contextmanager
def meanwhile(action: Callable[[], None], server: Server) -> Iterator[None]:
    """Does something beside the test; whatever becomes of it, the script there goes on then."""
    failed: list[BaseException] = []

    def act() -> None:
        try:
            action()
        except BaseException as error:
            failed.append(error)
            (server.home / "go").touch()
            server.start()

    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        if failed:  # what it hinders in the test is no news
            raise failed[0]


def until_begun(server: Server) -> None:
    def begun() -> bool:
        for path in server.home.glob(".cache/wattstep-board/jobs/*/stdout"):
            with suppress(OSError):  # of another job, which is gone
                if b"begun" in path.read_bytes():
                    return True
        return False

    until(begun, LONG_S)


def until_ended(server: Server) -> None:
    """What waited there has written how it ended; the room for that is reserved with zeros."""
    endings = ".cache/wattstep-board/jobs/*/ending.json"
    until(
        lambda: any(path.read_bytes().startswith(b"{") for path in server.home.glob(endings)),
        LONG_S,
    )


def no_names(text: str, server: Server) -> bool:
    names = (str(server.home), "127.0.0.1", str(server.port), str(server.folder))
    return not any(name in text for name in names)


def assert_canaries_around(out: Path) -> None:
    """One worked before the first step and one after the last, by the board's own clock."""
    found = json.loads((out / "run.json").read_text())["canary"]
    assert found["before"]["right"]
    assert found["after"]["right"]
    steps = pq.read_table(out / "steps.parquet").to_pydict()
    assert found["before"]["at_ns"] < steps["start_ns"][0]
    assert found["after"]["at_ns"] > steps["end_ns"][-1]


def test_an_exported_training_goes_to_the_board_and_trains_there(
    server: Server, tmp_path: Path
) -> None:
    pytest.importorskip("MNN", reason="MNN is not installed")
    exported = tmp_path / "lenet-mnn"
    find("mnn").export(workloads.find("lenet"), Preparation(batch_size=4), exported)
    said: list[str] = []
    with board(server, said) as remote:
        settings = tiny(tmp_path / "run", engine="mnn", exported=str(exported))
        path = remote.train(settings, lambda progress: None, said.append, None)
    run = load(path)
    assert run.info.workload == "lenet"
    assert run.info.engine.casefold().startswith("mnn ")
    assert any("export.json" in line for line in said)  # what travelled is told


def test_a_training_there_becomes_a_run_here_and_nothing_stays(tmp_path: Path) -> None:
    progress: list[Progress] = []
    said: list[str] = []
    out = tmp_path / "runs/first"
    with serving(tmp_path / "board") as server:
        with board(server, said, keep=False) as place:
            asked = tiny(out, canary=True)  # as `wattstep run` asks
            assert place.train(asked, progress.append, said.append, None) == out
        assert server.left() == []
        until(lambda: server.processes() == [], LONG_S)  # the last ones end with their connection
        assert no_names((out / "run.json").read_text(), server)
        assert no_names("\n".join(said), server)
    # One warm-up step and three more; each step takes time, and ends before the next begins.
    steps = pq.read_table(out / "steps.parquet").to_pydict()
    assert steps["index"] == [0, 1, 2, 3]
    assert steps["warmup"] == [True, False, False, False]
    document = json.loads((out / "run.json").read_text())
    assert (document["target"], document["state"]) == ("ssh:board", "closed")
    assert_canaries_around(out)
    assert [path.name for path in out.parent.iterdir()] == ["first"]
    assert progress[-1].steps == 4
    assert saying(said, "to the board:", "wheel of wattstep")
    assert saying(said, "to the board:", "settings")


def test_a_measurement_there_is_an_outcome_as_one_of_here(server: Server, tmp_path: Path) -> None:
    said: list[str] = []
    chosen = Configuration(workload="lenet", batch_size=2, threads=1)
    out = tmp_path / chosen.name
    listener = Listener(on_progress=lambda _: None, on_warning=said.append)
    with board(server, said) as place:
        settings = tiny(out, batch_size=2, threads=1, steps=1)
        outcome = place.measure(chosen, settings, None, listener)
    assert (outcome.status, outcome.run, outcome.configuration) == ("trained", out.name, chosen)
    ends = pq.read_table(out / "steps.parquet", columns=["start_ns", "end_ns"]).to_pydict()
    spans = [b - a for a, b in zip(ends["start_ns"], ends["end_ns"], strict=True)][1:]
    assert outcome.figures["step_time"]["value"] == pytest.approx(sum(spans) / 1 / 1e9)
    assert saying(said, "kept on")
    assert [path.name for path in server.home.glob(".cache/wattstep-board/jobs/*")] == []


def test_doctor_there_finds_the_board_and_keeps_the_installation(server: Server) -> None:
    said: list[str] = []
    with board(server, said) as place:
        found = place.diagnose("10ms")
    with board(server, said) as place:  # it is there from the first time
        assert len(place.board.installed) == 1
    assert (found["target"], found["device"]["cores"]) == (
        "ssh:board",
        len(os.sched_getaffinity(0)),
    )
    assert {row["name"]: row["present"] for row in found["sensors"]}["process_cpu"]
    assert no_names(json.dumps(found), server)


def test_a_script_survives_a_cut_and_a_board_that_is_away(
    server: Server, script: ProfileSettings, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    (tmp_path / "beside.txt").write_text("sent along")
    out = tmp_path / "run"

    def interfere() -> None:
        until_begun(server)
        server.cut()  # the connection alone
        until(lambda: "the board answers again" in said, LONG_S)
        server.stop()  # and now nobody answers for a while
        told = said.index("the board answers again")
        until(lambda: any("connection lost" in line for line in said[told:]), LONG_S)
        server.start()
        (server.home / "go").touch()

    with board(server, said) as place, meanwhile(interfere, server):
        code, path = place.profile(script, str(out), str(tmp_path / "beside.txt"))
    assert (code, path) == (7, out)
    shown = capfd.readouterr()
    assert shown.out == "begun --rate 1\nended\n"  # each line once
    assert "noted\n" in shown.err
    assert load(out).info.target == "ssh:board"
    assert load(out).info.canary["before"]["right"]  # there is no after without a step
    assert (tmp_path / "run.files/written.txt").read_text() == "sent along"
    assert sorted(p.name for p in tmp_path.joinpath("run.files").iterdir()) == ["written.txt"]
    assert no_names("\n".join(said), server)


def test_what_a_killed_host_left_is_listed_and_fetched(
    server: Server, script: ProfileSettings, tmp_path: Path
) -> None:
    host = subprocess.Popen(
        [sys.executable, "-m", "wattstep", "profile", "--target", f"{server.target},keep=yes",
         "--trace", "none", "--out", str(tmp_path / "runs"), "--name", "mine", script.script],
        env={**os.environ, "WATTSTEP_SSH_CONFIG": str(server.client_config)},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"begun\n"
        host.kill()
    with closing(Leftovers(server.connect(), BoardOptions(), print)) as leftovers:
        (job,) = leftovers.look().jobs
        assert (job.state, job.title, job.run) == ("running", "train.py", "mine")
        with refused("job-runs", "--force"):
            leftovers.clean(force=False)
        assert leftovers.fetch(tmp_path / "fetched") == []
        (server.home / "go").touch()
        until_ended(server)
        assert leftovers.look().jobs[0].state == "finished"
        with refused("job-not-fetched", "--fetch"):
            leftovers.clean(force=False)
        assert leftovers.fetch(tmp_path / "fetched") == [tmp_path / "fetched/mine"]
        assert load(tmp_path / "fetched/mine").info.workload == "train"
        assert (tmp_path / "fetched/mine.files/written.txt").exists()
        assert leftovers.look().jobs == ()
        with refused("no-such-job"):
            leftovers.fetch(tmp_path, [job.id])


def test_a_board_that_was_restarted_gives_back_what_was_recorded(
    server: Server, script: ProfileSettings, tmp_path: Path
) -> None:
    said: list[str] = []
    out = tmp_path / "run"

    def restart() -> None:
        until_begun(server)
        server.stop()
        server.end_jobs()
        server.boot_id.write_text("second\n")
        server.start()

    try:
        with (
            board(server, said) as place,
            meanwhile(restart, server),
            refused("board-restarted", "wattstep report") as raised,
        ):
            place.profile(script, str(out))
    finally:
        server.boot_id.write_text("first\n")
    assert not isinstance(raised.value, ConnectionLostError)
    run = load(out)
    assert run.info.state == "recovered"
    assert saying(run.info.notes, "restarted", "recorded up to")
    assert len(run.tables.table("samples")) > 0


def test_ctrl_c_ends_the_script_there_and_keeps_what_it_recorded(
    server: Server, script: ProfileSettings, tmp_path: Path
) -> None:
    host = subprocess.Popen(
        [sys.executable, "-m", "wattstep", "profile", "--target", f"{server.target},keep=yes",
         "--trace", "none", "--out", str(tmp_path / "runs"), "--name", "stopped", script.script],
        env={**os.environ, "WATTSTEP_SSH_CONFIG": str(server.client_config)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with host:
        assert host.stdout is not None
        assert host.stderr is not None
        assert host.stdout.readline() == "begun\n"
        host.send_signal(signal.SIGINT)
        said = host.stderr.read()
    assert host.returncode == 130, said
    assert "ending it" in said
    run = load(tmp_path / "runs/stopped")
    assert run.info.target == "ssh:board"
    assert len(run.tables.table("samples")) > 0
    until(lambda: not server.jobs(), LONG_S)
    assert list(server.home.glob(".cache/wattstep-board/jobs/*")) == []


WRITING = """\
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
open("model.pt", "w").write("trained")
open("a" + chr(92) + "tb", "w").write("odd")
os.symlink("model.pt", "latest")
"""


def test_what_a_script_wrote_is_brought_and_what_it_started_is_ended(
    server: Server, tmp_path: Path
) -> None:
    said: list[str] = []
    path = tmp_path / "write.py"
    path.write_text(WRITING)
    for name in ("model.pt", "-x.txt"):
        (tmp_path / name).write_text("sent")
    settings = ProfileSettings(script=str(path), trace="none", target="ssh:board")
    sent = [str(tmp_path / name) for name in ("model.pt", "-x.txt")]
    with board(server, said) as place:
        code, out = place.profile(settings, str(tmp_path / "run"), *sent)
    found = {p.name: p.read_text() for p in (tmp_path / "run.files").iterdir()}
    assert (code, found) == (0, {"model.pt": "trained", "a%5Ctb": "odd"})
    assert any("a\\tb is called a%5Ctb" in line for line in said)
    assert saying(said, "no files: latest")
    assert server.jobs() == []
    assert load(out).info.target == "ssh:board"


def test_a_folder_that_was_named_keeps_what_is_not_ours(server: Server, tmp_path: Path) -> None:
    used = server.home / "used"
    for name in ("jobs/thesis", "environment-mine"):
        (used / name).mkdir(parents=True)
        (used / name / "f").write_text("his")
    with closing(Leftovers(server.connect(), BoardOptions(folder="~/used"), print)) as leftovers:
        assert leftovers.look().jobs == ()
        assert leftovers.fetch(tmp_path) == []
        leftovers.clean(force=True)
    assert sorted(str(p.relative_to(used)) for p in used.rglob("f")) == [
        "environment-mine/f", "jobs/thesis/f",
    ]  # fmt: skip


def test_an_installation_that_is_gone_meanwhile_is_made_again(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    send = Job.send

    def cleaned(job: Job, *given: Any) -> int:
        for path in server.home.glob(".cache/wattstep-board/environment-*"):
            path.rename(server.home / "gone")
        return send(job, *given)

    path = tmp_path / "short.py"
    path.write_text("raise SystemExit(3)")
    settings = ProfileSettings(script=str(path), trace="none", target="ssh:board")
    monkeypatch.setattr(Job, "send", cleaned)
    with board(server, said) as place:
        assert place.profile(settings, str(tmp_path / "run"))[0] == 3
    shutil.rmtree(server.home / "gone")
    assert list(server.home.glob(".cache/wattstep-board/jobs/*")) == []


def test_a_board_that_stays_away_keeps_the_job_for_later(
    server: Server, script: ProfileSettings, tmp_path: Path
) -> None:
    said: list[str] = []

    def vanish() -> None:
        until_begun(server)
        server.stop()

    try:
        with (
            board(server, said, reconnect_s=0.5) as place,
            meanwhile(vanish, server),
            refused("job-goes-on", "--fetch"),
        ):
            place.profile(script, str(tmp_path / "run"))
    finally:
        server.start()
    assert any("stays there" in line or "board stay" in line for line in said)
    (server.home / "go").touch()
    with closing(Leftovers(server.connect(), BoardOptions(), print)) as leftovers:
        until_ended(server)
        assert leftovers.fetch(tmp_path) == [tmp_path / "run"]
        leftovers.clean(force=False)
        assert leftovers.look().size == 0
    assert list(server.home.glob(".cache/wattstep-board*")) == []


def test_a_taken_folder_is_refused_before_anything_is_sent(server: Server, tmp_path: Path) -> None:
    said: list[str] = []
    with (
        board(server, said) as place,
        refused("run-exists"),
    ):
        place.train(tiny(tmp_path), print, print, None)
    assert not any("to the board" in line for line in said)


def test_a_script_that_is_not_here_is_refused(server: Server, tmp_path: Path) -> None:
    gone = ProfileSettings(script=str(tmp_path / "none.py"), target="ssh:board")
    with board(server, []) as place, refused("no-such-file"):
        place.profile(gone, str(tmp_path / "run"))


OLD = Path.home() / ".pyenv/versions/3.6.15/bin/python"


@pytest.mark.skipif(not OLD.exists(), reason="there is no Python 3.6 here")
def test_an_old_python_says_what_to_do(tmp_path: Path) -> None:
    with (
        serving(tmp_path / "board", python=str(OLD)) as server,
        board(server, [], python=str(OLD)) as place,
    ):
        assert place.board.version[:2] == (3, 6)
        with refused("python-too-old", "Python 3.10", "Python 3.6.15", "python=PATH"):
            place.train(tiny(tmp_path / "run"), print, print, None)
        script = tmp_path / "old.py"
        script.write_text("import sys; print(sys.version_info[:2]); raise SystemExit(5)")
        settings = ProfileSettings(script=str(script), trace="none", target="ssh:board")
        code, path = place.profile(settings, str(tmp_path / "run"))
        assert code == 5
        assert load(path).info.target == "ssh:board"
        assert server.left() == []


def test_options_are_checked() -> None:
    parsed = BoardOptions.parse({"keep": "yes", "reconnect": "90s", "torch": "torch==2.4.1"})
    assert (parsed.keep, parsed.reconnect_s, parsed.torch) == (True, 90.0, "torch==2.4.1")
    for wrong in ({"keep": "maybe"}, {"colour": "red"}, {"python": ""}, {"folder": "-rf"}):
        with pytest.raises(InvalidValueError, match="--target ssh"):
            BoardOptions.parse(wrong)


FILLING = """\
print("begun", flush=True)
import os, time
for _ in range(15000):  # until a first sample is there: what is recorded is worth keeping
    if any(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk("../runs")
           for name in names if "samples" in os.path.join(at, name)):
        break
    time.sleep(0.02)
try:
    with open("fill", "wb", buffering=0) as file:
        while True:
            file.write(b"x" * 2**20)
except OSError as error:
    said = error.strerror
os.remove("fill")
print(said, flush=True)
raise SystemExit(3)
"""


def test_a_disk_that_fills_there_costs_no_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    script = tmp_path / "fill.py"
    script.write_text(FILLING)
    settings = ProfileSettings(script=str(script), trace="none", target="ssh:board")
    with disk_of(tmp_path / "board/home", "120m"), serving(tmp_path / "board") as server:
        with board(server, said, keep=False) as place:
            code, out = place.profile(settings, str(tmp_path / "run"))
        assert server.left() == []
    assert code in (2, 3)
    run = load(out)
    assert len(run.tables.table("samples")) > 0
    assert os.strerror(errno.ENOSPC) in capfd.readouterr().out


def test_a_disk_that_is_full_there_is_said_before_anything_is_sent(tmp_path: Path) -> None:
    said: list[str] = []
    with (
        disk_of(tmp_path / "board/home", "8m"),
        serving(tmp_path / "board") as server,
        board(server, said) as place,
    ):
        with refused("remote-disk-low", "folder=DIR"):
            place.train(tiny(tmp_path / "run"), print, print, None)
        connection = server.connect()
        with closing(connection), refused("remote-disk-full"):
            connection.push({"much": bytes(10**7)}, "there")
    assert said == []
