"""Attribution below the sampling interval against what is known: a load of known power, and operations alone.

    python benchmarks/attribution_real.py --part load [--processes 5] [--steps 400] [--first] [--rapl] [--json]
    python benchmarks/attribution_real.py --part alone [--workload squeezenet] [--json]

load: a program alternates between one thread, two threads and sleep; its CPU time is its "power"
(a thread that runs: 1 W). It is sampled every millisecond, thinned to 10 and 100 ms, and attributed
three ways; the truth is the task clock, read around each operation.

alone: operations of a network, each in a loop by itself with cold buffers, against their share
inside the network; see attribution_alone.py.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import attribution_load as load
from wattstep.attribution.regression.regress import regress

LEAST = 1e-3  # of the step: errors of what is less stand as a share of the step
EVERY = (1, 10, 100)
WAYS = ("regression over many steps", "plain overlap", "regression over whole runs")


def record(folder: Path, number: int, rate: float, given: argparse.Namespace) -> load.Recorded:
    program = Path(__file__).with_name("attribution_load.py")
    path = folder / f"process-{number}"
    command = [sys.executable, str(program), str(path), "--steps", str(given.steps)]
    command += ["--mixes", str(given.mixes), "--seed", str(number), "--rate", str(rate)]
    command += ["--first"] if given.first else []
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return load.recorded(path, given.rapl)


def against_truth(
    processes: list[load.Recorded], every: int, delay: float | None
) -> list[dict[str, Any]]:
    """Errors of each way at one sampling interval, all processes together."""
    truth = np.mean([process.truth for process in processes], axis=0)
    seconds = np.mean([process.seconds for process in processes], axis=0)
    whole = float(truth.sum())
    begin = time.perf_counter()
    sampled = [load.sampled(p, every, n) for n, p in enumerate(processes)]
    found = regress(sampled, load.kinds(), delay=delay)
    took = time.perf_counter() - begin
    rows = []
    for way in WAYS:
        entry: dict[str, Any] = {"every_ms": every, "way": way}
        if way == WAYS[0]:
            entry |= _of_groups(found, truth, seconds, whole) | {"seconds": took}
            entry["reason"] = found.reason
        else:
            values = (
                np.mean([load.overlapped(p, every, n) for n, p in enumerate(processes)], axis=0)
                if way == WAYS[1]
                else load.by_whole_runs(processes, every, 0)
            )
            entry |= _errors(values[:-1], truth[:-1], seconds[:-1], whole)
        rows.append(entry)
    return rows


def _of_groups(found: Any, truth: Any, seconds: Any, whole: float) -> dict[str, Any]:
    """Groups against the truth of their members, and how often intervals hold it."""
    everything = [g for g in found.groups if not g.energy.missing]
    groups = [g for g in everything if g.resolved]  # what is claimed; the others are said not to be
    values = np.array([g.energy.value for g in groups])
    true = np.array([truth[g.members].sum() for g in groups])
    lengths = np.array([seconds[g.members].sum() for g in groups])
    held = [g.energy.low <= t <= g.energy.high for g, t in zip(groups, true, strict=True)]
    return {
        **_errors(values, true, lengths, whole),
        "groups": len(groups),
        "alone": sum(len(g.members) == 1 for g in groups),
        "held": sum(held),
        "claimed": float(true.sum()) / whole,
        "loose": len(everything) - len(groups),
        "delay_s": found.delay.value,
        "locked": found.locked,
        "each": [
            {
                "members": [load.kinds().names[m] for m in g.members],
                "energy": g.energy.value, "low": g.energy.low, "high": g.energy.high,
                "truth": float(t), "seconds": float(s), "resolved": g.resolved,
            }
            for g, t, s in zip(groups, true, lengths, strict=True)
        ],
    }  # fmt: skip


def _errors(values: Any, truth: Any, seconds: Any, whole: float) -> dict[str, Any]:
    """Relative errors of what computes, by length; of what sleeps as a share of the step."""
    works = truth > 0.1 * seconds  # W: what sleeps takes next to nothing
    works &= seconds > LEAST * seconds.sum()
    errors = np.abs(values - truth)
    relative = errors / np.maximum(truth, 1e-12)
    coarse = works & (seconds >= load.COARSE_S)
    fine = works & ~coarse
    return {
        "coarse": _worst(relative[coarse]),
        "fine": _worst(relative[fine]),
        "median": float(np.median(relative[works])) if works.any() else None,
        "asleep": _worst(errors[~works] / whole),
        "worst_of_step": _worst(errors / whole),
    }


def _worst(values: Any) -> float | None:
    return float(values.max()) if len(values) else None


def show(rows: list[dict[str, Any]]) -> None:
    print(
        f"{'samples':>8}  {'way':28} {'worst ≥ 10 ms':>13} {'worst < 10 ms':>13} {'median':>8} "
        f"{'asleep':>8} {'claimed':>8} {'alone':>7} {'held':>7}"
    )
    for row in rows:
        shown = [row.get(key) for key in ("coarse", "fine", "median", "asleep")]
        cells = ["—" if value is None else f"{value:.1%}" for value in shown]
        groups = f"{int(row['alone'])}/{int(row['groups'])}" if "groups" in row else ""
        held = f"{int(row['held'])}/{int(row['groups'])}" if "groups" in row else ""
        claimed = f"{row['claimed']:.0%}" if "claimed" in row else ""
        print(
            f"{row['every_ms']:5} ms  {row['way']:28} {cells[0]:>13} {cells[1]:>13} {cells[2]:>8} "
            f"{cells[3]:>8} {claimed:>8} {groups:>7} {held:>7}  {row.get('reason') or ''}"
        )


def of_load(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as kept:
        folder = arguments.keep or Path(kept)
        folder.mkdir(parents=True, exist_ok=True)
        rate = load.rounds_a_ms()
        processes = []
        for number in range(arguments.processes):
            there = folder / f"process-{number}"
            known = (there / "log.npz").exists()
            processes.append(
                load.recorded(there, arguments.rapl)
                if known
                else record(folder, number, rate, arguments)
            )
        rows = [row for every in EVERY for row in against_truth(processes, every, arguments.delay)]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=["load", "alone"], required=True)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--mixes", type=int, default=8)
    parser.add_argument("--workload", default="squeezenet", help="alone: which network")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--most", type=int, default=6, help="alone: layers, the largest first")
    parser.add_argument(
        "--first",
        action="store_true",
        help="before other processes, where others use the machine",
    )
    parser.add_argument("--rapl", action="store_true", help="load: joules, where they are counted")
    parser.add_argument("--delay", type=float, help="load: of the samples in s; else it is found")
    parser.add_argument("--keep", type=Path, help="where runs are kept and found again")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.part == "load":
        rows, print_rows = of_load(arguments), show
    else:
        import attribution_alone as alone  # torch, which the other part does not need

        with tempfile.TemporaryDirectory() as kept:
            folder = Path(kept) / "run"
            rows = alone.compared(
                folder, arguments.workload, arguments.batch, arguments.most, arguments.first
            )
        print_rows = alone.show
    if arguments.json:
        json.dump(rows, sys.stdout, indent=1, default=float)
    else:
        print_rows(rows)


if __name__ == "__main__":
    main()
