"""The clocks of a Perfetto trace, and how its snapshots tie them to one another.

After Perfetto's documentation ("Synchronization of multiple clock domains"): a time on one clock
is on another what it was at the latest snapshot of both before it, plus what has passed since.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]
REALTIME: Final = 1
BOOTTIME: Final = 6
MOST_NS: Final = 1 << 62
FAR: Final = "time that is too large"  # why a value or event was left out
_SEQUENCE_CLOCKS: Final = range(64, 128)  # each sequence has its own of these


def clock_key(clock: int, sequence: int) -> int:
    """A number for a clock; clocks 64 to 127 are the sequence's own."""
    return -(sequence << 7 | clock) if clock in _SEQUENCE_CLOCKS else clock


class Clocks:
    """Snapshots of clocks.

    Attributes:
        primary: The clock to which all times are brought.
    """

    def __init__(self) -> None:
        self.primary = BOOTTIME
        self._snapshots: list[dict[int, int]] = []
        self._units: dict[int, int] = {}
        self._neighbours: defaultdict[int, set[int]] = defaultdict(set)
        self._known: dict[tuple[int, int], Longs] = {}  # pairs of times that were asked for
        self._last: dict[int, int] = {}  # of clocks that count on from the packet before

    def snapshot(self, values: Sequence[tuple[int, int, int, bool]]) -> None:
        """Takes in one snapshot.

        Args:
            values: Of each clock its key, its value, its unit in ns, and whether times on it
                count from the one before.
        """
        times = {}
        for key, value, unit, incremental in values:
            self._units[key] = max(unit, 1)
            time = value * max(unit, 1)
            if incremental:
                self._last[key] = time
            if time < MOST_NS:
                times[key] = time
        self._snapshots.append(times)
        self._known.clear()
        for key in times:
            self._neighbours[key] |= times.keys() - {key}

    def absolute(self, key: int, time: int) -> int | None:
        """A time of a packet in ns of its clock; None: it is beyond what fits."""
        time *= self._units.get(key, 1)
        if key in self._last:
            time += self._last[key]
            self._last[key] = time
        return time if 0 <= time < MOST_NS else None

    def to_primary(self, key: int, times: Longs) -> Longs | None:
        """Times on a clock as times on the primary one; None: no snapshot ties the two."""
        path = self._path(key, self.primary)
        if path is None:
            return None
        for here, there in pairwise(path):
            times = _carried(times, self._pairs(here, there))
        return times

    def wall_offset(self) -> tuple[int, int] | None:
        """Wall time less primary time in ns at the first snapshot of both, and how much that
        has grown at the last; None: the trace does not tell."""
        pairs = self._pairs(self.primary, REALTIME)
        if not len(pairs):
            return None
        offsets = pairs[:, 1] - pairs[:, 0]
        return int(offsets[0]), int(offsets[-1] - offsets[0])

    def _pairs(self, one: int, other: int) -> Longs:
        """Readings of both clocks in each snapshot that has both, in the order of the first's time."""
        if (one, other) not in self._known:
            pairs_of_times = [
                (s[one], s[other]) for s in self._snapshots if one in s and other in s
            ]
            pairs = np.array(pairs_of_times, np.int64).reshape(-1, 2)
            self._known[one, other] = pairs[np.argsort(pairs[:, 0], kind="stable")]
        return self._known[one, other]

    def _path(self, begin: int, end: int) -> list[int] | None:
        """Clocks from one to the other, each in a snapshot with the next."""
        before: dict[int, int | None] = {begin: None}
        waiting = deque([begin])
        while waiting and end not in before:
            here = waiting.popleft()
            for there in sorted(self._neighbours.get(here, ())):
                if there not in before:
                    before[there] = here
                    waiting.append(there)
        if end not in before:
            return None
        path, at = [end], before[end]
        while at is not None:
            path.append(at)
            at = before[at]
        return path[::-1]


def _carried(times: Longs, pairs: Longs) -> Longs:
    at = np.clip(np.searchsorted(pairs[:, 0], times, side="right") - 1, 0, None)
    carried: Longs = times - pairs[at, 0] + pairs[at, 1]
    return np.clip(carried, -MOST_NS, MOST_NS)  # what lies beyond is left out as too far
