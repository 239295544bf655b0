"""Rivals that fit a load as well as the best placement: other placements, lags, shapes and windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from wattstep.importing.clocks.alignment import AlignmentError, Floats
from wattstep.importing.clocks.alignment_fit import (
    MOST_BLOCKS,
    WIDTH_STEP,
    Fit,
    Table,
    possible_widths,
)
from wattstep.importing.clocks.alignment_places import MOST_PLACES, SCREEN_SAMPLES
from wattstep.importing.clocks.alignment_rounds import best_near

LEAST_CORRELATION: Final = 0.1
EXCLUDED: Final = 4.0  # standard errors by which the best placement must beat a distant one
SIDE_LOBE: Final = 2.5  # and one within the same neighbourhood
ADVICE: Final = "give marks (marks:FILE.csv) or an offset (offset:SECONDS)"
UNRELATED: Final = f"the sensor's values do not follow the load of the trace: {ADVICE}"
_SCANNED: Final = 250  # lags on each side of a placement at which several kinds are fitted
_MOST_TOPS: Final = 16  # side lobes of several kinds of work that are compared, the highest
_MOVES: Final = 21  # lags that are tried with another window
_WORTH_MOVING: Final = 0.8  # of the best correlation
_OTHER_WINDOW: Final = 2.0  # standard errors by which another window is excluded
_FILTER_LAG: Final = 0.29  # of first order, of the window of the same spread


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
        raise AlignmentError(UNRELATED)
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
