"""Which candidates become heuristics: those better than guessing, by a test, that add to what is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from wattstep.labeling.arrays import Bools, Floats, Ints
from wattstep.labeling.heuristics import (
    Heuristic,
    Recipe,
    best_floor,
    recipes,
    symbols_of,
    votes_in,
)

FALSE_DISCOVERIES = 0.1
UNTESTED = 3  # heuristics where none passes the test
COVERAGE_POWER = 0.25  # to which coverage counts beside accuracy
WORSE_AT = 0.2  # level of the test of being worse than another heuristic
LEAST_DIFFERENCE = 0.02  # of votes, from which two heuristics are two


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """Heuristics with what they said of labeled samples that they were not made from.

    Attributes:
        heuristics: In the order of their admission.
        symbols: Vote and level of each on each labeled sample, shape (n, h).
        folds: The part of the labeled samples that each is in, shape (n,).
        apart: For each part the heuristics as they are without it, in the same order.
        candidates: How many were tried.
    """

    heuristics: list[Heuristic]
    symbols: Ints
    folds: Ints
    apart: list[list[Heuristic]]
    candidates: int


def folds_of(codes: Ints, count: int, random: np.random.Generator) -> Ints:
    """A fold for each sample, classes shared out evenly, shape (n,)."""
    folds = np.zeros(len(codes), dtype=int)
    begin = 0
    for code in np.unique(codes):
        rows = random.permutation(np.flatnonzero(codes == code))
        folds[rows] = (begin + np.arange(len(rows))) % count
        begin += len(rows)
    return folds


def generate(
    x: Floats,
    codes: Ints,
    classes: int,
    *,
    most: int,
    candidates: int,
    random: np.random.Generator,
    older: Sequence[Heuristic] = (),
) -> Admitted:
    """Heuristics from labeled samples.

    Args:
        x: Shape (n, d).
        codes: Classes, shape (n,).
        classes: How many there are.
        most: Heuristics at most.
        candidates: About how many to try.
        random: Draws folds and groups of features.
        older: Heuristics that were made from other samples: candidates, too, as they are.
    """
    made = recipes(x, codes, classes, candidates, random)
    folds = folds_of(codes, min(4, max(2, len(codes))), random)
    floors = []
    columns = []
    without: list[list[Heuristic]] = []
    for recipe in made:
        beliefs, partial = _out_of_fold(recipe, x, codes, classes, folds)
        floors.append(best_floor(beliefs, codes))
        columns.append(symbols_of(beliefs, floors[-1]))
        without.append([replace(each, floor=floors[-1]) for each in partial])
    columns += [heuristic.symbols(x) for heuristic in older]
    symbols = np.stack(columns, axis=1)
    votes = votes_in(symbols)
    better = _better_than_guessing(votes, codes)
    # So few labeled samples that no test can tell: then the best of all.
    some = np.flatnonzero(better) if better.any() else np.arange(votes.shape[1])
    chosen = _adding(votes, codes, some, most if better.any() else min(most, UNTESTED))
    # The best of very many owe it to luck in part, few labels being what they are tested on: the forest over all
    # features, which seldom is the luckiest and does well in general, has a vote wherever it passes the test.
    forest = next(n for n, recipe in enumerate(made) if recipe.kind == "forest")
    if better[forest] and forest not in chosen:
        chosen = [*chosen[: most - 1], forest]
    heuristics = [
        replace(made[n].make(x, codes, classes), floor=floors[n])
        if n < len(made)
        else older[n - len(made)]
        for n in chosen
    ]
    parts = 0 if len(codes) == 1 else int(folds.max()) + 1
    apart = [
        [without[n][part] if n < len(made) else older[n - len(made)] for n in chosen]
        for part in range(parts)
    ]
    return Admitted(
        heuristics=heuristics, symbols=symbols[:, chosen], folds=folds, apart=apart,
        candidates=len(columns),
    )  # fmt: skip


def _out_of_fold(
    recipe: Recipe, x: Floats, codes: Ints, classes: int, folds: Ints
) -> tuple[Floats, list[Heuristic]]:
    """What each part of the samples gets from the others, shape (n, classes), and the heuristics that gave it."""
    beliefs = np.full((len(x), classes), 1 / classes)
    partial: list[Heuristic] = []
    for fold in range(int(folds.max()) + 1):
        held = folds == fold
        if held.all():  # a single sample
            continue
        partial.append(recipe.make(x[~held], codes[~held], classes))
        beliefs[held] = partial[-1].probabilities(x[held])
    return beliefs, partial


def _better_than_guessing(votes: Ints, codes: Ints) -> Bools:
    """One-sided binomial tests against the share of the commonest class, false discoveries held (Benjamini-Hochberg)."""
    voted = votes >= 0
    right = (voted & (votes == codes[:, None])).sum(axis=0)
    count = voted.sum(axis=0)
    base = np.bincount(codes).max() / len(codes)
    if base == 1.0:
        votes_at_all: Bools = count > 0
        return votes_at_all
    p = np.where(
        right > 0, special.bdtrc(np.maximum(right - 1, 0), np.maximum(count, 1), base), 1.0
    )
    order = np.argsort(p, kind="stable")
    limits = FALSE_DISCOVERIES * (np.arange(len(p)) + 1) / len(p)
    passing = np.flatnonzero(p[order] <= limits)
    better: Bools = np.zeros(len(p), dtype=bool)
    if len(passing):
        better[order[: passing[-1] + 1]] = True
    return better


def _adding(votes: Ints, codes: Ints, among: Ints, most: int) -> list[int]:
    """Candidates, the one first that is right and votes most often, without those that add nothing.

    A candidate adds if it votes on labeled samples on which none before it does. Otherwise it must be no worse
    than each before it (a sign test over samples on which both vote), and say something else on more than one
    in fifty of them.
    """
    voted = votes >= 0
    right = voted & (votes == codes[:, None])
    accuracy = (right.sum(axis=0) + 1) / (voted.sum(axis=0) + 2)
    value = accuracy * voted.mean(axis=0) ** COVERAGE_POWER
    chosen: list[int] = []
    covered = np.zeros(len(codes), dtype=bool)
    for n in sorted(map(int, among), key=lambda n: (-value[n], n)):
        if len(chosen) == most:
            break
        both = voted[:, [n]] & voted[:, chosen]
        same = (both & (votes[:, [n]] != votes[:, chosen])).sum(
            axis=0
        ) <= LEAST_DIFFERENCE * both.sum(axis=0)
        better = (both & right[:, chosen] & ~right[:, [n]]).sum(axis=0)
        worse = (both & right[:, [n]] & ~right[:, chosen]).sum(axis=0)
        p = np.where(better > 0, special.bdtrc(better - 1.0, better + worse, 0.5), 1.0)
        if (voted[:, n] & ~covered).any() or not (same | (p <= WORSE_AT)).any():
            chosen.append(n)
            covered |= voted[:, n]
    return chosen
