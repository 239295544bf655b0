"""What fits a load as well as the best placement: other placements, lags, shapes and windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from wattstep.analysis.alignment import AlignmentError, Floats
from wattstep.analysis.alignment_fit import (
    MOST_BLOCKS,
    WIDTH_STEP,
    Fit,
    Table,
    possible_widths,
    tells_no_more,
)
from wattstep.analysis.alignment_grids import Search
from wattstep.analysis.alignment_places import MOST_PLACES, SCREEN_SAMPLES

LEAST_CORRELATION: Final = 0.1
EXCLUDED: Final = 4.0  # standard errors by which the best placement must beat a distant one
SIDE_LOBE: Final = 2.5  # and one within the same neighbourhood
ADVICE: Final = "give marks (marks:FILE.csv) or an offset (offset:SECONDS)"
UNRELATED: Final = f"the sensor's values do not follow the load of the trace: {ADVICE}"
_SHAPE_REACH_S: Final = 0.1  # lags at which another shape is tried, on each side, at least
_SCANNED: Final = 125  # lags on each side of a placement at which several kinds are fitted
_MOST_TOPS: Final = 16  # side lobes of several kinds of work that are compared, the highest
_FILTER_LAG: Final = 0.29  # of first order, of the window of the same spread


def _beaten(better: Fit, other: Fit) -> float:
    """By how many standard errors a placement resembles the load more than another does.

    How much the blocks of time tell differs, and is no error: only what the better placement leaves
    unexplained is, summed by blocks because it is correlated within them. Kinds of work weighted
    freely resemble anything a little: the better one's are taken from other stretches of time, the
    other's are fitted as well as they can be.
    """
    x, v, r = better.predicted()
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
        raise AlignmentError(UNRELATED)
    rivals = [other for other in others if _beaten(fit, other) < EXCLUDED]
    if not rivals:
        return
    rival = max(rivals, key=lambda each: each.r)
    # Chance placements of what is unrelated are many, and none is much better than the next.
    if len(rivals) >= MOST_PLACES // 2 and fit.r < 0.5:
        raise AlignmentError(UNRELATED)
    raise AlignmentError(
        f"the load repeats itself: placements {abs(rival.lag - fit.lag):.3g} s apart fit as well "
        f"(correlations {fit.r:.2f} and {rival.r:.2f}); {ADVICE}"
    )


def doubt_of_shape(fit: Fit) -> float:
    """By how much the lag moves if power may differ by place within each stretch of work, in s.

    Where that predicts the values no better, the load is as good as it is, and there is no doubt.
    """
    if len(fit.search.groups):
        return 0.0
    divided = replace(fit, search=replace(fit.search, groups=_by_place(fit.search)))
    reach = max(_SHAPE_REACH_S, fit.search.interval, fit.width)
    away = np.linspace(-reach, reach, 41)
    fits = [replace(divided, lag=fit.lag + step).refitted() for step in away.tolist()]
    best = max(fits, key=lambda each: each.r)
    if tells_no_more(best, fit.r):
        return 0.0
    return 2 * abs(best.lag - fit.lag) + float(away[1] - away[0])


def _by_place(search: Search) -> Floats:
    """Busy seconds of each quarter of all stretches of work, shape (4, cells)."""
    begins, length = search.work
    grid = np.arange(len(search.cumulated)) * search.fine
    quarters = []
    for quarter in range(4):
        edges = np.column_stack(
            [begins + length * quarter / 4, begins + length * (quarter + 1) / 4]
        )
        busy = np.cumsum(np.column_stack([np.zeros(len(length)), length / 4]).ravel())
        quarters.append(np.interp(grid, edges.ravel(), busy))
    return np.array(quarters)


def lobes(fit: Fit, table: Table) -> float:
    """How far other lags lie that fit nearly as well, beyond the slope of the best."""
    if len(fit.search.groups):
        return _lobes_of_groups(fit, table)
    total = table.total(fit.rate)
    inner = total[1:-1]
    tops = np.flatnonzero((inner >= total[:-2]) & (inner >= total[2:]) & (inner > 0)) + 1
    tops = np.append(tops, [0, len(total) - 1])
    away = table.lags[tops] - fit.lag
    apart = np.abs(away) > 2 * float(table.lags[1] - table.lags[0])
    # From the far ones inwards: the first that is not beaten is the end of the interval.
    for distance in away[apart][np.argsort(-np.abs(away[apart]))]:
        if _beaten(fit, replace(fit, lag=fit.lag + float(distance))) < SIDE_LOBE:
            return abs(float(distance))
    return 0.0


def _lobes_of_groups(fit: Fit, table: Table) -> float:
    """Likewise, the kinds of work weighted at each lag as fits best there."""
    reach = float(table.lags[-1]) - fit.lag
    step = reach / _SCANNED
    screen = replace(fit, search=fit.search.thinned(SCREEN_SAMPLES))
    away = np.arange(-_SCANNED, _SCANNED + 1) * step
    r = np.array([replace(screen, lag=fit.lag + x).refitted().r for x in away])
    inner = r[1:-1]
    tops = np.flatnonzero((inner >= r[:-2]) & (inner >= r[2:]) & (inner > 0)) + 1
    tops = np.append(tops[np.argsort(-r[tops])][:_MOST_TOPS], [0, len(r) - 1])
    distances = away[tops][np.abs(away[tops]) > 2 * step]
    for distance in distances[np.argsort(-np.abs(distances))]:
        near = [replace(fit, lag=fit.lag + distance + x * step) for x in (-0.5, 0.0, 0.5)]
        if _beaten(fit, max((each.refitted() for each in near), key=lambda e: e.r)) < SIDE_LOBE:
            return abs(float(distance)) + step
    return 0.0


def lag_range(fit: Fit) -> tuple[float, float]:
    """What the sensor's values may lie behind by: half of a window, or a filter's lag."""
    if fit.search.window_s is not None:
        return fit.search.window_s / 2, fit.search.window_s / 2
    widths = possible_widths(fit.search)
    fitting = [w for w in widths if _beaten(fit, replace(fit, width=w).refitted()) < 2.0]
    low, high = min(fitting, default=fit.width), max(fitting, default=fit.width)
    least = 0.0 if low == widths[0] else _FILTER_LAG * low / WIDTH_STEP
    return least, 0.5 * high * WIDTH_STEP
