"""A graph of neighbours over labeled and recent samples, over which labels spread.

Spreading as in Zhou et al. 2004 ("Learning with local and global consistency"), as a walk with restarts;
weights scaled by local distances as in Zelnik-Manor and Perona 2004. What is ours is the use of the walk's
*mass*: where no labeled sample is near along dense paths, little of the walk ends at one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from wattstep.labeling.arrays import (
    TINY,
    Floats,
    Ints,
    nearest,
    one_hot,
    squared_distances,
)
from wattstep.labeling.lookup import Near

NEIGHBOURS = 10
SCALE_NEIGHBOUR = 5  # whose distance is a sample's own scale
CONTINUES = 0.98  # the walk goes on with this probability at each step


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Where samples lie among the nodes.

    Attributes:
        masses: How much of the walk from each sample ends at labeled samples of each class, and of each
            new class, shape (n, classes + new classes).
        surprise: How unlike known samples each is, more is stranger, shape (n, 3): lack of label mass, mass
            at new classes against that at known ones, distance to the nearest labeled sample against the
            distance that this one has to others of its class; all logarithms.
    """

    masses: Floats
    surprise: Floats


@dataclass(frozen=True, kw_only=True)
class Neighbourhood:
    """The graph as it is kept.

    Attributes:
        nodes: Samples in the space of distances, shape (n, d): labeled ones, those of new classes, others.
        scales: Distance to the 5th neighbour of each, shape (n,).
        masses: As in `Placed`.
        classes: How many of its columns are known classes.
        expected: Mass that would end at labeled samples if labels lay evenly.
        spans: Distance of each labeled sample to its nearest of the same class, shape (labeled,).
        own: Each node as it lies among the others; a labeled one without its own label.
    """

    nodes: Floats
    scales: Floats
    masses: Floats
    classes: int
    expected: float
    spans: Floats
    own: Placed

    def place(self, near: Near, labeled: Near) -> Placed:
        """Samples that are no nodes.

        Args:
            near: Their nearest nodes.
            labeled: The nearest labeled one.
        """
        scale = _scale(near.squares)
        weights = np.exp(-near.squares / (scale[:, None] * self.scales[near.nodes] + TINY))
        weights /= weights.sum(axis=1, keepdims=True) + TINY
        masses = np.einsum("nk,nkc->nc", weights, self.masses[near.nodes])
        distance, span = np.sqrt(labeled.squares[:, 0]), self.spans[labeled.nodes[:, 0]]
        surprise = _surprise(masses, self.classes, self.expected, distance, span)
        return Placed(masses=masses, surprise=surprise)


def build(
    labeled: Floats, codes: Ints, classes: int, recent: Floats, new: Floats, new_codes: Ints
) -> tuple[Neighbourhood, Floats]:
    """The graph, and the probability that a walk from each node ends at each labeled sample, shape (n, m).

    Args:
        labeled: Shape (m, d), m at least 1.
        codes: Class of each labeled sample, shape (m,).
        classes: How many there are.
        recent: Samples without a label, shape (u, d).
        new: Samples that stand for new classes, shape (g, d).
        new_codes: New class of each of those, from 0, shape (g,).
    """
    nodes = np.ascontiguousarray(np.concatenate([labeled, new, recent]), dtype=np.float32)
    count, m = len(nodes), len(labeled)
    squares = squared_distances(nodes, nodes)
    np.fill_diagonal(squares, np.inf)
    columns, near = nearest(squares, min(NEIGHBOURS, max(count - 1, 1)))
    near = np.where(np.isfinite(near), near, 0.0)
    scales = np.maximum(_scale(near), 1e-6)
    weights = np.exp(-near / (scales[:, None] * scales[columns] + TINY))
    dense = np.zeros((count, count))
    np.put_along_axis(dense, columns, weights.astype(np.float64), axis=1)
    np.fill_diagonal(dense, 0)
    dense = np.maximum(dense, dense.T)
    degree = dense.sum(axis=1) + TINY
    fresh = int(new_codes.max(initial=-1)) + 1
    hot = one_hot(np.concatenate([codes, classes + new_codes]), classes + fresh)
    ends = _ends(dense, degree, m + len(new))
    expected = float(degree[:m].sum() / degree.sum())
    masses = ends @ hot
    # A labeled sample as if it were new: its own label does not count, and those of others make up for it.
    itself = np.arange(m)
    without = ends[:m].copy()
    without[itself, itself] = 0
    others = without @ hot / CONTINUES
    share = 1 - degree[:m] / degree[:m].sum() if m > 1 else np.ones(1)
    others[:, :classes] /= np.maximum(share, 1 / m)[:, None]
    onward = (
        masses.copy()
    )  # the walk as it goes on from a node, without the rest at the node itself
    onward[m + len(new) :] /= CONTINUES
    onward[:m] = others
    closest = squares[:, :m].argmin(axis=1)
    distance = np.sqrt(squares[np.arange(count), closest])
    distance = np.where(np.isfinite(distance), distance, 0.0)
    spans = _spans(squares[:m, :m], codes)
    surprise = _surprise(onward, classes, expected, distance, spans[closest])
    graph = Neighbourhood(
        nodes=nodes, scales=scales.astype(np.float32), masses=masses.astype(np.float32),
        classes=classes, expected=expected, spans=spans.astype(np.float32),
        own=Placed(masses=onward, surprise=surprise),
    )  # fmt: skip
    return graph, ends[:, :m]


def _ends(weights: Floats, degree: Floats, labeled: int) -> Floats:
    """Probability that a walk from each node ends at each labeled node, shape (n, labeled)."""
    root = np.sqrt(degree)
    system = -CONTINUES * weights / root[:, None] / root[None, :]
    system[np.diag_indices_from(system)] += 1
    at_labeled = np.zeros((len(degree), labeled))
    at_labeled[np.arange(labeled), np.arange(labeled)] = root[:labeled]
    solved = linalg.solve(system, at_labeled, assume_a="pos", overwrite_a=True, check_finite=False)
    ends: Floats = (1 - CONTINUES) * solved / root[:, None]
    return ends


def _scale(near: Floats) -> Floats:
    """Distance to the 5th neighbour, or the last there is."""
    scale: Floats = np.sqrt(near[:, min(SCALE_NEIGHBOUR, near.shape[1]) - 1])
    return scale


def _spans(squares: Floats, codes: Ints) -> Floats:
    """Distance of labeled samples to the nearest of their class; the median of all for one alone."""
    same = np.where(codes[:, None] == codes[None, :], squares, np.inf).min(axis=1, initial=np.inf)
    alone = ~np.isfinite(same)
    if alone.all():
        finite = squares[np.isfinite(squares)]
        same = np.full(len(codes), np.median(finite) if finite.size else 1.0)
    else:
        same = np.where(alone, np.median(same[~alone]), same)
    typical = float(np.median(same)) or 1.0
    spans: Floats = np.sqrt(np.maximum(same, typical / 16))
    return spans


def _surprise(
    masses: Floats, classes: int, expected: float, distance: Floats, span: Floats
) -> Floats:
    known = masses[:, :classes].sum(axis=1)
    new = masses[:, classes:].sum(axis=1)
    floor = 1e-3 * expected
    return np.stack(
        [
            np.log(expected / (known + floor)),
            np.log((new + floor) / (known + floor)),
            np.log((distance + TINY) / (span + TINY)).clip(-3, 10),
        ],
        axis=1,
    ).astype(np.float64)
