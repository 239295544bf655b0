"""What a placement is tried on: both recordings on grids, the load at any moment, every lag at once, and what each kind of work adds to power."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from wattstep.importing.clocks.alignment import Floats

LEAST_SAMPLES: Final = 24  # fewer make no eight blocks of three
_LEAST_OVERLAP: Final = 0.5  # of the shorter recording must lie on the other
FOLDS: Final = 8
_RIDGE: Final = 1e-6  # of the mean variance: kinds that always run together share what they add
_LEAST_VARIANCE: Final = 1e-3  # of the largest: less tells nothing of where a recording lies


@dataclass(frozen=True, kw_only=True, eq=False)
class Search:
    """Both recordings in seconds from their first moments; a lag is trace less sensor."""

    cumulated: Floats  # busy seconds of the trace on its fine grid
    groups: Floats  # likewise of each kind of work, shape (cells, kinds); none: all is alike
    work: Floats  # begin and length of each stretch of work, in s, shape (2, n)
    fine: float  # step of the fine grid, s
    t: Floats  # of the sensor's values, s
    v: Floats
    interval: float  # between two values, s
    window_s: float | None  # that the sensor averages over, where it is documented
    limits: tuple[float, float]  # of the lag, s
    ahead_ns: int  # first moment of the trace less first of the sensor
    first_ns: int  # of the sensor

    @property
    def seconds(self) -> float:
        """Of the trace."""
        return (len(self.cumulated) - 1) * self.fine

    @property
    def kinds(self) -> int:
        """Of work, that are told apart; 0: all is alike."""
        return int(self.groups.shape[1])

    def level(self, at: Floats, width: float) -> Floats:
        """The mean load over a width about these moments; NaN where it leaves the trace."""
        level: Floats = self._mean(self.cumulated[:, None], at, width)[0]
        return level

    def levels(self, at: Floats, width: float) -> Floats:
        """Mean load of each kind of work over a width about these moments, shape (kinds, n)."""
        return self._mean(self.groups, at, width)

    def weighted(self, at: Floats, width: float) -> Search:
        """With the kinds of work weighted as the values say, if the sensor looks at these moments."""
        if not self.kinds:
            return self
        levels = self.levels(at, width)
        known = np.isfinite(levels[0])
        if np.count_nonzero(known) <= len(levels):
            return self
        return replace(self, cumulated=self.groups @ added(levels[:, known], self.v[known]))

    def alike(self) -> Search:
        """Without kinds of work."""
        return replace(self, groups=self.groups[:, :0])

    def _mean(self, cumulated: Floats, at: Floats, width: float) -> Floats:
        half = max(width, 2 * self.fine) / 2
        grown = self._busy(cumulated, at + half) - self._busy(cumulated, at - half)
        mean: Floats = grown.T / (2 * half)
        return mean

    def _busy(self, cumulated: Floats, at: Floats) -> Floats:
        place = at / self.fine
        outside = (place < 0) | (place > len(cumulated) - 1)
        cell = np.clip(place.astype(np.int64), 0, len(cumulated) - 2)
        below = cumulated.take(cell, axis=0)
        busy: Floats = cumulated.take(cell + 1, axis=0)
        busy -= below
        busy *= (place - cell)[:, None]
        busy += below
        busy[outside] = np.nan
        return busy

    def thinned(self, count: int) -> Search:
        """With so many samples at most, spread over all of them at random distances."""
        if len(self.t) <= count:
            return self
        # Regular distances could fall in step with the load.
        edges = np.linspace(0, len(self.t), count + 1).astype(np.int64)
        within = np.random.default_rng(0).random(count)
        keep = edges[:-1] + (within * np.diff(edges)).astype(np.int64)
        return replace(self, t=self.t[keep], v=self.v[keep])


@dataclass(frozen=True, kw_only=True, eq=False)
class Grids:
    """Correlation at every lag, only over what both recordings have there."""

    size: int
    cell: float
    lag: Floats
    weight: NDArray[np.complex128]  # spectra of the sensor: how many values, their sum, squares
    first: NDArray[np.complex128]
    count: Floats
    sum_v: Floats
    sum_vv: Floats
    loads: Floats  # of all work, or of each kind, shape (1 or kinds, cells)

    @classmethod
    def of(cls, search: Search, cell: float) -> Grids:
        """Of cells of so many seconds."""
        place = (search.t / cell).astype(np.int64)
        n_v, n_l = int(place[-1]) + 1, max(2, int(search.seconds / cell))
        size = 1 << int(np.ceil(np.log2(n_v + n_l)))
        v = search.v - np.median(search.v)
        weight, first, second = (
            np.conj(np.fft.rfft(np.bincount(place, weights=each, minlength=n_v), size))
            for each in (np.ones_like(v), v, v * v)
        )
        edges = np.arange(n_l + 1) * cell / search.fine
        cumulated = search.groups.T if search.kinds else search.cumulated[None]
        busy = [np.interp(edges, np.arange(len(each)), each) for each in cumulated]
        inside = np.fft.rfft(np.ones(n_l), size)
        shift = np.fft.fftfreq(size, 1 / size)
        return cls(
            size=size,
            cell=cell,
            lag=np.asarray(shift * cell, np.float64),
            weight=weight,
            first=first,
            count=np.fft.irfft(weight * inside, size),
            sum_v=np.fft.irfft(first * inside, size),
            sum_vv=np.fft.irfft(second * inside, size),
            loads=np.diff(busy, axis=1) / cell,
        )

    def correlation(self, width: float) -> Floats:
        """By lag; -1 where too little overlaps. Of several kinds of work, the multiple one."""
        cells = max(1, round(width / self.cell))
        smooth = np.array([_smoothed(load, cells) for load in self.loads])
        if len(smooth) == 1:
            return self._of_one(smooth[0] - smooth[0].mean())
        squares = [self._of_one(each) ** 2 for each in whitened(smooth)]
        total = np.sqrt(np.sum(squares, axis=0))
        r: Floats = np.where(self._enough, total, -1.0)
        return r

    @property
    def _enough(self) -> NDArray[np.bool_]:
        least = max(LEAST_SAMPLES / 2, _LEAST_OVERLAP * float(self.count.max()))
        enough: NDArray[np.bool_] = self.count > least
        return enough

    def _of_one(self, smooth: Floats) -> Floats:
        spectrum, squares = np.fft.rfft(smooth, self.size), np.fft.rfft(smooth**2, self.size)
        cross = np.fft.irfft(self.first * spectrum, self.size)
        sum_l = np.fft.irfft(self.weight * spectrum, self.size)
        sum_ll = np.fft.irfft(self.weight * squares, self.size)
        count = np.maximum(self.count, 1.0)
        spread = (self.sum_vv - self.sum_v**2 / count) * (sum_ll - sum_l**2 / count)
        usable = self._enough & (spread > 1e-9 * float(spread.max()))
        covered = cross - self.sum_v * sum_l / count
        r: Floats = np.full(self.size, -1.0)
        r[usable] = covered[usable] / np.sqrt(spread[usable])
        return r


def _smoothed(load: Floats, cells: int) -> Floats:
    if cells < 64:
        return np.convolve(load, np.ones(cells) / cells, "same")
    total = np.concatenate([[0.0], np.cumsum(load)])
    at = np.arange(len(load))
    low, high = np.maximum(at - cells // 2, 0), np.minimum(at + cells // 2, len(at))
    smooth: Floats = (total[high] - total[low]) / np.maximum(high - low, 1)
    return smooth


def added(levels: Floats, value: Floats) -> Floats:
    """Value that full work of each kind adds: non-negative least squares.

    Work that lowers power is not physical, and allowing for it would let a placement half a step
    off fit as well as the true one.

    Args:
        levels: Share of time that each kind ran, shape (kinds, n).
        value: Shape (n,).

    Returns:
        Shape (kinds,), in the unit of the value.
    """
    return _solved(*_moments(levels, value))


def held_out(levels: Floats, value: Floats) -> Floats:
    """The value as predicted, for each stretch of time, from what all others say; shape (n,).

    What is fitted resembles the more, the more kinds there are; what is predicted does not.
    """
    edges = np.linspace(0, len(value), FOLDS + 1).astype(np.int64)
    predicted = np.zeros(len(value))
    for low, high in pairwise(edges.tolist()):
        rest = np.r_[0:low, high : len(value)]
        if len(rest) and high > low:
            predicted[low:high] = added(levels[:, rest], value[rest]) @ levels[:, low:high]
    return predicted


def without(levels: Floats, value: Floats) -> Floats:
    """The value less all that a constant and the levels explain of it, shape (n,)."""
    basis = np.column_stack([np.ones(len(value)), levels.T])
    left: Floats = value - basis @ np.linalg.lstsq(basis, value, rcond=1e-9)[0]
    return left


def whitened(levels: Floats) -> Floats:
    """Combinations of the levels, uncorrelated and of variance 1, that span what they span."""
    centred = levels - levels.mean(axis=1, keepdims=True)
    variance, direction = np.linalg.eigh(centred @ centred.T / centred.shape[1])
    identified = variance > _LEAST_VARIANCE * max(float(variance.max()), 1e-30)
    white: Floats = (direction[:, identified] / np.sqrt(variance[identified])).T @ centred
    return white


def _moments(levels: Floats, value: Floats) -> tuple[Floats, Floats]:
    centred = levels - levels.mean(axis=1, keepdims=True)
    return centred @ centred.T, centred @ (value - value.mean())


def _solved(gram: Floats, cross: Floats) -> Floats:
    ridge = _RIDGE * float(np.trace(gram)) / len(gram)
    if ridge <= 0:
        return np.zeros(len(gram))
    regular = gram + ridge * np.eye(len(gram))
    free = np.asarray(np.linalg.solve(regular, cross), np.float64)
    if (free >= 0).all():
        return free
    root = np.linalg.cholesky(regular)
    solution: Floats = nnls(root.T, np.linalg.solve(root, cross))[0]
    return solution
