"""Stretches in which a counter of energy stood still, while it counts elsewhere: it was stuck, or nothing was drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from wattstep.recorded.curves import Curve
from wattstep.recorded.power import spoken
from wattstep.recorded.refresh import ALMOST_ALL, NEAR
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

LONGER: Final = 10  # times as long as between its new values elsewhere: no counter needs that
REGULAR: Final = 2  # likewise, of one that goes on at equal times
EQUAL: Final = 0.6  # of these times, at least, but for when it was read
LEAST_EQUAL: Final = 2  # likewise, in number
LOST: Final = (
    0.5  # of what it counts beside that time, or power in it: of less it caught up with the rest
)
LEAST: Final = 4  # values: fewer do not tell how long it stands still between two
AS_LONG: Final = 3.0  # times one beside it, at most: of a load that is low for more than a step
A_ROW: Final = 4  # such stretches, two of them whole: fewer may as well be standstills
BRIEF: Final = 3  # times as long as between its new values elsewhere: a few reads
BETWEEN: Final = 1.5  # likewise, of one that goes on at equal times: two of them
LARGER: Final = 1.15  # times, at least, are steps around times in which values come late
HARDLY_MORE: Final = 1.5  # times its smallest step: one step, give or take rounding
COVERED: Final = 0.5  # of a stretch, at least, was power read in that says how much was drawn
STEPS: Final = 2  # of the counter, at least, says power that it lost
TOLD: Final = 0.005  # of the time, at least, in all
NONE: Final = np.empty((0, 2), np.int64)
STOOD_STILL: Final = (
    "{} stood still for {}, and elsewhere goes on every {}: it was stuck, or hardly anything was "
    "drawn; that time is in no figure"
)
CAUGHT_UP: Final = (
    "{} stood still for {} as clean steps began or ended, and elsewhere goes on every {}; then it showed all that was "
    "counted at once: how much of it was drawn in clean steps is not known, and taken by their time"
)
UNCLEAR: Final = (
    "{} stood still again and again, for {} in all, and elsewhere goes on every {}: hardly anything was drawn, or "
    "it was stuck and more was drawn than figures have"
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
    runs = _runs(t_ns, total) if _stands(t_ns, total, LONGER) else None
    return NONE if runs is None else runs.lossy(runs.long & ~runs.low_load, power)


def unclear(t_ns: IntArray, total: FloatArray, power: Sequence[Curve] = ()) -> IntArray:
    """As `standstill`, stretches of which a low load is as likely.

    Two or three long ones with its smallest step between them, which make no row; and ones of a few
    reads, in which a counter of fine steps would have shown a tenth of its mean power. Where others
    are new at every read, or at equal times, a few are more than those that lie between: two.
    """
    runs = _runs(t_ns, total) if _stands(t_ns, total, BETWEEN) else None
    if runs is None:
        return NONE
    told = runs.long & ~runs.low_load
    return runs.lossy((runs.long | runs.brief) & ~told & ~runs.in_a_row, power)


def caught_up(t_ns: IntArray, total: FloatArray) -> IntArray:
    """As `standstill`, stretches whose next step made up for them, until that."""
    runs = _runs(t_ns, total) if _stands(t_ns, total, LONGER) else None
    return NONE if runs is None else runs.made_up(runs.long & ~runs.low_load)


def stood_still(name: str, spans: IntArray, t_ns: IntArray, total: FloatArray, words: str) -> str:
    """Note on a counter that stood still in these stretches, in words for how long and how often it goes on elsewhere."""
    lasting = float(_lengths(spans).sum()) * 1e-9
    begin, _ = _first_and_last(total)
    usual = float(np.median(_between_ns(t_ns, begin))) * 1e-9
    return words.format(name, spoken(lasting), spoken(usual))


def before_resets(t_ns: IntArray, total: FloatArray) -> IntArray:
    """As `standstill`, stretches at whose end it was reset: what it would have shown next is lost."""
    if not (total[1:] < total[:-1]).any():
        return NONE
    begin, end = _first_and_last(total)
    lost = np.append(np.diff(total[begin]), 0.0) < 0
    return np.stack([t_ns[begin], t_ns[end]], axis=1)[lost & (end > begin)]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Runs:
    """Runs of equal values, one after the other.

    Attributes:
        t_ns: Times of the reads, shape (n,).
        total: What they found, shape (n,).
        begin: First read of each run, by position, shape (r,).
        end: Its last read.
        gained: In the step behind each, 0 for a step back and behind the last, shape (r,).
    """

    t_ns: IntArray
    total: FloatArray
    begin: IntArray
    end: IntArray
    gained: FloatArray

    @cached_property
    def stood(self) -> IntArray:
        return self.t_ns[self.end] - self.t_ns[self.begin]

    @cached_property
    def least(self) -> float:
        """The smallest step."""
        return float(self.gained[self.gained > 0].min())

    @cached_property
    def usual(self) -> float:
        """Time in ns from one new value to the next, median."""
        return float(np.median(_between_ns(self.t_ns, self.begin)))

    @cached_property
    def read(self) -> float:
        """Time in ns from one read to the next, median."""
        return float(np.median(np.diff(self.t_ns)))

    @cached_property
    def regular(self) -> bool:
        """True if it goes on at equal times, several reads apart."""
        between, read = _between_ns(self.t_ns, self.begin), self.read
        seen = np.diff(self.t_ns)[self.begin[2:] - 1] <= 2 * read  # when it ended: in no hole
        equal = np.count_nonzero(seen & (np.abs(between - self.usual) <= read))
        least = max(EQUAL * np.count_nonzero(seen), LEAST_EQUAL)
        return bool(self.usual > 2 * read and equal >= least)

    @cached_property
    def long(self) -> BoolArray:
        """Mask of those that last longer than any from one new value to the next should."""
        mask: BoolArray = self.stood > (REGULAR if self.regular else LONGER) * self.usual
        return mask

    @property
    def brief(self) -> BoolArray:
        """Mask of those in which a tenth of the mean power would have shown, a few reads long and longer."""
        step_ns = self.least / float(self.gained.sum()) * float(self.t_ns[-1] - self.t_ns[0])
        steps = self.gained[self.gained > 0] / self.least
        if float((np.abs(steps - np.rint(steps)) <= NEAR).mean()) < ALMOST_ALL:
            step_ns = 0.0  # what it counts in is finer than any step that was seen
        even = self.regular or self.usual <= BETWEEN * self.read
        times = BETWEEN if even else BRIEF
        mask: BoolArray = self.stood > max(times * self.usual, LONGER * step_ns)
        return mask & (not self._late(mask))

    def _late(self, which: BoolArray) -> bool:
        """True if steps around some are larger than those around others: what was counted came late, and was not lost."""
        around = np.append(0.0, self.gained[:-1]) + self.gained
        others = self.stood <= max(self.usual / 2, self.usual - self.read / 2)
        which, others = which[1:-1], others[1:-1]
        if not which.any() or not others.any():
            return False
        return bool(around[1:-1][which].mean() > LARGER * around[1:-1][others].mean())

    @cached_property
    def low_load(self) -> BoolArray:
        """Mask of those that have another, about as long, beside them, and a smallest step between."""
        stood = self.stood
        mask = np.zeros(len(stood), bool)
        mask[:-1] |= self._small & (AS_LONG * stood[1:] >= stood[:-1])
        mask[1:] |= self._small & (AS_LONG * stood[:-1] >= stood[1:])
        return mask

    @property
    def in_a_row(self) -> BoolArray:
        """Mask of those of `low_load` of which so many follow each other that it was a low load."""
        low = self.low_load & self.long
        linked = self._small & low[1:] & low[:-1]
        row = np.append(0, np.cumsum(~linked))
        mask: BoolArray = low & (np.bincount(row)[row] >= A_ROW)
        return mask

    @property
    def _small(self) -> BoolArray:
        """Mask of the steps between two runs that are as small as any, shape (r - 1,)."""
        gained = self.gained[:-1]
        return (gained > 0) & (gained <= HARDLY_MORE * self.least)

    def lossy(self, which: BoolArray, power: Sequence[Curve]) -> IntArray:
        """Begin and end in ns of those whose next step did not make up for them; none if they are short in all.

        Args:
            which: Mask of those to look at.
            power: As `standstill`.
        """
        spans, still, gained = self._of(which)
        lost, stuck = self._lost(spans, still, gained)
        for curve in power:
            (told, covered), (within, _) = (curve.difference(*each.T) for each in (spans, still))
            known = covered >= COVERED
            lost = told / np.where(known, covered, 1.0) - gained  # a hole like the rest
            stuck &= ~known | ((lost > STEPS * self.least) & (lost > LOST * within))
        return self._in_all(still[stuck])

    def made_up(self, which: BoolArray) -> IntArray:
        """As `lossy`, those whose next step made up for them, until that."""
        goes_on = which & (self.gained > 0)
        spans, still, gained = self._of(goes_on)
        return self._in_all(spans[~self._lost(spans, still, gained)[1]])

    def _of(self, which: BoolArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Begin and end in ns of some until their next value, and until the last read that found the same; and that step."""
        first, last = self.t_ns[self.begin], self.t_ns[self.end]
        spans = np.stack([first, np.append(first[1:], last[-1])], axis=1)
        return spans[which], np.stack([first, last], axis=1)[which], self.gained[which]

    def _lost(
        self, spans: IntArray, still: IntArray, gained: FloatArray
    ) -> tuple[FloatArray, BoolArray]:
        """What some did not count of what the counter counts beside them, and which were stuck by that."""
        watts = _around(spans, self.t_ns, self.total)
        lost = watts * _lengths(spans) - gained
        stuck: BoolArray = lost > LOST * watts * _lengths(still)
        return lost, stuck

    def _in_all(self, spans: IntArray) -> IntArray:
        """The spans, none where they are short in all."""
        whole = float(self.t_ns[-1] - self.t_ns[0])
        return spans if float(_lengths(spans).sum()) >= TOLD * whole else NONE


def _runs(t_ns: IntArray, total: FloatArray) -> _Runs | None:
    """Runs of equal values; None where they are too few to tell how long it usually stands still."""
    begin, end = _first_and_last(total)
    gained = np.append(np.diff(total[begin]), 0.0).clip(0.0)
    if len(begin) < LEAST or not gained.any():
        return None
    return _Runs(t_ns=t_ns, total=total, begin=begin, end=end, gained=gained)


def _stands(t_ns: IntArray, total: FloatArray, longer: float) -> bool:
    """True if reads found it the same for so many times as long as reads are apart; takes little memory."""
    same = np.flatnonzero(total[1:] == total[:-1])
    if not len(same):
        return False
    first = same[np.diff(same, prepend=-2) != 1]
    last = same[np.diff(same, append=len(total) + 1) != 1] + 1
    apart = float(np.median(np.diff(t_ns)))  # a hole makes their mean large
    return float((t_ns[last] - t_ns[first]).max()) > longer * apart


def _first_and_last(total: FloatArray) -> tuple[IntArray, IntArray]:
    """First and last read of each value, by position."""
    new = np.flatnonzero(np.diff(total)) + 1
    return np.append(0, new), np.append(new, len(total)) - 1


def _between_ns(t_ns: IntArray, begin: IntArray) -> IntArray:
    """Times from one new value to the next; how long the first was there before, nobody knows."""
    return np.diff(t_ns[begin[1:]])


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
