"""The mean clean step as an axis: which kind runs where on it, as far as the traced steps agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from wattstep.attribution.regression.problem import Layout, Sampled
from wattstep.schema.arrays import FloatArray, IntArray

MOST_KNOTS = 6000  # exact edges of all layouts up to here, a grid beyond
GRID = 3000
_SAME = 1e-9  # of a step: edges nearer than this are one


@dataclass(frozen=True, kw_only=True, eq=False)
class Axis:
    """Positions from 0 to 1, cut at knots between which each layout runs the same mixture.

    Attributes:
        knots: From 0 to 1, strictly increasing, shape (b + 1,).
        edges: Where phases begin, and the end of the last, shape (p + 1,); each is a knot.
        edge_knot: Number of each edge's knot, shape (p + 1,).
        reached: For each knot, how much of the step each kind took up to it, mean over layouts, in
            units of the step, shape (b + 1, k).
        overlap: Length of each cell that each segment takes, all layouts side by side.
        segment_kind: Weight of each kind in each segment, all layouts one below the other.
        first_segment: Of each layout, and the number of all, shape (l + 1,).
        layout_share: Time of each kind by each layout, in units of the step, shape (l, k).
    """

    knots: FloatArray
    edges: FloatArray
    edge_knot: IntArray
    reached: FloatArray
    overlap: sparse.csr_matrix
    segment_kind: sparse.csr_matrix
    first_segment: IntArray
    layout_share: FloatArray

    @property
    def layouts(self) -> int:
        """Number of traced steps that it rests on."""
        return len(self.first_segment) - 1

    def curves(self, watts: FloatArray) -> FloatArray:
        """Cumulative time of each layout up to each knot, shape (b + 1, l).

        Args:
            watts: Power of each kind, shape (k,).
        """
        of_segment = self.segment_kind @ watts
        columns = [
            np.concatenate([[0.0], np.cumsum(self.overlap[:, a:b] @ of_segment[a:b])])
            for a, b in zip(self.first_segment[:-1], self.first_segment[1:], strict=True)
        ]
        return np.stack(columns, axis=1)


def axis_of(processes: Sequence[Sampled], count: int) -> Axis:
    """The common axis of processes that trained the same.

    Args:
        processes: At least one of them has a layout.
        count: How many kinds there are.
    """
    edges = _common_edges(processes)
    moved = [
        (_onto(layout.edges, process.edges, edges), layout)
        for process in processes
        for layout in process.layouts
    ]
    knots = _knots([cuts for cuts, _ in moved], edges)
    overlap = sparse.hstack([_overlap(knots, cuts) for cuts, _ in moved], format="csr")
    segment_kind = sparse.vstack([_mixture(layout, count) for _, layout in moved], format="csr")
    first = np.concatenate([[0], np.cumsum([len(cuts) - 1 for cuts, _ in moved])])
    density = (overlap @ segment_kind).toarray() / len(moved)
    reached = np.zeros((len(knots), count))
    np.cumsum(density, axis=0, out=reached[1:])
    return Axis(
        knots=knots, edges=edges, edge_knot=np.searchsorted(knots, edges - _SAME / 2),
        reached=reached, overlap=overlap, segment_kind=segment_kind, first_segment=first,
        layout_share=np.stack([_share(cuts, layout, count) for cuts, layout in moved]),
    )  # fmt: skip


def _common_edges(processes: Sequence[Sampled]) -> FloatArray:
    edges = np.mean([process.edges for process in processes], axis=0)
    edges[0], edges[-1] = 0.0, 1.0
    common: FloatArray = np.maximum.accumulate(edges)
    return common


def _onto(cuts: FloatArray, own: FloatArray, common: FloatArray) -> FloatArray:
    """Positions on the mean step of one process, on the common one."""
    distinct = np.concatenate([[True], np.diff(own) > 0])
    moved = np.interp(cuts, own[distinct], common[distinct])
    moved[0], moved[-1] = 0.0, 1.0
    straight: FloatArray = np.maximum.accumulate(moved)
    return straight


def _knots(cuts: Sequence[FloatArray], edges: FloatArray) -> FloatArray:
    exact = _apart(np.concatenate([edges, *cuts]), edges)
    if len(exact) <= MOST_KNOTS:
        return exact
    return _apart(np.concatenate([edges, np.linspace(0, 1, GRID + 1)]), edges)


def _apart(positions: FloatArray, edges: FloatArray) -> FloatArray:
    """Sorted positions without those that lie next to an edge or to each other."""
    nearest = np.abs(positions[:, None] - np.unique(edges)[None, :]).min(axis=1)
    inner = np.unique(positions[nearest > _SAME])
    inner = inner[np.concatenate([[True], np.diff(inner) > _SAME])] if len(inner) else inner
    return np.union1d(np.unique(edges), inner)


def _overlap(knots: FloatArray, cuts: FloatArray) -> sparse.csr_matrix:
    """Length that each cell shares with each segment, shape (b, m)."""
    both = np.union1d(knots, cuts)
    middle, length = (both[1:] + both[:-1]) / 2, np.diff(both)
    cell = np.clip(np.searchsorted(knots, middle, side="right") - 1, 0, len(knots) - 2)
    segment = np.clip(np.searchsorted(cuts, middle, side="right") - 1, 0, len(cuts) - 2)
    shape = (len(knots) - 1, len(cuts) - 1)
    return sparse.csr_matrix((length, (cell, segment)), shape=shape)


def _mixture(layout: Layout, count: int) -> sparse.csr_matrix:
    shape = (len(layout.edges) - 1, count)
    return sparse.csr_matrix((layout.weight, (layout.segment, layout.kind)), shape=shape)


def _share(cuts: FloatArray, layout: Layout, count: int) -> FloatArray:
    taken = np.diff(cuts)[layout.segment] * layout.weight
    share: FloatArray = np.bincount(layout.kind, taken, count).astype(np.float64)
    return share
