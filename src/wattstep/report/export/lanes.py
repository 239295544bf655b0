"""Intervals of one track in lanes: within a lane, each lies inside another or beside it.

Viewers draw slices as stacks. A begin and an end are paired by their order alone, so that two that
only overlap would take each other's ends.
"""

from __future__ import annotations

import heapq
from typing import Final

import numpy as np

from wattstep.schema.arrays import BoolArray, IntArray

_SMALL: Final = 1 << 15
_LONG_AGO: Final = int(np.iinfo(np.int64).min)
NESTING: Final = 8  # lanes in which slices may lie inside one another; those behind are flat


def event_order(start_ns: IntArray, end_ns: IntArray) -> tuple[IntArray, BoolArray]:
    """Begins and ends of nested intervals in the order in which a stack takes them.

    Args:
        start_ns: Begins, shape (n,).
        end_ns: Ends, none before its begin.

    Returns:
        The row of each event and whether it is a begin, shape (2n,) each. At one time ends come
        before begins, outer begins before inner ones; what takes no time ends where it begins.
    """
    count = len(start_ns)
    row = np.arange(count)
    length = end_ns - start_ns
    momentary = length == 0
    time = np.concatenate([start_ns, end_ns])
    begins = np.arange(2 * count) < count
    opening = np.concatenate([np.ones(count, bool), momentary])
    outer_first = np.concatenate([-length, np.where(momentary, 0, -start_ns)])
    by_row = np.concatenate([row, np.where(momentary, row, -row)])
    order = np.lexsort((~begins, by_row, outer_first, opening, time))
    return order % max(count, 1), begins[order]


def nest(start_ns: IntArray, end_ns: IntArray) -> bool:
    """True if each interval lies inside another or beside it."""
    row, begins = event_order(start_ns, end_ns)
    depth = np.cumsum(np.where(begins, 1, -1)) - begins
    if int(depth.max(initial=0)) < _SMALL:
        depth = depth.astype(np.int16)  # numpy sorts short numbers several times as fast
    by_depth = row[np.argsort(depth, kind="stable")]
    return bool((by_depth[0::2] == by_depth[1::2]).all())


class Lanes:
    """Shares intervals out among lanes, a batch at a time; remembers until when each is taken."""

    def __init__(self) -> None:
        self._until: list[int] = []

    def of(self, start_ns: IntArray, end_ns: IntArray) -> IntArray:
        """The lane of each interval, counted from 0, shape (n,).

        A batch goes into one lane where it nests and begins after what is there. An earlier batch
        is written already: nothing is laid into its intervals any more.
        """
        if not len(start_ns):
            return np.zeros(0, np.int64)
        free = not self._until or int(start_ns.min()) >= self._until[0]
        if free and nest(start_ns, end_ns):
            lanes = np.zeros(len(start_ns), np.int64)
        else:
            lanes = self._one_by_one(start_ns, end_ns)
        last = np.full(max(int(lanes.max()) + 1, len(self._until)), _LONG_AGO)
        last[: len(self._until)] = self._until
        np.maximum.at(last, lanes, end_ns)
        self._until = last.tolist()
        return lanes

    def _one_by_one(self, start_ns: IntArray, end_ns: IntArray) -> IntArray:
        stacks: list[list[int]] = [[] for _ in range(NESTING)]
        floors = [*self._until, *[_LONG_AGO] * NESTING][:NESTING]
        flat = [(end, lane) for lane, end in enumerate(self._until) if lane >= NESTING]
        heapq.heapify(flat)
        lanes = max(len(self._until), NESTING)
        lane_of = np.zeros(len(start_ns), np.int64)
        for row in np.lexsort((start_ns - end_ns, start_ns)).tolist():
            start, end = int(start_ns[row]), int(end_ns[row])
            lane = _fitting(stacks, floors, start, end)
            if lane is None and flat and flat[0][0] <= start:
                lane = heapq.heapreplace(flat, (end, flat[0][1]))[1]
            elif lane is None:
                lane, lanes = lanes, lanes + 1
                heapq.heappush(flat, (end, lane))
            lane_of[row] = lane
        return lane_of


def _fitting(stacks: list[list[int]], floors: list[int], start: int, end: int) -> int | None:
    """The first lane in which an interval lies inside what is open there, or beside it."""
    for lane, stack in enumerate(stacks):
        while stack and stack[-1] <= start:
            stack.pop()
        if start >= floors[lane] and (not stack or stack[-1] >= end):
            stack.append(end)
            return lane
    return None
