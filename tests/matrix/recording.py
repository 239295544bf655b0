"""Runs as users make them: whole ones of a few steps, and ones whose processes were all killed at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import psutil
import torch
from tests.waiting import until

from wattstep.train.loop import train
from wattstep.train.settings import TrainingSettings


def record(folder: Path, name: str, **settings: object) -> Path:
    """A run of this process, on one thread and without a word."""
    threads = torch.get_num_threads()
    path = folder / name
    try:
        known = {"threads": 1, "canary": True, "out": str(path), **settings}
        recorder = train(TrainingSettings(**known), lambda news: None)  # type: ignore[arg-type]
    finally:
        torch.set_num_threads(threads)
    assert recorder.problem is None
    return path


def record_killed(folder: Path, moments_s: Iterable[float], *arguments: str) -> list[Path]:
    """Runs whose trainer, sampler and collector are stopped and killed together, so long after their first step."""
    started: list[tuple[Path, float, subprocess.Popen[bytes]]] = []
    for moment_s in moments_s:
        path = folder / f"killed-after-{moment_s:g}-s"
        begun = ["lenet", "--threads", "1", "--seconds", "600", "--power-model", "vcpu", *arguments]
        command = [sys.executable, "-m", "wattstep", "run", *begun, "-q"]
        command += ["--out", str(folder), "--name", path.name]
        started.append((path, moment_s, subprocess.Popen(command)))
    for path, moment_s, process in started:
        until(lambda path=path: _marked(path))  # type: ignore[misc]
        time.sleep(moment_s)
        kill_all(process)
    return [path for path, _, _ in started]


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kills a process with all that it started: none of them sees another end."""
    parent = psutil.Process(process.pid)
    for signal_ in (signal.SIGSTOP, signal.SIGKILL):
        family = _family(parent)
        for each in family:
            os.kill(each.pid, signal_)
    process.wait()
    psutil.wait_procs(
        family[1:], timeout=10
    )  # one that has not gone yet may hold the lock of the run


def _family(parent: psutil.Process) -> Sequence[psutil.Process]:
    return [parent, *parent.children(recursive=True)]


def _marked(path: Path) -> bool:
    """Whether a run has begun to mark: its journal is reserved ahead, as zeros."""
    journal = path / "journal" / "marks.bin"
    return journal.exists() and any(journal.read_bytes()[: 1 << 16])
