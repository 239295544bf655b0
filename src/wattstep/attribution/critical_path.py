"""The critical path: the longest chain of pieces of work in which each waits for the one before."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.schema.arrays import BoolArray, IntArray

NONE: Final = -1
Edge = tuple[int, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class Pieces:
    """Stretches of work within one step; those of one lane do not overlap. Arrays of shape (n,).

    Attributes:
        start_ns: Begin.
        end_ns: End, after the begin.
        lane: Thread, or stream of a device.
        host: Whether the lane is a thread of the CPU.
        waits: Whether the piece only waits: it has a length, and takes no part in that of a path.
        launched_ns: When the call that launched it began, for work of a device; NONE: not known.
        launcher: Lane of that call; NONE: not known.
    """

    start_ns: IntArray
    end_ns: IntArray
    lane: IntArray
    host: BoolArray
    waits: BoolArray
    launched_ns: IntArray
    launcher: IntArray

    def __post_init__(self) -> None:
        if not (self.end_ns > self.start_ns).all():
            raise InvalidValueError(
                "a piece of work must end after it begins", id="backward-interval"
            )

    @property
    def work_ns(self) -> IntArray:
        """Contribution of each to a path."""
        return np.where(self.waits, 0, self.end_ns - self.start_ns)


@dataclass(frozen=True, kw_only=True, eq=False)
class Path:
    """The longest chain of dependent work.

    Attributes:
        length_ns: Of it.
        pieces: Those on it, in order.
        slack_ns: By how much each piece could take longer before the chain through it becomes the
            longest; 0 on the path, shape (n,).
    """

    length_ns: int
    pieces: IntArray
    slack_ns: IntArray


def dependencies(pieces: Pieces) -> list[Edge]:
    """Piece that each piece waited for, as far as a trace tells.

    - Pieces of one lane follow each other.
    - Work of a device waits for what its launching thread did until the call began.
    - A thread that waited for a device goes on after the last work of devices that had ended by
      then; it may have waited for less, which no trace tells.
    - A thread that was at rest goes on after what ended last on any other thread: it was handed
      something (the backward pass after the forward one, and back).
    """
    order = np.argsort(pieces.start_ns, kind="stable")
    ends = _Ends(pieces)
    edges: list[Edge] = []
    last: dict[int, int] = {}
    for at in order.tolist():
        lane, start = int(pieces.lane[at]), int(pieces.start_ns[at])
        before = last.get(lane, NONE)
        if before != NONE:
            edges.append((before, at))
            if pieces.waits[before]:
                edges += ends.of_device(int(pieces.end_ns[before]), at)
        if pieces.host[at]:
            if before == NONE or pieces.end_ns[before] < start:
                edges += ends.of_host(start, at)
        elif pieces.launched_ns[at] != NONE:
            edges += ends.of_lane(
                int(pieces.launcher[at]), min(int(pieces.launched_ns[at]), start), at
            )
        last[lane] = at
    return edges


class _Ends:
    """Finds the piece that ended last before a time."""

    def __init__(self, pieces: Pieces) -> None:
        order = np.argsort(pieces.end_ns, kind="stable").tolist()
        self._lanes: dict[int, tuple[list[int], list[int]]] = {}
        self._host: tuple[list[int], list[int]] = ([], [])
        self._device: tuple[list[int], list[int]] = ([], [])
        for at in order:
            end = int(pieces.end_ns[at])
            of_lane = self._lanes.setdefault(int(pieces.lane[at]), ([], []))
            kind = self._host if pieces.host[at] else self._device
            for times, numbers in (of_lane, kind):
                times.append(end)
                numbers.append(at)

    def of_lane(self, lane: int, until: int, at: int) -> list[Edge]:
        """From the last of a lane."""
        return _edge(self._lanes.get(lane, ([], [])), until, at)

    def of_host(self, until: int, at: int) -> list[Edge]:
        """From the last of any thread."""
        return _edge(self._host, until, at)

    def of_device(self, until: int, at: int) -> list[Edge]:
        """From the last of any device."""
        return _edge(self._device, until, at)


def _edge(sorted_ends: tuple[list[int], list[int]], until: int, at: int) -> list[Edge]:
    times, numbers = sorted_ends
    place = bisect_right(times, until) - 1
    return [] if place < 0 else [(numbers[place], at)]


def longest(pieces: Pieces, edges: Iterable[Edge]) -> Path:
    """The longest chain by work, and the slack of every piece.

    Args:
        pieces: The work.
        edges: Pairs of positions: the second began when the first had ended.

    Raises:
        InvalidValueError: A piece is said to wait for one that had not ended.
    """
    count, work = len(pieces.start_ns), pieces.work_ns.tolist()
    after: list[list[int]] = [[] for _ in range(count)]
    before: list[list[int]] = [[] for _ in range(count)]
    for first, second in edges:
        if pieces.end_ns[first] > pieces.start_ns[second]:
            raise InvalidValueError(
                "a piece of work cannot wait for one that ends after it begins",
                id="impossible-wait",
            )
        after[first].append(second)
        before[second].append(first)
    order = np.argsort(pieces.start_ns, kind="stable").tolist()
    until = _chains(order, before, work)
    since = _chains(order[::-1], after, work)
    if not count:
        return Path(length_ns=0, pieces=np.zeros(0, np.int64), slack_ns=np.zeros(0, np.int64))
    through = np.array(until) + np.array(since) - np.array(work)
    length = int(through.max())
    at = max(range(count), key=lambda piece: (until[piece], pieces.end_ns[piece]))
    chain = [at]
    while before[at]:
        at = max(before[at], key=lambda piece: (until[piece], pieces.end_ns[piece]))
        chain.append(at)
    return Path(
        length_ns=length,
        pieces=np.array(chain[::-1], np.int64),
        slack_ns=(length - through).astype(np.int64),
    )


def _chains(
    order: Sequence[int], linked: Sequence[Sequence[int]], work: Sequence[int]
) -> list[int]:
    """The longest chain that ends with each piece, itself included."""
    longest_to = [0] * len(work)
    for at in order:
        before = 0
        for other in linked[at]:
            if longest_to[other] > before:
                before = longest_to[other]
        longest_to[at] = before + work[at]
    return longest_to
