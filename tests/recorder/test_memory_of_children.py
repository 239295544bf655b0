"""A training's peak with forked workers counts once what they share with it and with each other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from wattstep import load
from wattstep.run.memory import more_than_read

SCRIPT = """
import os, sys, time
from wattstep import Recorder
shared = bytearray(os.urandom(1) * 200_000_000)
workers = []
with Recorder(sys.argv[1], trace="none", warmup=0) as recorder:
    for _ in range(3):
        told, tell = os.pipe()
        go, end = os.pipe()
        if not os.fork():
            os.close(end)
            own = bytearray(b"x" * 30_000_000)
            os.write(tell, b".")
            os.read(go, 1)
            os._exit(0)
        os.read(told, 1)
        workers.append(end)
    for _ in range(60):  # long enough for several walks of all pages, on a busy machine as well
        with recorder.step(samples=1):
            time.sleep(0.02)
"""


def test_the_peak_with_forked_workers_counts_what_they_share_once(tmp_path: Path) -> None:
    """Three workers write 30 MB each and share 200 MB with the process: 90 MB are theirs, not 690."""
    subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path / "run")], check=True, timeout=600)
    run = load(tmp_path / "run")
    if "proportional_memory" in run.info.absent or "children" in run.info.absent:
        pytest.skip("the kernel does not tell")
    metrics = run.metrics()
    peak, children = metrics["peak_memory"], metrics["memory_breakdown"].get("child_processes")
    own = run.series.raw("process.resident_memory")[1].max()
    assert peak.value - own == pytest.approx(90e6, rel=0.1)
    assert peak.low <= peak.value <= peak.high
    assert peak.status.value == "measured"
    assert "shared pages" in peak.method
    assert children is None  # without a model nothing else has a category either
    proportional = metrics["proportional_peak_memory"]
    assert proportional.value < peak.high
    assert proportional.low <= proportional.value <= proportional.high
    assert proportional.high == peak.high  # where each page counts once, no page counts for less


def test_what_a_step_held_between_two_reads_counts_beside_the_read() -> None:
    """Reads at 1, 2 and 3 s; 10 MB come and go at 1.5 s, 30 MB at 2.5 s, of 100."""
    samples = np.arange(0, 4_000_000_000, 100_000_000)
    size = np.full(len(samples), 100e6)
    size[15] += 10e6
    size[25] += 30e6
    size[38] += 70e6  # behind the last read
    reads = np.array([1, 2, 3]) * 1_000_000_000
    assert more_than_read(reads, (samples, size)).tolist() == [10e6, 30e6, 30e6]
    size[20] += 20e6  # the second read saw these
    assert more_than_read(reads, (samples, size)).tolist() == [20e6, 10e6, 30e6]
    assert more_than_read(reads, (samples[:0], size[:0])).tolist() == [0, 0, 0]
