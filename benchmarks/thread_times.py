"""Times of operations on thread counts that were not tried: the performance model beside its peers, on known truths.

    python benchmarks/thread_times.py [--operations 300] [--cores 68] [--noise 0.03] [--seed 1]

Each truth is an operation whose time at 1 to 68 threads is written down: a serial part (Amdahl), overhead that grows
with the threads, a ceiling of bandwidth, and in one family work that is divided into few pieces, which no smooth
curve has. A measurement is the truth with noise, each thread count three times. The peers see the same noise:

- climbing, straight lines: the counts that hill climbing tries, joined by straight lines;
- regression: logarithms of as many evenly spaced counts, fitted by 1, log p, log² p, 1/p, p (least squares);
- exhaustive: every count measured.

Errors are those of counts that a method did not try (of exhaustive measurement: of all), in per cent of the truth;
"lost" is what its choice of threads takes beyond the best. An interval is to hold the truth in 90 % of cases.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final

import numpy as np

from wattstep.schedule.curve import Curve
from wattstep.schema.arrays import FloatArray

REPEATS: Final = 3
Measure = Callable[[int], float]
# Estimates at 1 to `cores` threads, counts that were tried, and low and high ends of intervals where there are any.
Estimate = tuple[FloatArray, set[int], tuple[FloatArray, FloatArray] | None]


def truths(dice: np.random.Generator, cores: int, count: int) -> dict[str, list[FloatArray]]:
    """Seconds at 1 to `cores` threads of random operations, by family."""
    p = np.arange(1, cores + 1, dtype=np.float64)
    families: dict[str, list[FloatArray]] = {
        "Amdahl + overhead": [], "bandwidth ceiling": [], "power law + overhead": [], "few pieces": [],
    }  # fmt: skip
    for _ in range(count):
        serial, overhead = 10 ** dice.uniform(-3, -0.5), 10 ** dice.uniform(-5, -2.5)
        fork = overhead * p
        families["Amdahl + overhead"].append(serial + (1 - serial) / p + fork)
        ceiling = 1 / dice.integers(3, cores)
        memory = dice.uniform(0.3, 1.0) * np.maximum(1 / p, ceiling)
        families["bandwidth ceiling"].append(np.maximum(memory, (1 - serial) / p) + serial + fork)
        families["power law + overhead"].append(p ** -dice.uniform(0.4, 0.95) + fork)
        pieces = int(dice.integers(cores, 8 * cores))
        families["few pieces"].append(serial + (1 - serial) * np.ceil(pieces / p) / pieces + fork)
    return families


def climbed(measure: Measure, cores: int) -> tuple[Estimate, Estimate]:
    """The model, and straight lines between what it tried."""
    curve = Curve(cores)
    while (threads := curve.next_to_try()) is not None:
        for _ in range(REPEATS):
            curve.add(threads, measure(threads))
    times = [curve.at(threads) for threads in range(1, cores + 1)]
    value, low, high = (np.array(column) for column in zip(*times, strict=True))
    tried = np.array(sorted(curve.points), np.float64)
    middles = np.array([curve.points[int(one)].value for one in tried])
    straight = np.interp(np.arange(1, cores + 1), tried, middles)
    return (value, set(curve.points), (low, high)), (straight, set(curve.points), None)


def regressed(measure: Measure, cores: int, tries: int) -> Estimate:
    """Least squares through evenly spaced counts."""
    counts = np.unique(np.linspace(1, cores, tries).round()).astype(int)

    def columns(p: FloatArray) -> FloatArray:
        return np.stack([np.ones_like(p), np.log(p), np.log(p) ** 2, 1 / p, p], axis=1)

    seconds = [np.median([measure(int(one)) for _ in range(REPEATS)]) for one in counts]
    factors, *_ = np.linalg.lstsq(columns(counts.astype(float)), np.log(seconds), rcond=None)
    every = np.arange(1, cores + 1, dtype=np.float64)
    return np.exp(columns(every) @ factors), set(map(int, counts)), None


def exhaustive(measure: Measure, cores: int) -> Estimate:
    """Every count measured."""
    seconds = [np.median([measure(n) for _ in range(REPEATS)]) for n in range(1, cores + 1)]
    return np.array(seconds), set(), None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--operations", type=int, default=300)
    parser.add_argument("--cores", type=int, default=68)
    parser.add_argument("--noise", type=float, default=0.03)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    cores = options.cores
    dice = np.random.default_rng(options.seed)
    families = truths(dice, cores, max(1, options.operations // 4))
    print(f"{cores} threads, noise {options.noise:.0%}, {REPEATS} repeats a count")
    print(f"{'family':22} {'method':26} counts  mean error  worst operation  in interval  lost")
    for family, members in families.items():
        rows: dict[str, list[tuple[float, float, float, float]]] = {}
        for truth in members:

            def measure(threads: int, truth: FloatArray = truth) -> float:
                return float(truth[threads - 1] * np.exp(dice.normal(0, options.noise)))

            model, straight = climbed(measure, cores)
            estimates = {
                "model": model,
                "climbing, straight lines": straight,
                "regression": regressed(measure, cores, len(model[1])),
                "exhaustive": exhaustive(measure, cores),
            }
            for method, estimate in estimates.items():
                rows.setdefault(method, []).append(_judged(estimate, truth))
        for method, judged in rows.items():
            counts, errors, inside, lost = (np.array(each) for each in zip(*judged, strict=True))
            held = "" if np.isnan(inside).all() else f"{inside.mean():.0%}"
            print(
                f"{family:22} {method:26} {counts.mean():6.1f} {errors.mean():10.1%} {errors.max():15.1%} "
                f"{held:>12} {lost.mean():6.1%}"
            )  # fmt: skip


def _judged(estimate: Estimate, truth: FloatArray) -> tuple[float, float, float, float]:
    """Counts tried, mean error at the others, part of intervals that hold the truth, what the choice loses."""
    values, tried, ends = estimate
    others = [n - 1 for n in range(1, len(truth) + 1) if n not in tried]
    error = float(np.abs(values[others] / truth[others] - 1).mean())
    inside = float("nan")
    if ends is not None:
        low, high = ends[0][others], ends[1][others]
        inside = float(((low <= truth[others]) & (truth[others] <= high)).mean())
    lost = float(truth[int(values.argmin())] / truth.min() - 1)
    return len(tried) or len(truth), error, inside, lost


if __name__ == "__main__":
    main()
