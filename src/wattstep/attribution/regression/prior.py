"""Prior of powers: kinds lie about the mean power, and like kinds near each other."""

from __future__ import annotations

import numpy as np

from wattstep.attribution.regression.problem import Kinds
from wattstep.schema.arrays import FloatArray

OWN = 0.5  # of the variance of power among kinds is each kind's own; levels share the rest
WHOLE = 1.0  # variance of what all have in common, about the mean of the samples
_JITTER = 1e-9


def similarity(kinds: Kinds) -> FloatArray:
    """Covariance of the kinds' powers about the mean, in units of their variance.

    A sum over levels, as in a nested analysis of variance: a group of alike kinds may lie off the
    mean together, so that averages over many undetermined kinds are not held for certain.

    Args:
        kinds: The kinds and their levels.

    Returns:
        Shape (k + 1, k + 1); last stands the time between steps.
    """
    count = len(kinds.names)
    between = [level for level in kinds.levels[1:-1] if len(level) == count]
    covariance = np.zeros((count + 1, count + 1))
    inner = covariance[:count, :count]
    for level in between:
        inner += (1 - OWN) / len(between) * (level[:, None] == level[None, :])
    inner[np.diag_indices(count)] += OWN if between else 1.0
    covariance[count, count] = 1.0
    covariance += WHOLE
    covariance[np.diag_indices(count + 1)] += _JITTER
    return covariance
