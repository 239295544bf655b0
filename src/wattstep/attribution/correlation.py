"""Correlation: shares what a cumulative curve gains out among the operations that were running, so that nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattstep.errors import InvalidValueError
from wattstep.recorded.curves import Curve, as_times, check_intervals
from wattstep.schema.arrays import FloatArray, IntArray

BoolArray = NDArray[np.bool_]
LaneArray = NDArray[np.int32]
Number = TypeVar("Number", bound=np.number[Any])

_BLOCK = 1 << 18  # operations interpolated at a time: their temporaries stay in the cache


@dataclass(frozen=True, kw_only=True, eq=False)
class Nesting:
    """Nesting of operations, and the number of busy lanes over time.

    The parent of an operation is the one that started last on its thread and is still open, if it
    stays open to the operation's end. If it does not, the two cross; the later one becomes the
    root of a lane of its own, which shares like another thread. Operations of zero length have no
    parent, no children and no share.

    Attributes:
        start_ns: Starts in ns, in the caller's order, shape (n,).
        end_ns: Ends in ns, shape (n,).
        parent: Index of the parent, or -1, shape (n,).
        depth: Number of ancestors, shape (n,).
        self_ns: Duration without that of the direct children, in ns, shape (n,).
        change_ns: When the number of busy lanes changes, strictly increasing, shape (k,).
        lanes: How many lanes are busy from then on, shape (k,).
        order: Indices that sort the operations by start, or None where they are sorted.
        in_order: The same nesting of the sorted operations, or None; attribution works on it.
        cores: Of each operation, shape (n,); `lanes` are then cores that are busy. None: a lane counts once.
    """

    start_ns: IntArray
    end_ns: IntArray
    parent: IntArray
    depth: NDArray[np.int32]
    self_ns: IntArray
    change_ns: IntArray
    lanes: LaneArray
    order: IntArray | None = None
    in_order: Nesting | None = None
    cores: IntArray | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Attribution:
    """Share of a curve of each operation, in the order of the operations.

    Attributes:
        self_share: Share of the operation without its children, in `unit`, shape (n,). These and
            the curve of `uncovered` add up to the curve.
        inclusive: Share of the operation and all inside it, in `unit`, shape (n,).
        covered_ratio: How much of the operation's time was sampled, from 0 to 1, shape (n,). A
            share holds what was sampled only; at 0 it says nothing.
        unit: Unit of the curve.
    """

    self_share: FloatArray
    inclusive: FloatArray
    covered_ratio: FloatArray
    unit: str


def nest(
    start_ns: ArrayLike, end_ns: ArrayLike, thread: ArrayLike, cores: IntArray | None = None
) -> Nesting:
    """Find parents and busy lanes, once for any number of curves.

    Args:
        start_ns: Starts of the operations in ns, in any order (fastest sorted), shape (n,).
        end_ns: Their ends in ns, shape (n,).
        thread: An integer that names the thread, queue or stream that each ran on, shape (n,).
        cores: That each kept busy, 1 or more, the same of an operation and all inside it, shape (n,): it
            shares by so many. None: each lane shares alike.

    Raises:
        InvalidValueError: Lengths differ, an operation ends before it starts, or times or threads
            are no integers.
    """
    start, end, threads = as_times(start_ns), as_times(end_ns), np.asarray(thread)
    _check_operations(start, end, threads)
    if (start[1:] < start[:-1]).any():
        order = _by_start(start)
        own = None if cores is None else cores[order]
        return _reordered(order, start, end, _nest(start[order], end[order], threads[order], own))
    return _nest(start, end, threads, cores)


def attribute(nesting: Nesting, curve: Curve) -> Attribution:
    """Share a curve out among operations.

    At each moment the curve's gain is divided equally among the lanes that have an operation open, or by
    the cores of these; within a lane the innermost takes it.

    Args:
        nesting: The operations.
        curve: What is to be attributed.
    """
    if nesting.in_order is not None and nesting.order is not None:
        shares = attribute(nesting.in_order, curve)
        return Attribution(
            self_share=_scattered(shares.self_share, nesting.order),
            inclusive=_scattered(shares.inclusive, nesting.order),
            covered_ratio=_scattered(shares.covered_ratio, nesting.order),
            unit=curve.unit,
        )
    inclusive = _inclusive(nesting, curve)
    return Attribution(
        self_share=_without_children(inclusive, nesting.parent),
        inclusive=inclusive,
        covered_ratio=curve.covered_ratio(nesting.start_ns, nesting.end_ns),
        unit=curve.unit,
    )


def self_shares(nesting: Nesting, curve: Curve) -> FloatArray:
    """`attribute(nesting, curve).self_share`, without the time and memory of all the rest."""
    if nesting.in_order is not None and nesting.order is not None:
        return _scattered(self_shares(nesting.in_order, curve), nesting.order)
    return _without_children(_inclusive(nesting, curve), nesting.parent)


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranked:
    """Operations, and scopes that group them: a scope takes only what no operation covers.

    Attributes:
        operations: All that share first.
        scopes: Those that share what is left.
        scope: Which of the rows are scopes, shape (n,).
    """

    operations: Nesting
    scopes: Nesting
    scope: BoolArray


def nest_ranked(
    start_ns: IntArray,
    end_ns: IntArray,
    thread: NDArray[np.integer[Any]],
    scope: BoolArray,
    cores: IntArray | None = None,
) -> Ranked:
    """The nesting of operations and, apart from it, that of scopes.

    A scope on one thread does not work while operations run on another: it waits for them, or is a
    stretch that somebody gave a name to.

    Args:
        start_ns: Starts of the rows in ns, shape (n,).
        end_ns: Their ends in ns, shape (n,).
        thread: Where each ran, shape (n,).
        scope: Whether a row only groups others, shape (n,).
        cores: As of `nest`, of operations.

    Raises:
        InvalidValueError: As `nest`.
    """
    if not scope.any():
        none = np.zeros(0, np.int64)
        return Ranked(
            operations=nest(start_ns, end_ns, thread, cores),
            scopes=nest(none, none, none),
            scope=scope,
        )
    work = ~scope
    own = None if cores is None else cores[work]
    return Ranked(
        operations=nest(start_ns[work], end_ns[work], thread[work], own),
        scopes=nest(start_ns[scope], end_ns[scope], thread[scope]),
        scope=scope,
    )


def share_ranked(ranked: Ranked, curve: Curve) -> tuple[FloatArray, Curve]:
    """Share a curve out among operations, and what they leave among scopes.

    Args:
        ranked: The rows.
        curve: What is to be attributed.

    Returns:
        What each row takes without those inside it, in the unit of the curve, shape (n,), and the
        curve of what neither covers. Together they make the curve.
    """
    shares_of_operations = self_shares(ranked.operations, curve)
    left = uncovered(ranked.operations, curve)
    if not len(ranked.scopes.start_ns):
        return shares_of_operations, left
    shares = np.empty(len(ranked.scope))
    shares[~ranked.scope] = shares_of_operations
    shares[ranked.scope] = self_shares(ranked.scopes, left)
    return shares, uncovered(ranked.scopes, left)


def uncovered(nesting: Nesting, curve: Curve) -> Curve:
    """The curve of what no operation covers; its differences over steps are the steps' rests.

    Args:
        nesting: The operations.
        curve: The same curve that is attributed.
    """
    knots_ns, total, lanes = _knots(nesting, curve)
    gains = np.diff(total)
    gains[lanes[:-1] > 0] = 0.0
    uncovered_gains = _summed(gains, len(knots_ns))
    del gains, total, lanes
    # A sample and a change at the same time are one knot.
    distinct = np.append(knots_ns[1:] > knots_ns[:-1], True)[: len(knots_ns)]
    if not distinct.all():
        knots_ns, uncovered_gains = knots_ns[distinct], uncovered_gains[distinct]
    return Curve(
        t_ns=knots_ns, total=uncovered_gains, unit=curve.unit, covered_ns=curve.covered_at(knots_ns)
    )


def _check_operations(start: IntArray, end: IntArray, thread: NDArray[np.integer[Any]]) -> None:
    if start.ndim != 1 or not start.shape == end.shape == thread.shape:
        raise InvalidValueError("operations need one start, one end and one thread each")
    if thread.size and thread.dtype.kind not in "iu":
        raise InvalidValueError(f"threads must be integers, not {thread.dtype}")
    check_intervals(start, end)


def _nest(
    start: IntArray, end: IntArray, thread: NDArray[np.integer[Any]], cores: IntArray | None
) -> Nesting:
    """The nesting of operations that are sorted by start."""
    order = _tree_order(start, end, thread)
    first, last = (start, end) if order is None else (start[order], end[order])
    parent = np.full(len(first), -1, dtype=np.int64)
    depth = np.zeros(len(first), dtype=np.int32)
    for lane in _threads(thread, order):
        lane_parent, depth[lane] = _tree(first[lane], last[lane])
        parent[lane] = np.where(lane_parent < 0, -1, lane_parent + lane.start)
    roots = parent < 0
    if cores is None:
        change_ns, lanes = _busy_lanes(first[roots], last[roots])
    else:
        own = cores if order is None else cores[order]
        change_ns, lanes = _busy_cores(first[roots], last[roots], own[roots])
    del first, last
    if order is not None:
        parent = _scattered(_renumbered(parent, order), order, len(start), -1)
        depth = _scattered(depth, order, len(start), 0)
    return Nesting(
        start_ns=start,
        end_ns=end,
        parent=parent,
        depth=depth,
        self_ns=_without_children(end - start, parent),
        change_ns=change_ns,
        lanes=lanes,
        cores=cores,
    )


def _reordered(order: IntArray, start: IntArray, end: IntArray, in_order: Nesting) -> Nesting:
    """The nesting of the operations as given, from that of the sorted ones."""
    return Nesting(
        start_ns=start,
        end_ns=end,
        parent=_scattered(_renumbered(in_order.parent, order), order),
        depth=_scattered(in_order.depth, order),
        self_ns=_scattered(in_order.self_ns, order),
        change_ns=in_order.change_ns,
        lanes=in_order.lanes,
        order=order,
        in_order=in_order,
    )


def _renumbered(parent: IntArray, order: IntArray) -> IntArray:
    return np.where(parent < 0, -1, order[parent])


def _scattered(
    values: NDArray[Number], order: IntArray, n: int | None = None, rest: int = 0
) -> NDArray[Number]:
    """Values that stand in `order`, put where they belong; `rest` in the places that have none."""
    out = np.full(len(values) if n is None else n, rest, dtype=values.dtype)
    out[order] = values
    return out


# Tree order: by thread, then start, then longest first, so that a parent stands before its children.


def _tree_order(
    start: IntArray, end: IntArray, thread: NDArray[np.integer[Any]]
) -> IntArray | None:
    """Indices of the operations of some length in that order; None where all are in it already."""
    order: IntArray | None = None
    if (end == start).any():
        order = np.flatnonzero(end > start)
        start, end, thread = start[order], end[order], thread[order]
    if (thread[1:] < thread[:-1]).any():
        by = np.argsort(_narrow(thread), kind="stable")
        order = by if order is None else order[by]
        start, end, thread = start[by], end[by], thread[by]
    tied = (start[1:] == start[:-1]) & (thread[1:] == thread[:-1])
    if (tied & (end[1:] > end[:-1])).any():
        # Equal ones stay as the caller gave them.
        order = _ties_sorted(np.arange(len(start)) if order is None else order, tied, -end)
    return order


def _narrow(thread: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    """Order in 16 bits where it fits, which numpy sorts by radix."""
    names = thread.astype(np.int64)
    low = names.min()
    if int(names.max()) - int(low) >= 2**16:
        names, low = np.unique(names, return_inverse=True)[1], np.int64(0)
    return (names - low).astype(np.uint16) if names.max() - low < 2**16 else names


def _by_start(start: IntArray) -> IntArray:
    """Indices that sort by start, those that start together in the order given."""
    order = np.argsort(start)  # a third of the time of a stable sort
    ordered = start[order]
    return _ties_sorted(order, ordered[1:] == ordered[:-1], order)


def _ties_sorted(order: IntArray, tied: BoolArray, key: IntArray) -> IntArray:
    """Sort by key, stably, those that `tied` says have the rank of their predecessor."""
    where = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
    group = np.concatenate(([0], np.cumsum(~tied)))[where]
    members = order[where]
    order = order.copy()
    order[where] = members[np.lexsort((key[where], group))]
    return order


def _threads(thread: NDArray[np.integer[Any]], order: IntArray | None) -> Iterator[slice]:
    ordered = thread if order is None else thread[order]
    bounds = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    edges = [0, *bounds.tolist(), len(ordered)]
    return (slice(low, high) for low, high in pairwise(edges) if low < high)


# The tree of one thread. Arguments are in tree order; `start` is sorted.


def _tree(start: IntArray, end: IntArray) -> tuple[IntArray, NDArray[np.int32]]:
    """Parent (or -1) and depth of each operation of a thread."""
    n_open = np.arange(len(start)) - np.searchsorted(np.sort(end), start, side="right")
    depth = n_open.astype(np.int16 if n_open.max() < 2**15 else np.int32)
    del n_open
    latest = _latest_open_if_nested(depth)
    suspects = _suspects(end, latest)
    if not len(suspects):
        return latest, depth.astype(np.int32)
    latest[suspects] = _latest_open(suspects, start, end)
    parent = np.where((latest >= 0) & (end <= end[latest]), latest, -1)
    return parent, _with_ancestors((parent >= 0).astype(np.int32), parent, np.add)


def _latest_open_if_nested(depth: NDArray[np.signedinteger]) -> IntArray:
    """The operation that started last and is still open, right as long as nothing has crossed.

    One level deeper than its predecessor is inside it; any other operation has the parent of the
    operation before it on its own level.
    """
    order = np.argsort(depth, kind="stable")
    deeper = np.concatenate(([False], depth[1:] > depth[:-1]))
    eldest = np.flatnonzero(deeper[order])
    n_roots = len(depth) - np.count_nonzero(depth)
    latest = np.full(len(depth), -1, dtype=np.int64)
    families = np.diff(np.append(eldest, len(depth)))
    latest[order[n_roots:]] = np.repeat(order[eldest] - 1, families)
    return latest


def _suspects(end: IntArray, latest: IntArray) -> IntArray:
    """Operations for which `_latest_open_if_nested` may be wrong: they or those around them cross.

    The presumed parent is one level up, where as many operations were open as are now. If it ends
    no earlier than the operation, and the same holds for it and its own presumed parent, up to the
    root, then none of those has ended yet: they are what is open, and it is the last of them.
    """
    odd = (latest >= 0) & (end > end[latest])
    if not odd.any():
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(_with_ancestors(odd, latest, np.logical_or))


def _latest_open(which: IntArray, start: IntArray, end: IntArray) -> IntArray:
    """For each operation of `which` the one that started last before it and is still open, or -1.

    Looks back over blocks of doubling size by the largest end in each, then down into the first
    block that holds an open operation.
    """
    rows = np.full(len(which), -1, dtype=np.int64)
    # What nothing before reaches has nothing open.
    latest_end = np.maximum.accumulate(end)
    asking = np.flatnonzero((which > 0) & (latest_end[which - 1] > start[which]))
    now, blocks = start[which[asking]], which[asking]
    latest_ends = [end]
    while len(asking):
        odd = np.flatnonzero(blocks & 1)
        hit = odd[latest_ends[-1][blocks[odd] - 1] > now[odd]]
        rows[asking[hit]] = _descend(blocks[hit] - 1, now[hit], latest_ends)
        left = np.ones(len(asking), dtype=np.bool_)
        left[hit] = False
        asking, now, blocks = asking[left], now[left], blocks[left] >> 1
        pairs = len(latest_ends[-1]) // 2 * 2
        latest_ends.append(np.maximum(latest_ends[-1][0:pairs:2], latest_ends[-1][1:pairs:2]))
    return rows


def _descend(block: IntArray, now: IntArray, latest_ends: list[IntArray]) -> IntArray:
    """The last open operation of each block, a block of the last level of `latest_ends`."""
    for ends in reversed(latest_ends[:-1]):
        block = 2 * block + 1
        block -= ends[block] <= now
    return block


def _with_ancestors(values: NDArray[Any], parent: IntArray, combine: np.ufunc) -> NDArray[Any]:
    """Each value combined with those of all ancestors, by doubling the distance looked up."""
    values, above = values.copy(), parent.copy()
    climbing = np.flatnonzero(above >= 0)
    while len(climbing):
        ancestor = above[climbing]
        values[climbing] = combine(values[climbing], values[ancestor])
        above[climbing] = above[ancestor]
        climbing = climbing[above[climbing] >= 0]
    return values


# Sharing.


def _inclusive(nesting: Nesting, curve: Curve) -> FloatArray:
    """Share of each operation and all inside it, for operations sorted by start."""
    knots_ns, total, lanes = _knots(nesting, curve)
    gains = np.diff(total)
    del total
    np.divide(gains, lanes[:-1], out=gains, where=lanes[:-1] > 0)
    gains[lanes[:-1] == 0] = 0.0
    share = _summed(gains, len(knots_ns))
    del gains, lanes
    own = _gains_of(nesting, knots_ns, share)
    return own if nesting.cores is None else own * nesting.cores


def _busy_lanes(start: IntArray, end: IntArray) -> tuple[IntArray, LaneArray]:
    """When the number of open roots changes, and what it is from then on."""
    # One sort of one array: the lowest bit tells starts from ends.
    events = np.concatenate((start * 2 + 1, end * 2))
    events.sort()
    lanes = np.cumsum((events & 1).astype(np.int8) * np.int8(2) - np.int8(1), dtype=np.int32)
    events >>= 1
    settled = np.flatnonzero(np.append(events[1:] > events[:-1], True)[: len(events)])
    events, lanes = events[settled], lanes[settled]
    changed = np.flatnonzero(np.diff(lanes, prepend=np.int32(0)))
    return events[changed], lanes[changed]


def _busy_cores(start: IntArray, end: IntArray, cores: IntArray) -> tuple[IntArray, LaneArray]:
    """As `_busy_lanes`, of the cores that open roots keep busy."""
    at = np.concatenate([end, start])
    order = np.argsort(at, kind="stable")  # ends before what begins at the same time
    busy = np.cumsum(np.concatenate([-cores, cores])[order], dtype=np.int32)
    at = at[order]
    settled = np.append(at[1:] > at[:-1], True)[: len(at)]
    at, busy = at[settled], busy[settled]
    changed = np.flatnonzero(np.diff(busy, prepend=np.int32(0)))
    return at[changed], busy[changed]


def _knots(nesting: Nesting, curve: Curve) -> tuple[IntArray, FloatArray, LaneArray]:
    """Samples and lane changes merged: their times, the curve's total, and the busy lanes from there on."""
    n_before = np.searchsorted(nesting.change_ns, curve.t_ns, side="right")
    # Before the first change, at index -1, no lane is busy.
    lanes_at_samples = np.append(nesting.lanes, np.int32(0))[n_before - 1]
    n = len(curve.t_ns) + len(nesting.change_ns)
    is_sample = np.zeros(n, dtype=np.bool_)
    is_sample[n_before + np.arange(len(curve.t_ns))] = True
    total_at_changes = _values_at(nesting.change_ns, curve, curve.total)
    is_change = ~is_sample

    def merged(samples: NDArray[Number], changes: NDArray[Number]) -> NDArray[Number]:
        both = np.empty(n, dtype=samples.dtype)
        both[is_sample], both[is_change] = samples, changes
        return both

    return (
        merged(curve.t_ns, nesting.change_ns),
        merged(curve.total, total_at_changes),
        merged(lanes_at_samples, nesting.lanes),
    )


def _summed(gains: FloatArray, n: int) -> FloatArray:
    """The sum of all gains before each of n knots."""
    sums = np.zeros(n)
    np.cumsum(gains, out=sums[1:])
    return sums


def _values_at(times: IntArray, curve: Curve, values: FloatArray) -> FloatArray:
    """The values at times, level beyond the first and the last sample."""
    if not len(curve.t_ns):
        return np.zeros(len(times))
    base = curve.t_ns[0]
    at: FloatArray = np.interp(times - base, curve.t_ns - base, values)
    return at


def _gains_of(nesting: Nesting, knots_ns: IntArray, share: FloatArray) -> FloatArray:
    """Gain of a cumulative share from start to end of each operation."""
    gains = np.zeros(len(nesting.start_ns))
    if not len(knots_ns):
        return gains
    base = knots_ns[0]
    knots = (knots_ns - base).astype(np.float64)
    for low in range(0, len(gains), _BLOCK):
        block = slice(low, low + _BLOCK)
        ends = np.interp(nesting.end_ns[block] - base, knots, share)
        gains[block] = ends - np.interp(nesting.start_ns[block] - base, knots, share)
    return gains


def _without_children(values: NDArray[Number], parent: IntArray) -> NDArray[Number]:
    """Each value less those of the direct children."""
    own: NDArray[Number] = values.copy()
    child = np.flatnonzero(parent >= 0)
    np.subtract.at(own, parent[child], values[child])
    return own
