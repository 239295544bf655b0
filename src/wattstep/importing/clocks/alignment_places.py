"""Where a sensor's values may lie on a load: a first look at all placements, and what fits as well as the best one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from wattstep.importing.clocks.alignment import AlignmentError, Floats
from wattstep.importing.clocks.alignment_fit import (
    ADVICE,
    COARSE_S,
    DETAIL_SAMPLES,
    MOST_BLOCKS,
    SCREEN_SAMPLES,
    UNRELATED,
    WIDTH_STEP,
    Fit,
    Table,
    neighbourhood,
    possible_widths,
    tells_no_more,
)
from wattstep.importing.clocks.alignment_grids import Grids, Search
from wattstep.importing.clocks.alignment_rounds import best_near

MOST_PLACES: Final = 8  # distant placements that are compared
_COARSE_CELLS: Final = 1 << 20
_GROUP_CELLS: Final = 1 << 18  # where several kinds of work are looked at
_SCREENED: Final = 24  # placements at first look whose fit of several kinds is tried
LEAST_CORRELATION: Final = 0.1
EXCLUDED: Final = 4.0  # standard errors by which the best placement must beat a distant one
SIDE_LOBE: Final = 2.5  # and one within the same neighbourhood
_SCANNED: Final = 250  # lags on each side of a placement at which several kinds are fitted
_MOST_TOPS: Final = 16  # side lobes of several kinds of work that are compared, the highest
_MOVES: Final = 21  # lags that are tried with another window
_WORTH_MOVING: Final = 0.8  # of the best correlation
_OTHER_WINDOW: Final = 2.0  # standard errors by which another window is excluded
_FILTER_LAG: Final = 0.29  # of first order, of the window of the same spread


def looked_at(search: Search) -> tuple[Search, list[tuple[float, float, float]]]:
    """Kinds of work only where they tell more than that there is work; with the placements."""
    alike = search.alike()
    places = _placements(alike)
    if not search.kinds:
        return alike, places
    several = _placements(search)
    if not several:
        return alike, places
    one = max((_first_fit(alike, place).r for place in places[:3]), default=0.0)
    fit = _first_fit(search, several[0])
    if tells_no_more(fit, one):
        return alike, places
    return search, several


def _first_fit(search: Search, place: tuple[float, float, float]) -> Fit:
    thin = search.thinned(DETAIL_SAMPLES)
    middle = float(search.t[-1] + search.t[0]) / 2
    fit = Fit(lag=place[1], rate=0.0, width=place[2], middle=middle, r=0.0, search=thin)
    return nudged(fit)


def nudged(fit: Fit) -> Fit:
    """The best lag within a few cells: the first look was coarse."""
    steps = np.linspace(-1, 1, 21) * max(4 * COARSE_S, min(fit.search.interval, 0.05))
    few = fit.search.thinned(SCREEN_SAMPLES) if fit.search.kinds else fit.search
    near = [replace(fit, lag=fit.lag + step, search=few) for step in steps]
    best = max(near, key=Fit.resemblance)
    return replace(best, search=fit.search).refitted()


def _placements(search: Search) -> list[tuple[float, float, float]]:
    """Lags at which the two resemble each other most: (correlation, lag, width), best first."""
    span = search.seconds + float(search.t[-1])
    cell = max(COARSE_S, span / (_GROUP_CELLS if search.kinds else _COARSE_CELLS))
    grids = Grids.of(search, cell)
    placements: list[tuple[float, float, float]] = []
    for width in _first_widths(search, cell):
        r = grids.correlation(width)
        lag = grids.lag
        r = np.where((lag >= search.limits[0]) & (lag <= search.limits[1]), r, -1.0)
        apart = max(neighbourhood(search, width) / 2, 2 * cell)
        placements.extend((r[i], lag[i], width) for i in _peaks(r, max(1, round(apart / cell))))
    if search.kinds:
        placements = _screened(search, placements, cell)
    return _distinct(sorted(placements, reverse=True), search)


def _screened(
    search: Search, placements: Sequence[tuple[float, float, float]], cell: float
) -> list[tuple[float, float, float]]:
    """Placements by how well work fits there of which no kind may lower power."""
    thin = search.thinned(SCREEN_SAMPLES)
    middle = float(search.t[-1]) / 2
    better = []
    for _, lag, width in sorted(placements, reverse=True)[:_SCREENED]:
        around = lag + np.linspace(-1, 1, 5) * cell
        fits = [
            Fit(lag=x, rate=0.0, width=width, middle=middle, r=0.0, search=thin) for x in around
        ]
        best = max((fit.resemblance(), fit.lag) for fit in fits)
        better.append((*best, width))
    return better


def _first_widths(search: Search, cell: float) -> list[float]:
    least = max(2 * cell, min(search.interval, 0.05))
    widths = [least, max(2e-4 * search.seconds, 4 * least)]
    if search.window_s or search.interval > 0.05:
        widths.append(max(search.window_s or 0.0, search.interval))
    return sorted({round(width, 6) for width in widths})


def _distinct(
    placements: Sequence[tuple[float, float, float]], search: Search
) -> list[tuple[float, float, float]]:
    distinct: list[tuple[float, float, float]] = []
    for r, lag, width in placements:
        apart = neighbourhood(search, width) / 2
        if all(abs(lag - other) > apart for _, other, _ in distinct):
            distinct.append((r, lag, width))
    return distinct[: MOST_PLACES + 1]


def _peaks(r: Floats, apart: int) -> list[int]:
    """Places of the highest values, no two within so many cells."""
    r, peaks = r.copy(), []
    for _ in range(MOST_PLACES + 1):
        best = int(np.argmax(r))
        if r[best] <= 0:
            break
        peaks.append(best)
        around = np.arange(best - apart, best + apart + 1) % len(r)
        r[around] = -1.0
    return peaks


def _beaten(better: tuple[Floats, Floats, float], other: Fit) -> float:
    """By how many standard errors a placement resembles the load more than another does.

    How much the blocks of time tell differs, and is no error: only what the better placement leaves
    unexplained is, summed by blocks because it is correlated within them. Kinds of work weighted
    freely resemble anything a little: the better one's are taken from other stretches of time, the
    other's are fitted as well as they can be.

    Args:
        better: As `Fit.predicted` gives it.
        other: Fitted.
    """
    x, v, r = better
    y, w, q = other.standard()
    left = np.where(x != 0, v - r * x, w - q * y)
    n_x, n_y = max(int(np.count_nonzero(x)), 1), max(int(np.count_nonzero(y)), 1)
    noise = left * (x / n_x - y / n_y)
    where = np.linspace(0, len(x), MOST_BLOCKS + 1).astype(np.int64)
    blocks = np.add.reduceat(noise, where[:-1][np.diff(where) > 0])
    error = float(np.sqrt((blocks**2).sum()))
    return (r - q) / error if error > 0 else float(np.sign(r - q)) * 1e9


def refuse_unless_alone(fit: Fit, others: Sequence[Fit]) -> None:
    """Refuses a placement that does not beat all others.

    Raises:
        AlignmentError: It resembles the load too little, or another resembles it as well.
    """
    if fit.r < LEAST_CORRELATION:
        raise AlignmentError(UNRELATED, id="load-not-followed")
    predicted = fit.predicted()
    rivals = [other for other in others if _beaten(predicted, other) < EXCLUDED]
    if not rivals:
        return
    rival = max(rivals, key=lambda each: each.r)
    # Chance placements of what is unrelated are many, and none is much better than the next.
    if len(rivals) >= MOST_PLACES // 2 and fit.r < 0.5:
        raise AlignmentError(UNRELATED, id="load-not-followed")
    raise AlignmentError(
        f"the load repeats itself: placements {abs(rival.lag - fit.lag):.3g} s apart fit as well "
        f"(correlations {fit.r:.2f} and {rival.r:.2f}); {ADVICE}",
        id="ambiguous-load",
    )


def lobes(fit: Fit, table: Table) -> float:
    """Distance of other lags that fit nearly as well, beyond the slope of the best."""
    if fit.search.kinds:
        return _lobes_of_groups(fit, table)
    total = table.total(fit.rate)
    inner = total[1:-1]
    tops = np.flatnonzero((inner >= total[:-2]) & (inner >= total[2:]) & (inner > 0)) + 1
    tops = np.append(tops, [0, len(total) - 1])
    away = table.lags[tops] - fit.lag
    apart = np.abs(away) > 2 * float(table.lags[1] - table.lags[0])
    predicted = fit.predicted()
    # From the far ones inwards: the first that is not beaten is the end of the interval.
    for distance in away[apart][np.argsort(-np.abs(away[apart]))]:
        if _beaten(predicted, replace(fit, lag=fit.lag + float(distance))) < SIDE_LOBE:
            return abs(float(distance))
    return 0.0


def _lobes_of_groups(fit: Fit, table: Table) -> float:
    """As `lobes`, with the kinds of work weighted at each lag as fits best there."""
    reach = float(table.lags[-1]) - fit.lag
    step = reach / _SCANNED
    screen = replace(fit, search=fit.search.thinned(SCREEN_SAMPLES))
    away = np.arange(-_SCANNED, _SCANNED + 1) * step
    r = np.array([replace(screen, lag=fit.lag + x).resemblance() for x in away])
    inner = r[1:-1]
    tops = np.flatnonzero((inner >= r[:-2]) & (inner >= r[2:]) & (inner > 0)) + 1
    tops = np.append(tops[np.argsort(-r[tops])][:_MOST_TOPS], [0, len(r) - 1])
    distances = away[tops][np.abs(away[tops]) > 2 * step]
    predicted = fit.predicted()
    for distance in distances[np.argsort(-np.abs(distances))]:
        near = [replace(fit, lag=fit.lag + distance + x * step) for x in (-0.5, 0.0, 0.5)]
        if _beaten(predicted, max(near, key=Fit.resemblance).refitted()) < SIDE_LOBE:
            return abs(float(distance)) + step
    return 0.0


def lag_range(fit: Fit) -> tuple[float, float, float]:
    """Possible lag of the sensor's values, and the placement's change with the window.

    Half of a window, or a filter's lag. Kinds of work that are weighted anew may fit as well with
    another window if they are moved, too.
    """
    if fit.search.window_s is not None:
        return fit.search.window_s / 2, fit.search.window_s / 2, 0.0
    widths = possible_widths(fit.search)
    fitting, moved = [], [0.0]
    predicted = fit.predicted()
    for width in widths:
        other = replace(fit, width=width).refitted()
        if other.r > _WORTH_MOVING * fit.r and _beaten(predicted, other) >= _OTHER_WINDOW:
            other = _moved(other)
        if _beaten(predicted, other) < _OTHER_WINDOW:
            fitting.append(width)
            moved.append(abs(other.lag - fit.lag))
    low, high = min(fitting, default=fit.width), max(fitting, default=fit.width)
    least = 0.0 if low == widths[0] else _FILTER_LAG * low / WIDTH_STEP
    return least, 0.5 * high * WIDTH_STEP, max(moved)


def _moved(fit: Fit) -> Fit:
    """With several kinds of work the best within its window."""
    if not fit.search.kinds:
        return fit
    return best_near(fit, np.linspace(-fit.width, fit.width, _MOVES), [fit.width])
