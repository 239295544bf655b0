"""A query over a million samples and a million operations: seconds and peak memory, beside pandas on the same files.

    python benchmarks/query.py

A run is made with as many rows of each as asked, in row groups as wattstep writes them. Each way
runs in a fresh process with one thread, several times in turns: the group-by of both tables through
`wattstep.query`, and the same with `pandas.read_parquet`. Medians; peak memory is the process's
high-water mark, so that imports are in it; "start" is the same process without a query.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wattstep.schema.channel import Channel
from wattstep.schema.run_info import PlannedRead, RunInfo
from wattstep.store.files import write_info
from wattstep.store.tables import BLOCK, EVALUATIONS, MEMORY, SPANS, STEPS

WAYS = {
    "wattstep.query": """
import wattstep
wattstep.query("SELECT run, channel, count(*), avg(value), max(value) FROM samples GROUP BY ALL", runs=folder)
wattstep.query("SELECT name, phase, count(*), sum(end_ns - start_ns) FROM operations GROUP BY ALL", runs=folder)
""",
    "pandas": """
import pandas
samples = pandas.read_parquet(f"{folder}/run/samples.parquet", columns=["channel", "value"])
samples.groupby("channel", observed=True).value.agg(["count", "mean", "max"])
o = pandas.read_parquet(f"{folder}/run/operations.parquet", columns=["name", "phase", "start_ns", "end_ns"])
(o.end_ns - o.start_ns).groupby([o.name, o.phase], observed=True).agg(["count", "sum"])
""",
    "pandas, whole files": """
import pandas
samples = pandas.read_parquet(f"{folder}/run/samples.parquet")
samples.groupby("channel", observed=True).value.agg(["count", "mean", "max"])
o = pandas.read_parquet(f"{folder}/run/operations.parquet")
(o.end_ns - o.start_ns).groupby([o.name, o.phase], observed=True).agg(["count", "sum"])
""",
    "start": "import wattstep.report.query, duckdb, pyarrow.dataset",
}
CHANNELS = 20
CHILD = """
import sys, time, json
folder = sys.argv[1]
begin = time.perf_counter()
{}
seconds = time.perf_counter() - begin
# Not ru_maxrss, which a child inherits from its parent.
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([seconds, int(peak) * 1024]))
"""


def make(folder: Path, rows: int) -> None:
    """A run with so many samples and operations."""
    run = folder / "run"
    run.mkdir()
    channels = tuple(
        Channel(
            name=f"channel-{n}", unit="W", kind="gauge", domain="soc", role="power", source="made"
        )
        for n in range(CHANNELS)
    )
    read = PlannedRead(
        number=0, sensor="made", path="made", parser="number", every=1, channels=channels
    )
    info = RunInfo(
        state="closed", created="2026-11-20T12:00:00+0000", workload="made", title="made",
        engine="torch", batch_size=4, threads=1, precision="fp32", processor="cpu", seed=0,
        interval_s=0.01, warmup=3, trace="auto", reads=(read,),
    )  # fmt: skip
    write_info(run, info)
    for name, schema in {
        "steps": STEPS,
        "spans": SPANS,
        "memory": MEMORY,
        "evaluations": EVALUATIONS,
    }.items():
        pq.write_table(schema.empty_table(), run / f"{name}.parquet")
    random = np.random.default_rng(0)
    t_ns = np.arange(rows) * 10_000

    def coded(count: int, word: str) -> pa.Array:
        codes = pa.array(random.integers(0, count, rows), pa.int32())
        return pa.DictionaryArray.from_arrays(codes, [f"{word}-{n}" for n in range(count)])

    samples = {
        "t_ns": t_ns, "channel": coded(CHANNELS, "channel"), "value": random.random(rows),
        "errno": np.zeros(rows, np.int16),
    }  # fmt: skip
    words = {"name": 80, "kind": 12, "layer": 40, "phase": 3, "processor": 1, "shapes": 200}
    operations = {
        **{word: coded(count, word) for word, count in words.items()},
        **{n: np.arange(rows) // 1000 for n in ("step", "thread", "flops", "bytes", "allocated")},
        "window": (np.arange(rows) // 1000).astype(np.int32),
        "start_ns": t_ns, "end_ns": t_ns + random.integers(1, 9000, rows), "self_ns": t_ns,
        "outermost": random.random(rows) < 0.5, "parent": np.zeros(rows, np.int32),
    }  # fmt: skip
    for name, columns in (("samples", samples), ("operations", operations)):
        pq.write_table(pa.table(columns), run / f"{name}.parquet", row_group_size=BLOCK)


def measure(way: str, folder: Path) -> tuple[float, int]:
    """Seconds and peak bytes of one way in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD.format(WAYS[way]), str(folder)],
        capture_output=True, check=True, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1"},
        preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
    )  # fmt: skip
    seconds, peak = json.loads(done.stdout)
    return seconds, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), chosen.rows)
        found: dict[str, list[tuple[float, int]]] = {way: [] for way in WAYS}
        for _ in range(chosen.repeats):
            for way in WAYS:
                found[way].append(measure(way, Path(folder)))
    print(
        f"{chosen.rows:,} samples and {chosen.rows:,} operations, one core, {chosen.repeats} times"
    )
    for way, pairs in found.items():
        seconds, peaks = zip(*pairs, strict=True)
        print(
            f"{way:20} {statistics.median(seconds):6.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"
            f"  {statistics.median(peaks) / 1e6:6.0f} MB at most"
        )


if __name__ == "__main__":
    main()
