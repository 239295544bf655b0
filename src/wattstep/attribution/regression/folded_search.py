"""A first look for the sensor's delay and window: samples folded onto the step, tried at every shift."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, ndimage

from wattstep.attribution.regression.evidence import penalized
from wattstep.attribution.regression.observed import Observed
from wattstep.attribution.regression.problem import Kinds
from wattstep.attribution.regression.timeline import places
from wattstep.schema.arrays import FloatArray

MOST_GROUPS = 64  # of kinds: more would take time, and a first look needs no more
MOST_CELLS = 400
LEAST_CELLS = 60
MOST_TRIES = 1000
MOST_ROWS = 1500
MOST_NEAR = 6  # tries on each side of a guess
WIDER = (0.8, 0.87, 0.93, 1.0, 1.07, 1.15, 1.25)  # windows about that of a guess
MOST_MODES = 40
RATIOS = (1e-4, 1e-2)  # of noise to spread of powers, relative to all equations together
FINER = 8  # of them are looked at more closely
PARTS = 10.0  # of a window that shifts are apart
MOST_WINDOWS = 250  # that are tried at all shifts at once
MOST_EVEN = 100  # of these tries are looked at as the others are
LEAST = 3  # samples: fewer tell nothing


@dataclass(frozen=True, kw_only=True)
class Guess:
    """A delay and a window worth a closer look; both in s, with how far apart they were tried."""

    delay: float
    window: float
    score: float
    apart: float


@dataclass(frozen=True, kw_only=True, eq=False)
class _Folded:
    """Samples at one shift: sums and numbers in cells of the step, and how many lie outside."""

    sums: FloatArray
    counts: FloatArray
    square: float
    outside: int


def look(
    observed: Observed, kinds: Kinds, delay: float | None, window: float | None
) -> list[Guess]:
    """The likeliest delays and windows, best first; neighbours of a better one are left out.

    Args:
        observed: The samples.
        kinds: What is told apart.
        delay: Where it is known.
        window: Where it is known.
    """
    observed = observed.thinned(MOST_ROWS)
    reached = _grouped(observed.axis.reached, kinds)
    scale = lasting(observed)
    cells = int(np.clip(3.0 * observed.seconds / scale, LEAST_CELLS, MOST_CELLS))
    windows = _windows(observed, scale) if window is None or observed.counter else [window]
    templates: dict[float, FloatArray] = {}

    def guess(middle: float, width: float, apart: float) -> Guess:
        if width not in templates:
            templates[width] = _template(observed, reached, width, cells)
        if delay is None:
            middle = max(middle, observed.delays(width)[0] + width / 2)
        score = _score(templates[width], _folded(observed, middle, width, cells))
        known = 0.0 if observed.counter else width
        return Guess(delay=middle - width / 2, window=known, score=score, apart=apart)

    tries = _tries(observed, windows, scale, delay)
    if window is None and delay is None and not observed.counter:
        tries += _evenly(observed, reached, scale, cells)
    first = [guess(*each) for each in tries]
    finer = []
    for begun in _modes(first)[:FINER]:
        wide = windows[0] if observed.counter else begun.window
        apart = max(min(scale / 3, begun.apart), begun.apart / MOST_NEAR)
        count = 0 if delay is not None else min(int(1.2 * begun.apart / apart), MOST_NEAR)
        for factor in WIDER if window is None and wide > 0 and not observed.counter else (1.0,):
            # With a known delay, a longer window has an earlier middle.
            later = (factor - 1) * wide / 2 if delay is not None else 0.0
            middle = begun.delay + wide / 2 + later
            finer += [
                guess(middle + i * apart, factor * wide, apart) for i in range(-count, count + 1)
            ]
    return _modes(first + finer)


def _grouped(reached: FloatArray, kinds: Kinds) -> FloatArray:
    """The finest level that has few enough groups."""
    for level in kinds.levels:
        count = int(level.max(initial=0)) + 1
        if count <= MOST_GROUPS:
            groups = np.zeros((len(level), count))
            groups[np.arange(len(level)), level] = 1.0
            grouped: FloatArray = reached @ groups
            return grouped
    whole: FloatArray = reached.sum(axis=1, keepdims=True)
    return whole


def lasting(observed: Observed) -> float:
    """Length of stretches in which the same runs: half of the step is in ones at least this long, in s.

    Args:
        observed: The samples, and the mean step.
    """
    density = np.diff(observed.axis.reached, axis=0)
    cells = np.diff(observed.axis.knots)
    main = density.argmax(axis=1)
    begins = np.concatenate([[0], np.flatnonzero(np.diff(main) != 0) + 1])
    stretches = np.sort(np.add.reduceat(cells, begins))[::-1]
    half = stretches[np.searchsorted(np.cumsum(stretches), 0.5 * stretches.sum())]
    return float(half) * observed.seconds


def _longest(observed: Observed) -> float:
    """The longest window that is tried, in s."""
    return max(2.0 * observed.spacing_s, 0.25)


def _windows(observed: Observed, scale: float) -> list[float]:
    spacing = observed.spacing_s
    if observed.counter:
        return [spacing]
    longest = _longest(observed)
    shortest = min(scale / 2, longest / 2)
    count = int(np.clip(np.ceil(np.log(longest / shortest) / np.log(1.25)), 2, 24))
    return [0.0, *np.geomspace(shortest, longest, count), spacing]


def _tries(
    observed: Observed, windows: list[float], scale: float, delay: float | None
) -> list[tuple[float, float, float]]:
    """Windows to be tried: middle (time before the sample), length, and how far from the next."""
    if delay is not None:
        return [(delay + width / 2, width, scale / 3) for width in windows]
    tries: list[tuple[float, float, float]] = []
    # Long windows need few tries; what they leave is for short ones.
    for nth, width in enumerate(sorted(windows, reverse=True)):
        allowed = (MOST_TRIES - len(tries)) / (len(windows) - nth)
        first, longest = delays_tried(observed, width)
        step = max(scale / 3, width / PARTS, (longest - first) / allowed)
        tries += [
            (float(shift) + width / 2, width, step) for shift in np.arange(first, longest, step)
        ]
    return tries


def _evenly(
    observed: Observed, reached: FloatArray, scale: float, cells: int
) -> list[tuple[float, float, float]]:
    """Tries as of `_tries`: the best ones if samples came evenly and all steps were alike.

    Valleys of windows are as narrow as operations are short: the windows of `_tries` lie too far
    apart. If samples came evenly, a correlation around the step would have a window at all shifts.
    """
    folded = _folded(observed, observed.seconds / 2, observed.seconds, cells)
    if folded.counts.sum() < LEAST:
        return []
    longest = _longest(observed)
    windows = np.arange(0.0, longest, max(scale / 2, longest / MOST_WINDOWS))
    templates = (_template(observed, reached, float(width), cells) for width in windows)
    scores = np.stack([_at_all_shifts(template, folded) for template in templates])
    lowest = scores == ndimage.minimum_filter(scores, 3, mode=("nearest", "wrap"))
    modes = np.argwhere(lowest)[np.argsort(scores[lowest])]
    tries: list[tuple[float, float, float]] = []
    for nth, shift in modes:
        width = float(windows[nth])
        first, last = (delay + width / 2 for delay in delays_tried(observed, width))
        # `_folded` was asked about the middle of a step before each sample.
        middles = np.arange((shift / cells + 0.5) % 1, last / observed.seconds) * observed.seconds
        tries += [
            (max(float(middle), first), width, scale / 3)
            for middle in middles
            if middle > first - scale
        ]
        if len(tries) >= MOST_EVEN:
            break
    return tries


def _at_all_shifts(template: FloatArray, folded: _Folded) -> FloatArray:
    """What `_score` would be with the template shifted by each number of cells, if all held as many samples."""
    cells = len(folded.counts)
    each = folded.counts.sum() / cells
    mean = folded.sums / np.maximum(folded.counts, 1.0)
    square = folded.square + float((each - folded.counts) @ mean**2)
    gram = template.T @ template
    ratio = RATIOS[0] * float(np.trace(gram))
    gram[np.diag_indices(len(gram))] += ratio
    lower = linalg.cholesky(gram, lower=True)
    along = linalg.solve_triangular(lower, template.T, lower=True)
    shifted = np.fft.irfft(np.fft.rfft(mean) * np.fft.rfft(along).conj(), cells)
    left = np.maximum(square - each * (shifted**2).sum(axis=0), 1e-14 * square + 1e-300)
    spanned = 2 * np.log(np.diag(lower)).sum() - len(gram) * np.log(ratio)
    scores: FloatArray = each * cells * np.log(left) + spanned
    return scores


def delays_tried(observed: Observed, window: float) -> tuple[float, float]:
    """The least and the longest delay to be tried; of one clock with the steps from none on."""
    first, longest = observed.delays(window)
    return first if observed.beside_s else 0.0, longest


def _template(observed: Observed, reached: FloatArray, window: float, cells: int) -> FloatArray:
    """Share of each group in a window about the middle of each cell, steps following each other."""
    middle = (np.arange(cells) + 0.5) / cells
    width = max(window / observed.seconds, 1.0 / cells)
    knots = observed.axis.knots

    def until(position: FloatArray) -> FloatArray:
        turns = np.floor(position)
        columns = [np.interp(position - turns, knots, column) for column in reached.T]
        total: FloatArray = np.stack(columns, axis=1) + turns[:, None] * reached[-1]
        return total

    shares: FloatArray = (until(middle + width / 2) - until(middle - width / 2)) / width
    return shares


def _folded(observed: Observed, middle: float, window: float, cells: int) -> _Folded:
    """Samples whose window lies in clean steps, by the position of its middle.

    Steps of the template follow each other: a window that holds an unusual gap is unlike it.
    """
    positions, powers = [], []
    for line, each in zip(observed.lines, observed.readings, strict=True):
        at = each.end_s - middle
        where = places(line, observed.axis, at)
        unusual = np.interp(at + window / 2, line.cuts_s, line.unusual_s)
        unusual -= np.interp(at - window / 2, line.cuts_s, line.unusual_s)
        whole = where.inside & (line.phase[where.piece] >= 0) & (unusual <= 1e-9)
        whole &= (at - window / 2 >= line.cuts_s[0]) & (at + window / 2 <= line.cuts_s[-1])
        positions.append(where.position[whole])
        powers.append(each.watts[whole])
    position, watts = np.concatenate(positions), np.concatenate(powers)
    if not len(watts):
        return _Folded(sums=np.zeros(cells), counts=np.zeros(cells), square=0.0, outside=0)
    watts = watts - watts.mean()
    cell = np.minimum((position * cells).astype(np.int64), cells - 1)
    return _Folded(
        sums=np.bincount(cell, watts, cells).astype(np.float64),
        counts=np.bincount(cell, minlength=cells).astype(np.float64),
        square=float(watts @ watts), outside=observed.count - len(watts),
    )  # fmt: skip


def _score(template: FloatArray, folded: _Folded) -> float:
    """-2 log likelihood of all samples; of those outside nothing is known."""
    count = int(folded.counts.sum())
    if count < LEAST:
        return np.inf
    gram = template.T @ (folded.counts[:, None] * template)
    right, size = template.T @ folded.sums, float(np.trace(gram))
    best = min(penalized(gram.copy(), right, folded.square, count, r * size) for r in RATIOS)
    return count * best + folded.outside * float(np.log(folded.square / count + 1e-300))


def _modes(guesses: list[Guess]) -> list[Guess]:
    left = sorted(guesses, key=lambda guess: guess.score)
    modes: list[Guess] = []
    while left and len(modes) < MOST_MODES:
        best = left[0]
        modes.append(best)
        left = [guess for guess in left if not _next_to(guess, best)]
    return modes


def _next_to(one: Guess, other: Guess) -> bool:
    """True if two guesses see much the same time."""
    middles = abs(one.delay + one.window / 2 - other.delay - other.window / 2)
    return middles <= 2.0 * max(one.apart, other.apart)
