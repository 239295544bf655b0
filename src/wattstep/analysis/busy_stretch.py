"""When a device was busy and when it was idle, from its power alone: two levels, and the stretch between the edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattstep.analysis.steps import BoolArray, FloatArray, IntArray

BIN_NS = 500_000_000  # power is averaged over bins of this length, or of ten samples
LEAST_BINS = 20
CONTRAST = 1.25  # of the busy level to the idle one, at the least
NEAR_IDLE = 0.25  # of the way from idle to busy, below which it is idle; likewise for busy
LEAST_IDLE_NS = 2_000_000_000
BRIDGE_NS = 10_000_000_000  # pauses that do not end a stretch: an epoch ends, a model is saved


@dataclass(frozen=True, kw_only=True)
class Stretches:
    """What the power of a recording divides it into; times in ns.

    Attributes:
        busy: Begin and end of the stretch of work; of the whole recording where no idle level shows.
        told: Whether an idle level shows.
        between: Share of the busy stretch in which power was between idle and busy: it rose, fell,
            or paused.
        before: Begin and end of the idle stretch at the beginning, or None.
        after: Likewise at the end.
    """

    busy: tuple[int, int]
    told: bool
    between: float = 0.0
    before: tuple[int, int] | None = None
    after: tuple[int, int] | None = None


def stretches(t_ns: IntArray, watts: FloatArray) -> Stretches:
    """The longest stretch of high power, and what is idle at either end.

    Args:
        t_ns: Times of the samples in ns, increasing, shape (n,), n at least 2.
        watts: Power in W, shape (n,), no NaN.
    """
    whole = Stretches(busy=(int(t_ns[0]), int(t_ns[-1])), told=False)
    spacing = float(np.median(np.diff(t_ns)))
    length = max(BIN_NS, round(10 * spacing))
    number = (t_ns - t_ns[0]) // length
    used, at = np.unique(number, return_inverse=True)
    if len(used) < LEAST_BINS:
        return whole
    level = np.bincount(at, watts) / np.bincount(at)
    idle, busy = np.quantile(level, [0.01, 0.9])
    if busy < CONTRAST * idle:
        return whole
    high = (level > (idle + busy) / 2)[at]
    begin, end = _longest(t_ns, high, max(BRIDGE_NS, 4 * length))
    low = (level < idle + NEAR_IDLE * (busy - idle))[at]
    inside = (t_ns >= begin) & (t_ns <= end)
    full = (level > busy - NEAR_IDLE * (busy - idle))[at]
    return Stretches(
        busy=(begin, end),
        told=True,
        between=float((~full[inside]).mean()),
        before=_idle(t_ns[t_ns < begin], low[t_ns < begin]),
        after=_idle(t_ns[t_ns > end], low[t_ns > end]),
    )


def _longest(t_ns: IntArray, high: BoolArray, bridge_ns: int) -> tuple[int, int]:
    """Begin and end of the longest stretch of high samples, pauses bridged."""
    there = t_ns[high]
    cuts = np.flatnonzero(np.diff(there) > bridge_ns) + 1
    parts = np.split(there, cuts)
    best = max(parts, key=lambda part: int(part[-1] - part[0]))
    return int(best[0]), int(best[-1])


def _idle(t_ns: IntArray, low: BoolArray) -> tuple[int, int] | None:
    """The low samples of an end of the recording, where they last long enough."""
    there = t_ns[low]
    if len(there) < 2 or there[-1] - there[0] < LEAST_IDLE_NS:
        return None
    return int(there[0]), int(there[-1])
