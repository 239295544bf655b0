"""The map of two clocks in pieces: one, or several where one of the clocks was set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from wattstep.importing.clocks.alignment import CRYSTAL, AlignmentError, ClockMap, Floats
from wattstep.importing.clocks.alignment_fit import (
    DETAIL_SAMPLES,
    MOST_BLOCKS,
    Fit,
    Table,
    detailed,
    neighbourhood,
    settled,
)
from wattstep.importing.clocks.alignment_grids import LEAST_SAMPLES, Search
from wattstep.importing.clocks.alignment_knots import fitted_knots
from wattstep.importing.clocks.alignment_places import looked_at, nudged
from wattstep.importing.clocks.alignment_rivals import (
    ADVICE,
    LEAST_CORRELATION,
    UNRELATED,
    lag_range,
    lobes,
    refuse_unless_alone,
)
from wattstep.importing.clocks.alignment_rounds import told_by_place

FAR_S: Final = 0.5  # half an interval beyond this is no alignment
_SECOND: Final = 1e9
_FINE_SAMPLES: Final = 60_000  # at most, that the knots are fitted to
_NEAR_BEST: Final = 0.7  # of the best correlation at first look: worth a closer one
_NEAR_BEST_OF_GROUPS: Final = 0.9
_MOST_DIVISIONS: Final = 2  # into two: a clock set more often than thrice is not followed
_SET_BY_ERRORS: Final = 2.0  # standard errors by which two placements beat one: a clock was set
_SET_BY_RATIO: Final = 1.25  # and of their correlation to that of the one
_SET_CORRELATION: Final = 0.25  # and theirs, at least: else nothing follows the load


def placed(search: Search) -> ClockMap:
    """The map that the values and the load agree on, in stretches where a clock was set.

    Raises:
        AlignmentError: There is none, or there are several that lie too far apart.
    """
    return _joined(_pieces(search, _MOST_DIVISIONS), search)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Piece:
    """A stretch of the sensor's time with its map and what is uncertain about it."""

    begin: float
    end: float
    knots: Floats  # sensor's time, s
    lags: Floats
    errors: Floats  # half of 95 %, s, without the sensor's lag
    rate: float
    rate_error: float
    r: float
    width: float
    lag_range: tuple[float, float]
    overlap: float


def _pieces(search: Search, divisions: int) -> list[_Piece]:
    """The sensor's time in stretches, divided so often at most, each with a placement of its own.

    Raises:
        AlignmentError: There is none that beats all others.
    """
    root = search
    search, places = looked_at(root)
    if not places:
        raise AlignmentError(UNRELATED)
    thin = search.thinned(DETAIL_SAMPLES)
    # Of several kinds of work the first look is exact.
    share = _NEAR_BEST if not search.kinds else _NEAR_BEST_OF_GROUPS
    near = [each for each in places[:3] if each[0] > share * places[0][0]]
    fits = [detailed(search, lag, width) for _, lag, width in near]
    fit, table = max(fits, key=lambda each: each[0].r)
    placed = told_by_place(fit) if fit.r >= LEAST_CORRELATION else None
    if placed is not None:  # the places that are compared stay
        fit, table = settled(placed)
        search = replace(placed.search, t=search.t, v=search.v)
        thin = search.thinned(DETAIL_SAMPLES)
    others = [replace(fit, lag=lag, search=thin) for _, lag, _ in places]
    others = [nudged(each) for each in others if abs(each.lag - fit.lag) > table.lags[-1] - fit.lag]
    others += [replace(each, search=thin).refitted() for each, _ in fits if _apart(each, fit)]
    split = _split(fit, others) if divisions else None
    if split is not None:
        return _both_sides(root, split, divisions)
    refuse_unless_alone(fit, others)
    return [_piece(search, fit, table)]


def _apart(one: Fit, other: Fit) -> bool:
    return abs(one.lag - other.lag) > neighbourhood(one.search, one.width) / 2


def _piece(search: Search, fit: Fit, table: Table) -> _Piece:
    low, high, moved = lag_range(fit)
    side = max(lobes(fit, table), moved)
    fine = fitted_knots(replace(fit, search=search.thinned(_FINE_SAMPLES)).refitted())
    knots, lags, errors, rate, rate_error = fine
    if side > FAR_S + 2 * search.interval:
        raise AlignmentError(
            f"the load fits nearly as well {side:.3g} s away: it changes too little; {ADVICE}"
        )
    at = fit.at()
    inside = (at >= 0) & (at <= search.seconds)
    return _Piece(
        begin=float(search.t[0]), end=float(search.t[-1]), knots=knots, lags=lags,
        errors=np.maximum(errors, side), rate=rate, rate_error=rate_error, r=fit.r,
        width=fit.width, lag_range=(low, high),
        overlap=float(np.ptp(fit.search.t[inside])),
    )  # fmt: skip


def _split(fit: Fit, others: Sequence[Fit]) -> float | None:
    """Sensor's time at which the clock was set, where two placements together beat each alone."""
    blocks = MOST_BLOCKS
    best: tuple[float, float | None] = (_SET_BY_ERRORS, None)
    span = (0.0, fit.search.seconds)
    fits = [fit, *others]
    parts = [each.parts(blocks, span) for each in fits]
    alone = parts[int(np.argmax([part.sum() for part in parts]))]
    for i, early in enumerate(fits):
        for j, late in enumerate(fits):
            if i == j:
                continue
            gained = np.concatenate([[0.0], np.cumsum(parts[i] - parts[j])])
            at = int(np.argmax(gained[4:-4])) + 4
            both = np.concatenate([parts[i][:at], parts[j][at:]])
            beaten = _beaten_by_parts(both, alone)
            if both.sum() > max(_SET_BY_RATIO * alone.sum(), _SET_CORRELATION) and beaten > best[0]:
                moment = fit.search.seconds * at / blocks
                best = (beaten, (moment - early.lag + moment - late.lag) / 2)
    return best[1]


def _beaten_by_parts(better: Floats, other: Floats) -> float:
    difference = better - other
    error = float(difference.std(ddof=1)) * np.sqrt(len(difference))
    return float(difference.sum()) / error if error > 0 else 0.0


def _both_sides(search: Search, split: float, divisions: int) -> list[_Piece]:
    left, right = search.t < split, search.t >= split
    if min(left.sum(), right.sum()) < LEAST_SAMPLES:
        raise AlignmentError(f"one of the clocks was set: cut the recording there, or {ADVICE}")
    try:
        early = _pieces(replace(search, t=search.t[left], v=search.v[left]), divisions - 1)
        late = _pieces(replace(search, t=search.t[right], v=search.v[right]), divisions - 1)
    except AlignmentError as error:
        raise AlignmentError(
            "no one placement explains all of the sensor's values, and those before and after "
            f"{split:.3g} s cannot be placed each by itself: either one of the clocks was set there, "
            f"or power tells of more than the load of the trace does; {ADVICE}"
        ) from error
    return [*early, *late]


def _joined(pieces: Sequence[_Piece], search: Search) -> ClockMap:
    """Map of all stretches together, the sensor's lag removed."""
    low = min(piece.lag_range[0] for piece in pieces)
    high = max(piece.lag_range[1] for piece in pieces)
    lag, unsure = (low + high) / 2, (high - low) / 2 + search.interval / 2
    knots, lags, errors = _knots_of(pieces, search.seconds / MOST_BLOCKS)
    order = np.argsort(knots, kind="stable")
    from_ns = search.first_ns + np.rint(knots[order] * _SECOND).astype(np.int64)
    ahead = np.rint((lags[order] + lag) * _SECOND).astype(np.int64) + search.ahead_ns
    to_ns = np.maximum.accumulate(from_ns + ahead)
    errors = errors[order] + unsure
    notes = [
        f"aligned by load: the sensor's values are taken to lie {lag * 1e3:.0f} ms behind "
        f"({low * 1e3:.0f} to {high * 1e3:.0f} ms)"
    ]
    if len(pieces) > 1:
        notes.append(
            f"one of the clocks was set: {len(pieces)} stretches are placed each by itself"
        )
    rate = float(np.average([p.rate for p in pieces], weights=[p.overlap for p in pieces]))
    return ClockMap(
        from_ns=from_ns,
        to_ns=to_ns,
        uncertainty_ns=np.ceil(errors * _SECOND).astype(np.int64),
        rate=1.0 + rate,
        rate_uncertainty=min(max(piece.rate_error for piece in pieces), 3 * CRYSTAL),
        method="load",
        facts={
            "correlation": min(piece.r for piece in pieces),
            "lag_s": {"value": lag, "low": low, "high": high},
            "overlap_s": sum(piece.overlap for piece in pieces),
            "interval_s": search.interval,
        },
        notes=tuple(notes),
    )


def _knots_of(pieces: Sequence[_Piece], doubt: float) -> tuple[Floats, Floats, Floats]:
    """Knots of all stretches.

    When a clock was set is known to a block of time (`doubt`, in s): within that, on both sides of
    where two stretches meet, either placement may be the true one.
    """
    knots, lags, errors = [], [], []
    for number, piece in enumerate(pieces):
        k, lag, error = piece.knots, piece.lags, piece.errors
        for moment, other in (
            (piece.begin, pieces[number - 1] if number else None),
            (piece.end, pieces[number + 1] if number + 1 < len(pieces) else None),
        ):
            if other is None:
                continue
            inward = doubt if moment == piece.begin else -doubt
            for at in (moment, moment + inward, moment + inward * (1 + 1e-6)):
                k, lag, error = _extended(piece, k, lag, error, at)
            jump = abs(float(np.mean(other.lags) - np.mean(piece.lags)))
            near = np.abs(k - moment) <= doubt * (1 + 1e-9)
            error = error + np.where(near, jump, 0.0)
        knots.append(k)
        lags.append(lag)
        errors.append(error)
    return np.concatenate(knots), np.concatenate(lags), np.concatenate(errors)


def _extended(
    piece: _Piece, k: Floats, lag: Floats, error: Floats, moment: float
) -> tuple[Floats, Floats, Floats]:
    """With one more knot, at the rate of the nearest."""
    near = int(np.argmin(np.abs(k - moment)))
    away = moment - k[near]
    place = int(np.searchsorted(k, moment))
    grown = error[near] + abs(away) * min(piece.rate_error, 3 * CRYSTAL)
    return (
        np.insert(k, place, moment),
        np.insert(lag, place, lag[near] + piece.rate * away),
        np.insert(error, place, grown),
    )
