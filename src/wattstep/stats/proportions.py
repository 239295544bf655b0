"""Intervals of shares, and of the difference of two."""

from __future__ import annotations

import math
from statistics import NormalDist

CONFIDENCE = 0.95
_NORMAL = NormalDist()


def newcombe(first: float, n_first: float, second: float, n_second: float) -> tuple[float, float]:
    """95 % interval of the difference of two independent shares (Newcombe 1998, method 10).

    Args:
        first: The first share.
        n_first: Of how many.
        second: The share that is taken off.
        n_second: Of how many.
    """
    low_1, high_1 = wilson(first, n_first, CONFIDENCE)
    low_2, high_2 = wilson(second, n_second, CONFIDENCE)
    below = math.hypot(first - low_1, high_2 - second)
    above = math.hypot(high_1 - first, second - low_2)
    return max(-1.0, first - second - below), min(1.0, first - second + above)


def wilson(share: float, n: float, confidence: float) -> tuple[float, float]:
    """Interval of a share (Wilson 1927).

    Args:
        share: The share.
        n: Of how many, if these were independent; need not be whole.
        confidence: Coverage, as 0.95.
    """
    square = _NORMAL.inv_cdf((1 + confidence) / 2) ** 2
    middle = (share + square / (2 * n)) / (1 + square / n)
    half_width = math.sqrt(square * (share * (1 - share) + square / (4 * n)) / n) / (1 + square / n)
    return max(0.0, min(share, middle - half_width)), min(1.0, max(share, middle + half_width))
