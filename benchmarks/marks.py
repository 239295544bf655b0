"""What the marks of a step take: in an empty loop, and after real steps, when the interpreter's code has left the cache.

python benchmarks/marks.py [--steps 3000] [--json]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from recording import Blocks, abandon
from wattstep.recorder import Recorder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    blocks = Blocks("lenet", 1, "10ms", 0.3)
    folder = Path(tempfile.mkdtemp())
    recorder = Recorder(folder / "run", trace="none").start()
    clock = time.perf_counter_ns
    after_steps, bare, clock_only = [], [], []
    for work, taken in ((blocks.engine.step, after_steps), (None, bare)):
        for _ in range(options.steps):
            t0 = clock()
            recorder.begin_step(4.0)
            t1 = clock()
            if work is not None:
                work(recorder.phase)
            t2 = clock()
            recorder.end_step(1.0)
            t3 = clock()
            taken.append((t1 - t0 + t3 - t2) * 1e-3)
            clock_only.append((clock() - t3) * 1e-3)
    abandon(recorder)
    shutil.rmtree(folder)
    medians = {
        "empty loop": statistics.median(bare),
        "after LeNet steps": statistics.median(after_steps),
        "reading the clock twice, included in both": 2 * statistics.median(clock_only),
    }
    if options.json:
        print(json.dumps(medians, indent=1))
        return
    print("marks of a step (begin and end), median in µs")
    for name, value in medians.items():
        print(f"  {name:44} {value:6.2f}")


if __name__ == "__main__":
    main()
