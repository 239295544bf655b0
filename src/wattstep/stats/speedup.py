"""Upper bounds of a change's saving: Amdahl's law on measured shares, and scaling with measured ceilings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.schema.arrays import BoolArray, FloatArray


@dataclass(frozen=True, kw_only=True)
class Saving:
    """Time that a change should save of a step, in s.

    Attributes:
        value: Expected saving.
        low: If only what is least sure to scale does not.
        high: Bound that cannot be exceeded.
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


def with_higher_ceilings(
    seconds: FloatArray,
    least_s: FloatArray,
    scales: FloatArray,
    near: BoolArray,
    concerned: BoolArray,
    ratio: float,
) -> Saving:
    """Saving by higher ceilings: those of more threads, another precision or layout.

    Operations near their ceiling get faster as the ceiling gets higher. Of one far below, only the
    time that the ceiling explains does: calls, synchronisation and small sizes stay as they are.
    At worst that is so of all of them; at best all of their time shrinks by `ratio`.

    Args:
        seconds: Time of each operation in a step, shape (n,).
        least_s: Its time at the ceiling that binds it; NaN where not known, shape (n,).
        scales: The other ceiling over that of now; NaN where not known, shape (n,).
        near: Whether it is near its ceiling, shape (n,).
        concerned: Whether the change touches it at all, shape (n,).
        ratio: By how much it can become faster at best.
    """
    high = amdahl(float(seconds[concerned].sum()), max(ratio, 1.0))
    gained = 1 - 1 / np.maximum(np.nan_to_num(scales, nan=1.0), 1.0)
    gained = np.minimum(gained, 1 - 1 / max(ratio, 1.0))[concerned]
    explained = np.minimum(np.nan_to_num(least_s), seconds)[concerned]
    expected = np.where(near[concerned], seconds[concerned], explained)
    value, low = float((expected * gained).sum()), float((explained * gained).sum())
    return Saving(value=value, low=low, high=max(high, value))


def with_fewer_threads(step_s: float, undisturbed_s: float | None, floor_s: float) -> Saving | None:
    """Saving by fewer threads, of a step whose threads wait for each other.

    Args:
        step_s: The step.
        undisturbed_s: The same step where nothing else took a core, or None where there was none.
        floor_s: Its lower bound.

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
