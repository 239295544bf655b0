"""Recordings whose journals are packed meanwhile: looked at, killed and closed, they lose nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.waiting import until

from wattstep.run import load
from wattstep.run.run import Run
from wattstep.store.segments import VARIABLE

# Marks fill a segment in a third of a second, samples in some seconds.
TRAINING = """
import sys, time
from pathlib import Path
from wattstep.record.recorder import Recorder

with Recorder(Path(sys.argv[1]), interval=0.002, trace="none") as recorder:
    steps = recorder._steps
    print("begun", flush=True)
    while not Path(sys.argv[1] + ".end").exists():
        for _ in range(50):
            begun = steps.begin()
            steps.end(begun, 0.5)
        time.sleep(0.002)
    print(steps.index, recorder.problem, flush=True)
"""
PACKED = ("marks.0000.parquet", "ticks.0000.parquet")


class Training:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.process = subprocess.Popen(
            [sys.executable, "-c", TRAINING, str(path)],
            env={**os.environ, VARIABLE: "0.01"},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "begun\n"

    def await_packed(self, names: tuple[str, ...] = PACKED) -> None:
        until(lambda: all((self.path / "journal" / name).exists() for name in names))

    def packers(self) -> list[int]:
        """The process that packs its segments, and what that has just started."""
        pids = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
                folder = (process / "cwd").readlink()
            except OSError:
                continue
            if b"wattstep.store.packing:main" in words and folder.parent == self.path:
                pids.append(int(process.name))
        return pids

    def close(self) -> int:
        """Ends it as it is to end; how many steps it had."""
        self.path.with_name("run.end").touch()
        steps, problem = self.process.communicate(timeout=120)[0].split()
        assert problem == "None"
        return int(steps)


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Training]:
    one = Training(tmp_path / "run")
    yield one
    one.process.kill()
    one.process.communicate()


def check_whole(run: Run, least: int) -> int:
    """All steps from the first on, each once, and ticks without a hole; how many steps."""
    index = run.tables.steps().index
    assert index.tolist() == list(range(len(index)))
    assert len(index) >= least
    t_ns, value, _ = run.tables.samples()["sampler.lost_ticks"]
    # What the sampler could not keep up with it says itself: nothing else may be missing.
    ticks = len(t_ns) + np.nansum(value)
    assert ticks == pytest.approx((t_ns[-1] - t_ns[0]) / 2e6 + 1, abs=2)
    return len(index)


def test_a_run_is_whole_while_it_is_packed_and_when_it_is_closed(training: Training) -> None:
    training.await_packed()
    first = check_whole(load(training.path), 8192)
    packers = training.packers()
    assert packers
    # The version before knew 1 alone, and would have lost plain steps; closed, all can read it.
    assert json.loads((training.path / "run.json").read_text())["schema_version"] == 2
    for pid in packers:
        os.kill(pid, signal.SIGKILL)  # as by whoever looks for memory
    second = check_whole(load(training.path), first)
    steps = training.close()
    assert check_whole(load(training.path), second) == steps
    assert json.loads((training.path / "run.json").read_text())["schema_version"] == 1
    assert not (training.path / "journal").exists()
    until(lambda: not training.packers())


def test_a_training_that_is_killed_while_it_is_packed_loses_nothing(training: Training) -> None:
    training.await_packed()
    training.process.kill()
    training.process.wait()
    until(lambda: not training.packers())
    # A packer killed behind its rename leaves a segment both ways; a step may have more marks than one.
    marks = {path.name.split(".")[1] for path in (training.path / "journal").glob("marks.*.*")}
    run = load(training.path)
    check_whole(run, (len(marks) - 2) * 8192)
    assert run.info.state == "recovered"
    assert not (training.path / "journal").exists()
