"""The sampler with all cores busy: lateness, ticks, share of a core, resident memory, first sample.

    python benchmarks/sampler.py [--seconds 20] [--interval 10ms] [--idle] [--json]

Peers in the same run, interleaved: the same child started without a session of its own and
without any priority (as an ordinary library would start it), a thread inside the busy Python
process itself, and an empty loop of the same interpreter that wakes as often and reads nothing,
which no sampler in Python can undercut. One burning process a core stands for the training;
with --idle there is none, and each wake-up finds cold caches and a core asleep.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from unittest import mock

import numpy as np

from wattstep.record.recorder import _without_doubles
from wattstep.record.sampling import sampler as sampler_module
from wattstep.record.sampling.plan import make_plan
from wattstep.record.sampling.sampler import Sampler
from wattstep.record.sensors import probe_all
from wattstep.record.sensors.process_cpu import open_task_clocks
from wattstep.schema.settings import parse_duration


def burn() -> None:
    number = 1.0
    while True:
        number = number * 1.0000001 % 7.0


def child(seconds: float, interval: float, scheduled: bool) -> dict[str, float | str]:
    """One sampler child on this process's own counters."""
    plan = make_plan(_without_doubles(probe_all(Path("/"), os.getpid())), interval)
    with tempfile.TemporaryDirectory() as folder:
        sampler = Sampler(plan, Path(folder), lambda: open_task_clocks(os.getpid()))
        plain = (
            None
            if scheduled
            else mock.patch.object(sampler_module, "grant_scheduling", return_value="none")
        )
        begin = time.perf_counter()
        if plain is not None:
            with plain:
                sampler.start()
        else:
            sampler.start()
        first = time.perf_counter() - begin
        time.sleep(1.0)  # what opening cost is not the sampling
        before = cpu_time(sampler.pid)
        since = time.perf_counter()
        time.sleep(seconds)
        used = (cpu_time(sampler.pid) - before) / (time.perf_counter() - since)
        resident = peak_resident(sampler.pid)
        sampler.stop()
        ticks = np.fromfile(Path(folder) / "ticks.bin", "<i8").reshape(-1, 4)[100:]
    late = ticks[:, 1] * 1e-9
    lost = ticks[:, 3].sum()
    return {
        "scheduling": sampler.scheduling,
        "lateness_p50_ms": float(np.percentile(late, 50)) * 1e3,
        "lateness_p99_ms": float(np.percentile(late, 99)) * 1e3,
        "lateness_max_ms": float(late.max()) * 1e3,
        "ticks_ratio": float(len(ticks) / (len(ticks) + lost)),
        "share_of_core": used,
        "resident_MB": resident / 1e6,
        "first_sample_ms": first * 1e3,
    }


def thread_inside(seconds: float, interval: float) -> dict[str, float | str]:
    """What a thread beside busy Python code manages: the peer that most tools are."""
    late: list[float] = []
    stop = threading.Event()

    def sample() -> None:
        deadline = time.monotonic()
        while not stop.is_set():
            deadline += interval
            time.sleep(max(0.0, deadline - time.monotonic()))
            late.append(time.monotonic() - deadline)
            deadline = max(deadline, time.monotonic() - interval)

    thread = threading.Thread(target=sample)
    thread.start()
    end = time.monotonic() + seconds
    number = 1.0
    while time.monotonic() < end:
        number = number * 1.0000001 % 7.0
    stop.set()
    thread.join()
    return {
        "scheduling": "thread inside a busy Python process",
        "lateness_p50_ms": float(np.percentile(late, 50)) * 1e3,
        "lateness_p99_ms": float(np.percentile(late, 99)) * 1e3,
        "lateness_max_ms": float(max(late)) * 1e3,
        "ticks_ratio": len(late) * interval / seconds,
    }


EMPTY_LOOP = """
import sys, time
open("/proc/self/timerslack_ns", "w").write("1")
period, end = float(sys.argv[1]), time.monotonic() + float(sys.argv[2])
deadline, used = time.monotonic(), time.process_time()
while deadline < end:
    deadline += period
    time.sleep(max(0.0, deadline - time.monotonic()))
print((time.process_time() - used) / float(sys.argv[2]))
"""


def empty_loop(seconds: float, interval: float) -> dict[str, float | str]:
    """Share of a core that an interpreter takes that wakes as often, and reads nothing."""
    arguments = [sys.executable, "-I", "-S", "-c", EMPTY_LOOP, str(interval), str(seconds)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    return {
        "scheduling": "an interpreter that wakes as often and reads nothing",
        "share_of_core": float(done.stdout),
    }


def cpu_time(pid: int) -> float:
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total * 1e-9


def peak_resident(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1]) * 1024
    raise RuntimeError("no VmHWM")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--interval", default="10ms")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--idle", action="store_true", help="without burning processes")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    interval = parse_duration(options.interval)
    burners = [multiprocessing.Process(target=burn, daemon=True) for _ in os.sched_getaffinity(0)]
    burners = [] if options.idle else burners
    for burner in burners:
        burner.start()
    rows: dict[str, list[dict[str, float | str]]] = {
        "wattstep": [], "no session": [], "thread": [], "empty loop": []
    }  # fmt: skip
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
        rows["wattstep"].append(child(options.seconds, interval, scheduled=True))
        rows["no session"].append(child(options.seconds, interval, scheduled=False))
        rows["thread"].append(thread_inside(options.seconds / 2, interval))
        rows["empty loop"].append(empty_loop(options.seconds / 2, interval))
    for burner in burners:
        burner.terminate()
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    for name, results in rows.items():
        print(f"\n{name}: {results[0]['scheduling']}")
        for key in results[0]:
            if key != "scheduling":
                print(f"  {key:18}", *(f"{float(r[key]):9.4f}" for r in results))


if __name__ == "__main__":
    main()
