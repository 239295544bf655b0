"""How far what is said of the steps of a run is right: period, repeatability, change points, steps to a goal; on made series whose truth is known, and on steps that are really recorded.

python benchmarks/predictability.py [--part period|aliases|chance|repeatability|changes|goal|real] [--runs 40] [--seed 1] [--json]
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from wattstep.record.recorder import Recorder
from wattstep.recorded.period.period import period, rates
from wattstep.recorded.repeatability import repeatability
from wattstep.run import load
from wattstep.stats.change_points import find_changes
from wattstep.stats.learning_curve import steps_to_goal

Rng = np.random.Generator
PROFILES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "square": lambda at: (at < 0.4) * 1.0,
    "two unequal humps": lambda at: (at < 0.3) * 1.0 + ((at > 0.5) & (at < 0.8)) * 0.8,
    "sine": lambda at: np.sin(2 * np.pi * at),
    "six equal blocks and a rest": lambda at: np.sign(np.sin(12 * np.pi * at)) * (at < 0.85),
}


def sampled(
    rng: Rng, profile: str, step_s: float, *, count: int, jitter: float, noise: float,
    spacing_s: float = 0.01, dither: float = 0.05, gaps: int = 2,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Times in ns, values and begins of the steps in s; ticks dithered, a few per cent lost."""
    lengths = step_s * np.maximum(1 + jitter * rng.standard_normal(count), 0.3)
    begins = np.concatenate([[0.0], np.cumsum(lengths)])
    ticks = np.arange(1, int(begins[-1] / spacing_s) - 1)
    t_s = (ticks + dither * rng.uniform(-1, 1, len(ticks))) * spacing_s
    step = np.clip(np.searchsorted(begins, t_s, side="right") - 1, 0, count - 1)
    value = PROFILES[profile]((t_s - begins[step]) / lengths[step])
    value = value + noise * rng.standard_normal(len(t_s))
    kept = np.ones(len(t_s), bool)
    for first in rng.integers(0, len(t_s), gaps):
        kept[first : first + len(t_s) // 50] = False
    return (t_s[kept] * 1e9).astype(np.int64), value[kept], begins


def of_period(runs: int, seed: int) -> dict[str, dict[str, float]]:
    """Right within 3 %, refused, and wrong, by profile and jitter of the steps."""
    found = {}
    for profile in PROFILES:
        for jitter in (0.005, 0.02, 0.05):
            rng = np.random.default_rng(seed)
            right = wrong = held = 0
            for _ in range(runs):
                step_s = float(np.exp(rng.uniform(np.log(0.06), np.log(1.0))))
                t_ns, value, begins = sampled(
                    rng, profile, step_s, count=150, jitter=jitter, noise=0.3
                )
                told = period(t_ns, value, "made")
                if told.value is None:
                    continue
                truth = float(np.diff(begins).mean())
                near = abs(told.value / truth - 1) < 0.03
                right, wrong = right + near, wrong + (not near)
                held += near and (told.low or 0) <= truth <= (told.high or 0)
            found[f"{profile}, jitter {jitter:.1%}"] = {
                "runs": runs, "right": right, "refused": runs - right - wrong, "wrong": wrong,
                "interval held": held / right if right else float("nan"),
            }  # fmt: skip
    return found


def of_aliases(runs: int, seed: int) -> dict[str, dict[str, float]]:
    """Steps that are shorter than the samples, or samples without dither: none may be believed."""
    found = {}
    cases = {
        "steps of 9 ms, samples of 10 ms": (0.009, 0.01, 0.05),
        "steps of 9 ms, no dither": (0.009, 0.01, 0.0),
        "steps of 90 ms, samples of 100 ms, no dither": (0.09, 0.1, 0.0),
        "steps of 21 ms, samples of 20 ms": (0.021, 0.02, 0.05),
        "steps of 1 s, samples of 10 ms, no dither": (1.0, 0.01, 0.0),
    }
    for name, (step_s, spacing_s, dither) in cases.items():
        rng, believed = np.random.default_rng(seed), 0
        for _ in range(runs):
            t_ns, value, _ = sampled(
                rng, "square", step_s, count=round(1500 * spacing_s / step_s), jitter=0.002,
                noise=0.2, spacing_s=spacing_s, dither=dither, gaps=0,
            )  # fmt: skip
            told = period(t_ns, value, "made")
            believed += told.value is not None and abs(told.value / step_s - 1) > 0.03
        found[name] = {"runs": runs, "wrong": believed}
    return found


def correlated(rng: Rng, n: int, phi: float, heavy: bool = False) -> np.ndarray:
    noise = rng.standard_t(3, n) / np.sqrt(3) if heavy else rng.standard_normal(n)
    noise[1:] *= np.sqrt(1 - phi * phi)
    for k in range(1, n):
        noise[k] += phi * noise[k - 1]
    return noise


def of_chance(runs: int, seed: int) -> dict[str, dict[str, float]]:
    """Periods found where there is none."""
    rng, found = np.random.default_rng(seed), {}
    for name, phi in (("white noise", 0.0), ("AR(1), 0.9", 0.9), ("AR(1), 0.99", 0.99)):
        for n in (300, 3000):
            hits = 0
            for _ in range(runs):
                t_ns = ((np.arange(n) + 0.05 * rng.uniform(-1, 1, n)) * 1e7).astype(np.int64)
                hits += period(t_ns, correlated(rng, n, phi), "made").value is not None
            found[f"{name}, {n} samples"] = {"runs": runs, "found": hits}
    return found


def of_repeatability(runs: int, seed: int) -> dict[str, dict[str, float]]:
    """The correlation that was made, the mean of what was found, and how often intervals held."""
    found = {}
    fine = PROFILES["sine"](np.linspace(0, 1, 10_001))
    for step_s in (0.5, 0.09, 0.023, 0.004):
        for noise in (0.3, 2.0):
            rng, values, held = np.random.default_rng(seed), [], 0
            truth = fine.var() / (fine.var() + noise**2)
            for _ in range(runs):
                t_ns, value, begins = sampled(
                    rng, "sine", step_s, count=max(60, round(15 / step_s)), jitter=0.03, noise=noise
                )
                edges = (begins * 1e9).astype(np.int64)
                told = repeatability(t_ns, value, edges[:-1], edges[1:], "made").correlation
                values.append(told.value)
                held += (told.low or -1) <= truth <= (told.high or -1)
            found[f"steps of {step_s * 1e3:g} ms, noise {noise:g}"] = {
                "runs": runs, "truth": truth, "mean": float(np.mean([value for value in values if value is not None])), "held": held / runs,
            }  # fmt: skip
    return found


def of_changes(runs: int, seed: int) -> dict[str, dict[str, float]]:
    """False alarms over series without a change; and changes found, and how far off."""
    rng, found = np.random.default_rng(seed), {}
    for n in (30, 100, 500, 3000):
        for phi in (0.0, 0.3, 0.6, 0.9):
            hits = sum(
                bool(find_changes(10 + correlated(rng, n, phi), "s", "made").changes)
                for _ in range(runs)
            )
            found[f"no change, {n} steps, AR(1) {phi:g}"] = {"runs": runs, "found": hits / runs}
        hits = sum(
            bool(find_changes(10 + correlated(rng, n, 0.3, True), "s", "made").changes)
            for _ in range(runs)
        )
        found[f"no change, {n} steps, heavy tails"] = {"runs": runs, "found": hits / runs}
    for n, at, size, phi in ((100, 30, 2, 0.0), (500, 100, 1, 0.3), (3000, 1000, 0.5, 0.5)):
        off, hits = [], 0
        for _ in range(runs):
            values = 10 + correlated(rng, n, phi)
            values[at:] += size
            changes = find_changes(values, "s", "made").changes
            hits += len(changes) == 1
            off += [min(abs(change.index - at) for change in changes)] if changes else []
        found[f"one change of {size:g} standard deviations, {n} steps, AR(1) {phi:g}"] = {
            "runs": runs, "exactly one found": hits / runs, "median steps off": float(np.median(off)),
        }  # fmt: skip
    return found


def curve(rng: Rng, kind: str) -> Callable[[Any], Any]:
    level, height = rng.uniform(0.02, 0.3), rng.uniform(0.3, 1)
    scale = rng.uniform(200, 3000)
    if kind == "power law":
        power, begin = rng.uniform(0.3, 1.5), rng.uniform(5, 300)
        return lambda s: level + height * (1 + s / begin) ** -power
    if kind == "exponential":
        return lambda s: level + height * np.exp(-s / scale)
    if kind == "logistic":
        width = rng.uniform(0.15, 0.4) * scale
        return lambda s: level + height / (1 + np.exp(np.minimum((s - scale) / width, 300)))
    return lambda s: level + height * (0.6 * np.exp(-s / scale) + 0.4 * np.exp(-s / (8 * scale)))


def of_goal(runs: int, seed: int) -> dict[str, dict[str, float]]:
    """Steps to a goal from the evaluations before it: how often the 90 % interval held."""
    found = {}
    for kind in ("power law", "exponential", "logistic", "two exponentials"):
        rng, rows, refused = np.random.default_rng(seed), [], 0
        while len(rows) + refused < runs:
            shape, every = curve(rng, kind), int(rng.integers(20, 200))
            steps = every * np.arange(1, 1500.0)
            noise = rng.uniform(0.003, 0.03) * float(shape(0.0) - shape(1e9))
            wrong = shape(steps) + noise * rng.standard_normal(len(steps))
            seen = int(rng.integers(8, 60))
            goal = float(shape(every * seen * rng.uniform(1.1, 4.0)))
            reached = np.flatnonzero(wrong <= goal)
            if not len(reached) or reached[0] <= seen:
                continue
            told = steps_to_goal(steps[:seen], wrong[:seen], goal, "made")
            if told.value is None:
                refused += 1
                continue
            truth, high = steps[reached[0]], np.inf if told.high is None else told.high
            rows.append(((told.low or 0) <= truth <= high, told.value / truth, told.high is None))
        held, ratio, unbounded = (np.array(column, float) for column in zip(*rows, strict=True))
        found[kind] = {
            "runs": runs, "refused": refused / runs, "held": held.mean(),
            "open above": unbounded.mean(), "median of predicted over true": float(np.median(ratio)),
        }  # fmt: skip
    return found


def of_real(runs: int, seed: int) -> dict[str, dict[str, float]]:
    """Steps that compute and then wait, really recorded: the period of CPU time beside the marks."""
    rng, found = np.random.default_rng(seed), {}
    matrix = rng.standard_normal((96, 96))
    for step_s, seconds in ((0.08, 12.0), (0.2, 16.0), (0.6, 24.0)):
        folder = Path(tempfile.mkdtemp())
        with Recorder(folder / "run", trace="none") as recorder:
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                with recorder.step(samples=1):
                    busy = time.perf_counter() + 0.6 * step_s * rng.uniform(0.97, 1.03)
                    while time.perf_counter() < busy:
                        matrix @ matrix
                    time.sleep(0.4 * step_s)
        series = load(folder / "run").series
        steps = series.steps
        t_ns, value = series.raw("process.cpu_time")
        inside = (t_ns >= steps.start_ns[0]) & (t_ns <= steps.end_ns[-1])
        t_ns, rate = rates(t_ns[inside], value[inside])
        told = period(t_ns, rate, "process.cpu_time")
        repeats = repeatability(t_ns, rate, steps.start_ns, steps.end_ns, "").correlation
        apart = np.diff(steps.start_ns) * 1e-9
        row = {"by the marks (s)": float(np.median(apart)), "repeats": repeats.value or 0.0}
        if told.value is not None:
            row |= {"by samples (s)": told.value, "low": told.low or 0.0, "high": told.high or 0.0}
        found[f"steps of {step_s * 1e3:g} ms" + (f": {told.reason}" if told.missing else "")] = row
        shutil.rmtree(folder)
    return found


PARTS = {
    "period": of_period, "aliases": of_aliases, "chance": of_chance,
    "repeatability": of_repeatability, "changes": of_changes, "goal": of_goal, "real": of_real,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=PARTS, help="only this one")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    parts = [options.part] if options.part else list(PARTS)
    found = {}
    for part in parts:
        found[part] = PARTS[part](options.runs, options.seed)
        if not options.json:
            print(part)
            for name, row in found[part].items():
                words = "  ".join(f"{key} {value:.4g}" for key, value in row.items())
                print(f"  {name:58} {words}", flush=True)
    if options.json:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
