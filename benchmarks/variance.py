"""How far the section of variance can be believed: false discoveries, power, coverage, speed, and trainings slowed on purpose.

python benchmarks/variance.py nulls [--families 1000]
python benchmarks/variance.py runs [--runs 200]
python benchmarks/variance.py intervals [--trials 1000]
python benchmarks/variance.py speed [--instances 1000000]
python benchmarks/variance.py faults
python benchmarks/variance.py trainings [--kinds faults burn shapes null] [--rounds 5] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import json
import math
import mmap
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wattstep.attribution.spread import Spreads
from wattstep.attribution.variation import Instances, variation
from wattstep.insight.explain.slow_instances import RATE, SlowInstances
from wattstep.insight.explain.variance import variance
from wattstep.run import load
from wattstep.schema.channel import Channel
from wattstep.schema.run_info import PlannedRead, RunInfo
from wattstep.stats.coincidence import Coincidence, Coincidences
from wattstep.stats.false_discovery import false_discovery
from wattstep.store.writing import write_run

MS = 1_000_000
KINDS = ("faults", "burn", "shapes", "null")
TRAINING = Path(__file__).with_name("variance_training.py")


def persistent(random: np.random.Generator, count: int, lag_one: float) -> np.ndarray:
    """Normal values that remember: an AR(1) process of variance 1."""
    values = random.standard_normal(count)
    for n in range(1, count):
        values[n] = lag_one * values[n - 1] + math.sqrt(1 - lag_one**2) * values[n]
    return values


def tolerance(trials: int, rate: float = RATE) -> float:
    """Up to which share of trials a true rate is still plausible (97.5 %, normal)."""
    return rate + 1.96 * math.sqrt(rate * (1 - rate) / trials)


# --- false discoveries and power, of families of tests ----------------------------------------------


def blocks_of_eight(random: np.random.Generator, slow: np.ndarray, present: np.ndarray) -> float:
    """The usual way: windows are exchanged within blocks of eight neighbours."""
    edges = range(0, len(slow), 8)
    drawn = np.concatenate(
        [random.permuted(np.tile(present[a : a + 8], (999, 1)), axis=1) for a in edges], axis=1
    )
    return float((1 + (drawn @ slow >= slow @ present - 1e-9).sum()) / 1000)


def anywhere(random: np.random.Generator, slow: np.ndarray, present: np.ndarray) -> float:
    """Windows are exchanged as if they knew nothing of each other."""
    drawn = random.permuted(np.tile(present, (999, 1)), axis=1)
    return float((1 + (drawn @ slow >= slow @ present - 1e-9).sum()) / 1000)


def ours(tests: Coincidences, slow: np.ndarray, present: np.ndarray) -> float:
    found = tests.test(slow, np.ones(len(slow)), present)
    return found.p if isinstance(found, Coincidence) else 1.0


def nulls(options: argparse.Namespace) -> None:
    """30 pairs a family (10 operations, 3 conditions): share of families with a false discovery, and power."""
    families, windows = options.families, options.windows
    print(
        f"{families} families of 10 operations and 3 conditions over {windows} windows; at most "
        f"{tolerance(families):.1%} of them may hold a false discovery (5 % and a binomial tolerance)"
    )
    print("memory of slowness/condition   ours   within blocks of 8   any order")
    for slow_lag, held_lag in ((0, 0), (0, 0.9), (0.5, 0.5), (0.8, 0.8), (0.9, 0.9)):
        random = np.random.default_rng(options.seed)
        tests = Coincidences()
        false = np.zeros(3)
        for _ in range(families):
            held = [persistent(random, windows, held_lag) > 0.7 for _ in range(3)]
            slow = [persistent(random, windows, slow_lag) > 1.0 for _ in range(10)]
            chances = [
                _all_three(tests, random, s.astype(float), h.astype(float))
                for s in slow
                for h in held
            ]
            rates = np.stack([false_discovery(p) for p in np.transpose(chances)])
            false += (rates <= RATE).any(axis=1)
        shares = false / families
        print(f"{slow_lag:.1f} / {held_lag:.1f}                      "
              f"{shares[0]:6.1%}   {shares[1]:18.1%}   {shares[2]:9.1%}")  # fmt: skip
    print("power: share of true pairs found, one operation of 10 follows one of 3 conditions")
    print("episodes of   follows in   ours   within blocks of 8   any order")
    for lag, faithful in ((0, 0.8), (0, 0.5), (0.8, 0.8), (0.95, 0.8)):
        random = np.random.default_rng(options.seed)
        tests = Coincidences()
        hits = np.zeros(3)
        for _ in range(max(families // 5, 1)):
            held = [persistent(random, windows, lag) > 0.7 for _ in range(3)]
            slow = [persistent(random, windows, 0) > 1.0 for _ in range(10)]
            slow[0] = held[0] & (random.random(windows) < faithful)
            chances = [
                _all_three(tests, random, s.astype(float), h.astype(float))
                for s in slow
                for h in held
            ]
            hits += np.stack([false_discovery(p) for p in np.transpose(chances)])[:, 0] <= RATE
        shares = hits / max(families // 5, 1)
        print(f"memory {lag:.2f}      {faithful:6.0%}   {shares[0]:6.1%}   "
              f"{shares[1]:18.1%}   {shares[2]:9.1%}")  # fmt: skip


def _all_three(
    tests: Coincidences, random: np.random.Generator, slow: np.ndarray, held: np.ndarray
) -> tuple[float, float, float]:
    if slow.sum() < 2 or not held.any() or held.all():
        return 1.0, 1.0, 1.0
    return (
        ours(tests, slow, held),
        blocks_of_eight(random, slow, held),
        anywhere(random, slow, held),
    )


# --- whole runs in which nothing belongs together ---------------------------------------------------


def runs(options: argparse.Namespace) -> None:
    """Runs with slow operations and changing conditions that know nothing of each other, end to end."""
    false, pairs = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.runs):
            path = Path(folder, str(number))
            write_null(path, number)
            found = SlowInstances(load(path))
            false += any(pair.significant for pair in found.tested)
            pairs += sum(isinstance(pair.result, Coincidence) for pair in found.tested)
    print(
        f"{options.runs} runs of 60 steps, 12 operations, 4 channels; {pairs / options.runs:.0f} pairs "
        f"tested in each; runs with a false discovery: {false} ({false / options.runs:.1%}; allowed "
        f"{tolerance(options.runs):.1%})"
    )


ROLES = {
    "process.main_thread.core_wait": ("core_wait", "s"),
    "process.minor_faults": ("minor_faults", "events"),
    "process.main_thread.nonvoluntary_switches": ("nonvoluntary_switches", "events"),
    "pressure.memory.some": ("pressure", "s"),
}
RATES = {"core_wait": (0.001, 0.6), "minor_faults": (1e3, 6e5), "nonvoluntary_switches": (1, 200),
         "pressure": (0.0, 0.2)}  # fmt: skip


def write_null(path: Path, seed: int, steps: int = 60, operations: int = 12) -> None:
    """A run whose slow instances and conditions both come in episodes, independent of each other."""
    random = np.random.default_rng(seed)
    memory = random.choice([0.0, 0.5, 0.8], 2)
    slow = np.stack([persistent(random, steps, memory[0]) > 1.2 for _ in range(operations)], axis=1)
    lengths = random.lognormal(math.log(3e-3), 0.08, (steps, operations)) * np.where(slow, 2.5, 1.0)
    ends = np.cumsum(np.rint(lengths * 1e9).astype(np.int64).ravel()).reshape(lengths.shape)
    starts = ends - np.rint(lengths * 1e9).astype(np.int64)
    every = 10 * MS
    times = np.arange(-every, int(ends[-1, -1]) + 2 * every, every)
    samples = [
        _channel_rows(random, name, times, memory[1], int(np.median(ends[:, -1] - starts[:, 0])))
        for name in ROLES
    ]
    info = RunInfo(
        state="closed", created="2026-11-20T12:00:00+0000", workload="made", title="made",
        engine="", batch_size=None, threads=None, precision=None, processor=None, seed=None,
        interval_s=0.01, warmup=0, trace="imported", reads=(
            PlannedRead(number=0, sensor="made log", path="made.csv", parser="imported", every=1,
                        channels=tuple(_channel(name) for name in ROLES)),
        ),
        imported={
            "trace": {"file": "made.json", "format": "made", "steps": "marked"},
            "telemetry": [{"file": "made.csv", "format": "made"}],
            "alignment": [{"file": "made.csv", "method": "by marks", "uncertainty_s": 0.0}],
        },
    )  # fmt: skip
    write_run(path, info, {
        "samples": samples,
        "steps": [_step_rows(starts[:, 0], ends[:, -1])],
        "operations": [_operation_rows(starts, ends)],
    })  # fmt: skip


def _channel(name: str) -> Channel:
    role, unit = ROLES[name]
    return Channel(name=name, unit=unit, kind="counter", domain="process", role=role, source="made")


def _channel_rows(
    random: np.random.Generator, name: str, times: np.ndarray, memory: float, step_ns: int
) -> dict[str, Any]:
    low, high = RATES[ROLES[name][0]]
    every = int(times[1] - times[0])
    # Its memory is of steps, as that of the operations is.
    held = persistent(random, 1 + (len(times) * every) // step_ns, memory) > 0.8
    rate = np.where(held[((times - times[0]) // step_ns).astype(int)], high, low)
    return {
        "t_ns": times, "channel": [name] * len(times), "value": np.cumsum(rate * every * 1e-9),
        "errno": np.zeros(len(times), np.int16),
    }  # fmt: skip


def _step_rows(start: np.ndarray, end: np.ndarray) -> dict[str, Any]:
    count, nothing = len(start), [None] * len(start)
    return {
        "index": list(range(count)), "start_ns": start, "end_ns": end, "cpu_start_ns": nothing,
        "cpu_end_ns": nothing, "samples": nothing, "loss": nothing, "warmup": [False] * count,
        "traced": [True] * count, "mark_ns": [[]] * count, "mark_kind": [[]] * count,
        "mark_name": [[]] * count,
    }  # fmt: skip


def _operation_rows(starts: np.ndarray, ends: np.ndarray) -> dict[str, Any]:
    steps, operations = starts.shape
    step = np.repeat(np.arange(steps), operations)
    count, nothing = steps * operations, [None] * (steps * operations)
    return {
        "name": [f"operation {n}" for n in range(operations)] * steps, "kind": ["other"] * count,
        "layer": ["layer"] * count, "phase": ["forward"] * count, "step": step, "window": step,
        "thread": [1] * count, "processor": ["cpu"] * count, "start_ns": starts.ravel(),
        "end_ns": ends.ravel(), "self_ns": (ends - starts).ravel(), "shapes": nothing,
        "flops": nothing, "bytes": nothing, "allocated": nothing, "outermost": [True] * count,
        "parent": nothing,
    }  # fmt: skip


# --- coverage of the intervals ------------------------------------------------------------------------


def intervals(options: argparse.Namespace) -> None:
    """How often the 95 % intervals hold the truth, in windows that remember each other (0.3)."""
    names = ("median", "high_ratio", "cv", "slow_share", "lost_share")
    print("windows calls  " + "  ".join(f"{name:>10}" for name in names))
    for windows, calls in ((12, 1), (30, 1), (60, 1), (60, 10), (200, 5)):
        truth = _measured(np.random.default_rng(99), 20_000, calls)
        held, known = np.zeros(len(names)), np.zeros(len(names))
        for trial in range(options.trials):
            found = _measured(np.random.default_rng(trial), windows, calls)
            for n, name in enumerate(names):
                true, figure = truth[name].value, found[name]
                held[n] += figure.low is not None and figure.low <= true <= figure.high
                known[n] += figure.low is not None
        shown = [
            f"{share:10.1%}" if n else "      none"
            for share, n in zip(held / np.maximum(known, 1), known, strict=True)
        ]
        print(f"{windows:7} {calls:5}  " + "  ".join(shown), flush=True)  # fmt: skip


def _measured(random: np.random.Generator, windows: int, calls: int) -> dict[str, Any]:
    own = 0.1 * np.repeat(persistent(random, windows, 0.3), calls)
    seconds = 1e-3 * np.exp(own + 0.05 * random.standard_normal(windows * calls))
    seconds *= np.where(random.random(windows * calls) < 0.1, 3.0, 1.0)
    of = Instances(
        group=np.zeros(len(seconds), np.int64), groups=1, seconds=seconds, windows=windows,
        window=np.repeat(np.arange(windows), calls),
    )  # fmt: skip
    return Spreads(of, variation(of), "made").measures(0)


# --- speed --------------------------------------------------------------------------------------------


def speed(options: argparse.Namespace) -> None:
    count, windows, groups = options.instances, 200, 1500
    random = np.random.default_rng(0)
    per = count // windows
    group = np.tile(random.integers(0, groups, per), windows).astype(np.int32)
    seconds = random.lognormal(math.log(1e-4), 0.2, per * windows)
    of = Instances(group=group, groups=groups, window=np.repeat(np.arange(windows), per),
                   windows=windows, seconds=seconds)  # fmt: skip
    taken = []
    for _ in range(options.rounds):
        begin = time.perf_counter()
        variation(of)
        taken.append(time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{per * windows:,} instances of {groups} operations: {min(taken):.2f} s (best of "
          f"{options.rounds}: {', '.join(f'{t:.2f}' for t in taken)}), peak {peak / 1e6:.0f} MB")  # fmt: skip


# --- what a page fault takes ----------------------------------------------------------------------------


def faults(options: argparse.Namespace) -> None:
    """CPU time of the first touch of a fresh page beyond that of the second, median over the rounds."""
    pages, costs = 20_000, []
    for _ in range(options.rounds):
        with mmap.mmap(
            -1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        ) as fresh:
            taken = []
            for _ in range(2):
                begin = time.process_time()
                for page in range(pages):
                    fresh[page * mmap.PAGESIZE] = 1
                taken.append(time.process_time() - begin)
            costs.append((taken[0] - taken[1]) / pages)
    print(f"a minor page fault: {1e6 * float(np.median(costs)):.2f} µs")


# --- trainings slowed on purpose ------------------------------------------------------------------------


def trainings(options: argparse.Namespace) -> None:
    """Trains with the third layer slowed in known steps, and says what the section made of it."""
    with tempfile.TemporaryDirectory() as folder:
        base = options.out or Path(folder)
        for kind in options.kinds:
            for number in range(options.rounds):
                path = base / f"{kind}-{number}"
                command = [sys.executable, str(TRAINING), kind, str(path), "--seed", str(number)]
                subprocess.run(command, check=True, timeout=300)
                print(f"{kind:7} {number}: {judged(kind, path)}", flush=True)


def judged(kind: str, path: Path) -> str:
    truth = json.loads((path / "slowed.json").read_text())
    found = SlowInstances(load(path))
    traced = found.instances
    steps = found.steps.index[traced.step]
    chosen = np.isin(steps, truth["steps"])
    named = {
        (found.labels(p.group)["layer"] if p.group is not None else "(steps)", p.condition)
        for p in found.tested if p.significant
    }  # fmt: skip
    mine = sorted({what for layer, what in named if layer.startswith(truth["layer"])})
    beside = sorted(
        {f"{layer}: {what}" for layer, what in named if not layer.startswith(truth["layer"])}
    )
    words = f"third layer: {', '.join(mine) or 'nothing'}; else: {', '.join(beside) or 'nothing'}"
    if kind == "null":
        return words
    if kind == "shapes":
        told = [
            s for s in variance(load(path)).sentences if "differs between its input shapes" in s
        ]
        return f"{words}; told as shapes: {len(told)} operations"
    hit = _slow_windows(found, truth["layer"])
    return (
        f"{words}; {int((hit & chosen).sum())} of {int(chosen.sum())} slowed steps found, "
        f"{int((hit & ~chosen).sum())} of {int((~chosen).sum())} others called slow"
    )


def _slow_windows(found: SlowInstances, layer: str) -> np.ndarray:
    """Traced steps in which the operation of the layer that lost most was slow."""
    of = found.instances.of_shapes
    forward = [
        group for group, labels in found.instances.shaped.shown.items()
        if labels["layer"].startswith(layer) and labels["phase"] == "forward"
    ]  # fmt: skip
    group = max(forward, key=lambda g: found.lost_s[g])
    windows = np.zeros(of.windows, bool)
    windows[of.window[(of.group == group) & found.variation.slow]] = True
    return windows


def _parts() -> Iterator[tuple[str, Any]]:
    yield from (("nulls", nulls), ("runs", runs), ("intervals", intervals), ("speed", speed))
    yield from (("faults", faults), ("trainings", trainings))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=[name for name, _ in _parts()])
    parser.add_argument("--families", type=int, default=1000)
    parser.add_argument("--windows", type=int, default=60)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--instances", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    dict(_parts())[options.part](options)


if __name__ == "__main__":
    main()
