"""What recording adds to the trainer's memory, with tracing off: after a minute's steps and after an hour's.

    python benchmarks/memory.py [--json]

Each figure is resident memory of a fresh process (VmRSS and its private part). The peer is the
same process without a recorder.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

CHILD = """
import sys, tempfile, pathlib, json
recorded, minute, hour = sys.argv[1] == "recorded", int(sys.argv[2]), int(sys.argv[3])
from wattstep import engines, workloads
from wattstep.schema.workload import Preparation
engine = engines.find("torch").prepare(workloads.find("lenet"), Preparation(batch_size=4), threads=1)

def resident():
    lines = open("/proc/self/status").read().split("VmRSS:")[1]
    return int(lines.split()[0]) * 1024

for _ in range(500):
    engine.step()
figures = {"before": resident()}
if recorded:
    from wattstep import Recorder
    folder = tempfile.TemporaryDirectory()
    recorder = Recorder(pathlib.Path(folder.name) / "run", trace="none").start()
    def step(mark=recorder.phase):
        with recorder.step(samples=4) as one:
            one.loss = engine.step(mark)
    def empty():
        with recorder.step(samples=4):
            for name in ("data", "forward", "backward", "optimizer"):
                recorder.phase(name)
else:
    step = engine.step
    def empty():
        pass
for _ in range(2000):
    step()
for _ in range(minute):
    empty()
for _ in range(500):
    step()
figures["minute"] = resident()
for _ in range(hour):
    empty()
for _ in range(500):
    step()
figures["hour"] = resident()
print(json.dumps(figures))
"""
MINUTE, HOUR = 60_000, 3_600_000  # steps of a millisecond


def measure(kind: str) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, kind, str(MINUTE), str(HOUR)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for _ in range(options.rounds):
        plain, recorded = measure("plain"), measure("recorded")
        rows.append(
            {
                key: (recorded[key] - recorded["before"] - plain[key] + plain["before"]) / 1e6
                for key in ("minute", "hour")
            }
        )
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    print("recording adds to the trainer's resident memory (MB), one row a round")
    print(f"{'after a minute of 1 ms steps':>32} {'after an hour of them':>24}")
    for row in rows:
        print(f"{row['minute']:32.2f} {row['hour']:24.2f}")


if __name__ == "__main__":
    main()
