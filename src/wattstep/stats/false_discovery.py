"""Many tests at once: how many of what is called a discovery are none (Benjamini and Hochberg 1995)."""

from __future__ import annotations

import numpy as np

from wattstep.schema.arrays import FloatArray


def false_discovery(p: FloatArray) -> FloatArray:
    """The least rate of false discoveries at which each would count as one (Benjamini and Hochberg 1995).

    Args:
        p: Probabilities of many tests, shape (k,); NaN of what was not tested stays NaN.
    """
    result = np.full(len(p), np.nan)
    tested = np.flatnonzero(np.isfinite(p))
    order = tested[np.argsort(p[tested])]
    scaled = p[order] * len(order) / np.arange(1, len(order) + 1)
    result[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return result
