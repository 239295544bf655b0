"""A real Dask cluster of processes on this machine, whose workers stand for boards."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.waiting import until

LIMIT_S = 150.0


def dask(*arguments: str, cwd: Path) -> subprocess.Popen[bytes]:
    """A part of the cluster in a process of its own."""
    command = [sys.executable, "-m", "dask", *arguments]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def worker(cwd: Path, name: str, label: str, amount: int = 1) -> subprocess.Popen[bytes]:
    """A worker that carries a label; its files are in `space`."""
    return dask(
        "worker", "--scheduler-file", "scheduler.json", "--nthreads", "1", "--no-nanny",
        "--no-dashboard", "--name", name, "--resources", f"{label}={amount}",
        "--local-directory", str(cwd / "space"), cwd=cwd,
    )  # fmt: skip


@contextlib.contextmanager
def scheduler(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Address of a scheduler, and a list of its workers, which end with it."""
    parts = [
        dask(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
            "--scheduler-file", "scheduler.json", cwd=folder,
        )
    ]  # fmt: skip
    file = folder / "scheduler.json"
    workers: list[subprocess.Popen[bytes]] = []
    try:
        until(lambda: file.exists() and file.read_text().rstrip().endswith("}"), LIMIT_S)
        yield json.loads(file.read_text())["address"], workers
    finally:
        for part in [*reversed(workers), *parts]:
            part.kill()
            part.wait()
