"""A load of several levels: what each kind of work adds to power, fitted where a sensor looks."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
from scipy.optimize import nnls

from wattstep.importing.clocks.alignment import Floats

FOLDS: Final = 8
_RIDGE: Final = 1e-6  # of the mean variance: kinds that always run together share what they add
_LEAST_VARIANCE: Final = 1e-3  # of the largest: less tells nothing of where a recording lies


def added(levels: Floats, value: Floats) -> Floats:
    """Value that full work of each kind adds: non-negative least squares.

    Work that lowers power is not physical, and allowing for it would let a placement half a step
    off fit as well as the true one.

    Args:
        levels: Share of time that each kind ran, shape (kinds, n).
        value: Shape (n,).

    Returns:
        Shape (kinds,), in the unit of the value.
    """
    return _solved(*_moments(levels, value))


def held_out(levels: Floats, value: Floats) -> Floats:
    """The value as predicted, for each stretch of time, from what all others say; shape (n,).

    What is fitted resembles the more, the more kinds there are; what is predicted does not.
    """
    edges = np.linspace(0, len(value), FOLDS + 1).astype(np.int64)
    predicted = np.zeros(len(value))
    for low, high in pairwise(edges.tolist()):
        rest = np.r_[0:low, high : len(value)]
        if len(rest) and high > low:
            predicted[low:high] = added(levels[:, rest], value[rest]) @ levels[:, low:high]
    return predicted


def without(levels: Floats, value: Floats) -> Floats:
    """The value less all that a constant and the levels explain of it, shape (n,)."""
    basis = np.column_stack([np.ones(len(value)), levels.T])
    left: Floats = value - basis @ np.linalg.lstsq(basis, value, rcond=1e-9)[0]
    return left


def whitened(levels: Floats) -> Floats:
    """Combinations of the levels, uncorrelated and of variance 1, that span what they span."""
    centred = levels - levels.mean(axis=1, keepdims=True)
    variance, direction = np.linalg.eigh(centred @ centred.T / centred.shape[1])
    identified = variance > _LEAST_VARIANCE * max(float(variance.max()), 1e-30)
    white: Floats = (direction[:, identified] / np.sqrt(variance[identified])).T @ centred
    return white


def _moments(levels: Floats, value: Floats) -> tuple[Floats, Floats]:
    centred = levels - levels.mean(axis=1, keepdims=True)
    return centred @ centred.T, centred @ (value - value.mean())


def _solved(gram: Floats, cross: Floats) -> Floats:
    ridge = _RIDGE * float(np.trace(gram)) / len(gram)
    if ridge <= 0:
        return np.zeros(len(gram))
    regular = gram + ridge * np.eye(len(gram))
    free = np.asarray(np.linalg.solve(regular, cross), np.float64)
    if (free >= 0).all():
        return free
    root = np.linalg.cholesky(regular)
    solution: Floats = nnls(root.T, np.linalg.solve(root, cross))[0]
    return solution
