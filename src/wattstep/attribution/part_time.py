"""Power sensors that look for a part of the time only: how unevenly steps were looked at."""

from __future__ import annotations

import numpy as np

from wattstep.schema.arrays import FloatArray, IntArray

# Of NVIDIA's A100 and H100 (arXiv 2312.02741), the only products whose share is in our tables.
PERIOD_S = 0.1  # from one look to the next
MOST_PLACES = 20  # of a step that are told apart
MOST_STEPS = 20_000  # more are looked at no less evenly


def unevenly_seen(share: float, start_ns: IntArray, end_ns: IntArray) -> float:
    """By how much, relative to its mean, the power that was looked at may lie beside that of all time.

    Steps are alike, so that a place of a step that one look missed is seen by another, unless looks
    keep falling at the same places: of 100 ms steps a sensor that looks for 25 of each 100 ms sees one
    quarter, whatever the number of steps. What was looked at too seldom may have drawn anything from
    nothing to twice the mean.

    Args:
        share: Part of the time in which the sensor looks, above 0.
        start_ns: Begin of each step, shape (n,), n at least 1.
        end_ns: End of each.

    Returns:
        0 where all places of steps were looked at alike, towards 1 where most never were.
    """
    start, end = start_ns[:MOST_STEPS], end_ns[:MOST_STEPS]
    look_s = share * PERIOD_S
    lasting: FloatArray = ((end - start) * 1e-9).astype(np.float64)
    places = int(np.clip(np.ceil(np.median(lasting) / look_s), 1, MOST_PLACES))
    if places == 1:  # a look is longer than a step: it sees all of it
        return 0.0
    at_s = (start - start[0])[:, None] * 1e-9 + lasting[:, None] * (
        np.arange(places) + 0.5
    ) / places
    looks = (at_s % PERIOD_S < look_s).sum(axis=0)
    if not looks.any():
        return 1.0
    return float(0.5 * np.abs(looks / looks.sum() - 1 / places).sum())
