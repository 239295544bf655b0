"""Pulled cables, phones that start again, full storage, and a wattstep that is stopped or killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.fleet.phone.made import (
    BOOT,
    PATIENCE_S,
    SHELLS,
    Followed,
    Made,
    connected,
    journal,
    needs_adb,
    printed,
)
from tests.refusals import refused
from tests.waiting import gone, until
from tests.wording import assert_says, saying

from wattstep.errors import RecordingError
from wattstep.remote.phone.job import ENDED, FULL, OUTPUT, Job, Phone
from wattstep.remote.ssh import ConnectionLostError
from wattstep.run import load
from wattstep.schema.journal import MARK, Mark

# The phone waits for the test, and the test for what the phone has shown.
STEPWISE = (
    'for n in 1 2 3; do until [ -e "{folder}/go-$n" ]; do sleep 0.05; done; echo "step $n"; '
    'touch "{folder}/did-$n"; done; until [ -e "{folder}/end" ]; do sleep 0.05; done'
)


@pytest.fixture
def started(phone: Made, tmp_path: Path) -> Iterator[SimpleNamespace]:
    """A command of three steps that a thread follows; each step waits for `go`."""
    folder = tmp_path / "signs"
    folder.mkdir()
    with ThreadPoolExecutor(1) as pool:

        def start(**times: float) -> Future[tuple[int, Path]]:
            settings = phone.settings(
                "sh", "-c", STEPWISE.format(folder=folder), step_marker="output:^step", warmup=0
            )
            return pool.submit(phone.host(**times).profile, settings, str(tmp_path / "run"))

        def go(step: int) -> None:
            (folder / f"go-{step}").touch()
            until((folder / f"did-{step}").exists, PATIENCE_S)

        try:
            yield SimpleNamespace(
                phone=phone, start=start, go=go, end=(folder / "end").touch, run=tmp_path / "run"
            )
        finally:
            for name in ("go-1", "go-2", "go-3", "end"):
                (folder / name).touch()


@needs_adb
def test_a_cable_that_is_pulled_for_a_while_costs_samples_but_no_step(started, monkeypatch):
    phone, shown = started.phone, printed(monkeypatch)
    future = started.start(patience_s=10 * PATIENCE_S, lease_s=10 * PATIENCE_S)
    started.go(1)
    until(lambda: "step 1" in shown.getvalue(), PATIENCE_S)
    phone.endpoint.unplug()
    started.go(2)  # the command goes on
    until(lambda: any("waiting" in said for said in phone.said), PATIENCE_S)
    until(lambda: 104 in [row[1] for _, row in journal(started.run)], PATIENCE_S)
    phone.endpoint.plug()
    until(lambda: "the phone is back" in " ".join(phone.said), PATIENCE_S)
    started.go(3)
    started.end()
    code, path = future.result(PATIENCE_S)
    assert code == 0
    until(phone.is_clean, PATIENCE_S)
    run = load(path)
    assert run.info.options["command"]["steps"] == 3
    assert any("out of reach" in note for note in run.info.notes)
    assert phone.endpoint.serial not in " ".join(phone.said)


@needs_adb
def test_a_cable_that_stays_pulled_ends_the_run_with_all_that_was_recorded(started, monkeypatch):
    phone, shown = started.phone, printed(monkeypatch)
    future = started.start(patience_s=1.0)
    started.go(1)
    until(lambda: "step 1" in shown.getvalue(), PATIENCE_S)
    phone.endpoint.unplug()
    with refused("phone-unreachable") as caught:
        future.result(PATIENCE_S)
    assert f"wattstep report {started.run}" in str(caught.value)
    assert "\n" not in str(caught.value)
    run = load(started.run)
    assert run.tables.table("steps").num_rows == 1
    assert run.info.options["command"] == {"exit_code": None, "steps": 1}
    assert phone.processes()  # it goes on there until nobody has asked for it for long enough


def test_a_lost_connection_is_an_error_of_recording():
    assert issubclass(ConnectionLostError, RecordingError)


@needs_adb
def test_a_command_that_nobody_asks_for_ends_and_clears_itself_away(phone):
    job = Job(Phone(phone.endpoint.serial, "adb"), ["sleep", "600"], 1.0, str(phone.root))
    job.go()
    until(phone.is_clean, PATIENCE_S)
    assert gone(job.pid)
    answer = job.follow()
    assert (answer.signs, answer.output, answer.errors, answer.running) == (b"", b"", b"", False)
    job.clear()  # there is nothing to clear


@needs_adb
def test_a_phone_that_is_rebooted_ends_the_run_and_its_files_go(started, monkeypatch):
    phone, shown = started.phone, printed(monkeypatch)
    future = started.start(patience_s=10 * PATIENCE_S)
    started.go(1)
    until(lambda: "step 1" in shown.getvalue(), PATIENCE_S)
    phone.endpoint.unplug()
    phone.kill_keeper()  # first: it would say how the command ended
    phone.kill_all()
    phone.write(BOOT, "3f0d7a52-0000-4000-8000-000000000002\n")
    phone.endpoint.plug()
    with refused("phone-rebooted"):
        future.result(PATIENCE_S)
    until(phone.is_clean, PATIENCE_S)
    assert load(started.run).tables.table("steps").num_rows == 1


def limited(made: Made, shell: str, kibibytes: int) -> None:
    """The phone's shell may write no file further than this: what a full storage is to it."""
    real = shutil.which(shell)
    path = made.folder / "bin/sh"
    path.unlink()
    # In bash, since units differ; the signal that would end the shell is not what a full disk is.
    path.write_text(
        f"#!/usr/bin/env bash\ntrap '' XFSZ\nulimit -S -f {kibibytes}\nexec -a sh {real} \"$@\"\n"
    )
    path.chmod(0o755)


FILLING = 'n=0; while [ $n -lt 400 ]; do n=$((n+1)); echo "step $n {filler}"; done; exit 6'


@needs_adb
@pytest.mark.parametrize("shell", SHELLS)
def test_a_full_storage_costs_the_output_but_not_the_commands_end(server, tmp_path, shell):
    with connected(tmp_path / "phone") as made:
        limited(made, shell, 16)
        done = Followed(made, "sh", "-c", FILLING.format(filler="x" * 90))
        done.job.go()
        done.to_the_end()
        until(made.is_clean, PATIENCE_S)
    lines = done.texts(OUTPUT)
    assert 50 < len(lines) <= 16384 // 100  # each is longer than 100 B with its stamp
    assert lines == [f"step {n} {'x' * 90}" for n in range(1, len(lines) + 1)]
    assert done.texts(ENDED) == ["6"]
    assert len(done.texts(FULL)) == 1


@needs_adb
def test_a_full_storage_is_said_and_the_steps_up_to_then_are_kept(phone, tmp_path, capsys):
    limited(phone, "sh", 16)
    settings = phone.settings(
        "sh", "-c", FILLING.format(filler="x" * 90), step_marker="output:^step", warmup=0
    )
    code, path = phone.host().profile(settings, str(tmp_path / "run"))
    assert code == 6
    run = load(path)
    shown = capsys.readouterr().out.count("step ")
    assert 50 < shown < 400
    assert run.info.options["command"] == {"exit_code": 6, "steps": shown}
    for texts in (phone.said, run.info.notes):
        assert saying(texts, "storage is full")
    assert "after the last step" not in run.tables.table("spans").to_pydict()["name"]
    # The shell's clock may have steps of 10 ms, in one of which several lines come.
    last_ns = run.tables.table("steps").to_pydict()["end_ns"][-1]
    assert run.info.lost["output"] >= last_ns - 10_000_000


@needs_adb
def test_ctrl_c_ends_the_command_on_the_phone_and_keeps_the_run(phone, tmp_path, monkeypatch):
    settings = phone.settings("sh", "-c", "echo step 1; exec sleep 100", step_marker="output:^step")
    shown = printed(monkeypatch)

    def interrupt() -> None:
        until(lambda: "step 1" in shown.getvalue(), PATIENCE_S)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    code, path = phone.host().profile(settings, str(tmp_path / "run"))
    thread.join()
    assert code == 130
    until(phone.is_clean, PATIENCE_S)
    run = load(path)
    assert run.tables.table("steps").num_rows == 1
    assert saying(run.info.notes, "stopped by")


KILLED = """\
import sys
from wattstep.remote.phone.host import PhoneHost
from wattstep.train.script import ProfileSettings

serial, root, out, command = sys.argv[1:]
settings = ProfileSettings(
    script="sh", arguments=("-c", command), step_marker="output:^step", warmup=0,
    target="adb:" + serial,
)
PhoneHost(serial, print, root=root, ask_every_s=0.2).profile(settings, out)
"""


def marks(run: Path) -> list[int]:
    """Kinds of the marks in the journal of a run that is being recorded."""
    path = run / "journal" / "marks.bin"
    data = path.read_bytes() if path.exists() else b""
    whole = len(data) // MARK.size * MARK.size
    return [row[3] for row in MARK.iter_unpack(data[:whole])]


@needs_adb
def test_a_wattstep_that_is_killed_leaves_a_run_that_is_recovered(phone, tmp_path):
    run = tmp_path / "run"
    command = "echo step 1; exec sleep 100"
    arguments = [phone.endpoint.serial, str(phone.root), str(run), command]
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, *arguments], stdout=subprocess.DEVNULL
    ) as process:
        try:
            until(lambda: Mark.STEP_END in marks(run), PATIENCE_S)
            until(lambda: "steps end at lines" in (run / "run.json").read_text(), PATIENCE_S)
        finally:
            process.kill()
    recovered = load(run)
    assert recovered.info.state == "recovered"
    # What the reader must know of its clock stands there from the start, of its steps with them.
    notes = " ".join(recovered.info.notes)
    assert_says(notes, "phone over adb")
    assert_says(notes, "steps end", "lines")
    assert recovered.tables.table("steps").num_rows == 1
