"""Peak memory of trainings with data loader workers, against what the kernel says of the same processes.

    python benchmarks/worker_memory.py [--seconds 6] [--json]

Each script trains with workers of its own kind, for as long as is asked from when all of them have
given a batch: spawned ones load torch first, and a peak that is reached just before the end is seen
by nobody. Meanwhile another process stops the script and all that it started, without the recorder's
own, again and again for a moment, reads their proportional sizes, and where it may (root) counts
their pages themselves, each once. `summed` is what resident sets add up to.
Ends with 1 where a figure is more than 2 % beside its truth.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import wattstep

LIMIT = 0.02
PAGE = os.sysconf("SC_PAGE_SIZE")
LOOK_EVERY_S = 0.1  # or as long as the last look took: stopped for half of the time at most
STARTING_S = 240.0  # at most, until all workers are there
SCRIPT = """
import sys, time, warnings
warnings.simplefilter('ignore')
import torch
from torch.utils.data import DataLoader, Dataset
kind, seconds, folder, workers = sys.argv[1], float(sys.argv[2]), sys.argv[3], int(sys.argv[4])
from wattstep import Recorder
torch.set_num_threads(1)

class Data(Dataset):
    def __init__(self):
        self.images = torch.rand(4000, 3, 32, 32) if kind != "spawn" else torch.rand(400, 3, 32, 32)
        self.texts = [str(n) * 20 for n in range(200_000)]
    def __len__(self):
        return 4000
    def __getitem__(self, n):
        if kind == "copying":  # reference counts of what is read make copies of its pages
            sum(len(text) for text in self.texts[50 * n : 50 * n + 2000])
        if kind == "caching":
            self.kept = getattr(self, "kept", None)
            if self.kept is None:  # made in place: no copy that lives for a moment
                self.kept = torch.full((40_000_000,), 1, dtype=torch.uint8)
        return self.images[n % len(self.images)], n % 10

data = Data()
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(32 * 900, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
context = "spawn" if kind == "spawn" else "fork"
loader = DataLoader(
    data, batch_size=16, num_workers=workers, persistent_workers=True, multiprocessing_context=context
)
with Recorder(folder, trace="none") as recorder:
    begin, batches = time.perf_counter(), 0
    while batches < workers or time.perf_counter() - begin < seconds:
        for images, labels in loader:
            with recorder.step(samples=16):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(images), labels).backward()
                optimizer.step()
            batches += 1
            if batches == workers:  # all of them are there
                begin = time.perf_counter()
            if batches > workers and time.perf_counter() - begin > seconds:
                break
    print("done", flush=True)
    sys.stdin.readline()
"""
GUARD = "if __name__ == '__main__':\n"
KINDS = ("sharing", "copying", "caching", "spawn")


def family(pid: int) -> list[int]:
    """The process and its descendants, without samplers and collectors of a recorder."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            try:
                if b"wattstep" not in Path(f"/proc/{child}/cmdline").read_bytes():
                    found += family(int(child))
            except OSError:
                continue
    return found


def sizes(pid: int, file: str) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) for line in lines if line.endswith(" kB")}


def frames(pid: int) -> Iterator[np.ndarray]:
    """Numbers of the pages of memory that a process has mapped, by mapping (needs root)."""
    with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as pagemap:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            if begin >= 1 << 47:
                continue
            pagemap.seek(begin // PAGE * 8)
            entries = np.frombuffer(pagemap.read((end - begin) // PAGE * 8), np.uint64)
            there = entries[entries >> np.uint64(63) == 1] & np.uint64((1 << 55) - 1)
            if len(there):
                yield there


def look(pid: int) -> dict[str, float]:
    """Bytes of the family now: proportional, summed, and each page once where that can be counted.

    They stand still meanwhile: what one frees and another takes must not count twice, or never.
    """
    members = family(pid)
    try:
        for each in members:
            os.kill(each, signal.SIGSTOP)
        return looked_at(members)
    finally:
        for each in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGCONT)


def looked_at(members: list[int]) -> dict[str, float]:
    """The same of these processes."""
    found = {"proportional": 0.0, "summed": 0.0}
    pages = []
    for each in members:
        rollup = sizes(each, "smaps_rollup")
        found["proportional"] += rollup["Pss"] * 1024
        found["summed"] += rollup["Rss"] * 1024
        pages += list(frames(each))
    every = np.unique(np.concatenate(pages))
    if every[-1]:  # a kernel that hides the numbers gives 0
        found["once"] = float((every > 0).sum() * PAGE)
    return found


def measure(kind: str, seconds: float, workers: int) -> dict[str, Any]:
    """One script: what the run says, and the highest that was seen from outside."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, script = Path(scratch, "run"), Path(scratch, "script.py")
        head, body = SCRIPT.split("data = Data()")
        script.write_text(head + GUARD + "    data = Data()" + body.replace("\n", "\n    "))
        process = subprocess.Popen(
            [sys.executable, str(script), kind, str(seconds), str(folder), str(workers)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        highest: dict[str, float] = {}
        assert process.stdin is not None
        assert process.stdout is not None
        end = time.monotonic() + seconds + STARTING_S
        os.set_blocking(process.stdout.fileno(), False)
        while process.stdout.read(1) in ("", None) and time.monotonic() < end:
            begun = time.monotonic()
            try:
                now = look(process.pid) if (folder / "run.json").exists() else {}
            except (OSError, KeyError):  # a process that begins or ends
                now = {}
            highest = {
                name: max(highest.get(name, 0.0), size) for name, size in {**highest, **now}.items()
            }
            time.sleep(max(LOOK_EVERY_S, time.monotonic() - begun))
        process.stdin.write("\n")
        process.stdin.close()
        process.wait()
        metrics = wattstep.load(folder).metrics()
    told = metrics["peak_memory"]
    proportional = metrics.get("proportional_peak_memory")
    return {
        "workers": kind, "told": told.value, "low": told.low, "high": told.high,
        "once": highest.get("once"), "told_proportional": proportional and proportional.value,
        "proportional": highest["proportional"], "summed": highest["summed"],
        "children": metrics["memory_breakdown"].get("child_processes", told).value,
    }  # fmt: skip


def error(told: float | None, truth: float | None) -> float | None:
    return told / truth - 1 if told and truth else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [measure(kind, options.seconds, options.workers) for kind in KINDS]
    for row in rows:
        row["error"] = error(row["told"], row["once"])
        row["error_proportional"] = error(row["told_proportional"], row["proportional"])
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        print("workers   told [MB]  each page once   error   proportional  truth   error   summed")
        for row in rows:
            cells = [
                row[n] and row[n] / 1e6
                for n in ("told", "once", "told_proportional", "proportional", "summed")
            ]
            told, once, ours, theirs, summed = (f"{c:.0f}" if c else "-" for c in cells)
            first, second = (
                f"{e:.1%}" if (e := row[n]) is not None else "-"
                for n in ("error", "error_proportional")
            )
            print(
                f"{row['workers']:<9} {told:>9} {once:>15} {first:>7} {ours:>14} {theirs:>6} {second:>7} {summed:>8}"
            )
    errors = [row[name] for row in rows for name in ("error", "error_proportional")]
    return int(any(e is not None and abs(e) > LIMIT for e in errors))


if __name__ == "__main__":
    sys.exit(main())
