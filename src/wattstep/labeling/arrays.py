"""Array types of labeling, and arithmetic that several of its files need."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.floating[Any]]
Ints: TypeAlias = npt.NDArray[np.integer[Any]]
Bools: TypeAlias = npt.NDArray[np.bool_]

TINY = 1e-12
PAIRS = 1 << 20  # numbers of pairs of rows that are held at a time
ABSTAINS = -1  # among votes, which are indices of classes


def moments(x: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each column, shape (d,) each, of values whose squares may be past float64's range."""
    most = np.abs(x).max(axis=0)
    unit = np.where(most > 0, most, 1.0)
    scaled = x / unit
    return scaled.mean(axis=0) * unit, scaled.std(axis=0) * unit


def among(x: Floats, others: Floats) -> Bools:
    """Whether each row is one of the others, shape (len(x),)."""
    there = {row.tobytes() for row in others + 0.0}  # -0.0 is 0.0
    return np.array([row.tobytes() in there for row in x + 0.0], dtype=bool)


def squared_distances(a: Floats, b: Floats) -> Floats:
    """Squared Euclidean distances, shape (len(a), len(b)), never below 0."""
    squares: Floats = np.einsum("ij,ij->i", a, a)[:, None] + np.einsum("ij,ij->i", b, b)[None, :]
    squares -= 2 * (a @ b.T)
    np.maximum(squares, 0, out=squares)
    return squares


def distances_of(a: Floats, b: Floats, rows: Ints, others: Ints) -> Floats:
    """Squared Euclidean distances of pairs in float64: `b[rows]` to `a[others]`, shape (pairs,)."""
    found = np.empty(len(rows))
    step = max(PAIRS // a.shape[1], 1)
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        apart = b[rows[part]].astype(np.float64)
        apart -= a[others[part]]
        found[part] = np.einsum("ij,ij->i", apart, apart)
    return found


def nearest(squares: Floats, k: int) -> tuple[Ints, Floats]:
    """The k least of each row, ascending: their columns and values, shape (rows, k) each."""
    k = min(k, squares.shape[1])
    if k < squares.shape[1]:
        columns = np.argpartition(squares, k - 1, axis=1)[:, :k]
    else:
        columns = np.broadcast_to(np.arange(k), squares.shape)
    values = np.take_along_axis(squares, columns, axis=1)
    order = np.argsort(values, axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1), np.take_along_axis(values, order, axis=1)


def softmax(logits: Floats) -> Floats:
    """Probabilities by row."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    normalized: Floats = shifted / shifted.sum(axis=1, keepdims=True)
    return normalized


def one_hot(codes: Ints, classes: int) -> Floats:
    """Shape (n, classes): 1 where the class is, all 0 where there is none (a code below 0)."""
    hot = np.zeros((len(codes), classes))
    rows = np.flatnonzero(codes >= 0)
    hot[rows, codes[rows]] = 1
    return hot
