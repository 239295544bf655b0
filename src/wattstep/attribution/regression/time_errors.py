"""Effect on explained power of kinds that take more or less of the clean steps than of the traced ones."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from wattstep.attribution.regression.axis import Axis
from wattstep.schema.arrays import FloatArray

DRAWS = 24
STEP = 0.03  # of a difference quotient
LEAST_FACTOR = 0.1


def moved_knots(axis: Axis, factors: FloatArray) -> FloatArray:
    """Positions of knots if each kind takes so many times as long, phases keeping their length.

    Args:
        axis: The mean step.
        factors: Of each kind, shape (k,) or (k, j).

    Returns:
        Shape (b + 1,) or (b + 1, j).
    """
    lengths = np.diff(axis.reached, axis=0) @ factors
    reached = np.zeros((len(axis.knots), *lengths.shape[1:]))
    np.cumsum(lengths, axis=0, out=reached[1:])
    moved = np.empty_like(reached)
    for j, (first, last) in enumerate(zip(axis.edge_knot[:-1], axis.edge_knot[1:], strict=True)):
        part = reached[first : last + 1] - reached[first]
        width = axis.edges[j + 1] - axis.edges[j]
        whole = np.where(part[-1] > 0, part[-1], 1.0)
        moved[first : last + 1] = axis.edges[j] + width * part / whole
    moved[axis.edge_knot[-1] :] = 1.0
    return moved


def responses(axis: Axis, energy: FloatArray, farthest: float) -> FloatArray:
    """Change of the energy up to each knot, were one kind longer by all its time; shape (b + 1, k).

    The kind's energy stays: it is drawn out, and what stands beside it in its phase moves. It is a
    difference quotient over a few per cent, since power is not smooth.

    Args:
        axis: The mean step.
        energy: Up to each knot, shape (b + 1,).
        farthest: By what no knot is moved more for it, in units of the step.
    """
    count = axis.reached.shape[1]
    change = np.empty((len(axis.knots), count))
    moved = _displacement(axis)
    most = np.maximum(np.abs(moved).max(axis=0), 1e-300)
    part = np.minimum(STEP, farthest / most)
    by = part * moved
    for k in range(count):
        # Knots that moved out of order are put in order again: the change is small.
        change[:, k] = np.interp(axis.knots, np.maximum.accumulate(axis.knots + by[:, k]), energy)
        change[:, k] -= np.interp(axis.knots, np.maximum.accumulate(axis.knots - by[:, k]), energy)
    response: FloatArray = change / (2 * part)
    return response


def _displacement(axis: Axis) -> FloatArray:
    """By how much knots move where one kind takes longer, phases keeping their length."""
    moved = np.zeros_like(axis.reached)
    for first, last in zip(axis.edge_knot[:-1], axis.edge_knot[1:], strict=True):
        if last > first:
            part = axis.reached[first : last + 1] - axis.reached[first]
            knots = axis.knots[first : last + 1]
            along = (knots - knots[0]) / (knots[-1] - knots[0])
            moved[first : last + 1] = part - along[:, None] * part[-1]
    return moved


def blurred(axis: Axis, error: float, seed: int) -> FloatArray:
    """Mean of `Axis.reached` over times that are off by the error: what is known of who ran when.

    Args:
        axis: The mean step.
        error: Relative, one standard deviation.
        seed: Of the draws.
    """
    if error <= 0:
        return axis.reached
    mean: FloatArray = blur(axis, error, seed) @ axis.reached
    return mean


def blur(axis: Axis, error: float, seed: int) -> sparse.csr_matrix:
    """What `blurred` does to any curve over knots, shape (b + 1, b + 1).

    Args:
        axis: The mean step.
        error: Relative, one standard deviation.
        seed: Of the draws.
    """
    if error <= 0:
        return sparse.identity(len(axis.knots), format="csr")
    rng = np.random.default_rng(seed)
    # Draws in pairs that are opposite to each other leave no shift on average.
    half = error * rng.standard_normal((axis.reached.shape[1], DRAWS // 2))
    factors = np.maximum(1 + np.concatenate([half, -half], axis=1), LEAST_FACTOR)
    return _weights(axis.knots, moved_knots(axis, factors))


def _weights(knots: FloatArray, moved: FloatArray) -> sparse.csr_matrix:
    """`weights @ curve` is the mean over columns of the moved curve at the knots."""
    count, draws = moved.shape
    weights, columns = np.empty((count, 2 * draws)), np.empty((count, 2 * draws), np.int32)
    for j in range(draws):
        cell = np.clip(np.searchsorted(moved[:, j], knots, side="right") - 1, 0, count - 2)
        length = moved[cell + 1, j] - moved[cell, j]
        part = np.divide(knots - moved[cell, j], length, out=np.zeros(count), where=length > 0)
        part = np.clip(part, 0.0, 1.0)
        weights[:, 2 * j], weights[:, 2 * j + 1] = 1 - part, part
        columns[:, 2 * j], columns[:, 2 * j + 1] = cell, cell + 1
    begins = np.arange(0, count * 2 * draws + 1, 2 * draws)
    return sparse.csr_matrix(
        (weights.ravel() / draws, columns.ravel(), begins), shape=(count, count)
    )
