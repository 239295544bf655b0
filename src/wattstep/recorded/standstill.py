"""Stretches in which a counter of energy stood still, while it counts elsewhere: it was stuck, or nothing was drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from wattstep.recorded.curves import Curve
from wattstep.recorded.power import spoken
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

LONGER: Final = 10  # times as long as between its new values elsewhere: no counter needs that
REGULAR: Final = 2  # likewise, of one that goes on at equal times
EQUAL: Final = 0.6  # of these times, at least, but for when it was read
LOST: Final = (
    0.5  # of what it counts beside that time, or power in it: of less it caught up with the rest
)
LEAST: Final = 4  # values: fewer do not tell how long it stands still between two
AS_LONG: Final = 3.0  # times one beside it, at most: of a load that is low for more than a step
HARDLY_MORE: Final = 1.5  # times its smallest step: one step, give or take rounding
COVERED: Final = 0.5  # of a stretch, at least, was power read in that says how much was drawn
STEPS: Final = 2  # of the counter, at least, says power that it lost
TOLD: Final = 0.005  # of the time, at least, in all
NONE: Final = np.empty((0, 2), np.int64)
STOOD_STILL: Final = (
    "{} stood still for {}, and elsewhere goes on every {}: it was stuck, or hardly anything was "
    "drawn; that time is in no figure"
)


def standstill(t_ns: IntArray, total: FloatArray, power: Sequence[Curve] = ()) -> IntArray:
    """Begin and end in ns of stretches in which a counter may have been stuck, shape (s, 2).

    It stood still for more than ten times as long as it usually does from one new value to the next
    (twice, where it goes on at equal times), and its next step did not make up for that. It was not
    stuck where the load was low: a coarse counter then shows several long stretches in a row, its
    smallest step between them, or power says so.

    Args:
        t_ns: Times of its reads, increasing, shape (n,).
        total: What it counted, wraps undone, no failed reads.
        power: Of the same supply, where that is known.
    """
    if not _stands(t_ns, total):
        return NONE
    begin, end = _runs(total)
    if len(begin) < LEAST:
        return NONE
    stood = t_ns[end] - t_ns[begin]
    gained = np.append(np.diff(total[begin]), 0.0).clip(0.0)  # in the step behind each
    if not (gained > 0).any():
        return NONE
    least = float(gained[gained > 0].min())
    long = (stood > _longest_ns(t_ns, begin)) & ~_low_load(stood, gained, least)
    spans = np.stack([t_ns[begin], np.append(t_ns[begin[1:]], t_ns[-1])], axis=1)[long]
    still, gained = np.stack([t_ns[begin], t_ns[end]], axis=1)[long], gained[long]
    watts = _around(spans, t_ns, total)
    lost = watts * _lengths(spans) - gained
    stuck = lost > LOST * watts * _lengths(still)
    for curve in power:
        (told, covered), (within, _) = (curve.difference(*each.T) for each in (spans, still))
        known = covered >= COVERED
        lost = told / np.where(known, covered, 1.0) - gained  # a hole like the rest
        stuck &= ~known | ((lost > STEPS * least) & (lost > LOST * within))
    still = still[stuck]
    lasting = float(_lengths(still).sum())
    return still if lasting >= TOLD * float(t_ns[-1] - t_ns[0]) else NONE


def stood_still(name: str, spans: IntArray, t_ns: IntArray, total: FloatArray) -> str:
    """Note on a counter that stood still in these stretches; the others as `standstill` takes them."""
    lasting = float(_lengths(spans).sum()) * 1e-9
    usual = float(np.median(_between_ns(t_ns, _runs(total)[0]))) * 1e-9
    return STOOD_STILL.format(name, spoken(lasting), spoken(usual))


def before_resets(t_ns: IntArray, total: FloatArray) -> IntArray:
    """As `standstill`, stretches at whose end it was reset: what it would have shown next is lost."""
    if not (total[1:] < total[:-1]).any():
        return NONE
    begin, end = _runs(total)
    lost = np.append(np.diff(total[begin]), 0.0) < 0
    return np.stack([t_ns[begin], t_ns[end]], axis=1)[lost & (end > begin)]


def _stands(t_ns: IntArray, total: FloatArray) -> bool:
    """True if reads found it the same for far longer than reads are apart; takes little memory."""
    same = np.flatnonzero(total[1:] == total[:-1])
    if not len(same):
        return False
    first = same[np.diff(same, prepend=-2) != 1]
    last = same[np.diff(same, append=len(total) + 1) != 1] + 1
    apart = float(t_ns[-1] - t_ns[0]) / (len(t_ns) - 1)
    return float((t_ns[last] - t_ns[first]).max()) > LONGER * apart


def _runs(total: FloatArray) -> tuple[IntArray, IntArray]:
    """First and last read of each value, by position."""
    new = np.flatnonzero(np.diff(total)) + 1
    return np.append(0, new), np.append(new, len(total)) - 1


def _between_ns(t_ns: IntArray, begin: IntArray) -> IntArray:
    """Times from one new value to the next; how long the first was there before, nobody knows."""
    return np.diff(t_ns[begin[1:]])


def _longest_ns(t_ns: IntArray, begin: IntArray) -> float:
    """For how long at most it stands still between two new values."""
    between, read = _between_ns(t_ns, begin), float(np.median(np.diff(t_ns)))
    usual = float(np.median(between))
    regular = usual > 2 * read and np.mean(np.abs(between - usual) <= read) >= EQUAL
    return (REGULAR if regular else LONGER) * usual


def _around(spans: IntArray, t_ns: IntArray, total: FloatArray) -> FloatArray:
    """What it counts in a ns beside each of some spans, for as long before as after."""
    edges = spans[:, [0, 0, 1, 1]] + np.outer(_lengths(spans), [-1, 0, 0, 1])
    edges = np.clip(edges, t_ns[0], t_ns[-1])
    counted = np.append(0.0, np.cumsum(np.diff(total).clip(0.0)))
    at = np.interp(edges - t_ns[0], t_ns - t_ns[0], counted)
    gains, lengths = (np.diff(each)[:, ::2].sum(axis=1) for each in (at, edges))
    watts: FloatArray = gains / np.maximum(lengths, 1)
    return watts


def _lengths(spans: IntArray) -> IntArray:
    return spans[:, 1] - spans[:, 0]


def _low_load(stood: IntArray, gained: FloatArray, least: float) -> BoolArray:
    """Mask of stretches that have another, about as long, beside them, and a smallest step between."""
    small = (gained[:-1] > 0) & (gained[:-1] <= HARDLY_MORE * least)
    mask = np.zeros(len(stood), bool)
    mask[:-1] |= small & (AS_LONG * stood[1:] >= stood[:-1])
    mask[1:] |= small & (AS_LONG * stood[:-1] >= stood[1:])
    return mask
