"""Least squares within bounds, in NumPy.

The planner runs in the process that trains, where `scipy.optimize` alone is 41 MB.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from wattstep.schema.arrays import FloatArray

_ROUNDS: Final = 10  # for each number that is sought: most need one or two
_STEPS: Final = 200
_SETTLED: Final = 1e-7  # change of the numbers from one step to the next, in parts of them


def fit_within(
    matrix: FloatArray, target: FloatArray, start: FloatArray, low: FloatArray, high: FloatArray
) -> FloatArray:
    """The x within bounds with the least |matrix @ x - target|², shape (k,).

    By active sets (Stark and Parker 1995, "Bounded-Variable Least-Squares"; with no upper bound Lawson and Hanson's
    NNLS). Where several are as good it is one near the start.

    Args:
        matrix: Shape (n, k).
        target: Shape (n,).
        start: Where the search begins, within the bounds, shape (k,).
        low: Least values, shape (k,).
        high: Highest values, may be infinite, shape (k,).
    """
    x: FloatArray = start.copy()
    free = (low < x) & (x < high)
    rounding = 10 * max(matrix.shape) * np.finfo(float).eps
    tolerance = rounding * float(np.abs(matrix).max()) * float(np.abs(target).sum())
    for _ in range(_ROUNDS * len(x)):
        x = _to_the_best(matrix, target, x, free, low, high)
        slope = matrix.T @ (target - matrix @ x)
        gain = np.where(free, 0.0, np.where(x <= low, slope, -slope))  # from leaving its bound
        most = int(np.argmax(gain))
        if gain[most] <= tolerance:
            break
        free[most] = True
    return x


def _to_the_best(
    matrix: FloatArray,
    target: FloatArray,
    x: FloatArray,
    free: np.ndarray[tuple[int], np.dtype[np.bool_]],
    low: FloatArray,
    high: FloatArray,
) -> FloatArray:
    """The best x of which only what is free moves; what meets a bound on the way stays there and is free no more."""
    while free.any():
        step = np.zeros_like(x)
        step[free] = np.linalg.lstsq(matrix[:, free], target - matrix @ x, rcond=None)[0]
        moving = step != 0
        parts = np.full_like(x, np.inf)
        room = np.where(step > 0, high - x, x - low)
        parts[moving] = room[moving] / np.abs(step[moving])
        part = min(1.0, float(parts.min()))
        x = np.clip(x + part * step, low, high)
        if part == 1:
            break
        met = parts <= part
        x[met] = np.where(step > 0, high, low)[met]
        free &= ~met
    return x


def fit_robustly(
    matrix: FloatArray,
    target: FloatArray,
    start: FloatArray,
    low: FloatArray,
    high: FloatArray,
    scale: float,
) -> FloatArray:
    """As `fit_within`, with errors that count squared where they are small and as they are beyond `scale`, shape (k,).

    Their loss is 2 s² (sqrt(1 + (e / s)²) - 1), "soft L1", which is convex; by least squares weighted anew until
    nothing changes.

    Args:
        matrix: Shape (n, k).
        target: Shape (n,).
        start: Where the search begins, within the bounds, shape (k,).
        low: Least values, shape (k,).
        high: Highest values, shape (k,).
        scale: s.
    """
    x = start
    for _ in range(_STEPS):
        weights = (1 + ((matrix @ x - target) / scale) ** 2) ** -0.25
        new = fit_within(matrix * weights[:, None], target * weights, x, low, high)
        settled = np.allclose(new, x, rtol=_SETTLED, atol=0)
        x = new
        if settled:
            break
    return x
