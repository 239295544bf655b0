"""Pauses that stand for a lowered clock: how long they are, and that nothing stays stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.refusals import refused
from tests.wording import saying

from wattstep.record.hosts.emulation import host, tree
from wattstep.record.hosts.emulation.pausing import LEAST_S, Pauser, is_job_of_a_shell
from wattstep.record.hosts.emulation.settings import make_settings
from wattstep.record.hosts.emulation.truth import read_truth
from wattstep.record.recorder import Recorder
from wattstep.run import load
from wattstep.schema.figure import Status

WAIT_S = 20.0
SPINS = "while True: pass"


def state(pid: int) -> str:
    """Of a process: "T" where it is stopped (proc(5))."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def becomes(pid: int, *, stopped: bool) -> bool:
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        if (state(pid) == "T") == stopped:
            return True
        time.sleep(0.005)
    return False


@pytest.fixture
def spinning() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", SPINS]) as process:
        yield process.pid
        process.kill()


def test_a_pause_is_what_work_would_have_taken_more(spinning: int) -> None:
    pauser = Pauser(spinning, 0.5)
    pauser.owe(0.08, 1.0)  # at its own clock nothing is owed
    assert pauser.pay() == 0.0
    pauser.owe(0.08, 2.0)  # half of 80 ms takes twice as long at half the clock
    assert pauser.pay() >= 0.04
    assert state(spinning) != "T"
    late = pauser.paused_s - 0.04  # a pause that was too long is taken off the next
    pauser.owe(2 * (late + LEAST_S / 2), 2.0)
    assert pauser.pay() == 0.0
    pauser.close()
    assert state(spinning) != "T"


HOLDS = """
import sys
from wattstep.record.hosts.emulation.pausing import Pauser
pauser = Pauser(int(sys.argv[1]), 1.0)
pauser.owe(60.0, 2.0)
pauser.pay()
"""


def test_a_training_goes_on_when_the_emulator_is_killed_within_a_pause(spinning: int) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(spinning)]) as holder:
        assert becomes(spinning, stopped=True)
        holder.kill()
    assert becomes(spinning, stopped=False)


def test_what_a_guardian_continues_is_only_what_was_paused(spinning: int) -> None:
    pauser = Pauser(spinning, 1.0)
    pauser.owe(0.01, 2.0)
    pauser.pay()
    os.kill(spinning, signal.SIGSTOP)  # by somebody else
    assert becomes(spinning, stopped=True)
    pauser.close()
    time.sleep(0.2)
    assert state(spinning) == "T"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("S 7 42 7 34816 42", True),  # a job of an interactive shell: leads its group, terminal
        ("S 7 7 7 34816 42", False),  # a child in the group of another
        ("S 7 42 42 34816 42", False),  # leads its session: nobody's job
        ("S 7 42 7 0 -1", False),  # no terminal
    ],
)
def test_a_job_of_a_shell_is_known(tmp_path: Path, fields: str, expected: bool) -> None:
    (tmp_path / "42").mkdir()
    (tmp_path / "42/stat").write_text(f"42 (a) b) {fields} 0 0\n")
    assert is_job_of_a_shell(42, tmp_path) is expected


def test_a_job_of_a_shell_is_not_paused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "is_job_of_a_shell", lambda pid: True)
    with refused("pauses-a-job", "wattstep run"):
        host.open_host("jetson-tx2", {"slow": "0.5"}, os.getpid(), tmp_path)


def test_half_the_clock_doubles_the_time_and_none_of_it_passes_for_measured(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with Recorder(path, trace="none", target="emulate:jetson-tx2,slow=1,truth=10ms") as recorder:
        root = recorder.machine_root
        assert root is not None
        cluster = make_settings("jetson-tx2", {}).board.clusters[0]
        cap = root / tree.policy_folder(cluster) / "scaling_max_freq"
        for capped in (False, True):
            if capped:
                cap.write_text("1017600\n")  # half of its highest
            changed_ns = time.monotonic_ns()
            while time.monotonic_ns() < changed_ns + 1_200_000_000:
                with recorder.step(samples=1):
                    sum(range(100_000))
    columns, rows = read_truth(path)
    place = [column.name for column in columns].index("training.paused")
    first = next(row for row in rows if row[0] > changed_ns + 50_000_000)
    share = (rows[-1][place] - first[place]) * 1e-6 / ((rows[-1][0] - first[0]) * 1e-9)
    assert 0.4 < share < 0.6  # as long paused as at work
    before = next(row for row in reversed(rows) if row[0] < changed_ns)
    assert before[place] == 0
    run = load(path)
    step_time, energy = run.metrics.figure("step_time"), run.metrics.figure("energy_per_step")
    assert step_time is not None
    assert step_time.status is Status.MODELLED
    assert energy is not None
    assert energy.status is Status.MODELLED
    assert saying(run.info.notes, "by pauses")
