"""Nesting of a trace's events, and labels that events inherit from those around them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wattstep.attribution.correlation import nest
from wattstep.formats.trace import NONE, Codes, Events, Longs

Bools = NDArray[np.bool_]
# Of events with the same begin and end, the one that can enclose the other stands first.
_RANK: Final = {"step": 0, "python": 1, "annotation": 1, "module": 1, "runtime": 3, "overhead": 4}
_RANK_OF_OTHERS: Final = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Events of a trace in order of begin, those that begin together longest first; shape (n,).

    Attributes:
        source: Position among the events of the trace.
        start_ns: Begin, in the clock of the trace.
        end_ns: End.
        lane: Number of the thread or stream, counted over all processes and processors from 0.
        name: Code of the name, a position in `Trace.names`.
        category: Code of the category, likewise.
        on_gpu: Whether it ran on a GPU.
    """

    source: Longs
    start_ns: Longs
    end_ns: Longs
    lane: Codes
    name: Codes
    category: Codes
    on_gpu: Bools

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def duration_ns(self) -> Longs:
        """End less begin, shape (n,)."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, kw_only=True, eq=False)
class Lanes:
    """Threads and streams, one an entry.

    Attributes:
        of_event: Position in the others for each event, in the order of the trace, shape (n,).
        number: As it stands in a run: no two alike.
    """

    of_event: Codes
    number: Longs


STREAMS: Final = 1 << 50  # threads of the k-th GPU (from 0) are numbered from (k + 1) of these
_SHORT_RANGE: Final = 1 << 22  # of numbers for which a table is faster than sorting
OTHERS: Final = 1 << 60  # and threads from here on whose own number another process has, too


def lanes_of(events: Events, on_gpu: Bools) -> Lanes:
    """Numbers threads and streams so that no two share one.

    A thread of the CPU keeps its number, a stream of a GPU has its own from `STREAMS` on. Where
    several processes have a thread of the same number, only the first of them keeps it.

    Args:
        events: Of a trace.
        on_gpu: Which of them ran on a GPU, shape (n,).
    """
    key = _dense(np.where(on_gpu, events.processor.astype(np.int64), NONE))
    for column in (events.process, events.thread):
        codes = _dense(column)
        key = _dense(key * np.int64(codes.max() + 1) + codes)
    first = np.zeros(int(key.max()) + 1, np.int64)
    first[key[::-1]] = np.arange(len(key))[::-1]
    number = events.thread[first].copy()
    gpu = on_gpu[first]
    _, which = np.unique(events.processor[first][gpu], return_inverse=True)
    number[gpu] += STREAMS * (which + 1)
    _, unique = np.unique(number, return_index=True)
    again = np.setdiff1d(np.arange(len(number)), unique)
    number[again] = OTHERS + np.arange(len(again))
    return Lanes(of_event=key.astype(np.int32), number=number)


def _dense(values: Longs) -> Longs:
    """Each value's position among the distinct ones, in their order."""
    low, high = int(values.min()), int(values.max())
    if high - low >= _SHORT_RANGE:
        codes: Longs = np.unique(values, return_inverse=True)[1]
        return codes
    there = np.zeros(high - low + 1, bool)
    there[values - low] = True
    return (np.cumsum(there) - 1)[values - low]


def in_order(events: Events, names: tuple[str, ...], lanes: Lanes, on_gpu: Bools) -> Rows:
    """The events sorted so that what encloses another stands before it."""
    ranks = np.array([_RANK.get(name, _RANK_OF_OTHERS) for name in names], np.int8)
    source = np.lexsort((ranks[events.category], -events.end_ns, events.start_ns))
    return Rows(
        source=source,
        start_ns=events.start_ns[source],
        end_ns=events.end_ns[source],
        lane=lanes.of_event[source],
        name=events.name[source],
        category=events.category[source],
        on_gpu=on_gpu[source],
    )


class Family:
    """The nesting of rows; work on a GPU stands alone.

    An event is the child of the one that began last on its thread before it and ends no earlier.
    Two that cross (clocks that jitter) do not nest: the later one is a root. An event without
    length is the child of whatever is open at its moment.

    Args:
        rows: In order.

    Attributes:
        parent: Position of the parent, or NONE, shape (n,).
    """

    def __init__(self, rows: Rows) -> None:
        self.parent: Codes = np.full(len(rows), NONE, np.int32)
        self._depth = np.zeros(len(rows), np.int16)
        on_cpu = np.flatnonzero(~rows.on_gpu)
        if len(on_cpu):
            start = rows.start_ns[on_cpu]
            nested = nest(start, np.maximum(rows.end_ns[on_cpu], start + 1), rows.lane[on_cpu])
            has = nested.parent >= 0
            self.parent[on_cpu[has]] = on_cpu[nested.parent[has]]
            self._depth = self._depth.astype(nested.depth.dtype)
            self._depth[on_cpu] = nested.depth

    @cached_property
    def _by_depth(self) -> tuple[Codes, list[int]]:
        """Positions by depth, and where each depth begins among them."""
        bounds = np.cumsum(np.bincount(self._depth)).tolist() if len(self._depth) else []
        depth = self._depth
        if bounds and len(bounds) < 2**15:
            depth = depth.astype(np.int16)  # which numpy sorts by radix
        return np.argsort(depth, kind="stable").astype(np.int32), bounds

    def inherited(self, values: Codes) -> Codes:
        """Each row's own value, or, where that is NONE, that of the nearest row around it."""
        values = values.copy()
        order, bounds = self._by_depth
        for low, high in pairwise(bounds):
            level = order[low:high]
            asking = level[values[level] == NONE]
            values[asking] = values[self.parent[asking]]
        return values

    def above(self, inherited: Codes) -> Codes:
        """Value of `inherited` of each row's parent, NONE for roots."""
        return np.where(self.parent >= 0, inherited[self.parent], np.int32(NONE))

    def self_ns(self, rows: Rows) -> Longs:
        """Duration without that of the direct children, in ns."""
        own = rows.duration_ns
        child = np.flatnonzero(self.parent >= 0)
        np.subtract.at(own, self.parent[child], rows.duration_ns[child])
        return own


def first_with(keys: Longs, wanted: Longs) -> Longs:
    """Position of the first of `keys` that equals each wanted one, NONE where there is none.

    Args:
        keys: Shape (n,); NONE is no key.
        wanted: Shape (m,).
    """
    there = np.flatnonzero(keys != NONE)
    distinct, first = np.unique(keys[there], return_index=True)
    if not len(distinct):
        return np.full(len(wanted), NONE, np.int64)
    at = np.minimum(np.searchsorted(distinct, wanted), len(distinct) - 1)
    hit = (distinct[at] == wanted) & (wanted != NONE)
    return np.where(hit, there[first[at]], NONE)


def merged(start_ns: Longs, end_ns: Longs) -> Longs:
    """The union of intervals that are sorted by begin, as disjoint ones, shape (k, 2)."""
    long = end_ns > start_ns
    start_ns, end_ns = start_ns[long], end_ns[long]
    if not len(start_ns):
        return np.zeros((0, 2), np.int64)
    latest_ns = np.maximum.accumulate(end_ns)
    first = np.flatnonzero(np.append(True, start_ns[1:] > latest_ns[:-1]))
    last = np.append(first[1:] - 1, len(start_ns) - 1)
    return np.stack([start_ns[first], latest_ns[last]], axis=1)
