"""One placement of a sensor's values on a load in detail: the best lag, rate and width near it, with their errors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from wattstep.importing.clocks.alignment import AlignmentError, Floats, Longs
from wattstep.importing.clocks.alignment_grids import (
    LEAST_SAMPLES,
    Search,
    added,
    held_out,
    without,
)

DETAIL_SAMPLES: Final = 6_000  # at most, where a placement is looked at in detail
SCREEN_SAMPLES: Final = 1_500  # at most, where many placements of several kinds of work are tried
COARSE_S: Final = 2e-3  # grid of the first look
MOST_BLOCKS: Final = 32  # of time, by which errors are judged
WIDTH_STEP: Final = 2.0**0.5  # from one window that is tried to the next
_LEAST_BLOCKS: Final = 8
_LEFT_OPEN: Final = 0.95  # of what one level leaves open: several that leave more are not needed
_LAGS: Final = 1_200  # that a table has, over the neighbourhood of a placement
_RATES: Final = np.linspace(-3e-4, 3e-4, 121)  # less 1, that are tried
_RATE_WINDOWS: Final = 6  # in which a change of the rate is looked for
_OFF_THE_LINE: Final = 2.0  # standard errors, root mean square over windows: the rate changed
ADVICE: Final = "give marks (marks:FILE.csv) or an offset (offset:SECONDS)"
UNRELATED: Final = f"the sensor's values do not follow the load of the trace: {ADVICE}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """A placement: lag at the middle of the overlap (centre of the sensor's window), rate, width."""

    lag: float
    rate: float
    width: float
    middle: float
    r: float
    search: Search  # with the samples that it was fitted to

    def at(self) -> Floats:
        """Moments of the trace at which the sensor's values look."""
        t = self.search.t
        return t + self.lag + self.rate * (t - self.middle)

    def refitted(self) -> Fit:
        """With the kinds of work weighted as fits best here."""
        there = replace(self, search=self.search.weighted(self.at(), self.width))
        return replace(there, r=float(there.parts(1, (0.0, 1.0))[0]))

    def resemblance(self) -> float:
        """Its correlation as `refitted` finds it, where only that is asked for."""
        if not self.search.kinds:
            return self.standard()[2]
        levels = self.search.levels(self.at(), self.width)
        known = np.isfinite(levels[0])
        if np.count_nonzero(known) <= len(levels):
            return self.standard()[2]
        value = self.search.v[known]
        load = _standard(added(levels[:, known], value) @ levels[:, known])
        return float(load @ _standard(value)) / len(value)

    def predicted(self) -> tuple[Floats, Floats, float]:
        """As `standard`, with the load of each stretch weighted as the others say."""
        if not self.search.kinds:
            return self.standard()
        levels = self.search.levels(self.at(), self.width)
        known = np.isfinite(levels[0])
        load, value = np.zeros(len(known)), np.zeros(len(known))
        value[known] = _standard(self.search.v[known])
        load[known] = _standard(held_out(levels[:, known], self.search.v[known]))
        return load, value, float(load @ value) / max(int(known.sum()), 1)

    def standard(self) -> tuple[Floats, Floats, float]:
        """Load and value, each standardized and 0 where one is not known; their correlation."""
        x = self.search.level(self.at(), self.width)
        known = np.isfinite(x)
        load, value = np.zeros(len(x)), np.zeros(len(x))
        load[known], value[known] = _standard(x[known]), _standard(self.search.v[known])
        return load, value, float(load @ value) / max(int(known.sum()), 1)

    def parts(self, blocks: int, span: tuple[float, float]) -> Floats:
        """Contribution of each block of the trace's time to the correlation."""
        at = self.at()
        x = self.search.level(at, self.width)
        known = np.isfinite(x)
        where = _block(at[known], blocks, span)
        product = _standard(x[known]) * _standard(self.search.v[known]) / max(known.sum(), 1)
        part: Floats = np.bincount(where, weights=product, minlength=blocks).astype(np.float64)
        return part


def tells_no_more(several: Fit, r: float) -> bool:
    """True if several kinds of work predict hardly more than one level, fitted with `r`, explains."""
    predicted = max(several.predicted()[2], 0.0)
    return 1 - predicted**2 > _LEFT_OPEN * (1 - r**2)


def _standard(value: Floats) -> Floats:
    if not len(value):
        return value
    spread = float(value.std())
    standard: Floats = (value - value.mean()) / (spread or 1.0)
    return standard


def _block(at: Floats, blocks: int, span: tuple[float, float]) -> Longs:
    share = (at - span[0]) / max(span[1] - span[0], 1e-12)
    block: Longs = np.clip((share * blocks).astype(np.int64), 0, blocks - 1)
    return block


def blocks_of(samples: int) -> int:
    """Number of blocks of time that samples are divided into, as errors of neighbours are alike."""
    return int(np.clip(samples // 6, _LEAST_BLOCKS, MOST_BLOCKS))


def neighbourhood(search: Search, width: float) -> float:
    """Lags this far from a placement belong to it: drift, averaging and sampling move it so."""
    return max(1.0, 3e-4 * search.seconds, 4 * search.interval, 3 * width)


def detailed(search: Search, lag: float, width: float) -> tuple[Fit, Table]:
    """The best lag, rate and width near a placement."""
    thin = search.thinned(DETAIL_SAMPLES)
    return settled(Fit(lag=lag, rate=0.0, width=width, middle=0.0, r=0.0, search=thin))


def settled(fit: Fit) -> tuple[Fit, Table]:
    """The best lag, rate and width near a fit, from its rate on."""
    several = fit.search
    lag, width = fit.lag, fit.width
    fit, table = _stacked(several.weighted(fit.at(), width), lag, width)
    for _ in range(2):
        wider = _best_width(fit)
        if wider == fit.width and (not several.kinds or abs(fit.lag - lag) <= wider / 4):
            break
        lag = fit.lag
        fit, table = _stacked(several.weighted(fit.at(), wider), lag, wider)
    return fit.refitted() if several.kinds else fit, table


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Correlation by block and lag, at rate 1, about a placement."""

    lags: Floats
    parts: Floats  # shape (blocks, lags)
    moment: Floats  # of each block, from the middle, in s

    def total(self, rate: float) -> Floats:
        """By lag, of all blocks."""
        shift = rate * self.moment / (self.lags[1] - self.lags[0])
        if np.abs(shift).max() < 0.25:
            level: Floats = self.parts.sum(axis=0)
            return level
        count, most = len(self.lags), int(np.abs(shift).max()) + 2
        beyond = np.pad(self.parts, ((0, 0), (most, most)), mode="edge")
        total = np.zeros(count)
        for row, cell, share in zip(beyond, np.floor(shift), shift - np.floor(shift), strict=True):
            first = most + int(cell)
            total += (1 - share) * row[first : first + count]
            total += share * row[first + 1 : first + 1 + count]
        return total


def _stacked(search: Search, lag: float, width: float) -> tuple[Fit, Table]:
    reach = neighbourhood(search, width)
    stride = max(1, round(2 * reach / _LAGS / search.fine))
    shifts = np.arange(-(_LAGS // 2), _LAGS // 2 + 1) * stride  # in cells of the fine grid
    inside = (search.t + lag >= 0) & (search.t + lag <= search.seconds)
    if np.count_nonzero(inside) < LEAST_SAMPLES / 2:
        inside[:] = True
    t, v = search.t[inside], _standard(search.v[inside])
    middle = float((t[0] + t[-1]) / 2)
    blocks = blocks_of(len(t))
    starts = np.linspace(0, len(t), blocks + 1).astype(np.int64)
    parts = _parts_by_lag(search, t + lag, v, width, shifts, starts)
    moment = np.add.reduceat(t, starts[:-1]) / np.diff(starts) - middle
    lags: Floats = np.asarray(lag + shifts * search.fine, np.float64)
    table = Table(lags=lags, parts=parts, moment=moment)
    rate, best = _best_rate(table)
    fit = Fit(
        lag=float(table.lags[best]), rate=rate, width=width, middle=middle,
        r=float(table.total(rate)[best]), search=search,
    )  # fmt: skip
    return fit, table


def _parts_by_lag(
    search: Search, at: Floats, v: Floats, width: float, shifts: Longs, starts: Longs
) -> Floats:
    """Contribution of each block of samples to the correlation, by shift; shape (blocks, shifts)."""
    half = max(1, round(width / 2 / search.fine))
    smooth = (search.cumulated[2 * half :] - search.cumulated[: -2 * half]) / (
        2 * half * search.fine
    )
    cell = np.rint(at / search.fine).astype(np.int64) - half
    parts = np.zeros((len(starts) - 1, len(shifts)))
    product = np.empty(len(v))
    for column, shift in enumerate(shifts):
        first, last = np.searchsorted(cell, [-shift, len(smooth) - shift])
        if last - first < 2:
            continue
        x = smooth[cell[first:last] + shift]
        x = x - x.mean()
        spread = float(np.sqrt(x @ x / len(x))) or 1.0
        product[:] = 0.0
        product[first:last] = v[first:last] * x
        parts[:, column] = np.add.reduceat(product, starts[:-1]) / (spread * len(x))
    return parts


def _best_rate(table: Table) -> tuple[float, int]:
    totals = np.array([table.total(rate) for rate in _RATES])
    # Where all rates do as well, the clocks' rates are the same.
    totals -= 1e-6 * np.abs(_RATES)[:, None] / _RATES[-1]
    row, column = np.unravel_index(int(np.argmax(totals)), totals.shape)
    return float(_RATES[row]), int(column)


def possible_widths(search: Search) -> list[float]:
    """Windows that the sensor may average over."""
    if search.window_s is not None:
        return [max(search.window_s, 2 * search.fine)]
    least, most = max(2e-3, search.interval / 4), min(4.0 + 2 * search.interval, search.seconds / 8)
    count = max(1, int(np.log(max(most / least, 1.0)) / np.log(WIDTH_STEP)) + 1)
    return [least * WIDTH_STEP**n for n in range(count)]


def _best_width(fit: Fit) -> float:
    return max(
        possible_widths(fit.search), key=lambda width: replace(fit, width=width).resemblance()
    )


def fitted_knots(fit: Fit) -> tuple[Floats, Floats, Floats, float, float]:
    """Knots, lags and their errors, rate and its error: least squares, errors by blocks."""
    for _ in range(4):
        score, curve, moment = _scores(fit)
        hessian = _moments(curve, moment)
        if np.linalg.cond(hessian) > 1e12:
            break
        step = np.linalg.solve(hessian, [score.sum(), (score * moment).sum()])
        most = max(fit.width, fit.search.interval, 2 * COARSE_S) / 4
        if not np.isfinite(step).all() or abs(step[0]) > most or abs(step[1]) > 1e-4:
            break
        moved = replace(fit, lag=fit.lag + float(step[0]), rate=fit.rate + float(step[1]))
        moved = moved.refitted()
        if moved.r < fit.r:
            break
        fit = moved
    score, curve, moment = _scores(fit)
    return _knots(fit, score, curve, moment)


def _moments(curve: Floats, moment: Floats) -> Floats:
    return np.array(
        [
            [curve.sum(), (curve * moment).sum()],
            [(curve * moment).sum(), (curve * moment**2).sum()],
        ]
    )


def _scores(fit: Fit) -> tuple[Floats, Floats, Floats]:
    """Of each block: what pulls the lag, how firmly it holds it, and its moment from the middle."""
    search, at = fit.search, fit.at()
    half = max(fit.width / 4, 2 * search.fine)
    x = search.level(at, fit.width)
    ahead, behind = search.level(at + half, fit.width), search.level(at - half, fit.width)
    known = np.isfinite(x) & np.isfinite(ahead) & np.isfinite(behind)
    x, v, t = x[known], search.v[known], search.t[known]
    slope = (ahead[known] - behind[known]) / (2 * half)
    gain = float(np.cov(x, v, bias=True)[0, 1] / max(x.var(), 1e-30))
    left = (v - v.mean()) - gain * (x - x.mean())
    slope = gain * (slope - slope.mean())
    if search.kinds:  # what other weights would explain of a shift does not hold the lag
        slope = without(search.levels(at[known], fit.width), slope)
    blocks = blocks_of(len(t))
    where = np.minimum(np.arange(len(t)) * blocks // max(len(t), 1), blocks - 1)
    score = np.asarray(np.bincount(where, left * slope, blocks), np.float64)
    curve = np.asarray(np.bincount(where, slope * slope, blocks), np.float64)
    moment: Floats = np.bincount(where, t, blocks) / np.maximum(
        np.bincount(where, minlength=blocks), 1
    )
    return score, curve, moment - fit.middle


def _knots(
    fit: Fit, score: Floats, curve: Floats, moment: Floats
) -> tuple[Floats, Floats, Floats, float, float]:
    hessian = _moments(curve, moment)
    if np.linalg.cond(hessian) > 1e12:
        raise AlignmentError(UNRELATED, id="load-not-followed")
    inverse = np.linalg.inv(hessian)
    meat = _moments(score**2, moment)
    degrees_of_freedom = len(score) / max(len(score) - 2, 1)
    covariance = inverse @ meat @ inverse * degrees_of_freedom
    quantile = 2.0 + 4.0 / len(score)  # of t, near 95 %
    pulled = _pulled(score, curve, moment)
    if pulled is not None:
        where, lag, error = pulled
        error = quantile * np.hypot(error, np.sqrt(covariance[0, 0]) / 4)
    else:
        where, lag = np.array([moment[0], moment[-1]]), np.zeros(2)
        basis = np.column_stack([np.ones(2), where])
        error = quantile * np.sqrt(np.einsum("ij,jk,ik->i", basis, covariance, basis))
    rate_error = quantile * float(np.sqrt(covariance[1, 1]))
    lags = fit.lag + fit.rate * where + lag
    return fit.middle + where, lags, error + fit.search.fine, fit.rate, rate_error


def _pulled(score: Floats, curve: Floats, moment: Floats) -> tuple[Floats, Floats, Floats] | None:
    """Windows whose own offsets lie off the line: where, by how much, with which error."""
    groups = [g for g in np.array_split(np.arange(len(score)), _RATE_WINDOWS) if len(g) >= 3]
    if len(groups) < 4:
        return None
    weight = np.array([curve[g].sum() for g in groups])
    if (weight <= 0.02 * weight.sum()).any():
        return None
    off = np.array([score[g].sum() for g in groups]) / weight
    spread = np.array([np.sqrt((score[g] ** 2).sum()) for g in groups]) / weight
    where = np.array([np.average(moment[g], weights=np.maximum(curve[g], 1e-30)) for g in groups])
    if np.sqrt(np.mean((off / np.maximum(spread, 1e-9)) ** 2)) < _OFF_THE_LINE:
        return None
    return where, off, spread
