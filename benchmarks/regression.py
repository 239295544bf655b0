"""How well energy below the sampling interval is told: coverage, interval score, exactness, large problems, speed.

    python benchmarks/regression.py [--part coverage|exact|fifty|three-hundred|thousand|speed] [--seeds 20]
        [--only WORDS] [--processes 2] [--json]

The power is made event by event (`made_power.py`) and known. Beside ours stand three plain ways:
overlap (each sample's power goes to what ran since the sample before), plain non-negative least
squares (the same windows as equations, nothing else), and regression over whole steps (one equation
a step), each with a bootstrap over steps. The interval score (Gneiting and Raftery 2007) is relative
to the mean energy of a kind: width, and 40 times what the truth lies outside; less is better.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import optimize

from made_power import Array, Made, Scenario, make
from wattstep.attribution.regression.axis import axis_of
from wattstep.attribution.regression.observed import Rows, observe
from wattstep.attribution.regression.outcome import Regression
from wattstep.attribution.regression.regress import regress
from wattstep.schema.figure import Figure

ALPHA = 0.05
RESAMPLES = 40
ROUNDING = 1e-9
BASE = Scenario()
SCENARIOS: dict[str, Scenario] = {
    "10 ms": BASE,
    "1 ms": replace(BASE, period_s=0.001, average_s=0.001, steps=40),
    "2 ms": replace(BASE, period_s=0.002, average_s=0.002, steps=60),
    "5 ms": replace(BASE, period_s=0.005, average_s=0.005, steps=120),
    "20 ms": replace(BASE, period_s=0.020, average_s=0.020),
    "50 ms": replace(BASE, period_s=0.050, average_s=0.050, steps=400),
    "100 ms": replace(BASE, period_s=0.100, average_s=0.100, steps=600),
    "instant": replace(BASE, average_s=0.0),
    "1 ms, average 10 ms": replace(BASE, period_s=0.001, steps=40),
    "50 ms, average 20 ms": replace(BASE, period_s=0.050, average_s=0.020, steps=400),
    "100 ms, instant": replace(BASE, period_s=0.100, average_s=0.0, steps=400),
    "delay 5 ms": replace(BASE, delay_s=0.005),
    "delay 50 ms": replace(BASE, delay_s=0.050),
    "100 ms, delay 50 ms": replace(
        BASE, period_s=0.100, average_s=0.100, steps=600, delay_s=0.050
    ),
    "noise 10 %": replace(BASE, noise=0.10),
    "noise with memory": replace(BASE, noise=0.05, memory=0.8),
    "quantum 2 %": replace(BASE, quantum=0.02),
    "quantum 20 %": replace(BASE, quantum=0.20),
    "quantum 20 %, instant": replace(BASE, quantum=0.20, average_s=0.0, noise=0.005),
    "read 5 ms, new every 20 ms": replace(
        BASE, period_s=0.005, update_s=0.020, average_s=0.020, delay_s=0.005
    ),
    "read 10 ms, new every 100 ms": replace(
        BASE, period_s=0.010, update_s=0.1003, average_s=0.1003, steps=600
    ),
    "counter": replace(BASE, counter=True),
    "counter, delay 5 ms": replace(BASE, counter=True, delay_s=0.005),
    "counter, quantum 20 %": replace(BASE, counter=True, quantum=0.20),
    "counter, read 2 ms, new every 10 ms": replace(
        BASE, counter=True, period_s=0.002, update_s=0.0101
    ),
    "counter 100 ms": replace(BASE, counter=True, period_s=0.100, steps=600),
    "times 5 % off": replace(BASE, fixed_error=0.05),
    "times 20 % off": replace(BASE, fixed_error=0.20),
    "times 5 % off, 50 ms": replace(
        BASE, fixed_error=0.05, period_s=0.050, average_s=0.050, steps=400
    ),
    "times 20 % off, instant": replace(BASE, fixed_error=0.20, average_s=0.0),
    "jitter 5 %": replace(BASE, jitter=0.05),
    "jitter 20 %": replace(BASE, jitter=0.20),
    "jitter 20 %, four windows": replace(BASE, jitter=0.20, windows=4),
    "drift 5 %": replace(BASE, drift=0.05),
    "three processes": replace(BASE, processes=3, steps=80, process_spread=0.02),
    "six processes": replace(BASE, processes=6, steps=40, process_spread=0.05),
    "locked": replace(BASE, dither=0.0, phase_spread=0.0, gap_share=0.000222222),
    "20 steps": replace(BASE, steps=20),
    "steps of 9 ms": replace(BASE, step_s=0.009, steps=2000),
    "steps of 1 s": replace(BASE, step_s=1.0, steps=30),
    "12 kinds": replace(BASE, kinds=12),
    "like powers": replace(BASE, own_spread=0.05, type_spread=0.05, idle_share=0.0),
    "unlike powers": replace(BASE, own_spread=0.8, type_spread=0.8, idle_share=0.15),
    "all at once": replace(
        BASE, period_s=0.020, average_s=0.020, steps=400, delay_s=0.005, quantum=0.05,
        fixed_error=0.05, jitter=0.05, drift=0.02, memory=0.3,
    ),
}  # fmt: skip
EXACT = {
    "average": replace(BASE, noise=0.0, delay_s=0.005),
    "instant": replace(BASE, noise=0.0, average_s=0.0, delay_s=0.005),
    "counter": replace(BASE, noise=0.0, counter=True, delay_s=0.005),
    "100 ms": replace(BASE, noise=0.0, period_s=0.1, average_s=0.1, steps=800),
    "1 ms": replace(BASE, noise=0.0, period_s=0.001, average_s=0.001, steps=20),
}
FIFTY = {
    "two calls a kind at most": BASE,
    "one call a kind": replace(BASE, calls=1),
    "one call, no dither, phases all alike": replace(
        BASE, calls=1, dither=0.0, phase_spread=0.0, gap_share=0.000222222
    ),
}
LARGE = replace(BASE, kinds=300, calls=3, steps=1125)
THOUSAND = replace(BASE, kinds=1200, steps=1125)  # regressed in groups of kinds


@dataclass(frozen=True, kw_only=True)
class Told:
    """What one way says of the kinds' energies: values and intervals, shape (k,) each."""

    value: Array
    low: Array
    high: Array


def ends(figures: list[Figure]) -> Told:
    known = [(f.value, f.low, f.high) if f.value is not None else (0.0, 0.0, 0.0) for f in figures]
    value, low, high = (np.array(column, float) for column in zip(*known, strict=True))
    return Told(value=value, low=low, high=high)


def inside(told: Told, truth: Array) -> Array:
    slack = ROUNDING * np.abs(truth)
    return (told.low - slack <= truth) & (truth <= told.high + slack)


def interval_score(told: Told, truth: Array) -> Array:
    outside = np.maximum(told.low - truth, 0) + np.maximum(truth - told.high, 0)
    return told.high - told.low + 2 / ALPHA * outside


def errors(told: Told, truth: Array) -> Array:
    """Relative to each kind's own energy, where it takes any."""
    taking = truth > 0
    return np.abs(told.value - truth)[taking] / truth[taking]


def plain_rows(made: Made) -> tuple[Rows, Array, Array]:
    """Equations of windows from sample to sample, without delay; their shares, and kinds' time."""
    observed = observe(made.processes, axis_of(made.processes, len(made.energy)))
    rows = observed.rows(0.0, observed.spacing_s)
    return rows, np.asarray(rows.weights @ observed.table()), observed.kind_seconds()


def resampled(rows: Rows, rng: np.random.Generator) -> Array:
    """Numbers of equations, whole steps drawn with replacement."""
    step = rows.process * (1 << 32) + rows.step
    order = np.argsort(step, kind="stable")
    first = np.flatnonzero(np.append(True, np.diff(step[order]) != 0))
    parts = np.split(order, first[1:])
    return np.concatenate([parts[i] for i in rng.integers(0, len(parts), len(parts))])


def overlap(made: Made) -> Told:
    rows, shares, seconds = plain_rows(made)

    def told(chosen: Array) -> Array:
        weight = shares[chosen, :-1]
        seen = np.maximum(weight.sum(axis=0), 1e-12)
        return weight.T @ rows.watts[chosen] / seen * seconds

    return bootstrapped(rows, told)


def plain_least_squares(made: Made) -> Told:
    rows, shares, seconds = plain_rows(made)

    def told(chosen: Array) -> Array:
        return non_negative(shares[chosen], rows.watts[chosen])[:-1] * seconds

    return bootstrapped(rows, told)


def whole_steps(made: Made) -> Told:
    """One equation a step: its energy by the samples in it, and the time of kinds by its phases."""
    rows, shares, seconds = plain_rows(made)
    step = rows.process * (1 << 32) + rows.step
    _, number = np.unique(step, return_inverse=True)
    held = np.bincount(number)
    energy = np.bincount(number, rows.watts) / held
    time_of = np.stack([np.bincount(number, column) / held for column in shares.T], axis=1)
    ones = Rows(
        weights=rows.weights, watts=energy, process=np.zeros(len(held), int),
        step=np.arange(len(held)), slow=np.zeros(len(held)), position=np.zeros(len(held)), taken=rows.taken,
    )  # fmt: skip

    def told(chosen: Array) -> Array:
        return non_negative(time_of[chosen], energy[chosen])[:-1] * seconds

    return bootstrapped(ones, told)


def non_negative(shares: Array, watts: Array) -> Array:
    """Non-negative least squares on the normal equations: as exact as needed, and faster."""
    gram = shares.T @ shares
    gram[np.diag_indices(len(gram))] += 1e-10 * np.trace(gram)
    root = np.linalg.cholesky(gram)
    return optimize.nnls(root.T, np.linalg.solve(root, shares.T @ watts), maxiter=10_000)[0]


def bootstrapped(rows: Rows, told: Any) -> Told:
    rng = np.random.default_rng(0)
    value = told(np.arange(len(rows.watts)))
    drawn = np.stack([told(resampled(rows, rng)) for _ in range(RESAMPLES)])
    reach = 1.96 * drawn.std(axis=0, ddof=1)
    return Told(value=value, low=np.maximum(value - reach, 0), high=value + reach)


WAYS = {"overlap": overlap, "plain NNLS": plain_least_squares, "whole steps": whole_steps}


def summary(told: Told, truth: Array) -> dict[str, float]:
    return {
        "coverage": float(inside(told, truth).mean()),
        "score": float(interval_score(told, truth).mean() / truth.mean()),
        "error": float(np.median(errors(told, truth))),
    }


def grouped(found: Regression, made: Made) -> dict[str, Any]:
    """Coverage of groups' energy and power, and errors of those that were told."""
    groups = [group for group in found.groups if group.energy.value is not None]
    energy = np.array([made.energy[group.members].sum() for group in groups])
    seconds = np.array([made.seconds[group.members].sum() for group in groups])
    of_energy, of_power = ends([g.energy for g in groups]), ends([g.power for g in groups])
    resolved = np.array([group.resolved for group in groups])
    return {
        "groups": len(groups),
        "told": int(resolved.sum()),
        "coverage": float(inside(of_energy, energy).mean()),
        "power_coverage": float(inside(of_power, energy / seconds).mean()),
        "errors": [
            float(abs(value - true) / max(true, 1e-12))
            for value, true in zip(of_energy.value[resolved], energy[resolved], strict=True)
        ],
        "inside": [bool(x) for x in inside(of_energy, energy)[resolved]],
        "sizes": [len(group.members) for group in groups if group.resolved],
    }


def trial(job: tuple[str, Scenario, int, bool]) -> dict[str, Any]:
    name, scenario, seed, others = job
    made = make(scenario, seed)
    begun = time.perf_counter()
    found = regress(made.processes, made.kinds)
    row: dict[str, Any] = {"name": name, "seed": seed, "seconds": time.perf_counter() - begun}
    if found.reason is not None:
        return {**row, "reason": found.reason}
    told = ends(list(found.kinds))
    row["ours"] = {
        **summary(told, made.energy),
        "delay_error": (found.delay.value or 0.0) - scenario.delay_s,
        "window_error": (found.window.value or 0.0) - scenario.average_s,
        "time_error": found.time_error,
        "largest_error": float(errors(told, made.energy).max()),
    }
    row["groups"] = grouped(found, made)
    row["locked"] = found.locked
    for way, tell in WAYS.items() if others else ():
        row[way] = summary(tell(made), made.energy)
    return row


def trials(
    scenarios: dict[str, Scenario], args: argparse.Namespace, others: bool
) -> dict[str, list[dict[str, Any]]]:
    chosen = {k: v for k, v in scenarios.items() if args.only is None or args.only in k}
    jobs = [
        (name, scenario, seed, others)
        for name, scenario in chosen.items()
        for seed in range(args.first, args.first + args.seeds)
    ]
    with multiprocessing.get_context("spawn").Pool(args.processes) as pool:
        rows = []
        for row in pool.imap(trial, jobs, chunksize=1):
            rows.append(row)
            if args.json:
                print(json.dumps(row), flush=True)
    return {name: [row for row in rows if row["name"] == name] for name in chosen}


def least_allowed(coverages: Array) -> float:
    """What the mean of as many trials may be by chance (one-sided 97.5 %), if 95 % is true.

    Kinds of one trial err together, so that trials are what is counted.
    """
    spread = max(float(coverages.std(ddof=1)) if len(coverages) > 1 else 0.0, 0.01)
    return 0.95 - 1.96 * spread / np.sqrt(len(coverages))


def coverage(args: argparse.Namespace) -> None:
    print("scenario | kinds covered (least by chance) | groups covered: energy, power | groups, told"
          " | median error | score: ours, overlap, plain NNLS, whole steps | others' coverage | s")  # fmt: skip
    everything = trials(SCENARIOS, args, others=True)
    for name, rows in everything.items():
        print(coverage_line(name, [row for row in rows if "reason" not in row], len(rows)))
    every = [row for rows in everything.values() for row in rows]
    known = [row for row in every if "reason" not in row]
    print(coverage_line("all", known, len(every)))


def coverage_line(name: str, rows: list[dict[str, Any]], count: int) -> str:
    if not rows:
        return f"{name} | no answer in {count} trials"

    def mean(way: str, what: str) -> float:
        return float(np.mean([row[way][what] for row in rows]))

    covered = np.array([row["ours"]["coverage"] for row in rows])
    least = least_allowed(covered)
    scores = ", ".join(f"{mean(way, 'score'):.2f}" for way in ("ours", *WAYS))
    others = ", ".join(f"{mean(way, 'coverage'):.2f}" for way in WAYS)
    below = "" if covered.mean() >= least else " BELOW"
    name += f" ({count - len(rows)} of {count} without an answer)" if count > len(rows) else ""
    return (
        f"{name} | {covered.mean():.3f} ({least:.3f}){below} | "
        f"{mean('groups', 'coverage'):.3f}, {mean('groups', 'power_coverage'):.3f} | "
        f"{mean('groups', 'groups'):.1f}, {mean('groups', 'told'):.1f} | "
        f"{100 * mean('ours', 'error'):.1f} % | {scores} | {others} | "
        f"{np.median([row['seconds'] for row in rows]):.1f}"
    )


def exact(args: argparse.Namespace) -> None:
    print("scenario | largest relative error of what is told | kinds told by themselves, not told"
          " | largest error of the delay, of the window")  # fmt: skip
    for name, rows in trials(EXACT, args, others=False).items():
        worst = max(max(row["groups"]["errors"]) for row in rows)
        alone = sum(row["groups"]["sizes"].count(1) for row in rows)
        untold = sum(row["groups"]["groups"] - row["groups"]["told"] for row in rows)
        delay = max(abs(row["ours"]["delay_error"]) for row in rows)
        window = 0 if EXACT[name].counter else max(abs(row["ours"]["window_error"]) for row in rows)
        print(f"{name} | {100 * worst:.4f} % | {alone}, {untold} | "
              f"{1e6 * delay:.3f} µs, {1e6 * window:.3f} µs")  # fmt: skip


def fifty(args: argparse.Namespace) -> None:
    print("scenario | median error of kinds: ours, overlap, plain NNLS, whole steps"
          " | median error of what is told | groups told | covered")  # fmt: skip
    for name, rows in trials(FIFTY, args, others=True).items():
        each = [np.median([row[way]["error"] for row in rows]) for way in ("ours", *WAYS)]
        told = np.concatenate([row["groups"]["errors"] for row in rows])
        count = np.mean([row["groups"]["told"] for row in rows])
        covered = np.mean([row["groups"]["coverage"] for row in rows])
        words = {row["locked"] for row in rows} - {""}
        print(f"{name} | {', '.join(f'{100 * e:.1f} %' for e in each)} | "
              f"{100 * np.median(told):.1f} % | {count:.1f} | {covered:.3f}", *sorted(words)[:1])  # fmt: skip


def three_hundred(args: argparse.Namespace) -> None:
    many_kinds(LARGE, args)


def thousand(args: argparse.Namespace) -> None:
    many_kinds(THOUSAND, args)


def many_kinds(scenario: Scenario, args: argparse.Namespace) -> None:
    print(
        "trial | groups told of | kinds in the largest | errors: median, 90 %, largest | truth inside"
    )
    everything, covered = [], []
    for rows in trials({"many kinds": scenario}, args, others=False).values():
        for row in rows:
            groups = row["groups"]
            off = np.array(groups["errors"])
            everything.append(off)
            covered.append(np.array(groups["inside"]))
            print(f"{row['seed']} | {groups['told']} of {groups['groups']} | {max(groups['sizes'])} | "
                  f"{100 * np.median(off):.1f} %, {100 * np.quantile(off, 0.9):.1f} %, "
                  f"{100 * off.max():.1f} % | {np.mean(groups['inside']):.3f} of them")  # fmt: skip
    off = np.concatenate(everything)
    print(f"all | {len(off)} groups | | {100 * np.median(off):.1f} %, "
          f"{100 * np.quantile(off, 0.9):.1f} %, {100 * off.max():.1f} % | "
          f"{np.concatenate(covered).mean():.3f}")  # fmt: skip


def speed(args: argparse.Namespace) -> None:
    taken, cpu = [], []
    for seed in range(args.first, args.first + min(args.seeds, 5)):
        made = make(LARGE, seed)
        begun, used = time.perf_counter(), time.process_time()
        found = regress(made.processes, made.kinds)
        taken.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - used)
        print(f"{len(made.energy)} kinds, {found.observations} samples: {taken[-1]:.2f} s, "
              f"of which the processor's {cpu[-1]:.2f} s")  # fmt: skip
    print(
        f"median {np.median(taken):.2f} s, processor {np.median(cpu):.2f} s; at most 5 s are wanted"
    )


PARTS = {
    "coverage": coverage, "exact": exact, "fifty": fifty, "three-hundred": three_hundred,
    "thousand": thousand, "speed": speed,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--only", help="scenarios with these words in their name")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    for part in args.part or PARTS:
        print(f"\n{part}")
        PARTS[part](args)


if __name__ == "__main__":
    main()
