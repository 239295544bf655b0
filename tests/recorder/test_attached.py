"""A training that runs already is recorded from outside: what it took by its own account, and no steps."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.refusals import refused
from tests.wording import assert_says

import wattstep
from wattstep.record.attached import AttachedRecorder, program_of
from wattstep.schema.figure import Status

# Works and rests in turn, holds 80 MB for a second in the middle, has a child that works; on a line
# of input it tells the CPU time that it and its child took, after 0.3 s more of the child's.
PROGRAM = r"""
import resource, subprocess, sys, time
child = subprocess.Popen(
    [sys.executable, "-c", "import sys, time, resource\nfor _ in sys.stdin:\n"
     " end = time.process_time() + 0.3\n while time.process_time() < end: sum(range(1000))\n"
     " u = resource.getrusage(resource.RUSAGE_SELF); print(u.ru_utime + u.ru_stime, flush=True)\n"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
)
def used():
    child.stdin.write("?\n"); child.stdin.flush()
    return time.process_time() + float(child.stdout.readline())
print("ready", flush=True)
for line in sys.stdin:
    if line.strip() == "used":
        print(used(), flush=True)
    if line.strip() == "work":
        end = time.process_time() + 0.8
        while time.process_time() < end: sum(range(1000))
        held = bytearray(80_000_000)
        time.sleep(1.0)
        del held
        print("done", flush=True)
    if line.strip() == "end":
        break
child.stdin.close()
child.wait()
"""


class Program:
    """The program, and what is said to it."""

    def __init__(self, folder: Path) -> None:
        script = folder / "my_training.py"
        script.write_text(PROGRAM)
        self.process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.answer()

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def used_s(self) -> float:
        self.say("used")
        return float(self.answer())


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    made = Program(tmp_path)
    yield made
    made.process.kill()
    made.process.communicate()


def test_time_memory_and_power_are_those_of_the_process_and_its_children(
    program: Program, tmp_path: Path
) -> None:
    pid = program.process.pid
    resident = int(re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[0])
    with AttachedRecorder(pid, tmp_path / "run", power_model="linear:0,10") as recorder:
        begin_s, before = time.perf_counter(), program.used_s()
        program.say("work")
        assert not recorder.watch(2.5)
        assert program.answer() == "done"
        took = program.used_s() - before
        recorder.watch(0.1)
        wall_s = time.perf_counter() - begin_s
    run = wattstep.load(tmp_path / "run")
    metrics = run.metrics
    # The child's first 0.3 s lie before its first answer; a millisecond or two is Python's own.
    assert metrics["recorded_cpu_time"].value == pytest.approx(took + 0.3, abs=0.1)
    assert metrics["recorded_cpu_time"].status is Status.MEASURED
    assert metrics["recorded_time"].value == pytest.approx(wall_s, rel=0.2)
    # 10 W for each busy core.
    assert metrics["recorded_energy"].value == pytest.approx((took + 0.3) * 10, rel=0.1)
    assert metrics["recorded_energy"].status is Status.MODELLED
    assert metrics["peak_memory"].value > resident * 1024 + 80_000_000
    assert metrics["peak_memory"].value < resident * 1024 + 80_000_000 + 40_000_000


def test_there_are_no_steps_and_it_is_said(program: Program, tmp_path: Path) -> None:
    with AttachedRecorder(program.process.pid, tmp_path / "run") as recorder:
        recorder.watch(0.5)
    run = wattstep.load(tmp_path / "run")
    report = run.report()
    assert report.title == "my_training"
    assert report.figures_of == "recording"
    assert report.steps.recorded == 0
    for name in ("step_time", "energy_per_step"):
        assert "from outside" in (run.metrics[name].reason or "")
    assert not report.operations
    shown = " ".join(run.summary().split())
    assert "recorded from outside" in shown
    assert_says(shown, "Recorded from outside", "wattstep profile")
    for known in ("Recorded time", "CPU time", "Peak memory", "Cores kept busy"):
        assert known in shown
    wattstep.explain(tmp_path / "run")


def test_it_ends_with_the_training(program: Program, tmp_path: Path) -> None:
    threading.Timer(0.7, program.say, ("end",)).start()
    with AttachedRecorder(program.process.pid, tmp_path / "run") as recorder:
        assert recorder.watch()
    assert wattstep.load(tmp_path / "run").metrics["peak_memory"].value


def test_nothing_is_written_of_a_process_that_is_not_there(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with refused("process-gone", ended.pid):
        AttachedRecorder(ended.pid, tmp_path / "run")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["{folder}/my_net.py", "--epochs", "3"], "my_net"),
        (["-u", "-m", "timeit", "-n", "1", "-r", "1", "import time; time.sleep(9)"], "timeit"),
        (["-c", "import time; time.sleep(9)"], "python"),
    ],
)
def test_a_run_is_called_as_its_script(arguments: list[str], name: str, tmp_path: Path) -> None:
    (tmp_path / "my_net.py").write_text("import time; time.sleep(9)")
    words = [word.format(folder=tmp_path) for word in arguments]
    process = subprocess.Popen([sys.executable, *words])
    try:
        until = time.monotonic() + 30  # its arguments are there shortly after it
        while not Path(f"/proc/{process.pid}/cmdline").read_bytes() and time.monotonic() < until:
            time.sleep(0.01)
        assert program_of(process.pid) == name
    finally:
        process.kill()
        process.wait()


def test_the_command_ends_by_ctrl_c_and_the_training_goes_on(
    program: Program, tmp_path: Path
) -> None:
    command = subprocess.Popen(
        [sys.executable, "-m", "wattstep", "attach", str(program.process.pid), "--json",
         "--out", str(tmp_path), "--name", "run"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert command.stderr is not None
    assert "recording my_training" in command.stderr.readline()
    time.sleep(1.0)
    command.send_signal(signal.SIGINT)
    output, errors = command.communicate(timeout=600)
    assert command.returncode == 0, errors
    (document,) = json.loads(output)["runs"]
    assert document["metrics"]["recorded_time"]["value"] > 0.5
    assert os.waitid(os.P_PID, program.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    assert program.used_s() > 0


def test_a_process_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    done = subprocess.run(
        [sys.executable, "-m", "wattstep", "attach", str(ended.pid), "--out", str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert_says(done.stderr, "wattstep: ", "no process", ended.pid)
    assert not list(tmp_path.iterdir())
