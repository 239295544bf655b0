"""What an export of a large run takes, by format: seconds, peak memory, size; beside perfetto's own builder.

    python benchmarks/export.py [--operations 1000000] [--samples 1000000] [--repetitions 3]
                                [--ways perfetto perfetto.gz chrome csv parquet peer] [--json]

The run is made: 10,000 steps of four phases, 1,000 of them traced, each with operations three deep on
a thread, and kernels on a GPU that they launched; 100 channels, every thousandth read a failed one.
Each export is a fresh process, ways in turn; its time is without the start of Python and imports,
its memory the high-water mark of the process less that of one that only imports the same. The peer
writes the same slices (names, categories and strings by number, same arguments, flows) and the same
values packet by packet with perfetto's StreamingTraceProtoBuilder (`benchmarks/perfetto_peer.py`).
On a machine that others share, seconds of the CPU say more than those of the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wattstep.schema.channel import Channel
from wattstep.schema.journal import Mark
from wattstep.schema.run_info import PlannedRead, RunInfo
from wattstep.store.writing import write_run

PEER = str(Path(__file__).with_name("perfetto_peer.py"))
BEGIN = 1_000_000_000_000
STEP, STEPS, WINDOWS, CHANNELS = 10_000_000, 10_000, 1_000, 100
NAMES = [f"aten::operation_{n}" for n in range(60)]
LAYERS = [f"features.{n}.conv" for n in range(50)]
PHASES = ("data", "forward", "backward", "optimizer")
OURS = """
import sys, time, json
from pathlib import Path
from wattstep.report.export.export import export_run
import wattstep.report.export.perfetto, wattstep.report.export.chrome, wattstep.report.export.csv_tables
import wattstep.report.export.parquet_tables
def peak():  # of this program alone: ru_maxrss is handed down by who started it
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
before = peak()
begun, used = time.perf_counter(), time.process_time()
found = export_run(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
print(json.dumps({"s": time.perf_counter() - begun, "cpu_s": time.process_time() - used, "size": found.size, "before": before,
                  "peak": peak()}))
"""
ENDINGS = {"perfetto": "", "perfetto.gz": ".gz", "chrome": "", "csv": "", "parquet": ""}


def make(path: Path, operations: int, samples: int) -> None:
    """A run of these sizes."""
    channels = tuple(
        Channel(
            name=f"rail{n}.power" if n < 3 else f"zone{n}.temperature",
            unit="W" if n < 3 else "°C", kind="gauge", domain="soc" if n < 3 else "thermal",
            role="power_part" if n < 3 else "temperature", source="made",
        )
        for n in range(CHANNELS)
    )  # fmt: skip
    read = PlannedRead(number=0, sensor="made", path="-", parser="-", every=1, channels=channels)
    info = RunInfo(
        state="closed", created="2026-11-22T12:00:00+0000", workload="made", title="made",
        engine="torch", batch_size=4, threads=1, precision="fp32", processor="cpu", seed=0,
        interval_s=0.01, warmup=3, trace="every:10", reads=(read,), device={"cores": 4},
    )  # fmt: skip
    tables = {
        "steps": [_steps()],
        "operations": _operations(operations),
        "samples": _samples(channels, samples),
    }
    write_run(path, info, tables)


def _steps() -> dict[str, Any]:
    start = BEGIN + np.arange(STEPS) * STEP
    marks = start[:, None] + np.arange(4) * (STEP // 4)
    return {
        "index": np.arange(STEPS), "start_ns": start, "end_ns": start + STEP - 1000,
        "cpu_start_ns": [None] * STEPS, "cpu_end_ns": [None] * STEPS,
        "samples": np.full(STEPS, 4.0), "loss": np.linspace(2, 1, STEPS),
        "warmup": np.arange(STEPS) < 3, "traced": np.arange(STEPS) % (STEPS // WINDOWS) == 5,
        "mark_ns": marks.tolist(), "mark_kind": [[int(Mark.PHASE)] * 4] * STEPS,
        "mark_name": [list(PHASES)] * STEPS,
    }  # fmt: skip


def _operations(count: int) -> Iterator[dict[str, Any]]:
    """Of each traced step: groups of an outer operation, one inside, one in that, and a kernel."""
    groups = count // WINDOWS // 4
    length = (STEP - 2000) // groups
    for window in range(WINDOWS):
        step = window * (STEPS // WINDOWS) + 5
        start = BEGIN + step * STEP + np.arange(groups) * length
        edges = np.stack([start, start + length // 8, start + length // 4, start + length // 4], 1)
        ends = np.stack([start + length - 1, start + length - 2, start + length // 2, start + length - 1], 1)  # fmt: skip
        at = np.arange(groups) * 4
        row = np.stack([at - at - 1, at, at + 1, at - at - 1], 1)
        launch = np.stack([at - at - 1, at - at - 1, at - at - 1, at + 2], 1)
        rows = groups * 4
        name = np.arange(rows) % len(NAMES)
        layer = np.repeat(np.arange(groups) % len(LAYERS), 4)
        yield {
            "name": [NAMES[n] for n in name], "kind": ["matrix product"] * rows,
            "layer": [LAYERS[n] for n in layer],
            "phase": [PHASES[n] for n in np.repeat(np.arange(groups) * 4 // groups, 4)],
            "step": np.full(rows, step), "window": np.full(rows, window),
            "thread": np.tile([1, 1, 1, 7], groups),
            "processor": ["cpu", "cpu", "cpu", "gpu0"] * groups,
            "start_ns": edges.ravel(), "end_ns": ends.ravel(), "self_ns": (ends - edges).ravel(),
            "shapes": ["4x64x32x32;64x64x3x3"] * rows, "flops": np.full(rows, 1_000_000 + step),
            "bytes": np.full(rows, 65_536), "allocated": np.zeros(rows, np.int64),
            "outermost": (row < 0).ravel(), "parent": _or_none(row), "launch": _or_none(launch),
        }  # fmt: skip


def _or_none(values: Any) -> list[int | None]:
    return [None if value < 0 else value for value in values.ravel().tolist()]


def _samples(channels: tuple[Channel, ...], count: int) -> Iterator[dict[str, Any]]:
    each = count // len(channels)
    t_ns = BEGIN + np.linspace(0, STEPS * STEP, each).astype(np.int64)
    for number, channel in enumerate(channels):
        value = 5 + np.sin(np.arange(each) / 50 + number)
        failed = np.arange(each) % 1000 == 999
        yield {
            "t_ns": t_ns + number, "channel": [channel.name] * each,
            "value": [None if bad else v for v, bad in zip(value.tolist(), failed, strict=True)],
            "errno": np.where(failed, 5, 0),
        }  # fmt: skip


def measure(way: str, run: Path, folder: Path) -> dict[str, float]:
    """One export in a process of its own."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        target = Path(place) / f"out{ENDINGS.get(way, '')}"
        command = [sys.executable, "-c", OURS, str(run), way.partition(".")[0], str(target)]
        if way == "peer":
            command = [sys.executable, PEER, str(run), str(target)]
        said = subprocess.run(
            command, capture_output=True, text=True, check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        ).stdout  # fmt: skip
        found: dict[str, float] = json.loads(said)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--ways", nargs="+", default=[*ENDINGS, "peer"])
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    results: dict[str, list[dict[str, float]]] = {way: [] for way in asked.ways}
    with tempfile.TemporaryDirectory() as name:
        run = Path(name) / "run"
        make(run, asked.operations, asked.samples)
        for _ in range(asked.repetitions):
            for way in asked.ways:
                results[way].append(measure(way, run, Path(name)))
    if asked.json:
        print(json.dumps(results))
        return
    print(f"{asked.operations:,} operations, {asked.samples:,} samples; medians of {asked.repetitions}")  # fmt: skip
    print(
        f"{'way':12} {'s':>7} {'of s':>15} {'CPU s':>7} {'peak MB':>8} {'gained MB':>9} {'MB':>7}"
    )
    for way, rows in results.items():
        seconds = sorted(row["s"] for row in rows)
        peak = statistics.median(row["peak"] for row in rows) / 1e6
        gained = statistics.median(row["peak"] - row["before"] for row in rows) / 1e6
        size = statistics.median(row["size"] for row in rows) / 1e6
        cpu_s = statistics.median(row["cpu_s"] for row in rows)
        spread = f"{seconds[0]:.2f} to {seconds[-1]:.2f}"
        print(f"{way:12} {statistics.median(seconds):7.2f} {spread:>15} {cpu_s:7.2f} {peak:8.0f} {gained:9.0f} {size:7.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
