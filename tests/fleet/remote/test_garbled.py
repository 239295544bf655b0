"""Whatever a board answers: it is a clear line, or passed over, and nothing of it steers the terminal."""

from __future__ import annotations

import base64
import io
import json
import os
import random
import shlex
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rich.console import Console
from tests.fleet.remote.server import MISSING, WHY_NOT, serving
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.cli.progress import TrainingProgress
from wattstep.errors import DamagedRunError, RecordingError, WattstepError
from wattstep.remote.ssh import Finished
from wattstep.remote.ssh.answers import complaint, parse_diagnosis, parse_progress, part
from wattstep.remote.ssh.archive import unpack
from wattstep.remote.ssh.board import BoardOptions, RemoteBoard
from wattstep.remote.ssh.bootstrap import JOB_NAME
from wattstep.remote.ssh.install import look
from wattstep.remote.ssh.job import complete
from wattstep.remote.ssh.wording import MOST, inert, inert_lines
from wattstep.schema.outcome import Configuration, Outcome
from wattstep.train.child.measuring import Listener
from wattstep.train.script import ProfileSettings
from wattstep.train.settings import TrainingSettings

T = TypeVar("T")
STEERING = "\x1b]0;owned\x07\x1b[2J\u202egnorw\u2066\x9b31m\x00\r\ud800\u200b"
# What JSON holds, with what terminals and files stumble over.
TEXTS = st.one_of(st.text(), st.just(STEERING), st.just("x" * 5000), st.just("[/red]{}%s"))
OUT = "runs/mine"
NUMBERS = st.one_of(st.integers(), st.floats(), st.sampled_from([10**400, -1, 2**63]))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
BOARD = {
    "executable": "/usr/bin/python3", "version": [3, 11, 2], "places": [], "architecture": "aarch64",
    "libraries": {"numpy": "2.0.0", "pyarrow": "17.0.0", "torch": "2.5.0", "pip": "22.0"},
    "tegra": "", "boot": "x", "folder": "/h/wattstep-board", "home": "/h", "free": 10**10,
    "installed": [], "size": 0, "jobs": [],
}  # fmt: skip
JOB = {
    "id": "mine-20260101-120000-0a1b", "title": "t", "kind": "profile", "run": "mine",
    "state": "finished", "recorded": True,
}  # fmt: skip
quickly = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Garbling:
    """A board that does what it is told, but for what it says while a job is followed.

    Args:
        followed: Lines of what follows the job.
        answers: By action of `on_board`, in place of what is usual.
    """

    shown = "board"

    def __init__(self, *followed: bytes, **answers: Any) -> None:
        self.followed = followed
        self.answers = {"look": BOARD, "start": {"pid": 1}, "stop": {"told": 0}, **answers}

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 60.0) -> Finished:
        subprocess_would_take(command)
        words = shlex.split(command)
        action = words[3] if words[2:3] == ["-"] else "look" if "look" in command else ""
        told = self.answers.get(action, {"error": "", "stays": 0})
        missing = 1 if words[0] == "[" and words[1] == "-d" else 0  # no runs are there
        return Finished(code=missing, output=json.dumps(told).encode() + b"\n", errors=b"")

    def lines(self, command: str, *, stdin: bytes = b"", silent_s: float = 60.0) -> Iterator[bytes]:
        yield from self.followed
        raise RecordingError("it ended")

    def push(self, files: Any, folder: str) -> int:
        subprocess_would_take(folder)
        return 1

    def pull(self, folder: str, target: Path) -> int:
        raise AssertionError

    def close(self) -> None: ...


def subprocess_would_take(word: str) -> None:
    assert "\0" not in word
    os.fsencode(word)


def is_line(text: str) -> bool:
    """Whether it can stand in a line of a terminal, whatever that line is."""
    return text.isprintable() and len(text) < 3 * MOST


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def unless_refused(action: Callable[[], T]) -> T | None:
    """What an action gives, or None after an error of one line."""
    try:
        return action()
    except WattstepError as error:
        refused = str(error)
    assert is_line(refused)
    return None


def trained(*lines: bytes, **answers: Any) -> tuple[str, list[str]]:
    """What the user is told of a training at such a board: the error, and all that was shown."""
    shown: list[str] = []
    screen = io.StringIO()
    with TrainingProgress("lenet", quiet=False) as progress:
        progress._console = Console(file=screen, force_terminal=False)
        try:
            place = RemoteBoard(Garbling(*lines, **answers), BoardOptions(), shown.append)
            place.train(
                TrainingSettings(workload="lenet", out=OUT),
                progress.update, lambda text: shown.append(text), None,
            )  # fmt: skip
        except WattstepError as error:
            return str(error), shown
    raise AssertionError("a board that says nothing sensible trained")


def message(**told: Any) -> bytes:
    return json.dumps(told).encode()


def piece(name: str, content: bytes) -> bytes:
    return message(file=name, data=base64.b64encode(content).decode(), next=len(content))


@pytest.mark.parametrize(
    "text", ["", "plain", "Zürich, 温度 25 °C", "a\nb\tc", STEERING, "x" * 9000]
)
def test_what_is_shown_is_one_line_that_ends(text: str) -> None:
    assert is_line(inert(text))
    assert all(line.isprintable() for line in inert_lines(text).replace("\t", "").split("\n"))


def test_what_needs_no_change_stays_as_it_is() -> None:
    assert inert("Zürich, 温度 25 °C") == "Zürich, 温度 25 °C"
    assert inert_lines("a\tb\r\nc\rd\n") == "a\tb\nc\nd\n"
    assert inert("a\nb\x1b[0m") == "a b�[0m"
    assert inert("x" * (MOST + 1)) == "x" * MOST + "…"
    finished = Finished(code=1, output=b"", errors=b"one\ntar: /home/me/\x1b[31mx: no\n")
    assert complaint(finished) == "tar: …: no"
    assert finished.last_error == "tar: /home/me/�[31mx: no"


# --- while a job is followed --------------------------------------------------------------------

FOLLOWED_LINES = st.one_of(
    st.binary(max_size=200).filter(lambda line: b"\n" not in line),
    st.builds(lambda value, cut: json.dumps(value).encode()[:cut], VALUES, st.integers(0, 200)),
    st.builds(lambda name, data, at: message(file=name, data=data, next=at),
              st.sampled_from(["news.jsonl", "stdout", "stderr", "../x"]), VALUES, VALUES),
    st.builds(lambda name, data: piece(name, data),
              st.sampled_from(["news.jsonl", "stdout", "stderr"]), st.binary(max_size=100)),
    st.builds(lambda key, value: piece("news.jsonl", message(**{key: value}) + b"\n"),
              st.sampled_from(["progress", "warning", "other"]), VALUES),
    st.builds(lambda state, ending: message(state=state, ending=ending),
              st.sampled_from(["finished", "died", "running", "x"]), VALUES),
)  # fmt: skip
PROGRESS = {"stage": "training", "share": 0.5, "steps": 3, "loss": 1.0, "said": ""}


@quickly
@given(st.lists(FOLLOWED_LINES, max_size=4))
@example([b"[" * 100_000])
@example([b'{"file": "stdout", "data": "e' + b"x" * 10**6])
@example([piece("stdout", STEERING.encode(errors="surrogatepass")), b"\x1b[2J"])
def test_what_follows_a_job_may_be_anything(
    capsys: pytest.CaptureFixture[str], lines: list[bytes]
) -> None:
    error, shown = trained(*lines)
    printed = capsys.readouterr()
    assert is_line(error)
    for text in (*shown, *(printed.out + printed.err).replace("\t", "").split("\n")):
        assert text.isprintable(), text


@quickly
@given(st.sampled_from(list(PROGRESS)), VALUES)
@example("share", float("nan"))
@example("steps", 10**400)
@example("loss", 10**400)
@example("stage", STEERING)
def test_progress_may_hold_anything(
    capsys: pytest.CaptureFixture[str], key: str, value: object
) -> None:
    told = json.loads(json.dumps({"progress": {**PROGRESS, key: value}}))
    with suppress(RecordingError):
        found = parse_progress(told)
        assert 0 <= found.share <= 1
        with TrainingProgress("lenet", quiet=False) as progress:
            progress.update(found)
    assert all(line.isprintable() for line in capsys.readouterr().err.split("\n"))


def test_a_piece_of_news_without_an_end_is_given_up() -> None:
    blocks = (piece("news.jsonl", b"x" * 700_000) for _ in range(2))
    error, _ = trained(*blocks)
    assert_says(error, "the board", "(news)")


def test_a_garbled_line_of_news_costs_that_line_only() -> None:
    warned = message(warning="it is \x1b[31mhot")
    news = b'{"warning": "half\n\xff\xfe\n' + warned + b'\n{"progress": 5}\n'
    error, shown = trained(piece("news.jsonl", news))
    assert error == "it ended"
    assert [line for line in shown if "hot" in line] == ["it is �[31mhot"]


def test_the_output_of_a_training_does_not_steer_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    trained(piece("stderr", b"torch says\r\n\x1b]0;title\x07done\n"))
    assert "torch says\n�]0;title�done\n" in capsys.readouterr().err


# --- how a job ended ------------------------------------------------------------------------------


@quickly
@given(
    st.one_of(
        VALUES,
        st.builds(lambda error, kind: {"error": error, "kind": kind}, VALUES, VALUES),
        st.fixed_dictionaries({"error": TEXTS}),
    )
)
@example({"error": STEERING, "kind": "InvalidValueError"})
@example({"error": "x", "kind": "WattstepError.__init__"})
@example({"error": "x" * 10**6, "kind": ["RecordingError"]})
def test_how_a_training_ended_may_be_told_in_any_way(ending: object) -> None:
    # No run came: whatever it says, this is an error of one line.
    with suppress(KeyboardInterrupt):  # where it says that we stopped it
        error, shown = trained(message(state="finished", ending=ending))
        assert is_line(error)
        assert all(map(str.isprintable, shown))


OUTCOME = json.loads(
    json.dumps(
        Outcome(
            configuration=Configuration(workload="lenet", batch_size=2), status="trained"
        ).to_dict()
    )
)


@quickly
@example("status", {"x" * 3000: "y" * 3000})
@given(st.sampled_from(list(OUTCOME)), VALUES)
@example("reason", STEERING)
@example("configuration", {"workload": "another", "batch_size": 64})
def test_an_outcome_may_hold_anything(key: str, value: object) -> None:
    ending = message(state="finished", ending={"outcome": {**OUTCOME, key: value}})
    place = RemoteBoard(Garbling(ending), BoardOptions(), lambda _: None)
    chosen = Configuration(workload="lenet", batch_size=2)
    listener = Listener(on_progress=lambda _: None, on_warning=lambda _: None)
    training = TrainingSettings(workload="lenet", out=OUT)
    found = unless_refused(lambda: place.measure(chosen, training, None, listener))
    if found is not None:
        assert found.configuration == chosen
        assert found.reason.isprintable()


@quickly
@given(VALUES)
@example(10**30)
@example(True)
def test_the_exit_code_of_a_script_is_a_number_or_an_error(code: object) -> None:
    ending = message(state="finished", ending={"code": code})
    asked = ProfileSettings(script="json.tool", module=True, trace="none", target="ssh:board")
    garbling = Garbling(ending, gather={**GATHERED, "renamed": [[STEERING, STEERING]]})
    shown: list[str] = []
    place = RemoteBoard(garbling, BoardOptions(), shown.append)
    found = unless_refused(lambda: place.profile(asked, OUT))
    assert found is None or -(2**63) <= found[0] < 2**63
    assert all(map(is_line, shown))


GATHERED = {"files": 0, "bytes": 0, "renamed": [], "links": [], "kept": []}


@quickly
@given(st.sampled_from(list(GATHERED)), VALUES)
@example("kept", [STEERING])
@example("links", ["x" * 1000] * 100)
def test_what_a_script_wrote_may_be_told_in_any_way(key: str, value: object) -> None:
    shown: list[str] = []
    garbling = Garbling(
        message(state="finished", ending={"code": 0}), gather={**GATHERED, key: value}
    )
    garbling.pull = lambda folder, target: 0  # type: ignore[method-assign]
    place = RemoteBoard(garbling, BoardOptions(), shown.append)
    asked = ProfileSettings(script="json.tool", module=True, trace="none", target="ssh:board")
    unless_refused(lambda: place.profile(asked, OUT))
    assert all(map(is_line, shown))


DIAGNOSIS = {
    "device": {"cores": 4, "virtual": None, "memory": 10, "cpu": "c"}, "interval": "10ms",
    "total": {"source": None, "status": None, "note": "none"}, "notes": ["n"],
    "sensors": [
        {"name": "s", "description": "", "present": False, "reason": "[/red]", "channels": []},
        {"name": "t", "description": "[t]", "present": True, "reason": None, "channels": [
            {"name": "[c]", "unit": "W", "value": 1.5, "resolution_seen": None,
             "update_interval": None, "read_cost": 1e-6},
        ]},
    ],
    "sampler": {"how": "so", "cost": {"value": 1, "unit": "s"}}, "disk_bytes_an_hour": 1.0,
}  # fmt: skip


@quickly
@given(st.sampled_from(list(DIAGNOSIS)), VALUES)
@example("notes", ["n"])
@example("notes", [None])
@example("device", {"cores": 10**400})
@example("device", {"cores": 1, "virtual": []})
def test_what_doctor_finds_is_shown_or_refused(
    capsys: pytest.CaptureFixture[str], key: str, value: object
) -> None:
    from wattstep.cli.doctor import _show

    ending = message(state="finished", ending={"found": {**DIAGNOSIS, key: value}})
    place = RemoteBoard(Garbling(ending), BoardOptions(), lambda _: None)
    with suppress(RecordingError):
        diagnosis = place.diagnose("10ms")
        for full in (False, True):
            _show(diagnosis, full)
    assert all(line.isprintable() for line in capsys.readouterr().out.split("\n"))


def test_a_diagnosis_as_it_should_be_is_taken() -> None:
    assert parse_diagnosis(DIAGNOSIS) is DIAGNOSIS


# --- what is found on it --------------------------------------------------------------------------


@quickly
@given(st.sampled_from(list(BOARD)), VALUES)
@example("executable", "/usr/bin/py\0thon")
@example("executable", "/usr/bin/\ud800")
@example("libraries", {"numpy": "²"})
@example("version", [3, 10**4000])
@example("size", 10**400)
@example("jobs", [{**JOB, "title": STEERING}])
@example("jobs", [{**JOB, "run": "x" * 10_000}])
def test_a_board_may_be_described_in_any_way(key: str, value: object) -> None:
    shown: list[str] = []
    garbling = Garbling(look={**BOARD, key: value})
    found = unless_refused(lambda: look(garbling))
    if found is None:
        return
    place = RemoteBoard(garbling, BoardOptions(), shown.append)
    training = TrainingSettings(workload="lenet", out=OUT)
    unless_refused(lambda: place.train(training, lambda _: None, shown.append, None))
    assert all(map(is_line, shown))
    for job in found.jobs:
        assert job.title.isprintable()
        assert JOB_NAME.fullmatch(job.id)


@quickly
@given(st.sampled_from(["make", "start", "stop", "gather", "remove", "clean"]), VALUES)
@example("start", {"absent": True})
@example("make", {"error": STEERING})
@example("remove", {"error": STEERING})
@example("clean", {"error": STEERING, "stays": 10**400})
def test_any_answer_to_any_action_is_one_line(action: str, told: object) -> None:
    shown: list[str] = []
    place = RemoteBoard(Garbling(**{action: told}), BoardOptions(), shown.append)
    training = TrainingSettings(workload="lenet", out=OUT)
    unless_refused(lambda: place.train(training, lambda _: None, shown.append, None))
    place.close()
    assert all(map(is_line, shown))


@pytest.mark.parametrize("value", [10**400, 2**63, -(2**63) - 1, True, 1.0, "1", None])
def test_numbers_that_nothing_can_hold_are_refused(value: object) -> None:
    with refused("unclear-answer", "(size)"):
        part({"size": value}, "size", int)


# --- what comes from it ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["file", "folder", "nested", "empty"])
def test_what_is_no_run_is_said(tmp_path: Path, name: str) -> None:
    run = tmp_path / "mine"
    if name == "file":
        run.write_text("no folder")
    elif name == "folder":
        (run / "journal/holder.json").mkdir(parents=True)
        (run / "journal/holder").mkdir()
    else:
        run.mkdir()
        (run / "run.json").write_text("[" * 100_000 if name == "nested" else "")
    with pytest.raises(DamagedRunError):
        complete(run)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(["size", "path", "GNU.sparse.major", "GNU.sparse.minor",
       "GNU.sparse.name", "GNU.sparse.realsize", "GNU.sparse.map", "hdrcharset", "mtime"]),
       st.sampled_from(["1", "0", "x", "-5", "one", "1e9", "9" * 50, "1,2,3"])))  # fmt: skip
def test_strange_headers_write_nothing_that_was_not_asked_for(headers: dict[str, str]) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("one")
        member.size, member.pax_headers = 10, headers
        archive.addfile(member, io.BytesIO(b"x" * 10))
    stream.seek(0)
    with tempfile.TemporaryDirectory() as folder:
        with suppress(RecordingError, EOFError):
            unpack(stream, Path(folder), {"one": 10})
        assert {path.name for path in Path(folder).iterdir()} <= {"one"}


# --- the whole way ----------------------------------------------------------------------------------

FAKE = """\
#!/bin/sh
cat "$0.said"
echo "$0: \033[31mtraceback \342\200\256 \033]0;x\007" >&2
exit ${CODE:-0}
"""


@pytest.mark.skipif(bool(MISSING), reason=WHY_NOT)
@pytest.mark.parametrize(
    "told",
    [
        b"", b"{" + random.Random(1).randbytes(100_000), b'{"version": [3', b"\x1b[2J" * 10**5, b'{"a":' * 10**5,
        message(**{**BOARD, "jobs": [{**JOB, "title": STEERING, "state": "x"}]}),
        message(**{**BOARD, "size": 5, "jobs": [{**JOB, "title": STEERING}]}),
    ],
    ids=["nothing", "noise", "cut", "steering", "nested", "wrong", "title"],
)  # fmt: skip
def test_the_command_line_at_a_board_that_is_something_else(told: bytes, tmp_path: Path) -> None:
    with serving(tmp_path / "board") as server:
        (server.path / "python3").write_text(FAKE)
        (server.path / "python3.said").write_bytes(told + b"\n")
        done = subprocess.run(
            [sys.executable, "-m", "wattstep", "targets", f"{server.target},python=python3"],
            env={**os.environ, "WATTSTEP_SSH_CONFIG": str(server.client_config)},
            capture_output=True, check=False,
        )  # fmt: skip
    shown = done.stdout.decode() + done.stderr.decode()
    assert all(line.isprintable() for line in shown.split("\n")), shown
    assert "Traceback" not in shown
    if b'"size": 5' in told:
        assert (done.returncode, done.stderr) == (0, b"")
        assert_says(shown, "finished", "fetched")
    else:
        assert done.returncode == 2
        (line,) = done.stderr.decode().splitlines()
        assert line.startswith("wattstep: ")
