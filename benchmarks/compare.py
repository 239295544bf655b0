"""`wattstep compare` of two runs with a million operation instances each: time and memory of the whole command.

    python benchmarks/compare.py [--instances 1000000] [--repetitions 5] [--json]

The runs are made up and written as any run is: 100 traced steps among 2000, operations three deep in
200 layers and four phases, power and the CPU time of the process every 10 ms, four cores and other
channels beside them. The second is 3 % slower. Time counts from the start of the interpreter.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wattstep.schema.channel import Channel
from wattstep.schema.journal import Mark
from wattstep.schema.run_info import PlannedRead, RunInfo
from wattstep.store.writing import write_run

MS = 1_000_000
STEPS, WINDOWS, LAYERS = 2000, 100, 200
STEP_NS = 200 * MS
PHASES = (("data", 0.02), ("forward", 0.33), ("backward", 0.55), ("optimizer", 0.10))
NAMES = ("aten::convolution", "aten::batch_norm", "aten::relu", "aten::add", "aten::mul")
INSIDE = ("aten::copy_", "aten::empty")  # of each operation
INFLATED = 1.1  # a traced step


def channels() -> list[Channel]:
    """Power, CPU time of the process, busy time of four cores, and as many more as a board has."""
    found = [
        Channel(
            name="board.power", unit="W", kind="gauge", domain="soc", role="power_total",
            source="made", scale=1e-3,
        ),
        Channel(
            name="process.cpu_time", unit="s", kind="counter", domain="process",
            role="process_cpu_time", source="made",
        ),
        Channel(
            name="system.busy_time", unit="s", kind="counter", domain="system",
            role="system_busy_time", source="/proc/stat",
        ),
        Channel(
            name="system.steal_time", unit="s", kind="counter", domain="system",
            role="system_steal_time", source="/proc/stat",
        ),
    ]  # fmt: skip
    found += [
        Channel(
            name=f"cpu{core}.busy_time", unit="s", kind="counter", domain="cpu", role="busy_time",
            source="/proc/stat", core=core,
        )
        for core in range(4)
    ]  # fmt: skip
    return found


def write(path: Path, instances: int, slower: float, seed: int) -> None:
    """A run of so many operation instances."""
    random = np.random.default_rng(seed)
    a_step = instances // WINDOWS
    traced = np.zeros(STEPS, bool)
    traced[10 :: STEPS // WINDOWS] = True
    length = STEP_NS * slower * (1 + 0.01 * random.standard_normal(STEPS))
    length = np.where(traced, INFLATED, 1.0) * length
    end = np.cumsum(length + 20_000).astype(np.int64) + 10**12
    start = end - length.astype(np.int64)
    read = PlannedRead(
        number=0, sensor="made", path="-", parser="-", every=1, channels=tuple(channels())
    )
    info = RunInfo(
        state="closed", created="2026-11-20T12:00:00+0000", workload="made", title="made",
        engine="torch", batch_size=4, threads=4, precision="fp32", processor="cpu", seed=seed,
        interval_s=0.01, warmup=3, trace="auto", device={"cores": 4}, reads=(read,),
        options={"accumulate": 1},
    )  # fmt: skip
    tables: dict[str, Any] = {
        "steps": [_steps(start, end, traced)],
        "operations": _operations(
            start[traced], end[traced], np.flatnonzero(traced), a_step, random
        ),
        "samples": list(_samples(int(start[0]), int(end[-1]), random)),
        "spans": [
            {
                "start_ns": start[traced] - 5000,
                "end_ns": end[traced] + 5000,
                "kind": ["window"] * int(traced.sum()),
                "name": ["tracing"] * int(traced.sum()),
            }
        ],
        "memory": [{"t_ns": [int(end[-1])], "category": ["peak_resident"], "bytes": [10**9]}],
    }
    write_run(path, info, tables)


def _steps(start: Any, end: Any, traced: Any) -> dict[str, Any]:
    edges = np.cumsum([0.0, *(share for _, share in PHASES)])[:-1]
    marks = start[:, None] + (edges * (end - start)[:, None]).astype(np.int64)
    count, phases = marks.shape
    return {
        "index": np.arange(count),
        "start_ns": start,
        "end_ns": end,
        "cpu_start_ns": [None] * count,
        "cpu_end_ns": [None] * count,
        "samples": [4.0] * count,
        "loss": [1.0] * count,
        "warmup": np.arange(count) < 3,
        "traced": traced,
        "mark_ns": list(marks),
        "mark_kind": [[int(Mark.PHASE)] * phases] * count,
        "mark_name": [[name for name, _ in PHASES]] * count,
    }


def _operations(
    start: Any, end: Any, steps: Any, a_step: int, random: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """Every third row is an operation; the two after it lie within it."""
    groups = a_step // 3
    share = np.array([share for _, share in PHASES])
    phase = np.repeat(
        np.arange(len(PHASES)), np.diff(np.floor(np.cumsum([0, *share]) * groups + 0.5).astype(int))
    )
    groups = len(phase)
    at = np.arange(groups)
    layer = at % LAYERS
    name = (at // LAYERS) % len(NAMES)
    for window, (begin, stop, step) in enumerate(zip(start, end, steps, strict=True)):
        weight = (1 + layer % 7) * (1 + 0.02 * random.standard_normal(groups))
        edges = begin + np.concatenate([[0], np.cumsum(weight)]) / weight.sum() * (stop - begin)
        first, last = edges[:-1], edges[:-1] + 0.95 * np.diff(edges)
        third = (last - first) / 4
        starts = np.stack([first, first + third * 0.5, first + third * 2], axis=1).astype(np.int64)
        ends = np.stack([last, first + third * 1.5, first + third * 3], axis=1).astype(np.int64)
        lengths = ends - starts
        own = lengths.copy()
        own[:, 0] -= lengths[:, 1] + lengths[:, 2]
        n = 3 * groups
        names = np.array([*NAMES, *INSIDE], dtype=object)
        labels = np.stack([name, np.full(groups, 5), np.full(groups, 6)], axis=1).ravel()
        texts = np.array([f"features.{n}" for n in range(LAYERS)], dtype=object)
        yield {
            "name": names[labels],
            "kind": np.where(labels == 0, "convolution", "elementwise").astype(object),
            "layer": texts[np.repeat(layer, 3)],
            "phase": np.array([p for p, _ in PHASES], dtype=object)[np.repeat(phase, 3)],
            "step": np.full(n, step),
            "window": np.full(n, window),
            "thread": np.full(n, 1),
            "processor": ["cpu"] * n,
            "start_ns": starts.ravel(),
            "end_ns": ends.ravel(),
            "self_ns": own.ravel(),
            "shapes": ["4x16x32x32"] * n,
            "flops": np.full(n, 1000),
            "bytes": np.full(n, 4000),
            "allocated": np.full(n, 64),
            "outermost": np.tile([True, False, False], groups),
            "parent": _parents(groups),
        }


def _parents(groups: int) -> list[int | None]:
    return [parent for at in range(groups) for parent in (None, 3 * at, 3 * at)]


def _samples(begin: int, end: int, random: np.random.Generator) -> Iterator[dict[str, Any]]:
    t_ns = np.arange(begin - 100 * MS, end + 100 * MS, 10 * MS)
    t_ns = t_ns + random.integers(-MS // 2, MS // 2, len(t_ns))
    seconds = (t_ns - t_ns[0]) * 1e-9
    for channel in channels():
        value = 5 + 0.2 * random.standard_normal(len(t_ns))
        if channel.kind == "counter":
            value = 0.9 * seconds
            value *= {"process_cpu_time": 4, "system_busy_time": 4, "system_steal_time": 0}.get(
                channel.role, 1
            )
        yield {
            "t_ns": t_ns,
            "channel": [channel.name] * len(t_ns),
            "value": value,
            "errno": np.zeros(len(t_ns), np.int16),
        }


def measure(arguments: list[str]) -> dict[str, float]:
    """Wall time of a command, its processor time and its peak of resident memory."""
    begin = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "wattstep", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None
    said = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - begin
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        assert child.stderr is not None
        raise SystemExit(f"wattstep {' '.join(arguments)} failed: {child.stderr.read().decode()}")
    return {
        "s": seconds,
        "processor_s": usage.ru_utime + usage.ru_stime,
        "peak_B": usage.ru_maxrss * 1024,
        "said_B": len(said),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=1_000_000)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="a folder in which the runs are left")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = given.keep or Path(folder)
        paths = []
        for name, slower, seed in (("A", 1.0, 1), ("B", 1.03, 2)):
            paths.append(place / name)
            if not paths[-1].exists():
                write(paths[-1], given.instances, slower, seed)
        command = ["compare", *map(str, paths)]
        found = [measure(command) for _ in range(given.repetitions)]
        as_json = [measure([*command, "--json"]) for _ in range(given.repetitions)]
        start = statistics.median(measure(["--version"])["s"] for _ in range(given.repetitions))
    result = {
        "instances_each": given.instances,
        "median_s": statistics.median(one["s"] for one in found),
        "most_s": max(one["s"] for one in found),
        "median_processor_s": statistics.median(one["processor_s"] for one in found),
        "peak_B": max(one["peak_B"] for one in found),
        "of_it_start_s": start,
        "json_median_s": statistics.median(one["s"] for one in as_json),
        "json_peak_B": max(one["peak_B"] for one in as_json),
        "repetitions": found,
    }
    if given.json:
        print(json.dumps(result))
        return
    print(f"two runs of {given.instances:,} instances, {given.repetitions} repetitions")
    print(f"median {result['median_s']:.2f} s, most {result['most_s']:.2f} s", end="; ")
    print(f"processor time {result['median_processor_s']:.2f} s; start alone {start:.2f} s")
    print(f"peak {result['peak_B'] / 1e6:.0f} MB")
    print(f"with --json: median {result['json_median_s']:.2f} s", end=", ")
    print(f"peak {result['json_peak_B'] / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
