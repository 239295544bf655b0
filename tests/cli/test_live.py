"""`wattstep live`, `run --live` and `profile --live` as a user meets them, on a terminal and without one."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable
from pathlib import Path

from tests.faults.conftest import Trainer, trainer  # noqa: F401 - a fixture
from tests.refusals import id_in
from tests.waiting import until
from tests.wording import assert_says

import wattstep

Start = Callable[..., Trainer]
ENTERED, LEFT = b"\x1b[?1049h", b"\x1b[?1049l"  # the screen beside the one with what was typed
SCRIPT = """
import sys, time, torch
torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    model(torch.ones(2, 8)).square().mean().backward()
    optimizer.step()
    time.sleep(0.02)
print("printed there", flush=True)
print("said by the script", file=sys.stderr, flush=True)
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "wattstep", *arguments]


def told(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=False)


class OnTerminal:
    """A command whose standard error (and output) is a terminal of this size."""

    def __init__(self, *arguments: str, width: int = 80, height: int = 24) -> None:
        ours, theirs = pty.openpty()
        self._ours = ours
        self.resize(width, height)
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            command(*arguments), stdin=theirs, stdout=theirs, stderr=theirs,
            env={**environment, "TERM": "xterm-256color"}, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self.seen = b""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        try:
            while data := os.read(self._ours, 1 << 16):
                self.seen += data
        except OSError:  # the other side was closed
            pass

    def resize(self, width: int, height: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def end(self) -> int:
        code = self.process.wait()
        self._reader.join()
        os.close(self._ours)
        return code


def closed_run(path: Path) -> Path:
    with wattstep.Recorder(path, trace="none", power_model="vcpu") as recorder:
        for _ in range(30):
            with recorder.step(samples=1):
                pass
    return path


def test_a_closed_run_is_said_to_be_and_has_a_still_picture(tmp_path: Path) -> None:
    run = closed_run(tmp_path / "run")
    refused = told("live", str(run))
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert "is closed" in refused.stderr
    once = told("live", str(run), "--once")
    assert once.returncode == 0, once.stderr
    assert "step 30" in once.stdout
    assert "closed" in once.stdout
    document = json.loads(told("live", str(run), "--json").stdout)["snapshot"]
    assert document["state"] == "closed"
    assert document["figures"]["energy"]["status"] == "modelled"
    refusal = told("live", str(tmp_path), "--json")
    assert (refusal.returncode, id_in(refusal.stdout)) == (2, "nothing-recording")


def test_without_a_terminal_lines_are_shown_until_the_run_is_over(
    tmp_path: Path,
    trainer: Start,  # noqa: F811
) -> None:
    one = trainer(tmp_path / "run", 500)
    one.until(0.3)
    viewer = subprocess.Popen(
        command("live", str(tmp_path)), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    one.finish()
    out, errors = viewer.communicate()
    assert (viewer.returncode, out) == (0, "")
    assert_says(errors, "(closed)")
    assert "\x1b" not in errors


def test_ctrl_c_ends_the_view_and_the_run_goes_on(tmp_path: Path, trainer: Start) -> None:  # noqa: F811
    one = trainer(tmp_path / "run", 10**6)
    one.until(0.3)
    view = OnTerminal("live", str(one.run))
    # Its steps must be read, or the trainer waits for somebody who does.
    until(lambda: one.step() and view.seen.count(b"\x1b[H") > 3)
    view.resize(40, 10)
    before = len(view.seen)
    until(lambda: one.step() and len(view.seen) > before + 500)
    view.process.send_signal(signal.SIGINT)
    assert view.end() == 0
    assert view.seen.count(ENTERED) == view.seen.count(LEFT) == 1
    after = one.step()[0]
    assert one.step()[0] == after + 1
    assert wattstep.load(one.run).info.state == "recording"


def test_a_script_has_the_view_and_what_it_printed_comes_afterwards(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    view = OnTerminal(
        "profile", "--live", "--total-steps", "40", "--out", str(tmp_path), "--name", "it",
        "--trace", "none", str(script),
    )  # fmt: skip
    assert view.end() == 0
    during, _, after = view.seen.partition(LEFT)
    assert ENTERED in during
    assert b"by the script" not in during
    assert b"printed there" in after
    assert b"said by the script" in after
    info = wattstep.load(tmp_path / "it").info
    assert info.asked == {"steps": 40}


def test_a_script_without_a_terminal_is_left_alone_and_told_so(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('printed there')")
    done = told("profile", "--live", "--out", str(tmp_path), "--name", "it", str(script))
    assert done.returncode == 0, done.stderr
    assert "--live needs a terminal" in done.stderr
    assert "printed there" in done.stdout


def test_a_training_of_ours_has_the_view_and_then_its_table(tmp_path: Path) -> None:
    view = OnTerminal(
        "run", "lenet", "--live", "--steps", "20", "--threads", "1", "--trace", "none",
        "--power-model", "vcpu", "--out", str(tmp_path), "--name", "it",
    )  # fmt: skip
    assert view.end() == 0
    during, _, after = view.seen.partition(LEFT)
    assert ENTERED in during
    assert b"modelled" in after
    assert b"Step time (mean)" in after
    assert wattstep.load(tmp_path / "it").info.asked == {"clean_steps": 20}


def test_the_line_of_a_run_tells_joules_used(tmp_path: Path) -> None:
    done = told(
        "run", "lenet", "--seconds", "6", "--threads", "1", "--trace", "none", "--power-model",
        "vcpu", "--out", str(tmp_path), "--name", "it", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "J used" in done.stderr
    assert "modelled" in done.stderr
    json.loads(done.stdout)
