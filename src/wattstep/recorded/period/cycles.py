"""Grouping of a series' cycles: all of one kind, or groups that repeat (forward and backward, blocks of a network).

Half a step may look much like the other half. Cycles are followed one after the other, each where
it suits the mean cycle best, so that steps may vary in time; what each differs by from the mean
cycle is compared with that of those after it: a difference that comes back every m cycles shows
that m of them make a step.
"""

from __future__ import annotations

import math

import numpy as np

from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

POINTS = 32  # of a cycle
GIVE = 0.25  # of a cycle: how far from its place the next one is looked for
ROUNDS = 3
SHAPES = 2  # by which cycles may differ
MOST_CYCLES = 3000
MOST_TOGETHER = 12
LEAST_GROUPS = 5
LEAST_SEEN = 3  # groups, from which on they are looked for
DOUBTFUL = 2.0  # standard errors, and
CLEARLY = 0.4  # correlation with the cycle a group later, from which on groups are not ruled out
SURE = 4.0  # standard errors; twelve group sizes are tried
NEARLY = 0.7  # as alike as larger groups: the smaller ones are meant
LEAST_SHARE = 0.02  # of the variance of the cycles that groups must explain


def cycles_together(value: FloatArray, known: FloatArray, lag: float) -> int:
    """Number of cycles in a step.

    Args:
        value: On an even grid, centred, 0 where it is not known, shape (n,).
        known: 1 where it is, shape (n,).
        lag: Length of a cycle in points.

    Returns:
        1 where they are all of one kind; 0 where they seem to come in groups, of which there are too
        few to be sure.
    """
    scale = lag / POINTS
    count = int(len(value) / scale)
    if count < 4 * POINTS:
        return 1
    edges = np.minimum((np.arange(count) * scale).astype(np.int64), len(value) - 1)
    width = np.maximum(np.diff(np.append(edges, len(value))), 1)
    fine = np.add.reduceat(value, edges) / width
    there = np.add.reduceat(known, edges) / width
    begins = _followed(fine)
    if len(begins) < 2 * LEAST_GROUPS:
        return 1
    cycles = fine[begins[:, None] + np.arange(POINTS)]
    whole = there[begins[:, None] + np.arange(POINTS)].min(axis=1) > 0.5
    return _group(cycles, whole)


def _followed(fine: FloatArray) -> IntArray:
    """Begin of each cycle."""
    template = np.cos(2 * math.pi * np.arange(POINTS) / POINTS)
    begins = np.empty(0, np.int64)
    for _ in range(ROUNDS):
        score = np.correlate(fine, template - template.mean(), mode="valid")
        begins = _along(score)
        if len(begins) < 2:
            break
        template = fine[begins[:, None] + np.arange(POINTS)].mean(axis=0)
    return begins


def _along(score: FloatArray) -> IntArray:
    """From the best place among the first on, each about one cycle after the one before."""
    give = round(GIVE * POINTS)
    at = int(np.argmax(score[: 2 * POINTS]))
    begins: list[int] = []
    while at < len(score) and len(begins) < MOST_CYCLES:
        begins.append(at)
        begin = at + POINTS - give
        window = score[begin : begin + 2 * give + 1]
        if not len(window):
            break
        at = begin + int(np.argmax(window))
    return np.array(begins, np.int64)


def _group(cycles: FloatArray, whole: BoolArray) -> int:
    if not whole.any():
        return 1
    left = np.where(whole[:, None], cycles - cycles[whole].mean(axis=0), 0.0)
    spread = float((cycles[whole] ** 2).mean())
    if not spread > 0:
        return 1
    # What cycles differ by most, and not the noise of every point.
    _, strength, shapes = np.linalg.svd(left, full_matrices=False)
    positive = (strength > 0)[:SHAPES]
    left = left @ shapes[:SHAPES][positive].T
    least = LEAST_SHARE * spread * POINTS
    spread = float((left[whole] ** 2).mean())
    if not spread > 0:
        return 1
    alike = [_alike(left, whole, shift) / spread for shift in range(1, 2 * MOST_TOGETHER + 1)]
    best, best_errors, doubtful = 1, SURE, False
    for together in range(2, MOST_TOGETHER + 1):
        if len(cycles) < LEAST_SEEN * together:
            break
        n = len(cycles) - together
        others = np.mean([each[:n] for each in alike[: together - 1]], axis=0)
        differences = alike[together - 1][:n] - others
        differences = differences[np.isfinite(differences)]
        blocks = max(min(len(differences) // (2 * together), 40), 2)
        if len(differences) < 2 * blocks:
            continue
        means = np.array([part.mean() for part in np.array_split(differences, blocks)])
        error = float(means.std(ddof=1)) / math.sqrt(blocks)
        errors = float(means.mean()) / error if error > 0 else 0.0
        wanted = best_errors * (1 + (best_errors**2 + 1) / (4 * (blocks - 1)))
        doubtful = doubtful or (errors > DOUBTFUL and float(means.mean()) > CLEARLY)
        if errors > wanted and float(means.mean()) * spread * len(shapes[:SHAPES]) > least:
            best, best_errors = together, max(errors, SURE)
    if best == 1:
        return 0 if doubtful else 1
    strongest = NEARLY * float(np.nanmean(alike[best - 1]))
    parts = (part for part in range(2, best) if best % part == 0)
    return next((p for p in parts if float(np.nanmean(alike[p - 1])) >= strongest), best)


def _alike(left: FloatArray, whole: BoolArray, shift: int) -> FloatArray:
    """Mean product of what a cycle differs by and what the one so many later does; NaN at the end."""
    similarity = np.full(len(left), np.nan)
    if shift < len(left):
        both = whole[:-shift] & whole[shift:]
        similarity[: len(left) - shift] = np.where(
            both, (left[:-shift] * left[shift:]).mean(axis=1), np.nan
        )
    return similarity
