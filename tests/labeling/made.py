"""Streams whose truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
CENTERS = np.array(
    [[0.0, 0.0, 0.0, 0.0], [6.0, 0.0, 0.0, 0.0], [0.0, 6.0, 0.0, 0.0], [0.0, 0.0, 6.0, 0.0]]
)


def blobs(count: int, classes: tuple[int, ...], seed: int) -> tuple[Array, Array]:
    """Round clouds of spread 1 whose centers are 6 and more apart, in turns: samples (count, 4), classes."""
    random = np.random.default_rng(seed)
    y = np.array(classes)[np.arange(count) % len(classes)]
    return CENTERS[y] + random.normal(size=(count, 4)), y
