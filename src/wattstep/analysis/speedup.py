"""What a change can save at most: Amdahl's law on measured shares, and scaling with measured ceilings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattstep.analysis.steps import BoolArray, FloatArray
from wattstep.errors import InvalidValueError


@dataclass(frozen=True, kw_only=True)
class Saving:
    """Time that a change should save of a step, in s.

    Attributes:
        value: What is expected.
        low: If only what is least sure to scale does not.
        high: What cannot be exceeded.
    """

    value: float
    low: float
    high: float


def amdahl(parallel_s: float, times: float) -> float:
    """Time in s that is saved at most when a part of a step runs `times` as fast (Amdahl 1967).

    Raises:
        InvalidValueError: `times` is less than 1.
    """
    if times < 1:
        raise InvalidValueError(f"a speed-up of {times:g} is none")
    return parallel_s * (1 - 1 / times)


def with_more_threads(
    seconds: FloatArray,
    least_s: FloatArray,
    scales: FloatArray,
    parallel: BoolArray,
    ratio: float,
) -> Saving:
    """What more threads should save.

    Operations that are cut into parts for threads get faster as their measured ceiling does, at
    best by the ratio of the threads; at worst only the part of their time that the ceiling explains
    does, and the rest (calls, synchronisation) stays.

    Args:
        seconds: Time of each operation in a step, shape (n,).
        least_s: Its time at the ceiling that binds it; NaN where not known.
        scales: The binding ceiling with the other number of threads over that of now; NaN likewise.
        parallel: Whether the framework cuts it into parts.
        ratio: Threads over threads of now.
    """
    at_best = amdahl(float(seconds[parallel].sum()), ratio)
    gained = np.clip(1 - 1 / np.maximum(np.nan_to_num(scales, nan=1.0), 1.0), 0.0, 1 - 1 / ratio)
    value = float((seconds * gained)[parallel].sum())
    known = parallel & np.isfinite(least_s)
    low = float((np.minimum(least_s, seconds) * gained)[known].sum())
    return Saving(value=value, low=min(low, value), high=max(at_best, value))


def with_fewer_threads(step_s: float, undisturbed_s: float | None, floor_s: float) -> Saving | None:
    """What fewer threads should save of a step whose threads wait for each other.

    Args:
        step_s: The step.
        undisturbed_s: The same step where nothing else took a core, or None where there was none.
        floor_s: What it cannot be faster than.

    Returns:
        From nothing to the floor; the value is what undisturbed steps show. None where no step was
        undisturbed: how far above the floor fewer threads end is then not known.
    """
    high = max(step_s - floor_s, 0.0)
    if undisturbed_s is None:
        return None
    return Saving(value=min(max(step_s - undisturbed_s, 0.0), high), low=0.0, high=high)


def per_sample_with_batch(fixed_s: float, step_s: float, times: float) -> float:
    """Share of the time of a sample that is saved when a batch grows and a part of the step does not.

    A step of F + B v takes F / B + v a sample; with k B samples F / (k B) + v.

    Args:
        fixed_s: F, the part of a step that does not grow with the batch.
        step_s: The whole of it.
        times: k, by how much the batch grows.
    """
    return amdahl(min(fixed_s, step_s), times) / step_s if step_s > 0 else 0.0


def fixed_cost(batches: FloatArray, steps_s: FloatArray) -> tuple[float, float] | None:
    """Fixed cost of a step in s, and its cost a sample, from steps of several batch sizes.

    A line through the mean steps by least squares, weighted so that relative errors count alike.

    Returns:
        Both; None with fewer than two batch sizes, or where the line says that either is negative.
    """
    if len(np.unique(batches)) < 2:
        return None
    weights = 1 / steps_s
    columns = np.stack([np.ones(len(batches)), batches], axis=1) * weights[:, None]
    (fixed, each), *_ = np.linalg.lstsq(columns, steps_s * weights, rcond=None)
    return (float(fixed), float(each)) if fixed >= 0 and each >= 0 else None
