"""Kinds of steps that take turns: what traced steps run tells them apart, and the turn tells which clean steps are which."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final

import numpy as np

from wattstep.analysis.steps import BoolArray, FloatArray, IntArray

MOST_KINDS: Final = 6  # more are no kinds: steps that each differ (lengths of sentences)
LEAST_WINDOWS: Final = 2  # in which something runs that tells kinds apart
LEAST_TIME: Final = 0.01  # of a window, in what only one kind runs
ANOTHER: Final = 0.3  # of a window: a single one that runs so much else is of a kind of its own
LONGEST_TURN: Final = 24  # steps
CHANCE: Final = 0.005  # of steps in any order to follow a turn
SHUFFLES: Final = 2000
LEAST_TURNS: Final = 8  # that times must follow before they alone say that steps take turns
EXPLAINED: Final = 0.8  # of how times vary, by the place in the turn
APART: Final = 0.05  # relative difference of the median times of two kinds


def kinds_of_windows(windows: Sequence[Mapping[Hashable, float]]) -> IntArray:
    """The kind of each traced step, counted from 0 in the order in which they come.

    Two steps are of one kind unless something that takes 1 % of a step runs in the one and not in
    the other, and does so in two windows or more of each side; or in one, if it is most of it.

    Args:
        windows: What ran in each, and its share of the window's time.
    """
    number = {what: n for n, what in enumerate(dict.fromkeys(w for each in windows for w in each))}
    there = np.zeros((len(windows), len(number)), bool)
    total = np.zeros(len(number))
    for row, window in enumerate(windows):
        at = np.array([number[what] for what in window], dtype=np.int64)
        there[row, at] = True
        total[at] += np.array(list(window.values()))
    share = total / np.maximum(there.sum(axis=0), 1)
    # What comes and goes together is one pattern.
    _, first, of = np.unique(
        np.packbits(there, axis=0), axis=1, return_index=True, return_inverse=True
    )
    together = np.bincount(of.ravel(), share, minlength=len(first))
    telling = [
        there[:, at] for at, its in zip(first, together, strict=True) if _splits(there[:, at], its)
    ]
    if not telling:
        return np.zeros(len(windows), np.int64)
    combined = [tuple(column) for column in np.array(telling).T.tolist()]
    kinds = {which: n for n, which in enumerate(dict.fromkeys(combined))}
    found = np.array([kinds[which] for which in combined], dtype=np.int64)
    if len(kinds) > MOST_KINDS:
        return np.zeros(len(windows), np.int64)
    return found


def _splits(there: BoolArray, share: float) -> bool:
    fewer = min(int(there.sum()), int((~there).sum()))
    return share >= (LEAST_TIME if fewer >= LEAST_WINDOWS else ANOTHER) and fewer > 0


def turn_of(index: IntArray, kind: IntArray) -> IntArray | None:
    """The kind at each place of the shortest turn that some steps follow; None: there is none.

    A place at which there is no step has -1. What chance might do as well is no turn.

    Args:
        index: Numbers of the steps.
        kind: Of each.
    """
    if len(index) < 2 or (kind == kind[0]).all():
        return None
    for period in range(2, LONGEST_TURN + 1):
        turn = follows(index, kind, period)
        if turn is not None:
            return turn if _by_chance(index % period, kind) <= CHANCE else None
    return None


def follows(index: IntArray, kind: IntArray, period: int) -> IntArray | None:
    """The kind at each place of a turn of so many steps, -1 for none; None where steps do not follow it."""
    turn = np.full(period, -1, np.int64)
    turn[index % period] = kind
    return turn if (turn[index % period] == kind).all() else None


def _by_chance(place: IntArray, kind: IntArray) -> float:
    """How often the same kinds in another order would follow the turn as well."""
    random = np.random.default_rng(0)
    kinds = random.permuted(np.tile(kind, (SHUFFLES, 1)), axis=1)
    fits = np.ones(SHUFFLES, bool)
    for which in np.unique(place):
        there = kinds[:, place == which]
        fits &= (there == there[:, :1]).all(axis=1)
    return float(fits.mean())


def turn_of_times(index: IntArray, seconds: FloatArray) -> IntArray | None:
    """The kind at each place of the shortest turn that the times of steps follow; None: none.

    Args:
        index: Numbers of clean steps, in order.
        seconds: How long each took.
    """
    for period in range(2, LONGEST_TURN + 1):
        place = index % period
        counts = np.bincount(place, minlength=period)
        if counts.min() < LEAST_TURNS:
            continue
        # Medians and absolute deviations: a step that something disturbed says nothing of turns.
        middle = np.array([np.median(seconds[place == n]) for n in range(period)])
        left = np.abs(seconds - middle[place]).mean()
        if left > (1 - EXPLAINED) * np.abs(seconds - np.median(seconds)).mean():
            continue
        turn = _levels(middle)
        if turn.max() > 0:
            return turn
    return None


def _levels(middle: FloatArray) -> IntArray:
    """Places of like time are of one kind; kinds in the order in which they come."""
    order = np.argsort(middle, kind="stable")
    sorted_ = middle[order]
    level = np.concatenate([[0], np.cumsum(sorted_[1:] > (1 + APART) * sorted_[:-1])])
    found = np.empty(len(middle), np.int64)
    found[order] = level
    number = {value: n for n, value in enumerate(dict.fromkeys(found.tolist()))}
    return np.array([number[value] for value in found.tolist()], dtype=np.int64)
