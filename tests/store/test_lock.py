from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.refusals import refused

from wattstep.store.files import create_folder
from wattstep.store.lock import (
    RunLock,
    is_locked,
    is_recording,
    lock_folder,
    not_there,
    take_back,
)

BEGUN = ("settings.json", "held.lock")
HOLDER = """
import sys, time
from pathlib import Path
from wattstep.store.lock import RunLock
lock = RunLock(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.readline()
lock.release()
print("released", flush=True)
time.sleep(600)
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    create_folder(tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def holder(run: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(run)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def seen_from_elsewhere(run: Path) -> bool:
    """What another process, with no sight of the holder's number, thinks."""
    script = (
        "import sys; from pathlib import Path; from wattstep.store import lock\n"
        "lock._start_time = lambda pid: ''\n"
        "print(lock.is_recording(Path(sys.argv[1])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(run)], stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout == "True\n"


def test_a_run_records_while_its_recorder_lives(run: Path, holder: subprocess.Popen[str]) -> None:
    assert is_recording(run)
    assert seen_from_elsewhere(run)
    with refused("being-written"):
        RunLock(run)


def test_a_killed_recorder_records_no_more_even_before_it_is_buried(
    run: Path, holder: subprocess.Popen[str]
) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)  # a zombie from here on
    assert not is_recording(run)
    assert not seen_from_elsewhere(run)


def test_a_lock_that_was_let_go_is_free(run: Path, holder: subprocess.Popen[str]) -> None:
    assert holder.stdin is not None
    assert holder.stdout is not None
    holder.stdin.write("\n")
    holder.stdin.flush()
    assert holder.stdout.readline() == "released\n"
    assert not is_recording(run)
    RunLock(run).release()


def test_looking_does_not_lose_the_own_lock(run: Path) -> None:
    lock = RunLock(run)
    assert is_recording(run)
    assert is_recording(run)
    assert seen_from_elsewhere(run)
    lock.release()
    assert not is_recording(run)


def test_a_lock_that_is_handed_over_still_counts_as_held(run: Path) -> None:
    lock = RunLock(run)
    lock.hand_over()
    assert is_recording(run)
    lock.release()
    assert not is_recording(run)


def test_whoever_waits_gets_the_lock_when_it_is_free(
    run: Path, holder: subprocess.Popen[str]
) -> None:
    got = threading.Event()

    def wait() -> None:
        RunLock(run, wait=True).release()
        got.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.1)
    assert not got.is_set()
    holder.kill()
    waiting.join(20)
    assert got.is_set()


@pytest.mark.parametrize("text", ["", "1", "12 ", "x y", "1 2 3", "\xff\xfe", "../self 5", "self "])
def test_a_garbled_sign_of_the_holder_does_not_count(run: Path, text: str) -> None:
    (run / "journal" / "holder").write_bytes(text.encode("latin-1"))
    (run / "journal" / "lock").touch()
    assert not is_recording(run)


def test_a_folder_without_a_lock_does_not_record(tmp_path: Path) -> None:
    assert not is_recording(tmp_path)


def test_the_number_of_another_process_is_no_sign(run: Path) -> None:
    RunLock(run).release()
    (run / "journal" / "holder").write_text(f"{os.getpid()} 1")  # the number was taken anew
    assert not is_recording(run)


def test_a_folder_is_seen_to_be_kept_without_a_lock_being_made(tmp_path: Path) -> None:
    assert not is_locked(tmp_path / "sweep.lock")
    assert not (tmp_path / "sweep.lock").exists()
    held = lock_folder(tmp_path, "sweep.lock", "a test")
    assert is_locked(tmp_path / "sweep.lock")
    os.close(held)
    assert not is_locked(tmp_path / "sweep.lock")


def begun(folder: Path) -> tuple[Path, ...]:
    """Makes a folder with a lock and settings in it; what of them was not there."""
    made = not_there(folder, BEGUN)
    folder.mkdir(parents=True, exist_ok=True)
    for name in BEGUN:
        (folder / name).touch()
    return made


@pytest.mark.parametrize("there", ["", "a", "a/b/c", "a/b/c/settings.json", "a/b/c/held.lock"])
def test_what_was_made_is_taken_back_and_what_was_there_stays(tmp_path: Path, there: str) -> None:
    (tmp_path / there).parent.mkdir(parents=True, exist_ok=True)
    if there in ("a", "a/b/c"):
        (tmp_path / there).mkdir()
    elif there:
        (tmp_path / there).touch()
    before = sorted(tmp_path.rglob("*"))
    take_back(tmp_path / "a/b/c", BEGUN, begun(tmp_path / "a/b/c"))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_holds_more_by_now_is_not_taken_back(tmp_path: Path) -> None:
    made = begun(tmp_path / "a")
    (tmp_path / "a" / "weights").touch()
    take_back(tmp_path / "a", BEGUN, made)
    assert {path.name for path in (tmp_path / "a").iterdir()} == {*BEGUN, "weights"}


def test_a_lock_that_was_taken_back_while_another_waited_for_it_keeps_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [lock_folder(tmp_path, "held.lock", "a test")]

    def refused_meanwhile(seconds: float) -> None:
        if seconds and held:
            (tmp_path / "held.lock").unlink()
            os.close(held.pop())

    monkeypatch.setattr(time, "sleep", refused_meanwhile)
    lock = lock_folder(tmp_path, "held.lock", "a test")
    assert is_locked(tmp_path / "held.lock")
    os.close(lock)
