"""Slow change of all power together (heat, clocks, other work), which is no matter of single operations."""

from __future__ import annotations

import numpy as np

from wattstep.schema.arrays import FloatArray, IntArray

MOST_STRETCHES = 60
LEAST_ROWS = 20  # in a stretch
STEPS = 5  # in a stretch, at least


def drift(
    watts: FloatArray, explained: FloatArray, process: IntArray, step: IntArray
) -> FloatArray:
    """Contribution of slow change to each sample in W, zero on average over samples, shape (n,).

    Samples in stretches of time are compared with what the mean powers make of them; the ratio of a
    stretch is drawn towards one as far as noise might have made it (James-Stein).

    Args:
        watts: The samples in the order of time, process after process, shape (n,).
        explained: By powers that do not change, shape (n,).
        process: Number of each one's process, shape (n,).
        step: Number of each one's step, shape (n,): a stretch that is no longer than a few steps
            would differ by what ran in it.
    """
    stretch = _stretches(process, len(watts) / max(len(np.unique(step)), 1))
    count = int(stretch.max(initial=-1)) + 1
    squares = np.bincount(stretch, explained**2, count)
    if count < 3 or (squares <= 0).any():
        return np.zeros(len(watts))
    left = watts - explained
    ratio = np.bincount(stretch, left * explained, count) / squares
    within = left - ratio[stretch] * explained
    noise = float((within**2).sum()) / max(len(watts) - count, 1) / squares
    spread = max(float(ratio.var()) - float(noise.mean()), 0.0)
    drawn = ratio * spread / (spread + noise) if spread > 0 else np.zeros(count)
    drawn -= float(squares @ drawn) / float(squares.sum())
    change: FloatArray = drawn[stretch] * explained
    return change


def _stretches(process: IntArray, a_step: float) -> IntArray:
    """Numbers of stretches of like length, none of which crosses from one process to the next."""
    length = max(LEAST_ROWS, -(-len(process) // MOST_STRETCHES), int(np.ceil(STEPS * a_step)))
    numbers, begun = np.zeros(len(process), np.int64), 0
    for each in np.unique(process):
        rows = np.flatnonzero(process == each)
        parts = max(1, len(rows) // length)
        numbers[rows] = begun + np.arange(len(rows)) * parts // max(len(rows), 1)
        begun += parts
    return numbers
