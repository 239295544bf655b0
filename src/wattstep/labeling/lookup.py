"""What is looked up for each sample: its nearest nodes, and its leaf in each tree of the forests.

This is most of what labeling costs, and it is exact: distances are float32 products first, which leave a few
candidates by a bound on their rounding, and then float64 of these alone, in which equal ones are in the order of
nodes. So the result is the same whichever processor made the products, and how samples were shared out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from wattstep.labeling.arrays import Floats, Ints, distances_of
from wattstep.labeling.heuristics import Heuristic, leaves

ROUNDING = 2.0**-24  # of float32


@dataclass(frozen=True, kw_only=True)
class Index:
    """What samples are looked up in.

    Attributes:
        nodes: Of the graph, labeled ones first, float32, shape (N, d).
        labeled: How many of them have a label.
        near: Nearest nodes that are wanted of each sample.
        forests: Whose leaves are wanted.
    """

    nodes: Floats
    labeled: int
    near: int
    forests: tuple[Heuristic, ...]

    def same(self, other: Index | None) -> bool:
        """Whether it is the one, by identity of its parts."""
        return (
            other is not None
            and self.nodes is other.nodes
            and len(self.forests) == len(other.forests)
            and all(map(_is, self.forests, other.forests))
        )

    @property
    def work(self) -> int:
        """Operations for a sample: multiplications and additions of distances, steps down trees."""
        steps = sum(
            int(each.arrays["depth"][0]) * len(each.arrays["roots"]) for each in self.forests
        )
        return 2 * self.nodes.size + steps


class Near(NamedTuple):
    """Nodes that are near, the nearest first, and their squared distances in float64, shape (n, k) each."""

    nodes: Ints
    squares: Floats


@dataclass(frozen=True, kw_only=True)
class Found:
    """Of n samples.

    Attributes:
        near: The nearest nodes.
        labeled: The nearest labeled one, k = 1.
        leaves: Of each forest: the leaf in each tree, shape (n, trees).
    """

    near: Near
    labeled: Near
    leaves: tuple[Ints, ...]


# Of samples in the space of distances, float32, shape (n, d), and standardized, shape (n, features).
Lookup: TypeAlias = Callable[[Index, Floats, Floats], Found]


def joined(parts: Sequence[Found]) -> Found:
    """Samples that follow each other."""
    if len(parts) == 1:
        return parts[0]
    return Found(
        near=Near(*map(np.concatenate, zip(*(each.near for each in parts), strict=True))),
        labeled=Near(*map(np.concatenate, zip(*(each.labeled for each in parts), strict=True))),
        leaves=tuple(map(np.concatenate, zip(*(each.leaves for each in parts), strict=True))),
    )


def look_up(index: Index, space: Floats, standard: Floats) -> Found:
    """On the CPU, with NumPy; see `Lookup`."""
    near, labeled = neighbours(index, space)
    told = tuple(leaves(each.arrays, standard[:, each.features]) for each in index.forests)
    return Found(near=near, labeled=labeled, leaves=told)


def neighbours(index: Index, space: Floats) -> tuple[Near, Near]:
    """The nearest nodes, and the nearest labeled one, of samples of shape (n, d)."""
    norms = squares(index.nodes)
    ranked = space @ index.nodes.T
    ranked *= -2
    ranked += norms
    slack = rounding(space, norms)
    near = _least(index, space, ranked, slack, index.near)
    return near, _least(index, space, ranked[:, : index.labeled], slack, 1)


def squares(x: Floats) -> Floats:
    """Squared lengths, shape (n,)."""
    found: Floats = np.einsum("ij,ij->i", x, x)
    return found


def rounding(space: Floats, norms: Floats) -> Floats:
    """By how much |b|² - 2ab may be off in float32 of any order, for two nodes together, shape (n,).

    Bound of sums of products (Higham 2002, section 3.1) for |a||b| ≤ (|a|² + |b|²) / 2, twice: devices round
    products and sums at most once each, or the product not at all.

    Args:
        space: Samples, shape (n, d).
        norms: Squared lengths of the nodes.
    """
    terms = space.shape[1] + 4
    bound: Floats = 4 * terms * ROUNDING * (squares(space.astype(np.float64)) + float(norms.max()))
    return bound


def _least(index: Index, space: Floats, ranked: Floats, slack: Floats, k: int) -> Near:
    """Of rows that are right but for their rounding: the k nearest nodes."""
    k = min(k, ranked.shape[1])
    last = ranked.min(axis=1) if k == 1 else np.partition(ranked, k - 1, axis=1)[:, k - 1]
    flat = np.flatnonzero(ranked <= (last + slack)[:, None])
    rows, nodes = np.divmod(flat, ranked.shape[1])
    counts = np.bincount(rows, minlength=len(space))
    place = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
    columns = np.full((len(space), int(counts.max(initial=k))), len(index.nodes))
    columns[rows, place] = nodes
    return nearest_of(index, space, columns, k)


def nearest_of(index: Index, space: Floats, columns: Ints, k: int) -> Near:
    """The k nearest of candidates, equal ones as nodes are.

    Args:
        index: Has the nodes.
        space: Samples, shape (n, d).
        columns: Candidates, k at least in each row, shape (n, c); `len(index.nodes)` for none.
        k: How many.
    """
    there = columns < len(index.nodes)
    found = np.full(columns.shape, np.inf)
    found[there] = distances_of(index.nodes, space, there.nonzero()[0], columns[there])
    order = np.lexsort((columns, found), axis=1)[:, :k]
    return Near(
        np.take_along_axis(columns, order, axis=1), np.take_along_axis(found, order, axis=1)
    )


def _is(one: object, other: object) -> bool:
    return one is other
