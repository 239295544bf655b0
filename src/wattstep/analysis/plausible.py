"""Whether values of a power sensor can be true: single ones far beyond all others, and many at the top of its range."""

from __future__ import annotations

import numpy as np

from wattstep.analysis.refresh import quantum_of
from wattstep.analysis.steps import BoolArray, FloatArray

USUAL = (
    0.995  # of the values lie below this quantile: what power is like, starting currents included
)
BEYOND = 20.0  # times as much as that: no load is
RARE = 0.001  # of the values, or one: more are no glitches
LEAST_AT_TOP = 20  # values
SHARE_AT_TOP = 0.01
PILE = 3.0  # times as many values as beside it
ALSO_PILED = 0.25  # of the values at the top: another pile shows a load that stands exactly still
LEAST_LEVELS = 10
FINEST = 1e-9  # of the highest value


def glitches(value: FloatArray) -> BoolArray:
    """Which values are no power at all: few, and many times as large as all others.

    Args:
        value: Samples in the order of time; NaN is a failed read, shape (n,).
    """
    known = np.isfinite(value)
    none = np.zeros(len(value), bool)
    if known.sum() < 1 / (1 - USUAL):
        return none
    usual = float(np.quantile(np.abs(value[known]), USUAL))
    found: BoolArray = known & (np.abs(np.where(known, value, 0.0)) > BEYOND * usual)
    if usual <= 0 or found.sum() > max(1, RARE * len(value)):
        return none
    return found


def saturated(value: FloatArray) -> tuple[float, int] | None:
    """The highest value and how many samples have it, where a sensor could not show more; else None.

    At the end of its range a sensor piles up what lies beyond. A load that stands exactly still
    piles up values as well, but then not at its top alone.

    Args:
        value: Samples; NaN is a failed read, shape (n,).
    """
    known = value[np.isfinite(value)]
    if len(known) <= LEAST_AT_TOP or known.max() <= 0:
        return None
    quantum = quantum_of(known) or FINEST * float(known.max())  # no step is seen: equal values are
    level, count = np.unique(np.rint(known / quantum).astype(np.int64), return_counts=True)
    at_top = int(count[-1])
    if at_top < max(LEAST_AT_TOP, SHARE_AT_TOP * len(known)) or len(level) < LEAST_LEVELS:
        return None
    below = np.where(np.diff(level, prepend=level[0] - 2) == 1, np.append(0, count[:-1]), 0)
    above = np.where(np.diff(level, append=level[-1] + 2) == 1, np.append(count[1:], 0), 0)
    piled = count >= PILE * np.maximum(np.maximum(below, above), 1)
    others = piled[:-1] & (count[:-1] >= ALSO_PILED * at_top) & (level[:-1] != 0)
    if not piled[-1] or others.any():
        return None
    return float(known.max()), at_top
