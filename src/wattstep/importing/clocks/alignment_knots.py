"""The knots of a placement: lag and rate by least squares, their errors by blocks of time."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from wattstep.importing.clocks.alignment import AlignmentError, Floats
from wattstep.importing.clocks.alignment_fit import Fit, blocks_of
from wattstep.importing.clocks.alignment_levels import without
from wattstep.importing.clocks.alignment_places import COARSE_S
from wattstep.importing.clocks.alignment_rivals import UNRELATED

_RATE_WINDOWS: Final = 6  # in which a change of the rate is looked for
_OFF_THE_LINE: Final = 2.0  # standard errors, root mean square over windows: the rate changed


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
        raise AlignmentError(UNRELATED)
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
