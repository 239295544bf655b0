"""What it does to explained power that kinds take more or less of the clean steps than the traced ones say."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from wattstep.analysis.regression.axis import Axis
from wattstep.analysis.steps import FloatArray

DRAWS = 48
LEAST_FACTOR = 0.1


def moved_knots(axis: Axis, factors: FloatArray) -> FloatArray:
    """Where knots come to lie if each kind takes so many times as long, phases keeping their length.

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


def responses(axis: Axis, energy: FloatArray, error: float) -> FloatArray:
    """Change of the energy up to each knot, were one kind longer by its error; shape (b + 1, k).

    The kind's energy stays: it is drawn out, and what stands beside it in its phase moves.

    Args:
        axis: The mean step.
        energy: Up to each knot, shape (b + 1,).
        error: Relative, one standard deviation.
    """
    count = axis.reached.shape[1]
    change = np.zeros((len(axis.knots), count))
    longer = moved_knots(axis, np.ones((count, count)) + error * np.eye(count))
    shorter = moved_knots(axis, np.ones((count, count)) - min(error, 0.9) * np.eye(count))
    for k in range(count):
        more = np.interp(axis.knots, longer[:, k], energy)
        change[:, k] = (more - np.interp(axis.knots, shorter[:, k], energy)) / 2
    return change


def blurred(axis: Axis, error: float, seed: int) -> FloatArray:
    """Mean of `Axis.reached` over times that are off by the error: what is known of who ran when.

    Args:
        axis: The mean step.
        error: Relative, one standard deviation.
        seed: Of the draws.
    """
    if error <= 0:
        return axis.reached
    rng = np.random.default_rng(seed)
    # Draws in pairs that are opposite to each other leave no shift on average.
    half = error * rng.standard_normal((axis.reached.shape[1], DRAWS // 2))
    factors = np.maximum(1 + np.concatenate([half, -half], axis=1), LEAST_FACTOR)
    moved = moved_knots(axis, factors)
    weights = sum(_weights(axis.knots, moved[:, j]) for j in range(DRAWS)) / DRAWS
    mean: FloatArray = weights @ axis.reached
    return mean


def _weights(knots: FloatArray, moved: FloatArray) -> sparse.csr_matrix:
    """`weights @ curve` is the moved curve at the knots."""
    cell = np.clip(np.searchsorted(moved, knots, side="right") - 1, 0, len(knots) - 2)
    length = moved[cell + 1] - moved[cell]
    part = np.divide(knots - moved[cell], length, out=np.zeros_like(length), where=length > 0)
    part = np.clip(part, 0.0, 1.0)
    rows = np.arange(len(knots))
    shape = (len(knots), len(knots))
    return sparse.csr_matrix((1 - part, (rows, cell)), shape=shape) + sparse.csr_matrix(
        (part, (rows, cell + 1)), shape=shape
    )
