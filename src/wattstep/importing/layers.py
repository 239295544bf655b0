"""Layers of a model in a trace: module calls around operations, and the way back from backward ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from wattstep.attribution.nesting import Bools, Family, Rows
from wattstep.formats.trace import NONE, Codes, Longs
from wattstep.importing.phases import BACKWARD, Known

MODULE: Final = "nn.Module: "  # torch names a call of a module so
PATH: Final = "wattstep.layer:"  # and our own tracing, with the whole path
UNKNOWN: Final = -2  # a layer that is known to be none of those around


@dataclass(frozen=True, kw_only=True, eq=False)
class Scopes:
    """Layers of the rows that open one.

    Attributes:
        own: Code of the layer that a row opens, NONE for other rows, shape (n,).
        names: Texts by code.
        roots: Names of the outermost modules.
    """

    own: Codes
    names: tuple[str, ...]
    roots: tuple[str, ...] = ()


def module_scopes(rows: Rows, family: Family, modules: Bools, names: tuple[str, ...]) -> Scopes:
    """Paths of modules, from how their calls nest.

    The outermost module is left out of the paths of those inside it, as it is in the paths that
    torch gives parameters.

    Args:
        rows: In order.
        family: Their nesting.
        modules: Rows that are calls of modules, shape (n,).
        names: Texts by code.
    """
    where = np.flatnonzero(modules)
    position = np.full(len(rows), NONE, np.int32)
    position[where] = np.arange(len(where), dtype=np.int32)
    parent = family.above(family.inherited(position))[where]
    own = np.full(len(rows), NONE, np.int32)
    texts, path, roots = _paths(parent, rows.name[where], names)
    own[where] = path
    return Scopes(own=own, names=texts, roots=roots)


def _paths(
    parent: Codes, name: Codes, names: tuple[str, ...]
) -> tuple[tuple[str, ...], Codes, tuple[str, ...]]:
    """Path of each module call, from its parent among them (before it) and its name."""
    path = np.full(len(parent), NONE, np.int32)
    texts: list[str] = []
    code_of: dict[str, int] = {}
    inner: list[bool] = []  # whether the path is that of a module inside another
    roots: dict[str, None] = {}
    level = np.flatnonzero(parent == NONE)
    rest = np.flatnonzero(parent != NONE)
    while len(level):
        above = np.where(parent[level] == NONE, NONE, path[parent[level]]).astype(np.int64)
        pairs, inverse = np.unique((above + 1) * len(names) + name[level], return_inverse=True)
        codes = np.zeros(len(pairs), np.int32)
        for at, pair in enumerate(pairs.tolist()):
            outer, own = divmod(pair, len(names))
            text = names[own].removeprefix(MODULE)
            full = text.removeprefix(PATH)
            if outer and text == full and inner[outer - 1]:
                full = f"{texts[outer - 1]}.{text}"
            if not outer:
                roots[full] = None
            if full not in code_of:
                code_of[full] = len(texts)
                texts.append(full)
                inner.append(bool(outer))
            codes[at] = code_of[full]
        path[level] = codes[inverse]
        ready = path[parent[rest]] != NONE
        level, rest = rest[ready], rest[~ready]
    return tuple(texts), path, tuple(roots)


def annotation_scopes(rows: Rows, chosen: Bools, names: tuple[str, ...]) -> Scopes:
    """Annotations as layers, by their names alone: for traces without calls of modules.

    Args:
        rows: In order.
        chosen: Annotations that stand for a layer, shape (n,).
        names: Texts by code.
    """
    own = np.full(len(rows), NONE, np.int32)
    where = np.flatnonzero(chosen)
    used, inverse = np.unique(rows.name[where], return_inverse=True)
    own[where] = inverse
    return Scopes(own=own, names=tuple(names[code] for code in used.tolist()))


@dataclass(frozen=True, kw_only=True, eq=False)
class Backward:
    """Operations of the backward pass and those that they belong to.

    Attributes:
        node: Positions of the outermost backward operations, by thread and begin, shape (m,).
        forward: Position of the forward operation of each, or NONE, shape (m,).
    """

    node: Longs
    forward: Longs


def match_backward(
    rows: Rows,
    family: Family,
    known: Known,
    operation: Bools,
    sequence: Longs,
    forward_thread: Longs,
) -> Backward:
    """Ties backward operations to forward ones by sequence number and thread.

    The last forward operation that saw a sequence number made the node of that number: those
    before it asked for the number without taking it. Numbers count on each thread for itself; the
    trace names the thread of a backward operation's forward one by a count of its own, which is
    taken for the thread that has the most of the numbers. An accumulation of a gradient has no
    number: it belongs to the node before it.

    Args:
        rows: In order.
        family: Their nesting.
        known: Phases by name.
        operation: Rows that are operations of a framework, shape (n,).
        sequence: Sequence numbers, in the order of rows, shape (n,).
        forward_thread: Likewise.
    """
    starts = (known.own == BACKWARD) & (family.above(known.inherited) != BACKWARD) & operation
    node = np.flatnonzero(starts)
    node = node[np.lexsort((node, rows.lane[node]))]
    forward = np.flatnonzero(operation & (sequence >= 0) & (known.inherited != BACKWARD))
    layers = np.full(len(node), NONE, np.int64)
    for group in np.unique(forward_thread[node[sequence[node] >= 0]]):
        mine = np.flatnonzero((forward_thread[node] == group) & (sequence[node] >= 0))
        layers[mine] = _made_by(rows, forward, sequence, sequence[node[mine]])
    return Backward(node=node, forward=_inherited(layers, sequence[node], rows.lane[node]))


def _made_by(rows: Rows, forward: Longs, sequence: Longs, wanted: Longs) -> Longs:
    """The last forward operation with each number on the thread that has the most of them."""
    asked = forward[np.isin(sequence[forward], wanted)]
    if not len(asked):
        return np.full(len(wanted), NONE, np.int64)
    lanes, inverse = np.unique(rows.lane[asked], return_inverse=True)
    distinct = [len(np.unique(sequence[asked[inverse == n]])) for n in range(len(lanes))]
    mine = asked[inverse == int(np.argmax(distinct))]
    # Rows stand in order of begin: of those with one number the last is wanted.
    numbers, last = np.unique(sequence[mine][::-1], return_index=True)
    at = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    return np.where(numbers[at] == wanted, mine[::-1][last[at]], NONE)


def _inherited(layers: Longs, sequence: Longs, lane: Codes) -> Longs:
    """Nodes without a number take what the node before them on their thread has."""
    if not len(layers):
        return layers
    positions = np.arange(len(layers))
    first = np.append(True, lane[1:] != lane[:-1])
    leader = np.maximum.accumulate(np.where((sequence >= 0) | first, positions, 0))
    return layers[leader]


def layers_of(scopes: Scopes, family: Family, backward: Backward) -> Codes:
    """Code of the layer of each row, NONE where there is none, shape (n,).

    Args:
        scopes: Rows that open a layer.
        family: The nesting.
        backward: Backward operations: each has the layer of its forward one, whatever encloses it.
    """
    before = family.inherited(scopes.own)
    own = scopes.own.copy()
    has = backward.forward != NONE
    own[backward.node] = UNKNOWN
    own[backward.node[has]] = np.where(
        before[backward.forward[has]] == NONE, UNKNOWN, before[backward.forward[has]]
    )
    layer = family.inherited(own)
    layer[layer == UNKNOWN] = NONE
    return layer
