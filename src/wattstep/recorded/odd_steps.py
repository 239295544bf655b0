"""Steps of a counter of energy that may be other than what was drawn: small ones across holes, and a few far beyond all others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from wattstep.recorded.curves import LEAP, Curve
from wattstep.recorded.power import spoken
from wattstep.recorded.refresh import HOLE
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.spelling import rounded

LEAST: Final = 10  # new values: fewer do not tell how fast it counts
LESS: Final = 0.7  # of what it counts beside a hole: a smaller step across it is told
FASTER: Final = 2.0  # times its highest power elsewhere: likewise, a larger one
BEGUN_AGAIN: Final = 0.99  # likewise, where all that it shows then may be of the hole
MANY: Final = 0.05  # of the times from read to read: of as many as that, none is a hole
FITS: Final = 1.25  # times what it counts beside a hole, at most, may be of the hole
TOLD: Final = 0.01  # of all that it counted, at least, are odd steps off by
FAR: Final = 10  # times all others, at least, is a leap
MOST_LEAPS: Final = 3  # more are a load, but for a few of all steps, each by itself
FEW_LEAPS: Final = 0.1
BY_ITSELF: Final = 0.75  # of them, at least
IN_HOLES: Final = "{} grew by {} J in {} without a read, and by {} J in as long beside: less was drawn, or it was stuck"
MORE_IN_HOLES: Final = "{} grew by {} J in {} without a read, more than {:g} times as fast as ever elsewhere: more was drawn, or it leapt"
SET_FORWARD: Final = ", or the clock was set forward"
SET_BACK: Final = ", or the clock was set back"
OR_BEGUN: Final = ", or it began again from 0 there"
HELD: Final = ", and intervals hold the highest power that was seen"
LEAPT: Final = "{} grew {} times by more than {:g} times its power at any other time makes, {} J in all: it may not have counted that"


@dataclass(frozen=True, kw_only=True, eq=False)
class OddSteps:
    """Steps of a counter that may be other than what was drawn.

    Attributes:
        at: The read before each, by position, shape (s,).
        off_j: How much more may have been drawn in J; below 0: less; 0: not known. Shape (s,).
        note: What is odd.
    """

    at: IntArray
    off_j: FloatArray
    note: str

    def put_right(self, curve: Curve) -> Curve:
        """The curve with as much more, or less."""
        off = np.zeros(len(curve.t_ns))
        off[self.at + 1] = self.off_j
        return replace(curve, total=curve.total + np.cumsum(off))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Steps:
    """Steps of a counter from read to read, arrays of shape (n,)."""

    length_ns: IntArray
    gained: FloatArray  # J
    usual: BoolArray  # neither across a hole nor far beyond all others
    highest: float  # power in J a ns

    @property
    def usual_j(self) -> float:
        return float(np.median(self.gained[self.usual & (self.gained > 0)]))

    @property
    def counted(self) -> float:
        """All that it counted outside of holes, in J."""
        return float(self.gained[self.usual].sum())


def odd_steps(
    name: str, curve: Curve, shown: FloatArray, *, clock_may_be_set: bool
) -> list[OddSteps]:
    """Odd steps of a counter.

    Args:
        name: Of the counter.
        curve: What it counted, with gaps where it was stuck.
        shown: What it showed at the times of the curve in J, shape (n,).
        clock_may_be_set: Whether times are another tool's, of a clock that may go forward or back.
    """
    length, gained = np.diff(curve.t_ns), np.diff(curve.total)
    hole = length > HOLE * float(np.median(length))
    forward = gained[gained > 0]
    if not len(forward) or (not hole.any() and forward.max() <= FAR * float(np.median(forward))):
        return []  # as of most, some of which are of millions of reads
    known = np.diff(curve.covered_ns) > 0
    if hole.mean() > MANY:
        hole[:] = False
    new = np.flatnonzero(known & (gained > 0))
    if np.count_nonzero(~hole[new]) < LEAST:
        return []
    since = np.diff(curve.t_ns[new + 1], prepend=curve.t_ns[0]).astype(np.float64)
    # How long a value was there before the log, or within a hole, nobody knows.
    unseen = np.append(True, hole[new[:-1]])
    since = np.maximum(since, np.where(unseen, np.median(since), np.median(length)))
    new, since = new[~hole[new]], since[~hole[new]]
    rates = gained[new] / since
    far = _far_beyond(rates)
    usual = known & ~hole
    usual[new[far]] = False
    steps = _Steps(length_ns=length, gained=gained, usual=usual, highest=float(rates[~far].max()))
    at = np.flatnonzero(known & hole)
    found = (
        _leaps(name, steps, new[far], since[far]),
        _small(name, steps, at, shown, SET_FORWARD * clock_may_be_set),
        _large(name, steps, at, SET_BACK * clock_may_be_set),
    )
    return [each for each in found if each]


def _far_beyond(rates: FloatArray) -> BoolArray:
    """Mask of a few that are each many times as high as all others.

    A load that is high for a while shows so in several steps, and in part at their ends.
    """
    most = max(MOST_LEAPS, int(FEW_LEAPS * len(rates)))
    highest = np.sort(rates)[-most - 1 :]
    far = highest[1:] > FAR * highest[:-1]
    mask: BoolArray = rates >= (highest[1:][far][0] if far.any() else np.inf)
    at = np.flatnonzero(mask)
    if len(at) > MOST_LEAPS and (np.diff(at) > 1).mean() < BY_ITSELF:
        mask[:] = False
    return mask


def _leaps(name: str, steps: _Steps, at: IntArray, since: FloatArray) -> OddSteps | None:
    """Steps far beyond all others, since the new value before each; of some that is no load."""
    gained, most = steps.gained[at], steps.highest * since
    if gained.sum() <= TOLD * steps.counted:
        return None
    note = LEAPT.format(name, len(at), FAR, rounded(float(gained.sum())))
    return OddSteps(at=at, off_j=np.where(gained > LEAP * most, most - gained, 0.0), note=note)


def _small(
    name: str, steps: _Steps, at: IntArray, shown: FloatArray, or_clock: str
) -> OddSteps | None:
    """Steps across holes that are smaller than the counter's gain beside them in as long.

    A counter that began again from 0 in a hole, and is no lower behind it, has counted in the hole
    all that it shows then: of most counters that is more than fits. So does one that wrapped, and a
    wrap takes half of the gain or more.
    """
    length, gained = steps.length_ns[at], steps.gained[at]
    less, more = (rate * length for rate in _beside(steps, at))
    fits = shown[at + 1] <= FITS * more + steps.usual_j
    share = (gained + steps.usual_j) / np.maximum(less, steps.usual_j)
    small = share < np.where(fits, BEGUN_AGAIN, LESS)
    if (less - gained)[small].sum() <= TOLD * steps.counted:
        return None
    note = IN_HOLES.format(
        name, rounded(float(gained[small].sum())), spoken(float(length[small].sum()) * 1e-9),
        rounded(float(less[small].sum())),
    )  # fmt: skip
    lost = np.maximum(steps.highest * length - gained, 0.0) * (fits & (share < LESS))
    note += or_clock + OR_BEGUN * bool(fits[small].any()) + HELD * bool(lost[small].any())
    return OddSteps(at=at[small], off_j=lost[small], note=note)


def _large(name: str, steps: _Steps, at: IntArray, or_clock: str) -> OddSteps | None:
    """Steps across holes that are larger than the highest power elsewhere makes, by far."""
    length, gained = steps.length_ns[at], steps.gained[at]
    large = gained > FASTER * steps.highest * length + steps.usual_j
    if gained[large].sum() <= TOLD * steps.counted:
        return None
    note = MORE_IN_HOLES.format(
        name, rounded(float(gained[large].sum())), spoken(float(length[large].sum()) * 1e-9), FASTER
    )  # fmt: skip
    note += or_clock
    return OddSteps(at=at[large], off_j=np.zeros(int(large.sum())), note=note)


def _beside(steps: _Steps, at: IntArray) -> tuple[FloatArray, FloatArray]:
    """What it counts in a ns before and after each of some holes, the less and the more of both.

    Each side is as long as the hole, other holes left out; one in which it hardly counts tells nothing.
    """
    time, counted, news = (
        np.append(0.0, np.cumsum(np.where(steps.usual, each, 0.0)))
        for each in (steps.length_ns, steps.gained, steps.gained > 0)
    )
    sides = []
    for side in (-1, 1):
        edges = np.clip(time[at] + side * steps.length_ns[at], 0.0, time[-1])
        lasting, gain, new = (
            np.abs(np.interp(edges, time, each) - each[at]) for each in (time, counted, news)
        )
        mean = counted[-1] / time[-1]
        sides.append(np.where(new >= LEAST, gain / np.maximum(lasting, 1.0), mean))
    return np.minimum(*sides), np.maximum(*sides)
