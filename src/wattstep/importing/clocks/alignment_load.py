"""Brings a sensor's clock to that of a trace by what both saw: how busy the machine was.

Power follows load. The trace says when work ran; the sensor's values, moved by the right offset and
stretched by the right rate, resemble it most. How far that can be trusted is asked of the data by
blocks of time: a placement is believed if it beats every other one in nearly all of them.

Read on in `alignment_pieces`: a first look at all placements (`alignment_places`), the best few in
detail (`alignment_fit`), work whose power differs without a name (`alignment_rounds`), what fits as
well (`alignment_rivals`), lag and rate (`alignment_knots`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from wattstep.errors import InvalidValueError
from wattstep.importing.clocks.alignment import AlignmentError, ClockMap, Floats, Longs
from wattstep.importing.clocks.alignment_grids import LEAST_SAMPLES, Search
from wattstep.importing.clocks.alignment_pieces import placed

_SECOND: Final = 1e9
_FINE_S: Final = 5e-4  # grid of the load
_FINE_CELLS: Final = 1 << 22
_MOST_SAMPLES: Final = 200_000  # beyond this they are averaged in bins first


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


def load_of_samples(t_ns: ArrayLike, value: ArrayLike) -> Load:
    """A sampled utilization: each value holds until the next; missing ones take the one before.

    Raises:
        AlignmentError: There are fewer than two values.
    """
    times, values = np.asarray(t_ns, np.int64), np.asarray(value, np.float64)
    known = np.isfinite(values)
    if np.count_nonzero(known) < 2:
        raise AlignmentError("a load of fewer than two values cannot be aligned by")
    return Load(t_ns=times[known], level=values[known][:-1])


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
