"""What is missing on a board, what is sent there, and what is refused."""

from __future__ import annotations

import ast
import base64
import csv
import hashlib
import json
import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused
from tests.waiting import gone, until
from tests.wording import assert_says

from wattstep.errors import MissingPartError, RecordingError
from wattstep.remote.ssh import Finished
from wattstep.remote.ssh import bootstrap as on_board
from wattstep.remote.ssh.answers import complaint, nameless
from wattstep.remote.ssh.install import Board, install, look, missing, spell_bytes, wheel


def board(**changes: Any) -> Board:
    given = {
        "executable": "/usr/bin/python3",
        "version": (3, 10, 12),
        "libraries": {"numpy": "1.26.4", "pyarrow": "17.0.0", "tomli": "2.0.1", "torch": "2.5.0", "pip": "22.0.2"},
        "places": (), "architecture": "aarch64", "tegra": "", "boot": "x", "folder": "/home/b/f",
        "free": 10**10, "installed": (), "size": 0,
    }  # fmt: skip
    return Board(**{**given, **changes})


def without(*names: str, **changes: str) -> dict[str, str]:
    kept = {k: v for k, v in board().libraries.items() if k not in names}
    return {**kept, **changes}


def test_what_the_board_has_is_used() -> None:
    assert missing(board(), None) == []


def test_only_what_it_lacks_is_installed() -> None:
    assert missing(board(libraries=without("pyarrow")), None) == ["pyarrow>=16"]
    assert missing(board(libraries=without(pyarrow="9.0.1")), None) == ["pyarrow>=16"]
    assert missing(board(libraries=without("tomli")), None) == ["tomli>=2"]
    assert missing(board(libraries=without("tomli"), version=(3, 11, 2)), None) == []


def test_an_engine_that_is_not_there_is_installed_without_torch() -> None:
    bare, mnn = board(libraries=without("torch")), ("MNN", "mnn>=3.6")
    assert missing(bare, None, needs_torch=False, engine=mnn) == ["mnn>=3.6"]
    assert (
        missing(
            board(libraries={**bare.libraries, "MNN": "3.6.1"}), None, needs_torch=False, engine=mnn
        )
        == []
    )
    assert missing(board(), None, engine=mnn) == ["mnn>=3.6"]


def test_torch_that_is_there_is_never_replaced() -> None:
    assert missing(board(), "torch==2.9.0") == []


def test_a_jetson_without_torch_is_told_where_it_comes_from() -> None:
    jetson = board(libraries=without("torch"), tegra="# R36 (release), REVISION: 4.3")
    for spec in (None, "torch"):  # even where it is asked for: the index has none with CUDA
        with refused("no-torch-on-jetson", "NVIDIA", "python=PATH"):
            missing(jetson, spec)


def test_elsewhere_the_option_is_named_or_used() -> None:
    bare = board(libraries=without("torch"))
    with refused("no-torch-on-board", "torch=torch"):
        missing(bare, None)
    assert missing(bare, "torch==2.4.1") == ["torch==2.4.1"]
    assert missing(bare, None, needs_torch=False) == []


class Scripted:
    """A connection whose commands end as a test says."""

    shown = "board"

    def __init__(self, *endings: tuple[str, int, bytes]) -> None:
        self.endings, self.commands, self.pushed = endings, [], []  # type: ignore[var-annotated]

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 60.0) -> Finished:
        self.commands.append(command)
        for part, code, errors in self.endings:
            if part in command:
                return Finished(code=code, output=b"", errors=errors)
        return Finished(code=0, output=b'{"error": ""}\n', errors=b"")

    def push(self, files: Any, folder: str) -> int:
        self.pushed.append((sorted(files), folder))
        return 1

    def pull(self, folder: str, target: Path) -> int:
        raise AssertionError

    def close(self) -> None: ...


def test_pip_is_bound_to_the_torch_and_numpy_that_are_there() -> None:
    connection = Scripted()
    sent: dict[str, bytes] = {}
    connection.push = lambda files, folder: sent.update(files) or 1  # type: ignore[assignment,func-returns-value]
    lines: list[str] = []
    install(connection, board(libraries=without("pyarrow")), lines.append)
    assert sent["constraints.txt"] == b"torch==2.5.0\nnumpy<2\n"
    (pip,) = [command for command in connection.commands if " pip install " in command]
    assert "--no-cache-dir" in pip
    assert shlex.split(pip)[-1].endswith("-c constraints.txt 'pyarrow>=16'")
    assert_says(lines[1], "board's pip", "pyarrow>=16")


@pytest.mark.parametrize(
    ("errors", "kind", "id", "named"),
    [
        (b"... Failed to establish a new connection: [Errno -3] Temporary failure in name resolution",
         MissingPartError, "no-package-index", "pyarrow>=16"),
        (b"ERROR: Could not install: [Errno 28] No space left on device", RecordingError, "remote-disk-full", "folder=DIR"),
        (b"ERROR: No matching distribution found for pyarrow>=16", MissingPartError, "install-failed", "No matching distribution"),
    ],
)  # fmt: skip
def test_a_failed_installation_says_why_and_leaves_nothing(
    errors: bytes, kind: type[Exception], id: str, named: str
) -> None:
    connection = Scripted((" pip install ", 1, errors))
    with refused(id, named) as raised:
        install(connection, board(libraries=without("pyarrow")), lambda _: None)
    assert type(raised.value) is kind
    folder = connection.pushed[0][1]
    assert folder.startswith("/home/b/f/environment-")
    assert connection.commands[-1] == f"exec /usr/bin/python3 - remove {folder}"


def test_without_pip_what_is_missing_is_listed() -> None:
    bare = board(libraries=without("pyarrow", "tomli", "pip"))
    with refused("no-pip", "pyarrow>=16, tomli>=2"):
        install(Scripted(), bare, lambda _: None)


def test_a_full_disk_is_seen_before_anything_is_sent() -> None:
    connection = Scripted()
    with refused("remote-disk-low", "1.0 MB", "folder=DIR"):
        install(connection, board(free=10**6), lambda _: None)
    assert connection.pushed == connection.commands == []


def test_the_wheel_is_one_by_its_own_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = wheel()
    with zipfile.ZipFile(path) as packed:
        names = packed.namelist()
        (record,) = [name for name in names if name.endswith(".dist-info/RECORD")]
        rows = list(csv.reader(packed.read(record).decode().splitlines()))
        assert sorted(row[0] for row in rows) == sorted(names)
        for name, digest, size in (row for row in rows if row[0] != record):
            content = packed.read(name)
            made = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            assert (digest, int(size)) == (f"sha256={made}", len(content))
    assert "wattstep/remote/ssh/remote_entry.py" in names
    assert "wattstep/boards/jetson-tx2.toml" in names
    assert not any("__pycache__" in name or name.startswith("/") for name in names)
    assert wheel() == path
    assert [p.name for p in (tmp_path / "wattstep/board").iterdir()] == [path.parent.name]


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (412_300, "412 kB"), (3 * 10**9, "3.0 GB")],
)  # fmt: skip
def test_amounts_are_said_in_units(size: int, words: str) -> None:
    assert spell_bytes(size) == words


# --- what runs on any Python ------------------------------------------------------------------

PYTHONS = [sys.executable, *sorted(map(str, Path.home().glob(".pyenv/versions/3.*/bin/python")))]

OLDEST_AND_OWN = [each for each in PYTHONS if each == sys.executable or "/3.6." in each]


def test_what_looks_at_a_board_is_written_in_python_3_6() -> None:
    ast.parse(Path(on_board.__file__).read_text(), feature_version=(3, 6))


@pytest.mark.parametrize("python", PYTHONS)
def test_it_runs_under_every_python_that_is_here(python: str, tmp_path: Path) -> None:
    text = Path(on_board.__file__).read_bytes()
    command = [python, "-", "look", str(tmp_path / "none")]
    found = json.loads(subprocess.run(command, input=text, capture_output=True, check=True).stdout)
    told = subprocess.run(
        [python, "-c", "import sys; print(list(sys.version_info[:3]))"],
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    assert found["version"] == json.loads(told)
    assert found["folder"] == str(tmp_path / "none/wattstep-board")
    assert found["home"] == str(Path.home())
    assert list(tmp_path.iterdir()) == []
    assert (found["installed"], found["size"], found["jobs"]) == ([], 0, [])


def act(python: str, *arguments: object) -> Any:
    """What the board's Python says."""
    command = [python, "-", *map(str, arguments)]
    text = Path(on_board.__file__).read_bytes()
    done = subprocess.run(command, input=text, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


JOB = "mine-20260101-120000-0a1b"
ENVIRONMENT = "environment-0123456789abcdef"


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """A folder of the user's in which we work, and which looks like ours here and there."""
    folder = tmp_path / "used"
    for name in ("jobs/thesis/results.csv", "environment-mine/f", "wattstep-board/jobs/thesis/a",
                 f"wattstep-board/jobs/{JOB}b/a", "wattstep-board/environment-mine/f"):  # fmt: skip
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("his")
    return folder


def add_ours(folder: Path, **described: Any) -> Path:
    """An installation and a job; returns our folder."""
    ours = folder / "wattstep-board"
    (ours / ENVIRONMENT).mkdir(parents=True)
    (ours / ENVIRONMENT / "complete").touch()
    (ours / "jobs" / JOB / "work").mkdir(parents=True)
    told = {"kind": "profile", "title": "t", "run": "mine", **described}
    (ours / "jobs" / JOB / "job.json").write_text(json.dumps(told))
    return ours


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir())


@pytest.mark.parametrize("python", OLDEST_AND_OWN)
def test_what_is_not_ours_stays_in_the_folder_that_was_named(python: str, used: Path) -> None:
    before = files(used)
    ours = add_ours(used)
    found = act(python, "look", used)
    assert [job["id"] for job in found["jobs"]] == [JOB]
    assert found["installed"] == [ENVIRONMENT]
    # Of a job that somebody is about to start, or that waits, the installation stays.
    assert act(python, "clean", ours) == {"stays": 1, "error": ""}
    assert_says(act(python, "remove", ours / ENVIRONMENT)["error"], "in use")
    for name in ("jobs/thesis", "environment-mine", "."):
        assert_says(act(python, "remove", ours / name)["error"], "not ours")
    assert act(python, "clean", ours, "force") == {"stays": 0, "error": ""}
    assert files(used) == before


@pytest.mark.parametrize("python", PYTHONS[:1])
def test_folders_that_were_made_on_the_way_go_again(python: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    ours = home / ".cache/more/wattstep-board"
    assert act(python, "make", ours) == {"error": ""}
    assert ours.stat().st_mode & 0o777 == 0o700
    assert act(python, "make", ours) == {"error": ""}  # and forgets nothing of the first time
    add_ours(ours.parent)
    assert act(python, "clean", ours, "force") == {"stays": 0, "error": ""}
    assert list(home.iterdir()) == []
    (home / ".cache").mkdir()
    act(python, "make", ours)
    act(python, "clean", ours)
    assert [path.name for path in home.iterdir()] == [".cache"]  # it was there before
    assert list((home / ".cache").iterdir()) == []


@pytest.mark.parametrize("python", OLDEST_AND_OWN)
def test_what_a_script_wrote_is_gathered_and_nothing_of_it_is_lost(
    python: str, tmp_path: Path
) -> None:
    sent = {"-x.txt": b"sent", "model.pt": b"first", "train.py": b"pass"}
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in sent.items()}
    job = add_ours(tmp_path, sent=digests) / "jobs" / JOB
    work = job / "work"
    for name, data in sent.items():
        (work / name).write_bytes(data)
    (work / "model.pt").write_bytes(b"trained")  # the sent file, written anew
    (work / "-result.txt").write_bytes(b"one")
    (work / "in a folder").mkdir()
    (work / "in a folder/a\\tb").write_bytes(b"four")
    (work / "two\nlines").write_bytes(b"fives")
    (work / "latest").symlink_to("model.pt")
    (work / "elsewhere").symlink_to("/")
    os.mkfifo(work / "pipe")
    (work / "__pycache__").mkdir()
    (work / "__pycache__/beside.cpython-311.pyc").write_bytes(b"code")
    expected = {
        "model.pt": b"trained", "-result.txt": b"one", "in a folder/a%5Ctb": b"four",
        "two%0Alines": b"fives",
    }  # fmt: skip
    for _ in range(2):  # the answer may be lost on its way
        told = act(python, "gather", job)
        written = job / "written"
        assert {name: (written / name).read_bytes() for name in files(written)} == expected
        assert (told["files"], told["bytes"]) == (4, 7 + 3 + 4 + 5)
        assert sorted(told["links"]) == ["elsewhere", "latest", "pipe"]
        assert told["kept"] == []
    for name in ("-x.txt", "train.py"):
        assert (work / name).read_bytes() == sent[name]


@pytest.mark.parametrize("python", PYTHONS[:1])
def test_what_a_script_leaves_running_is_ended_in_any_session(python: str, tmp_path: Path) -> None:
    job = add_ours(tmp_path) / "jobs" / JOB
    # It ends at once, and leaves one in its own session and one in another.
    left = f"exec {shlex.quote(sys.executable)} -c 'import time; time.sleep(600)'"
    command = ["/bin/sh", "-c", f"({left}) & echo $!; setsid sh -c {shlex.quote(left)} & echo $!"]
    begun = act(python, "start", job, *command)
    assert act(python, "start", job, *command) == begun  # once, however often it is asked for
    until(lambda: len((job / "stdout").read_text().split()) == 2 and gone(begun["pid"]), 120.0)
    pids = [int(pid) for pid in (job / "stdout").read_text().split()]
    assert not any(gone(pid) for pid in pids)
    assert act(python, "stop", job, 9)["told"] > 0
    until(lambda: all(gone(pid) for pid in pids), 120.0)
    assert act(python, "remove", job) == {"error": ""}
    assert not job.exists()


def test_without_its_environment_a_job_is_not_begun(tmp_path: Path) -> None:
    job = add_ours(tmp_path) / "jobs" / JOB
    assert act(sys.executable, "start", job, str(tmp_path / "none/python")) == {"absent": True}
    assert not (job / "holder.json").exists()


@pytest.mark.parametrize(
    "line",
    [
        b"{", b'{"version": "3.10"}', b'{"version": [3, 10], "libraries": []}',
        json.dumps({**vars(board()), "home": 5}).encode(),
        json.dumps({**vars(board()), "home": "/h"}).encode(),  # the folder is not ours
        json.dumps({**vars(board()), "folder": "/h/wattstep-board", "jobs": [{"id": "../x"}]}).encode(),
    ],
)  # fmt: skip
def test_an_answer_that_makes_no_sense_is_one_line(line: bytes) -> None:
    connection = Scripted()
    connection.run = lambda *_, **__: Finished(code=0, output=line + b"\n", errors=b"")  # type: ignore[method-assign]
    with refused("unclear-answer"):
        look(connection)


def test_a_board_is_read_from_its_answer() -> None:
    given = {**vars(board()), "folder": "/h/wattstep-board", "home": "/h"}
    connection = Scripted()
    data = b"Welcome\n" + json.dumps(given).encode() + b"\n"
    connection.run = lambda *_, **__: Finished(code=0, output=data, errors=b"")  # type: ignore[method-assign]
    assert look(connection) == board(folder="/h/wattstep-board", home="/h", installed=())


def test_messages_name_no_folder_of_the_board() -> None:
    told = {"a": ["/home/me/x failed", 5, "/home/me2"], "b": "/data/me/wattstep-board/jobs"}
    assert nameless(told, "/data/me/wattstep-board", "/home/me") == {
        "a": ["…/x failed", 5, "/home/me2"], "b": "…/jobs",
    }  # fmt: skip
    assert nameless("a / b", "/", "") == "a / b"
    error = b"mkdir: cannot create directory '/tmp/secret/home/afile': Not a directory"
    finished = Finished(code=1, output=b"", errors=error)
    assert complaint(finished) == error.decode().replace("/tmp/secret/home/afile", "…")


def test_a_job_is_told_by_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boot = tmp_path / "boot"
    boot.write_text("now\n")
    monkeypatch.setenv("WATTSTEP_BOOT_ID", str(boot))
    holder = {"pid": 1, "started": on_board.start_time(1), "boot": "now"}

    def state(**changes: Any) -> str:
        (tmp_path / "holder.json").write_text(json.dumps({**holder, **changes}))
        return on_board.state(tmp_path)

    assert state() == "running"
    assert state(started="0") == "died"  # another process has its number now
    assert state(boot="before") == "restarted"
    (tmp_path / "ending.json").write_bytes(b"\0" * 100)  # reserved, and not written yet
    assert state() == "running"
    (tmp_path / "ending.json").write_bytes(b'{"ended": true}' + b"\0" * 100)
    assert state(boot="before") == "finished"
    for name in ("holder.json", "ending.json"):
        (tmp_path / name).unlink()
    assert on_board.state(tmp_path) == "running"  # its files have just come: it is about to be
    monkeypatch.setattr(on_board, "STARTING_S", 0.0)
    assert on_board.state(tmp_path) == "died"
