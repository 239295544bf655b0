"""Attribution by wattstep and by pandas, side by side: time, memory, and the same answer.

    python benchmarks/correlation.py [--instances 10000000] [--samples 1000000] [--json]

Both turn power samples and operation instances (nested three deep, on two threads, some crossing)
into each operation's own share of the energy, and the energy that no operation covers. Repetitions
are interleaved in one process; the peak memory of each is that of a fresh process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from wattstep.attribution.correlation import attribute, nest, uncovered
from wattstep.recorded.curves import curve_of_gauge

OPERATIONS_A_TREE = 10


class Trace(NamedTuple):
    """What both sides get: operations in the order of their starts, and power samples."""

    start_ns: np.ndarray
    end_ns: np.ndarray
    thread: np.ndarray
    t_ns: np.ndarray
    watts: np.ndarray


def generate(n_instances: int, n_samples: int, shuffled: bool = False, seed: int = 0) -> Trace:
    """Two threads of trees of ten operations (1 + 3 + 6); one tree in a hundred is crossed."""
    random = np.random.default_rng(seed)
    halves = [_thread(n_instances // 2, random), _thread(n_instances - n_instances // 2, random)]
    start = np.concatenate([half[0] for half in halves])
    end = np.concatenate([half[1] for half in halves])
    thread = np.repeat(np.array([11, 12], dtype=np.int32), [len(half[0]) for half in halves])
    order = random.permutation(len(start)) if shuffled else np.argsort(start, kind="stable")
    epoch = 1_790_000_000_000_000_000
    period = (int(end.max()) + 1_000_000) // n_samples + 1
    t_ns = epoch - 500_000 + np.arange(n_samples) * period
    t_ns += random.integers(0, period // 2, n_samples)
    watts = 5 + random.random(n_samples)
    return Trace(start[order] + epoch, end[order] + epoch, thread[order], t_ns, watts)


def _thread(n: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    n_trees = -(-n // OPERATIONS_A_TREE)
    length = random.integers(20_000, 400_000, n_trees)
    root = np.cumsum(length + random.integers(1000, 20_000, n_trees)) - length
    start = np.empty((n_trees, OPERATIONS_A_TREE), dtype=np.int64)
    end = np.empty_like(start)
    start[:, 0], end[:, 0] = root, root + length
    third = length // 3
    half = (third - 200) // 2
    for child in range(3):
        at = 1 + 3 * child
        start[:, at], end[:, at] = root + child * third + 100, root + (child + 1) * third - 100
        start[:, at + 1], end[:, at + 1] = start[:, at] + 10, start[:, at] + half - 10
        start[:, at + 2], end[:, at + 2] = start[:, at] + half, start[:, at] + 2 * half - 20
    # The last leaf of these trees begins in the root's last 50 ns and outlives it.
    crossing = slice(None, None, 100)
    start[crossing, 9], end[crossing, 9] = end[crossing, 0] - 50, end[crossing, 0] + 500
    return start.reshape(-1)[:n], end.reshape(-1)[:n]


def with_wattstep(trace: Trace) -> tuple[np.ndarray, float]:
    """Own energy of each operation in J, and the rest."""
    curve = curve_of_gauge(trace.t_ns, trace.watts)
    nesting = nest(trace.start_ns, trace.end_ns, trace.thread)
    return attribute(nesting, curve).self_share, float(uncovered(nesting, curve).total[-1])


def with_pandas(trace: Trace) -> tuple[np.ndarray, float]:
    """The same with merge_asof and groupby."""
    samples = pd.DataFrame({"t": trace.t_ns, "watts": trace.watts})
    gain = (samples.watts + samples.watts.shift()) / 2 * samples.t.diff() * 1e-9
    samples["joules"] = gain.fillna(0.0).cumsum()

    operations = pd.DataFrame({"start": trace.start_ns, "end": trace.end_ns, "lane": trace.thread})
    operations = _with_parents(operations.sort_values(["start", "end"], ascending=[True, False]))

    roots = operations[operations.parent < 0]
    changes = pd.concat([pd.Series(1, index=roots.start), pd.Series(-1, index=roots.end)])
    busy = changes.groupby(level=0).sum().cumsum().rename_axis("t").rename("busy").reset_index()

    knots = pd.merge(busy[["t"]], samples[["t"]], how="outer", on="t", sort=True)
    knots["joules"] = _interpolated(knots.t, samples.t, samples.joules)
    knots = pd.merge_asof(knots, busy, on="t").fillna({"busy": 0})
    gain = knots.joules.diff().shift(-1).fillna(0.0)
    shared = (gain / knots.busy).where(knots.busy > 0, 0.0)
    knots["share"] = shared.cumsum().shift(fill_value=0.0)

    ends = operations.end.sort_values()
    operations["energy"] = _interpolated(ends, knots.t, knots.share) - _interpolated(
        operations.start, knots.t, knots.share
    )
    children = operations[operations.parent >= 0].groupby("parent").energy.sum()
    own = operations.energy.sub(children, fill_value=0.0)
    return own.sort_index().to_numpy(), float(gain[knots.busy == 0].sum())


def _with_parents(operations: pd.DataFrame) -> pd.DataFrame:
    """Parent of each operation on its lane; an operation that outlives its parent gets a new lane."""
    while True:
        n_started = operations.groupby("lane").cumcount()
        ends = operations[["lane", "end"]].sort_values("end")
        ends["n_ended"] = ends.groupby("lane").cumcount() + 1
        n_ended = pd.merge_asof(
            operations[["lane", "start"]], ends, left_on="start", right_on="end", by="lane"
        ).n_ended.fillna(0)
        operations["depth"] = n_started - n_ended.to_numpy(dtype=np.int64)
        inside = operations[operations.depth > 0].reset_index(names="operation")
        inside["depth"] -= 1
        above = operations.reset_index(names="parent")
        found = pd.merge_asof(
            inside[["operation", "start", "end", "lane", "depth"]],
            above[["parent", "start", "end", "lane", "depth"]],
            on="start",
            by=["lane", "depth"],
            suffixes=("", "_of_parent"),
        )
        crossing = found.operation[found.end > found.end_of_parent]
        if crossing.empty:
            operations["parent"] = found.set_index("operation").parent
            return operations.fillna({"parent": -1})
        operations.loc[crossing, "lane"] += 1000


def _interpolated(times: pd.Series, t: pd.Series, values: pd.Series) -> pd.Series:
    """Values at sorted times, linear between those given; keeps the index of the times."""
    slope = (values.diff() / t.diff()).shift(-1).fillna(0.0)
    known = pd.DataFrame({"t": t, "value": values, "slope": slope}).reset_index(drop=True)
    known["since"] = known.t
    found = pd.merge_asof(pd.DataFrame({"t": times.to_numpy()}), known, on="t")
    result = found.value.fillna(0.0) + found.slope.fillna(0.0) * (found.t - found.since).fillna(0)
    return result.set_axis(times.index)


WAYS: dict[str, Callable[[Trace], tuple[np.ndarray, float]]] = {
    "wattstep": with_wattstep,
    "pandas": with_pandas,
}


def check_same_answer(shuffled: bool) -> None:
    """Stop unless both give each of 50 000 operations the same energy, and all of it adds up."""
    trace = generate(50_000, 5_000, shuffled)
    ours, rest = with_wattstep(trace)
    theirs, their_rest = with_pandas(trace)
    whole = curve_of_gauge(trace.t_ns, trace.watts).total[-1]
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-11 * whole)
    np.testing.assert_allclose(
        [rest, ours.sum() + rest, theirs.sum() + their_rest], [their_rest, whole, whole], rtol=1e-9
    )


def seconds(way: str, trace: Trace) -> float:
    before = time.perf_counter()
    WAYS[way](trace)
    return time.perf_counter() - before


def high_water_mark() -> int:
    """Peak resident memory of this process in B."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("no VmHWM in /proc/self/status")


def peak_memory(way: str, folder: Path) -> dict[str, int]:
    """Peak of a fresh process that loads the data and attributes once, and of one that only loads."""
    command = [sys.executable, __file__, "--child", way, str(folder)]
    # A new program begins with a mark of its own.
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def child(way: str, folder: Path) -> dict[str, int]:
    trace = Trace(*(np.load(folder / f"{name}.npy") for name in Trace._fields))
    loaded = high_water_mark()
    WAYS[way](trace)
    return {"peak_B": high_water_mark(), "loaded_B": loaded}


def measure(n_instances: int, n_samples: int, repetitions: int, shuffled: bool) -> dict[str, Any]:
    check_same_answer(shuffled)
    trace = generate(n_instances, n_samples, shuffled)
    with tempfile.TemporaryDirectory() as folder:
        for name, array in trace._asdict().items():
            np.save(Path(folder) / f"{name}.npy", array)
        memory = {way: peak_memory(way, Path(folder)) for way in WAYS}
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for repetition in range(repetitions):
        for way in WAYS:
            times[way].append(seconds(way, trace))
            print(f"{repetition + 1}/{repetitions} {way}: {times[way][-1]:.2f} s", file=sys.stderr)
    medians = {way: statistics.median(taken) for way, taken in times.items()}
    return {
        "instances": n_instances,
        "samples": n_samples,
        "shuffled": shuffled,
        "repetitions": repetitions,
        "versions": {"numpy": np.__version__, "pandas": pd.__version__},
        "ways": {
            way: {"median_s": medians[way], "times_s": times[way], **memory[way]} for way in WAYS
        },
        "time_ratio": medians["pandas"] / medians["wattstep"],
        "memory_ratio": memory["pandas"]["peak_B"] / memory["wattstep"]["peak_B"],
    }


def show(result: dict[str, Any]) -> None:
    print(f"{result['instances']} instances, {result['samples']} samples; {result['versions']}")
    print(f"{'':10}{'median s':>10}{'least s':>10}{'peak MB':>10}{'data MB':>10}")
    for way, row in result["ways"].items():
        times = f"{row['median_s']:10.2f}{min(row['times_s']):10.2f}"
        print(f"{way:10}{times}{row['peak_B'] / 1e6:10.0f}{row['loaded_B'] / 1e6:10.0f}")
    print(f"pandas takes {result['time_ratio']:.1f} times the time of wattstep", end=" ")
    print(f"and {result['memory_ratio']:.1f} times the memory")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=10_000_000)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--shuffled", action="store_true", help="operations in random order")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.add_argument("--child", nargs=2, metavar=("WAY", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(child(given.child[0], Path(given.child[1]))))
        return
    result = measure(given.instances, given.samples, given.repetitions, given.shuffled)
    if given.json:
        print(json.dumps(result))
    else:
        show(result)


if __name__ == "__main__":
    main()
