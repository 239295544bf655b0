"""The first look at all placements of a sensor's values on a load: where the two are alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from wattstep.importing.clocks.alignment import Floats
from wattstep.importing.clocks.alignment_fit import (
    DETAIL_SAMPLES,
    Fit,
    neighbourhood,
    tells_no_more,
)
from wattstep.importing.clocks.alignment_grids import Grids, Search

COARSE_S: Final = 2e-3  # grid of the first look
SCREEN_SAMPLES: Final = 1_500  # at most, where many placements of several kinds of work are tried
MOST_PLACES: Final = 8  # distant placements that are compared
_COARSE_CELLS: Final = 1 << 20
_GROUP_CELLS: Final = 1 << 18  # where several kinds of work are looked at
_SCREENED: Final = 24  # placements at first look whose fit of several kinds is tried


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
