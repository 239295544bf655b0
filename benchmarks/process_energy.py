"""Whether a power model charges a training for its own CPU time alone, whatever else the machine does.

    python benchmarks/process_energy.py [--seconds 8] [--json]

Scripts of their own kind are recorded while other programs keep every core busy. The truth is the
model's own formula on the CPU time that each script reads of itself within its steps (getrusage; its
child tells its own) and, as its upper end, with what it takes between them, where the recorder works:
at steps of a few ms its samples tell the two apart in part only. `machine` is what the model gives the
machine in the same steps. Ends with 1 where a figure is more than 2 % beside its truth, or its interval
does not reach it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import wattstep

IDLE, BUSY = 0.74, 3.5  # watts a core, as --power-model vcpu has them
LIMIT = 0.02
SCRIPT = """
import json, multiprocessing, os, resource, sys, threading, time
kind, seconds, folder = sys.argv[1], float(sys.argv[2]), sys.argv[3]
from wattstep import Recorder

def own():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))

def load(pipe):
    while pipe.recv():
        work(0.02)
        pipe.send(own())

def step():
    if kind == "sleeping":
        work(0.004); time.sleep(0.04)
    elif kind == "busy":
        work(0.02)
    elif kind == "threads":
        other = threading.Thread(target=work, args=(0.01,))
        other.start(); work(0.01); other.join()
    else:
        pipe.send(True); work(0.005); used["child"] = pipe.recv()

used = {"child": 0.0}
with Recorder(folder, trace="none", power_model="vcpu", warmup=3) as recorder:
    if kind == "worker":
        pipe, far = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(target=load, args=(far,), daemon=True)
        child.start()
    for _ in range(3):
        with recorder.step(samples=1):
            step()
    steps, begin, cpu, within, then = 0, time.perf_counter(), own(), 0.0, used["child"]
    while time.perf_counter() - begin < seconds:
        with recorder.step(samples=1):
            before = own()
            step()
            within += own() - before
        steps += 1
    between = own() - cpu - within
    within += used["child"] - then
    if kind == "worker":
        pipe.send(False)
print(json.dumps({"steps": steps, "cpu_s": within, "between_s": between}))
"""
KINDS = ("sleeping", "busy", "threads", "worker")
HOG = "while True: pass"


def measure(kind: str, seconds: float, hogs: int) -> dict[str, Any]:
    """One script beside so many other programs: energy a step in J, its truth, the machine's."""
    others = [subprocess.Popen([sys.executable, "-c", HOG]) for _ in range(hogs)]
    try:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch, "run")
            done = subprocess.run(
                [sys.executable, "-c", SCRIPT, kind, str(seconds), str(folder)],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            said = json.loads(done.stdout.splitlines()[-1])
            metrics = wattstep.load(folder).metrics()
    finally:
        for other in others:
            other.kill()
            other.wait()
    least = BUSY * said["cpu_s"] / said["steps"]
    most = least + BUSY * said["between_s"] / said["steps"]
    told = metrics["energy_per_step"]
    truth = min(max(told.value, least), most)
    return {
        "script": kind, "others": hogs, "steps": said["steps"], "truth_J": [least, most],
        "told_J": told.value, "error": told.value / truth - 1, "interval_J": [told.low, told.high],
        "holds": told.low <= most and told.high >= least,
        "machine_J": metrics["machine_energy_per_step"].value, "source": told.source,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cores = os.cpu_count() or 1
    rows = [measure(kind, options.seconds, hogs) for kind in KINDS for hogs in (0, cores)]
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        print("script    others       truth [mJ]  told [mJ]   error       interval  machine [mJ]")
        for row in rows:
            truth, interval = (
                " to ".join(f"{1e3 * end:.1f}" for end in row[name])
                for name in ("truth_J", "interval_J")
            )
            print(
                f"{row['script']:<9} {row['others']:>6} {truth:>16} {1e3 * row['told_J']:>10.1f} "
                f"{row['error']:>7.1%} {interval:>14} {1e3 * row['machine_J']:>13.1f}"
            )
    return int(any(abs(row["error"]) > LIMIT or not row["holds"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
