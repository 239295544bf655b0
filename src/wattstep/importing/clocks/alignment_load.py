"""Brings a sensor's clock to that of a trace by what both saw: how busy the machine was.

Power follows load. The trace says when work ran; the sensor's values, moved by the right offset and
stretched by the right rate, resemble it most. How far that can be trusted is asked of the data by
blocks of time: a placement is believed if it beats every other one in nearly all of them.

Read on in `_pieces`, of which there are several where one of the clocks was set: a first look at all
placements and what fits as well (`alignment_places`), the best few in detail, with lag and rate
(`alignment_fit`), work whose power differs without a name (`alignment_rounds`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from wattstep.errors import InvalidValueError
from wattstep.importing.clocks.alignment import CRYSTAL, AlignmentError, ClockMap, Floats, Longs
from wattstep.importing.clocks.alignment_fit import (
    ADVICE,
    DETAIL_SAMPLES,
    MOST_BLOCKS,
    UNRELATED,
    Fit,
    Table,
    detailed,
    fitted_knots,
    neighbourhood,
    settled,
)
from wattstep.importing.clocks.alignment_grids import LEAST_SAMPLES, Search
from wattstep.importing.clocks.alignment_places import (
    LEAST_CORRELATION,
    lag_range,
    lobes,
    looked_at,
    nudged,
    refuse_unless_alone,
)
from wattstep.importing.clocks.alignment_rounds import told_by_place

_SECOND: Final = 1e9
_FINE_S: Final = 5e-4  # grid of the load
_FINE_CELLS: Final = 1 << 22
_MOST_SAMPLES: Final = 200_000  # beyond this they are averaged in bins first
FAR_S: Final = 0.5  # half an interval beyond this is no alignment
_FINE_SAMPLES: Final = 60_000  # at most, that the knots are fitted to
_NEAR_BEST: Final = 0.7  # of the best correlation at first look: worth a closer one
_NEAR_BEST_OF_GROUPS: Final = 0.9
_MOST_DIVISIONS: Final = 2  # into two: a clock set more often than thrice is not followed
_SET_BY_ERRORS: Final = 2.0  # standard errors by which two placements beat one: a clock was set
_SET_BY_RATIO: Final = 1.25  # and of their correlation to that of the one
_SET_CORRELATION: Final = 0.25  # and theirs, at least: else nothing follows the load


@dataclass(frozen=True, kw_only=True, eq=False)
class Load:
    """Load of the machine as a step function; unknown outside of it.

    Attributes:
        t_ns: Where steps begin and the last ends, in the trace's clock, strictly increasing,
            shape (n + 1,).
        level: Of each step, from 0 to 1, shape (n,).
        groups: When work of one kind each ran, in the same clock: where kinds of work differ in
            power, a placement is judged with what each adds. Empty: all work is alike.
    """

    t_ns: Longs
    level: Floats
    groups: tuple[Load, ...] = ()

    def __post_init__(self) -> None:
        if len(self.t_ns) != len(self.level) + 1 or (np.diff(self.t_ns) <= 0).any():
            raise InvalidValueError("a load needs a level between each two of increasing times")
        if not np.isfinite(self.level).all():
            raise InvalidValueError("the levels of a load must be finite")

    @property
    def seconds(self) -> float:
        """From its begin to its end."""
        return float(self.t_ns[-1] - self.t_ns[0]) / _SECOND


def load_of_intervals(start_ns: ArrayLike, end_ns: ArrayLike) -> Load:
    """Busy from each start to its end, idle between; intervals may touch and overlap.

    Raises:
        AlignmentError: There is none that lasts.
    """
    start, end = np.asarray(start_ns, np.int64), np.asarray(end_ns, np.int64)
    lasting = end > start
    if not lasting.any():
        raise AlignmentError(
            "nothing in the trace lasts: there is no load to align by", id="no-load"
        )
    times = np.concatenate([start[lasting], end[lasting]])
    change = np.repeat(np.array([1, -1]), np.count_nonzero(lasting))
    at, where = np.unique(times, return_inverse=True)
    running = np.cumsum(np.bincount(where, weights=change))
    return Load(t_ns=at, level=(running[:-1] > 0.5).astype(np.float64))


def from_load(
    load: Load,
    t_ns: ArrayLike,
    value: ArrayLike,
    *,
    window_s: float | None = None,
    search_ns: tuple[int, int] | None = None,
) -> ClockMap:
    """The map from a sensor's clock to the trace's that its values and the load agree on.

    Args:
        load: Of the trace, in its clock.
        t_ns: Times of the sensor's values in its own clock, strictly increasing.
        value: Power or utilization; NaN where there is none.
        window_s: What the sensor averages over before each value, where it is documented; else it
            is estimated, and what stays unknown of its lag is in the uncertainty.
        search_ns: The least and the most that the trace's clock may be ahead of the sensor's;
            None: wherever half of the shorter recording lies on the other.

    Returns:
        The map. `facts` has "correlation", "lag_s" (the sensor's, that was taken off, and what it
        may be at least and most), "overlap_s" and "interval_s".

    Raises:
        AlignmentError: There is too little to align by, power does not follow the load, or it does
            so at several placements that lie too far apart; the message says what else to do.
    """
    times, values = np.asarray(t_ns, np.int64), np.asarray(value, np.float64)
    known = np.isfinite(values)
    times, values = times[known], values[known]
    if len(times) < LEAST_SAMPLES:
        raise AlignmentError(
            f"{len(times)} values are too few to align by load: {LEAST_SAMPLES} at least; "
            "give marks or an offset",
            id="too-few-values",
        )
    if values.std() == 0 or load.level.std() == 0:
        which = "the load of the trace" if load.level.std() == 0 else "the sensor's value"
        raise AlignmentError(f"{which} never changes: give marks or an offset", id="constant-load")
    interval = float(np.median(np.diff(times))) / _SECOND
    return placed(_search_of(load, times, values, interval, window_s, search_ns))


def _search_of(
    load: Load,
    times: Longs,
    values: Floats,
    interval: float,
    window_s: float | None,
    search_ns: tuple[int, int] | None,
) -> Search:
    """Both recordings in seconds from their first moments, the load summed up on a fine grid."""
    ahead = int(load.t_ns[0] - times[0])
    low, high = search_ns if search_ns is not None else (-(2**62), 2**62)
    fine = max(_FINE_S, load.seconds / (_FINE_CELLS >> 1 if load.groups else _FINE_CELLS))
    grid: Floats = np.arange(int(load.seconds / fine) + 1) * np.float64(fine)
    groups = [_cumulated(group, load.t_ns[0], grid) for group in load.groups]
    t, v = _reduced((times - times[0]) / _SECOND, values)
    return Search(
        cumulated=_cumulated(load, load.t_ns[0], grid),
        groups=np.array(groups).reshape(len(groups), len(grid)).T.copy(),
        work=_work(load),
        fine=fine,
        t=t,
        v=v,
        interval=interval,
        window_s=window_s,
        limits=((low - ahead) / _SECOND, (high - ahead) / _SECOND),
        ahead_ns=ahead,
        first_ns=int(times[0]),
    )


def _work(load: Load) -> Floats:
    """Begin and length of each stretch of work, in s from the load's begin; shape (2, n)."""
    work = load.level > load.level.mean()
    change = np.diff(np.concatenate([[False], work, [False]]).astype(np.int8))
    begins = (load.t_ns[change > 0] - load.t_ns[0]) / _SECOND  # stretches may touch
    length = (load.t_ns[change < 0] - load.t_ns[change > 0]) / _SECOND
    stretches: Floats = np.array([begins, length])
    return stretches


def _cumulated(load: Load, from_ns: int, grid: Floats) -> Floats:
    """Busy seconds until each moment of a grid, which counts in s from a time in ns."""
    seconds = (load.t_ns - from_ns) / _SECOND
    busy = np.concatenate([[0.0], np.cumsum(load.level * np.diff(seconds))])
    cumulated: Floats = np.interp(grid, seconds, busy)
    return cumulated


def _reduced(t: Floats, v: Floats) -> tuple[Floats, Floats]:
    """At most so many samples, each the mean of a few neighbours."""
    each = -(-len(t) // _MOST_SAMPLES)
    if each == 1:
        return t, v
    starts = np.arange(0, len(t), each)
    count = np.diff(np.append(starts, len(t)))
    return np.add.reduceat(t, starts) / count, np.add.reduceat(v, starts) / count


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
        raise AlignmentError(UNRELATED, id="load-not-followed")
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
