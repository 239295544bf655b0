"""Kinds of steps that take turns: what traced steps run tells them apart, and the turn tells which clean steps are which.

Times alone tell kinds only where they repeat so exactly that one half of the steps predicts the
other: a machine that is slow now and then makes no kinds.
"""

from __future__ import annotations

from math import comb, exp, lgamma
from typing import Final

import numpy as np

from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

MOST_KINDS: Final = 6  # more are no kinds: steps that each differ (lengths of sentences)
LEAST_WINDOWS: Final = 2  # in which something runs that tells kinds apart
LEAST_TIME: Final = 0.01  # of a window, in what only one kind runs, where it follows a turn
MUCH_TIME: Final = 0.1  # where it follows none: less may be a copy or an allocation now and then
ANOTHER: Final = 0.3  # of a window and its calls: one that runs so much else is of its own kind
LONGEST_TURN: Final = 24  # steps
CHANCE: Final = 0.01  # of steps in any order to follow a turn
PERHAPS: Final = 0.1  # where the times of other steps bear the turn out
LEAST_TURNS: Final = 8  # that times must follow before they alone say that steps take turns
EXPLAINED: Final = 0.8  # of how times of one half vary, by the place in the turn in the other
USUAL: Final = 0.975  # of steps: what a longer one takes beyond says nothing of turns
APART: Final = 0.05  # relative difference of the median times of two kinds


def kinds_of_windows(index: IntArray, calls: IntArray, share: FloatArray) -> IntArray:
    """The kind of each traced step, counted from 0 in the order in which they come.

    Two steps are of one kind unless something runs in the one and not in the other (or more often)
    that takes 10 % of a step, and does so in two windows or more of each side; or 1 %, if it comes
    in turn; or in one window, if it is much of it.

    Args:
        index: Numbers of the steps.
        calls: How often each operation ran in each, shape (windows, operations).
        share: Its share of the window's time, likewise.
    """
    there, its_share, its_calls = _what_differs(calls, share)
    patterns = there.shape[1]
    telling = [
        there[:, n]
        for n in range(patterns)
        if _splits(index, there[:, n], its_share[n], its_calls[n], patterns)
    ]
    if not telling:
        return np.zeros(len(index), np.int64)
    combined = [tuple(column) for column in np.array(telling).T.tolist()]
    kinds = {which: n for n, which in enumerate(dict.fromkeys(combined))}
    kinds_of_steps = np.array([kinds[which] for which in combined], dtype=np.int64)
    if len(kinds) > MOST_KINDS:
        return np.zeros(len(index), np.int64)
    return kinds_of_steps


def _what_differs(calls: IntArray, share: FloatArray) -> tuple[BoolArray, FloatArray, FloatArray]:
    """Windows with operations that do not run everywhere, and their share of those windows.

    What comes and goes together is one. A call more than in other windows is something by itself,
    with its part of the time; the share is the lower median over the windows that have it, so that
    one that was slow does not make it large.

    Returns:
        Whether it is there, shape (windows, patterns); its share of the time and of the calls.
    """
    differs = np.flatnonzero((calls != calls[:1]).any(axis=0))
    columns, times, counts = [], [], []
    each = share / np.maximum(calls, 1)
    whole = np.maximum(calls.sum(axis=1), 1)
    for one in differs.tolist():
        below = 0
        for level in np.unique(calls[:, one]).tolist():
            if level > calls[:, one].min():
                there = calls[:, one] >= level
                columns.append(there)
                times.append(np.where(there, (level - below) * each[:, one], 0.0))
                counts.append(np.where(there, (level - below) / whole, 0.0))
            below = level
    if not columns:
        return np.zeros((len(calls), 0), bool), np.zeros(0), np.zeros(0)
    numbers: dict[bytes, int] = {}
    # np.unique makes a type with a field a window of them, which takes minutes of a million.
    of = [numbers.setdefault(np.packbits(each).tobytes(), len(numbers)) for each in columns]
    patterns = np.zeros((len(numbers), len(calls)), bool)
    sums = np.zeros((2, *patterns.shape))
    for number, there, time, count in zip(of, columns, times, counts, strict=True):
        patterns[number] = there
        sums[:, number] += time, count
    # Windows without it are infinite, and come last.
    ordered = np.sort(np.where(patterns, sums, np.inf), axis=-1)
    middle = (patterns.sum(axis=1) - 1) // 2
    its_time, its_calls = ordered[:, np.arange(len(patterns)), middle]
    return patterns.T, its_time, its_calls


def _splits(index: IntArray, there: BoolArray, share: float, calls: float, candidates: int) -> bool:
    fewer = min(int(there.sum()), int((~there).sum()))
    if fewer < LEAST_WINDOWS:
        return share >= ANOTHER and calls >= ANOTHER
    if share >= MUCH_TIME:
        return True
    return (
        share >= LEAST_TIME
        and rotation_of(index, there.astype(np.int64), CHANCE / candidates) is not None
    )


def rotation_of(
    index: IntArray, kind: IntArray | BoolArray, chance: float = CHANCE
) -> IntArray | None:
    """The kind at each place of the shortest turn that some steps follow; None: there is none.

    A place at which there is no step has -1. What chance might do as well is no turn.

    Args:
        index: Numbers of the steps.
        kind: Of each.
        chance: How likely steps in any order may be to follow the turn as well.
    """
    if len(index) < 2 or (kind == kind[0]).all():
        return None
    for period in range(2, LONGEST_TURN + 1):
        rotation = follows(index, kind, period)
        if rotation is not None:
            tried = period - 1
            return rotation if tried * _by_chance(index % period, kind) <= chance else None
    return None


def follows(index: IntArray, kind: IntArray | BoolArray, period: int) -> IntArray | None:
    """The kind at each place of a turn of so many steps, -1 for none; None where steps do not follow it."""
    rotation = np.full(period, -1, np.int64)
    rotation[index % period] = kind
    return rotation if (rotation[index % period] == kind).all() else None


def _by_chance(place: IntArray, kind: IntArray | BoolArray) -> float:
    """Highest likelihood that the same kinds in another order would follow a cycle as well.

    Ways to give every place one of the kinds, each kind at some place, over all orders.
    """
    places = len(np.unique(place))
    counts = np.unique(kind, return_counts=True)[1].tolist()
    kinds = len(counts)
    ways = sum((-1) ** n * comb(kinds, n) * (kinds - n) ** places for n in range(kinds))
    orders = lgamma(len(kind) + 1) - sum(lgamma(count + 1) for count in counts)
    return float(min(ways * exp(-orders), 1.0))


def rotation_with_times(
    index: IntArray, kind: IntArray, others: IntArray, seconds: FloatArray
) -> IntArray | None:
    """As `rotation_of`, where few steps of a known kind follow a turn and the times of others bear it out.

    Args:
        index: Numbers of the steps whose kind is known.
        kind: Of each.
        others: Numbers of other steps.
        seconds: How long each of them took.
    """
    rotation = rotation_of(index, kind, PERHAPS)
    if rotation is None:
        return None
    from scipy.stats import kruskal

    theirs = rotation[others % len(rotation)]
    groups = [there for n in np.unique(kind) if len(there := seconds[theirs == n])]
    if len(groups) < 2 or np.ptp(seconds) == 0:
        return None
    return rotation if kruskal(*groups).pvalue <= CHANCE else None


def rotation_of_times(index: IntArray, seconds: FloatArray) -> IntArray | None:
    """The kind at each place of the shortest turn that the times of steps follow; None: none.

    The median times at the places in either half of the steps must predict those of the other.

    Args:
        index: Numbers of clean steps, in order.
        seconds: How long each took.
    """
    half = np.arange(len(index)) * 2 < len(index)
    if not len(index):
        return None
    seconds = np.minimum(seconds, np.quantile(seconds, USUAL))
    for period in range(2, LONGEST_TURN + 1):
        place = index % period
        if np.bincount(place, minlength=period).min() < LEAST_TURNS:
            continue
        if all(_predicts(place, seconds, known) for known in (half, ~half)):
            rotation = _levels(_middle(place, seconds, period))
            if rotation.max() > 0:
                return rotation
    return _rotation_of_halves(index, seconds)


def _rotation_of_halves(index: IntArray, seconds: FloatArray) -> IntArray | None:
    """The turn of steps that are all short or long, with nothing between; None: none is followed."""
    ordered = np.sort(seconds)
    wide = np.diff(ordered)
    at = int(np.argmax(wide)) if len(wide) else 0
    if not len(wide) or np.median(ordered[at + 1 :]) <= (1 + APART) * np.median(ordered[: at + 1]):
        return None
    limit, chance = ordered[at], CHANCE / len(wide)
    del ordered, wide  # of a week of steps they are large
    long = seconds > limit
    rotation = rotation_of(index, long != long[0], chance)
    return None if rotation is None or (rotation < 0).any() else rotation


def _middle(place: IntArray, seconds: FloatArray, period: int) -> FloatArray:
    """Median at each place; NaN where there is none."""
    return np.array(
        [np.median(there) if len(there := seconds[place == n]) else np.nan for n in range(period)]
    )


def _predicts(place: IntArray, seconds: FloatArray, known: BoolArray) -> bool:
    """True if some steps tell by their place in a cycle how long the others take."""
    middle = _middle(place[known], seconds[known], int(place.max()) + 1)
    others = seconds[~known]
    left = np.abs(others - middle[place[~known]]).mean()  # NaN: not known, and not predicted
    return bool(left <= (1 - EXPLAINED) * np.abs(others - np.median(others)).mean())


def _levels(middle: FloatArray) -> IntArray:
    """Places of like time are of one kind; kinds in the order in which they come."""
    order = np.argsort(middle, kind="stable")
    sorted_ = middle[order]
    level = np.concatenate([[0], np.cumsum(sorted_[1:] > (1 + APART) * sorted_[:-1])])
    levels = np.empty(len(middle), np.int64)
    levels[order] = level
    number = {value: n for n, value in enumerate(dict.fromkeys(levels.tolist()))}
    return np.array([number[value] for value in levels.tolist()], dtype=np.int64)
