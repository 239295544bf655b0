"""How fast this machine writes and reads a file, and how soon the framework makes its first step."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from wattstep.errors import RecordingError

SIZE: Final = (
    64 << 20
)  # bytes of the file: less than what a checkpoint of a small network has ten of
PIECE: Final = 1 << 20
ROOM: Final = 4  # times the file that has to be free
ROUNDS: Final = 3
FIRST_STEP: Final = (
    "from wattstep import engines, workloads\n"
    "from wattstep.schema.workload import Preparation\n"
    "engine = engines.find(engines.DEFAULT)\n"
    "engine.load()\n"
    "engine.prepare(workloads.find('lenet'), Preparation(batch_size=1), threads=1).step()\n"
)
StorageFigures = dict[str, Any]  # JSON, as a calibration keeps it until it has ended


def measure_storage(folder: Path) -> StorageFigures:
    """Rates in B/s ("read", "write") and times in s ("start") of each round, or why they are not there ("reason").

    Args:
        folder: On the disk that is meant; its file is removed again.
    """
    figures: StorageFigures = {"start": [_first_step_s() for _ in range(ROUNDS)]}
    if shutil.disk_usage(folder).free < ROOM * SIZE:
        return {**figures, "reason": f"less than {ROOM * SIZE >> 20} MiB are free in {folder}"}
    try:
        rounds = [write_and_read(folder, SIZE) for _ in range(ROUNDS)]
    except OSError as error:
        return {**figures, "reason": f"{folder}: {error.strerror or error}"}
    return {
        **figures,
        "write": [SIZE / written for written, _ in rounds],
        "read": [SIZE / read for _, read in rounds],
    }


def write_and_read(folder: Path, size: int) -> tuple[float, float]:
    """Times in s in which a file gets onto the disk, and comes from it once the system's cache has none of it.

    Args:
        folder: Where it is made, without a name.
        size: In bytes.

    Raises:
        OSError: It cannot be written.
    """
    piece = os.urandom(PIECE)  # of what no disk compresses
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        begin = time.perf_counter()
        for _ in range(-(-size // PIECE)):
            file.write(piece)
        os.fsync(file.fileno())
        written = time.perf_counter() - begin
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.seek(0)
        begin = time.perf_counter()
        while file.read(PIECE):
            pass
        return written, time.perf_counter() - begin


def _first_step_s() -> float:
    """From the start of a process to the end of the first step of a tiny network.

    Raises:
        RecordingError: It made none.
    """
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", FIRST_STEP], capture_output=True, text=True, env=dict(os.environ)
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise RecordingError(f"a process that starts and trains failed: {last}")
    return time.perf_counter() - begin
