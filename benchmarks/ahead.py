"""What saying what is left costs the training: CPU time of its thread, with the sampler's journals being written meanwhile.

python benchmarks/ahead.py [--seconds 20] [--power-model vcpu] [--json]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from wattstep.live.so_far import LiveForecast
from wattstep.record.recorder import Recorder

STEP_S = 0.01


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--power-model", default="vcpu")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    recorder = Recorder(
        folder / "run", trace="none", power_model=options.power_model, total_steps=10_000
    ).start()
    ahead = LiveForecast(recorder.path, recorder.info)
    looks = []
    end = time.perf_counter() + options.seconds
    while time.perf_counter() < end:
        with recorder.step(samples=4):
            time.sleep(STEP_S)
        if ahead.due():
            began = time.thread_time_ns()
            ahead.look()
            ahead.words()
            looks.append((time.thread_time_ns() - began) * 1e-3)
    recorder.close()
    shutil.rmtree(folder)
    found = {
        "a look, every other second (µs)": statistics.median(looks[1:]),
        "the slowest look after the first (µs)": max(looks[1:]),
        "the first look (µs)": looks[0],
        "said": ahead.words(),
    }
    if options.json:
        print(json.dumps(found, indent=1))
        return
    for name, value in found.items():
        print(f"{name:40} {value if isinstance(value, str) else f'{value:.1f}'}")


if __name__ == "__main__":
    main()
