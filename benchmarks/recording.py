"""What recording costs of training throughput on clean steps (tracing off).

    python benchmarks/recording.py [--threads N] [--interval 10ms] [--workloads lenet,...] [--json]

Blocks A (plain) and B (recorded: sampler, marks of steps and phases) in the order A B B A within
one process; the sampler starts and ends outside of the blocks. Beside each comparison stands the
same of A against A: what this machine's noise alone would show.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pairs import compare, interval, shown
from wattstep import engines, workloads
from wattstep.recorder import Recorder, _release
from wattstep.records.workload import Preparation

# One of each kind that a small device trains.
WORKLOADS = ("char-cnn", "densenet40", "dqn", "lenet", "resnet50", "squeezenet")


class Blocks:
    """Steps of one workload, plain and recorded."""

    def __init__(self, name: str, threads: int, interval: str, seconds: float) -> None:
        self.engine = engines.find("torch")(
            workloads.find(name), Preparation(batch_size=4), threads=threads
        )
        self.interval = interval
        for _ in range(5):
            self.engine.step()
        begin = time.perf_counter()
        count = 0
        while time.perf_counter() - begin < 1.0:
            self.engine.step()
            count += 1
        self.steps = max(3, round(seconds * count / (time.perf_counter() - begin)))
        self.settling = max(3, self.steps // 5)
        self.sampled = 0

    def plain(self) -> float:
        step = self.engine.step
        gc.collect()  # what a start leaves to be collected is no cost of the steps
        for _ in range(self.settling):
            step()
        begin = time.perf_counter()
        for _ in range(self.steps):
            step()
        return (time.perf_counter() - begin) / self.steps

    def recorded(self) -> float:
        folder = Path(tempfile.mkdtemp())
        recorder = Recorder(folder / "run", interval=self.interval, trace="none")
        recorder.start()
        step = self.engine.step
        gc.collect()
        for _ in range(self.settling):
            with recorder.step(samples=4):
                step(recorder.phase)
        begin = time.perf_counter()
        for _ in range(self.steps):
            with recorder.step(samples=4) as one:
                one.loss = step(recorder.phase)
        taken = (time.perf_counter() - begin) / self.steps
        self.sampled += abandon(recorder)
        shutil.rmtree(folder)
        return taken


def abandon(recorder: Any) -> int:
    """Ends a recording without writing its tables; returns how many ticks were sampled."""
    recorder._sampling.stop()
    recorder._state = "closed"
    recorder._marks.close()
    ticks = (recorder.path / "journal" / "ticks.bin").stat().st_size // 32
    recorder._lock.release()
    _release(recorder)
    return int(ticks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--interval", default="10ms")
    parser.add_argument("--quadruples", type=int, default=10, help="each holds two pairs")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a block")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = {}
    print(
        f"{'workload':12} {'recorded against plain':34} plain against plain "
        f"({options.threads} threads, {options.interval})"
    )
    for name in options.workloads.split(","):
        print(f"{name} ...", file=sys.stderr)
        blocks = Blocks(name, options.threads, options.interval, options.seconds)
        ratios = compare(blocks.plain, blocks.recorded, options.quadruples)
        print(
            f"{name:12} {shown(ratios['recorded']):34} {shown(ratios['control'])}   "
            f"{blocks.steps} steps a block, {blocks.sampled} ticks",
            flush=True,
        )
        results[name] = {key: interval(values) for key, values in ratios.items()}
    if options.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
