"""A training with a thread for each core is warned of others that use the cores, before it begins."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from wattstep.integrations.session import Beginning, CallbackSettings, Session
from wattstep.record.recorder import RecordingWarning
from wattstep.run import load
from wattstep.train.environment.crowding import (
    cores_of_others,
    default_threads,
    others_beside,
    too_many_threads,
)

CORES = len(os.sched_getaffinity(0))
TWO_CORES = pytest.mark.skipif(CORES < 2, reason="one core has one thread")
SAID = "other programs keep"
TICK = os.sysconf("SC_CLK_TCK")


def stat(path: Path, busy_s: float) -> Path:
    file = path / "stat"
    file.write_text(f"cpu  {round(busy_s * TICK)} 0 0 99 0 0 0 0 0 0\ncpu0 1 0 0 9 0 0 0 0 0 0\n")
    return file


def test_others_are_all_busy_time_but_that_of_this_process(tmp_path: Path) -> None:
    """In 2 s the cores were busy for 3.5 s, 0.5 s of it with this process: others used 1.5."""
    times, own = iter([10.0, 12.0]), iter([1.0, 1.5])
    file = stat(tmp_path, 100)
    others = cores_of_others(
        file, lambda: next(times), lambda: next(own), lambda _: stat(tmp_path, 103.5)
    )
    assert others == pytest.approx(1.5)


def test_a_kernel_that_does_not_tell_warns_of_nobody(tmp_path: Path) -> None:
    assert cores_of_others(tmp_path / "none", sleep=lambda seconds: None) == 0


@pytest.mark.parametrize(
    ("environment", "threads"),
    [({"OMP_NUM_THREADS": "3"}, 3), ({"OMP_NUM_THREADS": "5,2"}, 5),
     *(({"OMP_NUM_THREADS": text}, None) for text in ("", "0", "all")), ({}, None)],
)  # fmt: skip
def test_the_threads_of_a_training_are_known_before_torch_is_loaded(
    environment: dict[str, str], threads: int | None
) -> None:
    assert default_threads(environment) == (threads or len(os.sched_getaffinity(0)))


TRAINING = """
import sys
from wattstep.train import loop

loop.cores_of_others = lambda: 8.0
def warn(text):
    assert "torch" not in sys.modules
    print(text)
    raise SystemExit(0)  # what comes next is not asked
loop.train(loop.TrainingSettings(workload="lenet", out=sys.argv[1]), lambda progress: None, warn)
"""


def test_a_crowded_machine_is_told_of_before_torch_is_loaded(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", TRAINING, str(tmp_path / "run")],
        capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "4"},
    )  # fmt: skip
    assert "uses 4 threads" in ended.stdout, ended.stderr


@pytest.mark.parametrize(
    ("threads", "others", "advice"),
    [(2, 0.2, None), (2, 1.4, "--threads 1"), (1, 2.0, None), (4, 1.6, "--threads 2")],
)
def test_the_warning_says_how_many_threads_leave_the_others_theirs(
    threads: int, others: float, advice: str | None
) -> None:
    said = too_many_threads(threads, max(threads, 2), others)
    assert (said is None) == (advice is None)
    assert advice is None or advice in (said or "")


# --- scripts and trainers of others ---------------------------------------------------------------


@pytest.fixture
def crowd(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A program on each core, and nobody who chose how many threads a training has."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    spin = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(spin) for _ in range(CORES)]
    yield
    for each in others:
        each.kill()
        each.wait()


SCRIPT = """
import torch
torch.set_num_threads(2)
net = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for n in range(20):
    if n == 10:
        print("ten", flush=True)
    optimizer.zero_grad()
    net(torch.randn(4, 8)).sum().backward()
    optimizer.step()
"""


@TWO_CORES
@pytest.mark.usefixtures("crowd")
def test_a_script_is_warned_of_others_when_its_training_begins(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    words = ["profile", "--trace", "none", "--out", "run", "script.py"]
    done = subprocess.run(
        [sys.executable, "-m", "wattstep", *words], cwd=tmp_path, text=True, check=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    before, _, _ = done.stdout.partition("ten\n")
    assert SAID in before
    assert "OMP_NUM_THREADS=1" in before
    assert any(
        "other programs kept" in note
        for note in load(next(tmp_path.rglob("run.json")).parent).info.notes
    )


@TWO_CORES
@pytest.mark.usefixtures("crowd")
def test_a_callback_warns_of_others_before_the_first_step(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    session = Session(CallbackSettings(folder=tmp_path, trace="none", log=False))
    try:
        with pytest.warns(RecordingWarning, match=SAID):
            session.begin(
                Beginning(
                    name="net", model=torch.nn.Linear(8, 2), batch_size=4, accumulate=1,
                    first_step=0, total_steps=None, processes=1, trainer="made",
                )
            )  # fmt: skip
    finally:
        session.end()
        torch.set_num_threads(threads)
    assert session.path is not None
    assert any("other programs kept" in note for note in load(session.path).info.notes)


@pytest.mark.parametrize(
    "environment", [{"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "4", "WORLD_SIZE": "2"}]
)
def test_one_thread_and_processes_that_train_together_are_not_warned(
    environment: dict[str, str],
) -> None:
    def never() -> float:
        raise AssertionError("it was looked for others")

    assert others_beside(environment, never) == 0
