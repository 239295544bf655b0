"""Bytes that operations move at least: what they are given is read once, what they make is written once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from wattstep.attribution.traced_rows import Numbers
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

# They give the same memory another shape, or hand work on; no element is touched.
_VIEWS: Final = re.compile(
    r"^(aten::)?(view|_reshape_alias|reshape|as_strided_?|t|transpose|permute|expand(_as)?|slice|select|"
    r"narrow|squeeze_?|unsqueeze_?|flatten|unflatten|view_as|detach_?|alias|unbind|split|chunk|"
    r"movedim|swapaxes|swapdims|T|mT|unfold|diagonal|lift_fresh|to|type_as|contiguous|conj|"
    r"resolve_conj|resolve_neg|empty(_like|_strided)?|resize_(as_)?|set_|result_type|item|"
    r"is_nonzero|_local_scalar_dense|broadcast_(tensors|to)|dropout|"
    r"_has_compatible_shallow_copy_type)$"
)
# They read as much as they make, however large what they choose from is.
_CHOICES: Final = re.compile(
    r"^(aten::)?(index(_select)?|gather|embedding|take(_along_dim)?|masked_select)$"
)
# Nodes of the backward pass: they are given one gradient, and what they saved does not show.
_NODES: Final = re.compile(r"(Backward\d*|AccumulateGrad)$")
UNKNOWN: Final = float("nan")


def is_view(names: Sequence[str]) -> BoolArray:
    """Mask of operations that touch no element, by name."""
    return np.array([bool(_VIEWS.match(name)) for name in names], dtype=bool)


def is_choice(names: Sequence[str]) -> BoolArray:
    """Mask of operations that read only as much as they make, by name."""
    return np.array([bool(_CHOICES.match(name)) for name in names], dtype=bool)


def is_node(names: Sequence[str]) -> BoolArray:
    """Mask of nodes of the backward pass, by name: their operations inside count."""
    return np.array([bool(_NODES.search(name)) for name in names], dtype=bool)


def moved_bytes(
    parent: Numbers, given: FloatArray, made: FloatArray, view: BoolArray, choice: BoolArray
) -> FloatArray:
    """Bytes that each row and all inside it move at least.

    A row moves what it is given and what it makes anew, or what the rows inside it move together,
    whichever is more: the outer rows of an operation often only hand its tensors on, and a backward
    node is given one gradient while what it saved does not show. What an operation overwrites in
    place counts once. Caches may hold some of it: this is the traffic that no program can avoid.

    Args:
        parent: Row that encloses each row, before it, or -1, shape (n,).
        given: Bytes of the tensors that it was called with; NaN where not known, shape (n,).
        made: Bytes allocated less freed by each row itself, shape (n,).
        view: Whether it touches no element, shape (n,).
        choice: Whether it reads only as much as it makes, shape (n,).

    Returns:
        Bytes, NaN where neither the row nor anything inside it is known, shape (n,).
    """
    levels = _levels(parent)
    allocated = made.astype(np.float64, copy=True)
    for rows in reversed(levels[1:]):
        np.add.at(allocated, parent[rows], allocated[rows])
    written = np.maximum(allocated, 0.0)
    own = np.where(choice, 2 * written, given + written)
    own = np.where(view, 0.0, own)
    moved: FloatArray = own.copy()
    inside = np.zeros(len(parent))
    some = np.zeros(len(parent), dtype=bool)
    for depth in range(len(levels) - 1, -1, -1):
        rows = levels[depth]
        known = np.isfinite(own[rows])
        both = np.maximum(np.where(known, own[rows], 0.0), inside[rows])
        moved[rows] = np.where(known | some[rows], both, UNKNOWN)
        if depth:
            counted = rows[np.isfinite(moved[rows])]
            np.add.at(inside, parent[counted], moved[counted])
            some[parent[counted]] = True
    return moved


def _levels(parent: Numbers) -> list[IntArray]:
    """Rows by how many enclose them."""
    depth = np.zeros(len(parent), dtype=np.int32)
    above = parent.astype(np.int64, copy=True)
    climbing = np.flatnonzero(above >= 0)
    while len(climbing):
        depth[climbing] += 1
        above[climbing] = parent[above[climbing]]
        climbing = climbing[above[climbing] >= 0]
    order = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(int(depth.max(initial=0)) + 2))
    return [order[low:high] for low, high in pairwise(bounds)]
