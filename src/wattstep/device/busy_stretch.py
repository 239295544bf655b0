"""When a device was busy and when it was idle, from its power alone: two levels, and the stretch between the edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

BIN_NS = 500_000_000  # power is averaged over bins of this length, or of ten samples
LEAST_BINS = 20
CONTRAST = 1.25  # of the busy level to the idle one, at the least
NEAR_IDLE = 0.25  # of the way from idle to busy, below which it is idle; likewise for busy
LEAST_IDLE_NS = 2_000_000_000
BRIDGE_NS = 10_000_000_000  # pauses that do not end a stretch: an epoch ends, a model is saved
IDLE_SHARE = 0.99  # of idle samples, within whose deviation, by half as much again, power is idle
SUSTAINED = 10  # samples, half of which are beyond idle where a stretch begins


@dataclass(frozen=True)
class Edge:
    """Time at which a stretch begins or ends, in ns.

    Attributes:
        first: Earliest that it may be.
        best: Likely time.
        last: Latest that it may be: the power has passed half of the way between idle and busy.
    """

    first: int
    best: int
    last: int


@dataclass(frozen=True, kw_only=True)
class Stretches:
    """Stretches of a recording by its power; times in ns.

    Attributes:
        busy: Begin and end of the stretch of work; of the whole recording where no idle level shows.
        idle_shown: Whether an idle level shows.
        full: Power in W below which the device rises, falls or pauses; None where no idle level
            shows.
        before: Begin and end of the idle stretch at the beginning, or None.
        after: Begin and end of the idle stretch at the end, or None.
        begin: Beginning of what is not idle, sample by sample; None where no idle level shows.
        end: End of what is not idle.
    """

    busy: tuple[int, int]
    idle_shown: bool
    full: float | None = None
    before: tuple[int, int] | None = None
    after: tuple[int, int] | None = None
    begin: Edge | None = None
    end: Edge | None = None


def stretches(t_ns: IntArray, watts: FloatArray) -> Stretches:
    """The longest stretch of high power, and what is idle at either end.

    Args:
        t_ns: Times of the samples in ns, increasing, shape (n,), n at least 2.
        watts: Power in W, shape (n,), no NaN.
    """
    whole = Stretches(busy=(int(t_ns[0]), int(t_ns[-1])), idle_shown=False)
    spacing = float(np.median(np.diff(t_ns)))
    length = max(BIN_NS, round(10 * spacing))
    number = (t_ns - t_ns[0]) // length
    used, at = np.unique(number, return_inverse=True)
    if len(used) < LEAST_BINS:
        return whole
    level = np.bincount(at, watts) / np.bincount(at)
    idle, busy = np.quantile(level, [0.01, 0.9])
    if busy <= CONTRAST * idle:  # also where there is no power at all
        return whole
    high = (level > (idle + busy) / 2)[at]
    begin, end = _longest(t_ns, high, max(BRIDGE_NS, 4 * length))
    low = (level < idle + NEAR_IDLE * (busy - idle))[at]
    before = _low(t_ns[t_ns < begin], low[t_ns < begin])
    after = _low(t_ns[t_ns > end], low[t_ns > end])
    half = float(idle + busy) / 2
    first = _begin(t_ns, watts, begin, (before, after), half, length)
    # The end is the beginning of the same recording played backwards.
    last = _begin(
        -t_ns[::-1], watts[::-1], -end, (_reversed(after), _reversed(before)), half, length
    )
    return Stretches(
        busy=(begin, end),
        idle_shown=True,
        full=float(busy - NEAR_IDLE * (busy - idle)),
        before=_long(before),
        after=_long(after),
        begin=first,
        end=None if last is None else Edge(-last.last, -last.best, -last.first),
    )


def _reversed(span: tuple[int, int] | None) -> tuple[int, int] | None:
    return None if span is None else (-span[1], -span[0])


def _begin(
    t_ns: IntArray, watts: FloatArray, coarse: int, idle: tuple[tuple[int, int] | None, ...],
    half: float, length: int,
) -> Edge | None:  # fmt: skip
    """Beginning of a stretch by its samples.

    Likely is the first that is near idle no more, and for long enough; the earliest is the first
    beyond what idle samples reach: a program that loads takes some power, too. A value may show what was before its time, or only now: the work may have begun, or ended, two
    samples before and one after.

    Args:
        t_ns: Times of the samples.
        watts: Power in W.
        coarse: Where the first bin of high power begins.
        idle: The idle stretch before it; another one, for where there is none before.
        half: Power in W half of the way between idle and busy.
        length: Of a bin in ns.
    """
    span = idle[0] or idle[1]
    if span is None:
        return None
    margin = min(length, (span[1] - span[0]) // 4)
    quiet = watts[
        (t_ns >= span[0]) & (t_ns <= min(span[1] - margin, span[0] + LEAST_IDLE_NS * 3 // 4))
    ]
    level = np.median(quiet)
    beyond = 1.5 * np.quantile(np.abs(quiet - level), IDLE_SHARE)
    start = span[0] + margin if idle[0] else int(t_ns[0])
    here = np.flatnonzero((t_ns >= start) & (t_ns <= coarse + length))
    ends = []
    for least in (level + beyond, max(level + beyond, level + NEAR_IDLE * 2 * (half - level))):
        sums = np.concatenate([[0], np.cumsum(watts > least)])
        stop = np.minimum(here + SUSTAINED, len(watts))
        lasting = (watts[here] > least) & (2 * (sums[stop] - sums[here]) >= stop - here)
        if not lasting.any():
            return None
        ends.append(int(here[np.argmax(lasting)]))
    first, at = ends
    high = np.flatnonzero(watts[at:] > half)
    reached = at + int(high[0]) if len(high) else at
    return Edge(
        first=int(t_ns[max(first - 2, 0)]),
        best=int(t_ns[max(at - 1, 0)] + t_ns[at]) // 2,
        last=int(t_ns[min(reached + 1, len(t_ns) - 1)]),
    )


def _longest(t_ns: IntArray, high: BoolArray, bridge_ns: int) -> tuple[int, int]:
    """Begin and end of the longest stretch of high samples, pauses bridged."""
    there = t_ns[high]
    cuts = np.flatnonzero(np.diff(there) > bridge_ns) + 1
    parts = np.split(there, cuts)
    best = max(parts, key=lambda part: int(part[-1] - part[0]))
    return int(best[0]), int(best[-1])


def _low(t_ns: IntArray, low: BoolArray) -> tuple[int, int] | None:
    """The low samples of an end of the recording, where there are enough to know their level."""
    there = t_ns[low]
    return (int(there[0]), int(there[-1])) if len(there) >= 2 * SUSTAINED else None


def _long(span: tuple[int, int] | None) -> tuple[int, int] | None:
    """An idle stretch, where it lasts long enough for figures of its own."""
    return span if span is not None and span[1] - span[0] >= LEAST_IDLE_NS else None
