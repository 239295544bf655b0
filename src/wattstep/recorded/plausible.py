"""Plausibility of a sensor's values: of power single ones far beyond all others and many at the top of its range, of a counter odd ones."""

from __future__ import annotations

import numpy as np

from wattstep.recorded.refresh import resolution_of
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.channel import Channel

USUAL = (
    0.995  # of the values lie below this quantile: what power is like, starting currents included
)
BEYOND = 20.0  # times as much as that: no load is
RARE = 0.001  # of the values, or one: more are no glitches
LEAST = round(1 / (1 - USUAL))  # values: of fewer none is known to be beyond all others
SEEN = 4096  # last values that one which comes now is held against
LEAST_AT_TOP = 10  # stretches of values: one long stretch is a load that stood still once
SHARE_AT_TOP = 0.001  # of the values
PILE_AT_TOP = 2.0  # times as many values as beside it
PILE = 3.0  # likewise, elsewhere
LEAST_LEVELS = 10
AS_OFTEN = 0.5  # of the stretches at the top, at least, has another level where a load stands still
AS_LONG = 0.1  # of the values there, likewise
AS_FINE = 500  # steps of the sensor, at least, is that level: coarser ones hide that a load moves
LEAST_AT_ONCE = 10  # changes between the top and such a level without a value between
AT_ONCE = 2.5  # times as often as between other levels
FINEST = 1e-9  # of the highest value
FEW_ODD = 3  # reads of a counter in a row; or one read in so many of them all
ODD_SHARE = 100
SELDOM = 100  # usual steps, at least, are from one wrap to the next


def glitches(value: FloatArray) -> BoolArray:
    """Mask of values that are no power: few, and many times as large as all others.

    Args:
        value: Samples in the order of time; NaN is a failed read, shape (n,).
    """
    known = np.isfinite(value)
    none = np.broadcast_to(np.False_, value.shape)
    if known.sum() < LEAST:
        return none
    usual = float(np.quantile(np.abs(value[known]), USUAL))
    mask: BoolArray = known & (np.abs(np.where(known, value, 0.0)) > BEYOND * usual)
    if usual <= 0 or mask.sum() > max(1, RARE * len(value)):
        return none
    return mask


def odd_reads(value: FloatArray, wrap: float | None) -> BoolArray:
    """Mask of reads of a counter that it cannot have shown, up to three in a row; none where they are many.

    They are below the one before, where the one behind them is not, or beyond the next, where the one
    before them is not.

    Args:
        value: In the order of time; NaN is a failed read, shape (n,).
        wrap: Where it starts again from 0; None: nowhere.
    """
    mask = np.zeros(len(value), bool)
    falls = np.flatnonzero(value[1:] < value[:-1])
    if not 0 < len(falls) <= max(FEW_ODD, len(value) // ODD_SHARE):
        return mask
    some = slice(None, None, 1 + len(value) // SEEN)  # of very many
    steps = value[1:][some] - value[:-1][some]
    rises = steps[steps > 0]
    if wrap is not None and len(rises) and wrap <= SELDOM * float(np.median(rises)):
        return mask  # within a few reads it comes back by itself
    for at in falls.tolist():
        behind, before = value[at + 2 : at + 2 + FEW_ODD], value[max(at - FEW_ODD, 0) : at][::-1]
        if (back := behind >= value[at]).any():
            mask[at + 1 : at + 2 + int(back.argmax())] = True
        if (back := before <= value[at + 1]).any():
            mask[at - int(back.argmax()) : at + 1] = True
    return mask


class Screen:
    """Streaming variant for values that come bit by bit: each is compared with those before it."""

    def __init__(self) -> None:
        self._seen = np.empty(0)

    def cleared(self, value: FloatArray) -> FloatArray:
        """New values, NaN where one is no power.

        Args:
            value: As `glitches` takes them, later than all before, shape (n,).
        """
        seen = np.concatenate([self._seen, value])
        false = glitches(seen)[len(self._seen) :]
        self._seen = seen[-SEEN:]
        return np.where(false, np.nan, value)


def tells_power(channel: Channel) -> bool:
    """True for a gauge of power, or half of one: current or voltage of a battery."""
    halves = ("battery_current", "battery_voltage")
    return channel.kind == "gauge" and (channel.unit == "W" or channel.role in halves)


def counts_energy(channel: Channel) -> bool:
    """True for a counter of energy."""
    return channel.kind == "counter" and channel.unit == "J"


def saturated(value: FloatArray) -> tuple[float, int] | None:
    """The highest value and how many samples have it, where a sensor could not show more; else None.

    At the end of its range a sensor piles up what lies beyond. A load that stands exactly still
    piles up values as well, but not at its top alone; and what averages shows values between two
    levels, unless the higher one is cut off.

    Args:
        value: Samples in the order of time; NaN is a failed read, shape (n,).
    """
    known = value[np.isfinite(value)]
    if len(known) <= LEAST_AT_TOP or known.max() <= 0:
        return None
    # Samples that go from one level to another far from it show no step; their levels in order do.
    # Where none is seen at all, equal values are of one level.
    resolution = (
        resolution_of(known) or resolution_of(np.unique(known)) or FINEST * float(known.max())
    )
    level, of, count = np.unique(
        np.rint(known / resolution).astype(np.int64), return_inverse=True, return_counts=True
    )
    visited = of[np.diff(of, prepend=-1) != 0]
    visits = np.bincount(visited)
    top, at_top = level[-1], int(count[-1])
    if visits[-1] < LEAST_AT_TOP or len(level) < LEAST_LEVELS:
        return None
    below = np.where(np.diff(level, prepend=level[0] - 2) == 1, np.append(0, count[:-1]), 0)
    above = np.where(np.diff(level, append=top + 2) == 1, np.append(count[1:], 0), 0)
    beside = np.maximum(np.maximum(below, above), 1)
    if at_top < max(SHARE_AT_TOP * len(known), PILE_AT_TOP * beside[-1]):
        return None
    piled = count >= np.append(np.full(len(level) - 1, PILE), PILE_AT_TOP) * beside
    often = (visits >= max(LEAST_AT_TOP, AS_OFTEN * visits[-1])) & (count >= AS_LONG * at_top)
    still = piled & often & (level != 0)
    fine = still[:-1] & (level[:-1] >= AS_FINE)
    if fine.any() and not _top_at_once(visited, still):
        return None
    return float(known.max()), at_top


def _top_at_once(visited: IntArray, still: BoolArray) -> bool:
    """True if a load changes between its top and other levels without values between, and not so elsewhere.

    Args:
        visited: Numbers of levels in the order of time, none twice in a row, shape (n,).
        still: Whether the load stands still at a level, the last being the top, shape (levels,).
    """
    at = np.flatnonzero(still[visited])
    before, after = visited[at[:-1]], visited[at[1:]]
    at_once, changed = np.diff(at) == 1, before != after
    top = np.maximum(before, after) == len(still) - 1
    of_top, others = at_once[changed & top], at_once[changed & ~top]
    if len(others) < LEAST_AT_ONCE:
        return False
    return bool(of_top.sum() >= max(LEAST_AT_ONCE, AT_ONCE * others.mean() * len(of_top)))
