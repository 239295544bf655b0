"""What the live view costs: CPU time of the viewer, and what a step takes with it and without it.

One training, and one `wattstep live` on a terminal of its own that is stopped and continued: blocks
in the order A B B A, and A A A A beside them.

python benchmarks/live.py [--workload lenet] [--threads 1] [--quadruples 6] [--block 3] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from pairs import compare, interval, shown
from wattstep.live.rows import MarkRows
from wattstep.live.steps import steps_of
from wattstep.schema.journal import JOURNAL, MARKS


class Steps:
    """Median time of the steps of a run that goes on, block by block."""

    def __init__(self, run: Path, block_s: float) -> None:
        self._marks, self._block_s = MarkRows(run / JOURNAL / MARKS), block_s
        self._rest = np.empty(0, self._marks.layout)

    def block(self) -> float:
        self._new()
        time.sleep(self._block_s)
        return float(np.median(self._new()))

    def _new(self) -> np.ndarray:
        seconds = []
        while len(marks := self._marks.new()):
            found, self._rest = steps_of(np.concatenate([self._rest, marks]))
            if found is not None:
                seconds.append((found.end_ns - found.start_ns) * 1e-9)
        return np.concatenate(seconds) if seconds else np.empty(0)


class Viewer:
    """`wattstep live` on a terminal that nobody reads, but for a thread that empties it."""

    def __init__(self, run: Path) -> None:
        ours, theirs = pty.openpty()
        self.drawn = 0
        self.process = subprocess.Popen(
            [sys.executable, "-m", "wattstep", "live", str(run)], stderr=theirs, stdout=theirs,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"},
        )  # fmt: skip
        os.close(theirs)
        threading.Thread(target=self._empty, args=(ours,), daemon=True).start()

    def _empty(self, ours: int) -> None:
        try:
            while data := os.read(ours, 1 << 16):
                self.drawn += data.count(b"\x1b[H")
        except OSError:
            pass

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", default="lenet")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--quadruples", type=int, default=6)
    parser.add_argument("--block", type=float, default=3.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    training = subprocess.Popen(
        [sys.executable, "-m", "wattstep", "run", options.workload, "--threads", options.threads,
         "--seconds", "3600", "--trace", "none", "--power-model", "vcpu", "--quiet",
         "--out", str(folder), "--name", "run"],
        stdout=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        found = measure(folder / "run", options)
    finally:
        os.killpg(training.pid, signal.SIGKILL)
        training.wait()
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    for name, value in found.items():
        print(f"{name:46} {value}")


def measure(run: Path, options: argparse.Namespace) -> dict[str, object]:
    while not (run / JOURNAL / MARKS).exists() or (run / JOURNAL / MARKS).stat().st_size == 0:
        time.sleep(0.5)
    time.sleep(5.0)
    viewer, steps = Viewer(run), Steps(run, options.block)
    while viewer.drawn < 4:
        time.sleep(0.2)
    used: list[float] = []

    def without() -> float:
        viewer.process.send_signal(signal.SIGSTOP)
        return steps.block()

    def beside() -> float:
        viewer.process.send_signal(signal.SIGCONT)
        before, began = viewer.cpu_s(), time.perf_counter()
        seconds = steps.block()
        used.append((viewer.cpu_s() - before) / (time.perf_counter() - began))
        return seconds

    try:
        ratios = compare(without, beside, options.quadruples)
        resident = viewer.resident()
    finally:
        viewer.process.kill()
        viewer.process.wait()
    return {
        "step with the view beside it, more by": shown(ratios["recorded"]),
        "the same without any difference (control)": shown(ratios["control"]),
        "viewer, share of one core (median of blocks)": f"{np.median(used):.1%}",
        "viewer, resident memory (MB)": round(resident / 1e6),
        "ratios": [interval(ratios[name]) for name in ratios],
    }


if __name__ == "__main__":
    main()
