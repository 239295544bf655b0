"""Whether the forecast of a whole run from its first steps holds: coverage of its 90 % intervals, and their interval score beside that of a naive one.

Synthetic runs of seven kinds, real runs, synthetic learning curves, and what a forecast costs.

python benchmarks/forecast.py [--runs 400] [--seed 1] [--real FOLDER] [--json]
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from wattstep.stats.forecast import forecast_time
from wattstep.stats.student import critical_value

WARMUP = 3
Series = np.ndarray
Maker = Callable[[np.random.Generator, int], Series]


def correlated(rng: np.random.Generator, n: int, phi: float) -> Series:
    """An AR(1) series of variance 1."""
    noise = rng.standard_normal(n)
    noise[1:] *= math.sqrt(1 - phi * phi)
    for k in range(1, n):
        noise[k] += phi * noise[k - 1]
    return noise


def flicker(rng: np.random.Generator, n: int) -> Series:
    """Noise that wanders alike on every scale: power falls with frequency."""
    spectrum = rng.standard_normal(n // 2 + 1) + 1j * rng.standard_normal(n // 2 + 1)
    spectrum[0] = 0
    spectrum[1:] /= np.sqrt(np.arange(1, n // 2 + 1))
    noise = np.fft.irfft(spectrum, n)
    return noise / noise.std()


def steady(rng: np.random.Generator, n: int) -> Series:
    return 1 + rng.uniform(0.01, 0.1) * rng.standard_normal(n)


def autocorrelated(rng: np.random.Generator, n: int) -> Series:
    return 1 + rng.uniform(0.01, 0.08) * correlated(rng, n, rng.uniform(0.5, 0.95))


def warming(rng: np.random.Generator, n: int) -> Series:
    decay = rng.uniform(0.2, 3) * np.exp(-np.arange(n) / rng.uniform(1, 15))
    return steady(rng, n) + decay


def drifting(rng: np.random.Generator, n: int) -> Series:
    return steady(rng, n) * (1 + rng.uniform(-0.06, 0.1) * np.arange(n) / n)


def wandering(rng: np.random.Generator, n: int) -> Series:
    return steady(rng, n) + rng.uniform(0.01, 0.06) * flicker(rng, n)


def stalling(rng: np.random.Generator, n: int) -> Series:
    stalls = rng.uniform(1, 4, n) * (rng.random(n) < rng.uniform(0.005, 0.05))
    return steady(rng, n) + stalls


def throttled_at_once(rng: np.random.Generator, n: int) -> Series:
    """Heat was there before the run: it throttles and recovers, in the first steps as later."""
    length = max(int(rng.uniform(0.005, 0.03) * n), 2)
    on = np.repeat(rng.random(n // length + 1) < 0.5, length)[:n]
    return steady(rng, n) * (1 + rng.uniform(0.1, 0.5) * on)


def throttled_later(rng: np.random.Generator, n: int) -> Series:
    """No first step can know it."""
    begin = int(rng.uniform(0.3, 0.9) * n)
    return steady(rng, n) * np.where(np.arange(n) < begin, 1.0, rng.uniform(1.1, 1.5))


KINDS: tuple[Maker, ...] = (
    steady, autocorrelated, warming, drifting, wandering, stalling, throttled_at_once,
)  # fmt: skip


def score(low: float, high: float, truth: float, alpha: float = 0.1) -> float:
    """Of Gneiting and Raftery (2007), relative to the truth: width, and a fine for what lies outside."""
    fine = 2 / alpha * (max(low - truth, 0.0) + max(truth - high, 0.0))
    return (high - low + fine) / truth


def judged(seconds: Series, first: int) -> tuple[bool, float, bool, float]:
    """Whether the interval held and its score; the same of a naive mean ± t."""
    truth, ahead = float(seconds.sum()), len(seconds) - first
    done = float(seconds[:first].sum())
    found = forecast_time(seconds[:first], done, ahead, WARMUP, "made").time
    low, high = found.low or 0.0, found.high or 0.0
    seen = seconds[WARMUP:first]
    middle, spread = float(seen.mean()), float(seen.std(ddof=1))
    reach = critical_value(0.9, len(seen) - 1) * spread * math.sqrt(1 / len(seen) + 1 / ahead)
    naive = done + ahead * (middle - reach), done + ahead * (middle + reach)
    return (
        low <= truth <= high, score(low, high, truth),
        naive[0] <= truth <= naive[1], score(*naive, truth),
    )  # fmt: skip


def campaign(make: Maker, runs: int, seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(runs):
        n = int(math.exp(rng.uniform(math.log(100), math.log(20_000))))
        seconds = np.maximum(make(rng, n), 0.05) * math.exp(rng.uniform(-6, 1))
        rows.append(judged(seconds, max(int(rng.uniform(0.02, 0.3) * n), 15)))
    return table(rows)


def table(rows: list[tuple[bool, float, bool, float]]) -> dict[str, float]:
    held, ours, naive_held, naive = (np.array(column, float) for column in zip(*rows, strict=True))
    return {
        "runs": len(rows), "coverage": held.mean(), "score": ours.mean(),
        "naive coverage": naive_held.mean(), "naive score": naive.mean(),
    }  # fmt: skip


def real(folder: Path) -> dict[str, float]:
    """First tenth, fifth and half of each run against all of it."""
    from wattstep.run import load

    rows = []
    for path in sorted(folder.glob("*/run.json")):
        steps = load(path.parent).series.steps
        whole = np.diff(np.append(steps.start_ns, steps.end_ns[-1])) * 1e-9
        for share in (0.1, 0.2, 0.5):
            if (first := int(share * len(whole))) >= 15:
                rows.append(judged(whole, first))
    return table(rows)


def cost() -> dict[str, float]:
    """Of a forecast of 512 stretches, in ms."""
    seconds = steady(np.random.default_rng(0), 512)
    began = time.perf_counter()
    for _ in range(200):
        forecast_time(seconds, 512.0, 10_000, WARMUP, "made")
    return {"ms": (time.perf_counter() - began) / 200 * 1e3}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=400, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--real", type=Path, help="folder of runs")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {make.__name__: campaign(make, options.runs, options.seed) for make in KINDS}
    found["all of these"] = {
        key: float((np.sum if key == "runs" else np.mean)([row[key] for row in found.values()]))
        for key in next(iter(found.values()))
    }
    found["throttled_later"] = campaign(throttled_later, options.runs, options.seed)
    if options.real is not None:
        found["real runs"] = real(options.real)
    found["cost of one"] = cost()
    if options.json:
        print(json.dumps(found, indent=1))
        return
    for name, row in found.items():
        words = "  ".join(f"{key} {value:.3f}" for key, value in row.items())
        print(f"{name:18} {words}")


if __name__ == "__main__":
    main()
