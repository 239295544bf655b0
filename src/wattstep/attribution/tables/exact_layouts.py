"""Layouts of steps all of which were traced: where operations begin and end is known in each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from wattstep.attribution.regression.problem import Layout
from wattstep.attribution.tables.layouts import Cut, Labelled, busy_of, cut_of, rests_of
from wattstep.schema.arrays import FloatArray, IntArray

MOST_LAYOUTS = 32  # of a run, and in all of them
MOST_ENTRIES = 2_000_000
MOST_ANCHORS = 48  # moments by which all steps are aligned: equations get longer with each
NEAR = 1e-4  # of the step: moments that are nearer than this to each other are one


@dataclass(frozen=True, kw_only=True, eq=False)
class Anchored:
    """Steps mapped onto their mean by moments that each of them has.

    Attributes:
        edges_ns: Begin of each step, its moments, and its end, shape (steps, m + 2).
        edges_s: The same in the mean step, from 0, shape (m + 2,).
        layouts: Of steps evenly chosen, on the mean step.
        exact: Whether that is how each step was: all operations come in one order in all steps.
    """

    edges_ns: IntArray
    edges_s: FloatArray
    layouts: Sequence[Layout]
    exact: bool


def anchored(labelled: Labelled) -> Anchored:
    """Steps mapped onto their mean by where operations begin and end that each step has.

    Between these moments a step is stretched evenly. Where all operations come in one order in all
    steps, that is how each step was; else layouts differ as far as it was not.

    Args:
        labelled: The traced rows of all steps.
    """
    windows = len(labelled.compensated.unattributed_s)
    bounds = np.searchsorted(labelled.rows.window, np.arange(windows + 1))
    ends_ns = labelled.compensated.traced.edges_ns[:, [0, -1]]
    own = labelled.outermost & labelled.operation
    mine = [np.flatnonzero(own[a:b]) + a for a, b in pairwise(bounds.tolist())]
    moments_ns = _moments(labelled, mine, ends_ns)
    edges_ns, in_order = _edges(ends_ns, moments_ns)
    whole = 2 * max(len(rows) for rows in mine) == moments_ns.shape[1]
    edges_s = np.mean(edges_ns - ends_ns[:, :1], axis=0) * 1e-9
    busy = busy_of(labelled)
    unattributed = rests_of(labelled)
    layouts: list[Layout] = []
    entries = 0
    for window in np.unique(np.linspace(0, windows - 1, min(windows, MOST_LAYOUTS)).astype(int)):
        rows = mine[window]
        cut = cut_of(labelled, int(window), rows, busy[rows], unattributed[window])
        layouts.append(_compensated(cut, edges_ns[window], edges_s))
        entries += len(cut.segment)
        if entries > MOST_ENTRIES:
            break
    return Anchored(edges_ns=edges_ns, edges_s=edges_s, layouts=layouts, exact=whole and in_order)


def _moments(labelled: Labelled, mine: Sequence[IntArray], ends_ns: IntArray) -> IntArray:
    """Begins and ends of operations that each step has as often as the others, shape (steps, n)."""
    kinds = int(labelled.kind.max(initial=0)) + 1
    counts = np.stack([np.bincount(labelled.kind[rows], minlength=kinds) for rows in mine])
    common = (counts == counts[0]).all(axis=0)
    moments = []
    for rows, (begin, end) in zip(mine, ends_ns.tolist(), strict=True):
        chosen = rows[common[labelled.kind[rows]]]
        chosen = chosen[np.lexsort((labelled.rows.start_ns[chosen], labelled.kind[chosen]))]
        both = [labelled.rows.start_ns[chosen], labelled.rows.end_ns[chosen]]
        moments.append(np.clip(np.concatenate(both), begin, end))
    return np.stack(moments)


def _edges(ends_ns: IntArray, moments_ns: IntArray) -> tuple[IntArray, bool]:
    """Begin of each step, moments that come in one order in all, and its end; whether none is left out."""
    begin_ns, end_ns = ends_ns.T
    since = moments_ns - begin_ns[:, None]
    least = NEAR * float(np.mean(end_ns - begin_ns))
    edges: list[int] = []
    in_order = True
    before, before_mean = np.zeros(len(begin_ns)), 0.0
    for at in np.argsort(since.mean(axis=0), kind="stable").tolist():
        mean = float(since[:, at].mean())
        if mean - before_mean <= least:
            continue
        follows = bool((since[:, at] >= before).all())
        in_order &= follows
        if follows:
            edges.append(at)
            before, before_mean = since[:, at], mean
    edges = [at for at in edges if float((end_ns - moments_ns[:, at]).mean()) > least]
    if len(edges) > MOST_ANCHORS:
        in_order = False
        edges = [edges[n] for n in np.linspace(0, len(edges) - 1, MOST_ANCHORS).astype(int)]
    edges_ns = np.concatenate([begin_ns[:, None], moments_ns[:, edges], end_ns[:, None]], axis=1)
    return edges_ns, in_order


def _compensated(cut: Cut, edges_ns: IntArray, edges_s: FloatArray) -> Layout:
    """A step as it ran, mapped onto the mean one."""
    cuts_s = np.concatenate([[0.0], np.cumsum(cut.length)])
    own_s = (edges_ns - edges_ns[0]) * 1e-9
    distinct = np.append(True, np.diff(own_s) > 0)
    at = np.interp(cuts_s, own_s[distinct], edges_s[distinct]) / edges_s[-1]
    there = np.diff(at) > 0
    total = np.bincount(cut.segment, cut.weight, minlength=len(cut.length))
    present = there[cut.segment] & (cut.weight > 0)
    there &= np.bincount(cut.segment[present], minlength=len(there)) > 0
    edges = np.append(at[:-1][there], 1.0)
    edges[0] = 0.0
    return Layout(
        edges=edges,
        segment=(np.cumsum(there) - 1)[cut.segment[present]],
        kind=cut.kind[present],
        weight=cut.weight[present] / total[cut.segment[present]],
    )
