"""Joint error of kinds' energies: noise, what is not told, traced times, resolution of the sensor."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from wattstep.attribution.regression.fit import Fit
from wattstep.attribution.regression.observed import Observed
from wattstep.attribution.regression.time_errors import LEAST_FACTOR, blurred, moved_knots
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.stats.student import critical_value

LEAST_BLOCKS = 20
MOST_LENGTH = 64  # steps in a block
TAILS = 1.2  # powers among kinds have longer tails than a normal's
UNLIKE = 0.25  # of the mean power: kinds that are not told may differ as much, at least
DRAWS = 200  # of times of kinds
LEAST_IN_CELL = 4  # samples, for a cell of the step to show what they have in common
PLACES = (2.0, 5.0)  # cells for each column that the samples have determined
PLAIN = 1.5  # times what powers change where every sample is trusted alike
ROUNDINGS = 100  # that are drawn


@dataclass(frozen=True, kw_only=True, eq=False)
class Spread:
    """Squared half-widths of intervals: for a sum of kinds, the sum over its block of `energy`.

    Attributes:
        energy: In J², shape (k, k).
        times: Relative variance of the time that each kind takes, shape (k,).
        block: Steps in the longest blocks that were resampled.
        blocks: How many there were of them.
    """

    energy: FloatArray
    times: FloatArray
    block: int
    blocks: int


def spread_of(
    fit: Fit, observed: Observed, seconds: FloatArray, confidence: float, seed: int
) -> Spread:
    """The spread of the energies of a fit.

    Args:
        fit: The fit.
        observed: The samples.
        seconds: Of each kind in the mean clean step, shape (k,).
        confidence: Of the intervals.
        seed: Of what is drawn.
    """
    kinds = len(seconds)
    apart = fit.inverse[:, :kinds] * seconds
    influence = _influence(fit, apart, seconds)
    moving = influence * fit.trust[:, None]
    model = fit.noise * influence.T @ influence
    processes = influence * (fit.left + fit.trust * fit.rows.slow)[:, None]
    pulled = influence * fit.left[:, None]
    wider, length, blocks = _beyond_white(fit, pulled, np.diag(model))
    quantile = _quantile(confidence, blocks - 1)
    root = np.sqrt(wider)
    energy = quantile**2 * model * root[:, None] * root[None, :]
    normal = _quantile(confidence, math.inf)
    kinds_only = fit.precision.copy()
    if fit.assumed > 0:
        part = slice(kinds + 1, 2 * kinds + 1)
        kinds_only[part, part] = 0.0
    if fit.time_error > 0:
        energy += normal**2 * _misplaced(fit, observed, moving, seed)
    energy += (TAILS * normal) ** 2 * (apart.T @ kinds_only @ apart)
    drawn = kinds_only[: kinds + 1, : kinds + 1] @ apart[: kinds + 1]
    # That all kinds which the samples tell are alike does not prove the others to be. But they lie
    # about the mean of the samples: what is more in some is less in others.
    common = fit.trust @ fit.columns[:, : kinds + 1] / float(fit.trust @ fit.trust)
    drawn = drawn - common[:, None] * drawn.sum(axis=0)
    energy += normal**2 * least_unlike(fit) * (drawn.T @ drawn)
    energy += _processes(fit, processes, np.diag(model), wider, confidence)
    traced, times = _traced(fit, observed, moving, seconds)
    energy += _quantile(confidence, observed.axis.layouts - 1) ** 2 * traced
    energy += normal**2 * _rounded(fit, observed, moving, seed)
    # Where an operation begins or ends, its power may be another than in its middle. Were it the
    # same, samples there would tell what all others do.
    apart_w = PLAIN * (np.maximum(fit.plain, 0.0) - fit.watts) * seconds
    energy += np.outer(apart_w, apart_w)
    if observed.moving_s is not None:
        moved = observed.moving_s * np.maximum(fit.watts, 0.0)
        energy += normal**2 * (moved.T @ moved)
    return Spread(energy=energy, times=times, block=length, blocks=blocks)


def least_unlike(fit: Fit) -> float:
    """Variance in W² by which kinds that are not told may differ beyond what those that are do."""
    return max(0.0, (UNLIKE * float(fit.rows.watts.mean())) ** 2 - fit.spread)


def _influence(fit: Fit, apart: FloatArray, seconds: FloatArray) -> FloatArray:
    """Change of each kind's energy with each sample, times its trust, in J/W, shape (n, k).

    Powers are fitted about the mean of the samples, which moves with each of them.
    """
    about = fit.columns @ apart / fit.noise
    on_mean = fit.trust / float(fit.trust @ fit.trust)
    influence: FloatArray = about + on_mean[:, None] * (seconds - fit.trust @ about)
    return influence


def _quantile(confidence: float, degrees_of_freedom: float) -> float:
    """Student's t for both sides together; with one process or layout, there is none to tell."""
    return critical_value(confidence, max(degrees_of_freedom, 1))


def _scores(pulled: FloatArray, groups: IntArray) -> FloatArray:
    """Contribution of each block of samples to the error of each kind's energy, shape (blocks, k)."""
    ends = np.flatnonzero(np.append(np.diff(groups) != 0, True)) + 1
    begins = np.concatenate([[0], ends[:-1]])
    total: FloatArray = np.add.reduceat(pulled, begins, axis=0)
    return total


def _beyond_white(fit: Fit, pulled: FloatArray, model: FloatArray) -> tuple[FloatArray, int, int]:
    """By how much variances exceed those of white noise: the largest over lengths of blocks.

    The variance of sums over blocks of steps is that of a block bootstrap whose estimate is taken
    one Newton step from the fit (the infinitesimal jackknife).
    """
    degrees_of_freedom = max(len(fit.left) - _effective(fit), 1.0)
    narrower = len(fit.left) / degrees_of_freedom
    wider, length, used, count = np.ones(len(model)), 1, 1, 2
    while length <= MOST_LENGTH:
        groups = fit.rows.process * (1 << 32) + fit.rows.step // length
        scores = _scores(pulled, groups)
        if length > 1 and len(scores) < LEAST_BLOCKS:
            break
        used, count = length, len(scores)
        variance = narrower * (scores**2).sum(axis=0) * count / max(count - 1, 1)
        ratio = np.divide(variance, model, out=np.ones_like(model), where=model > 0)
        wider = np.maximum(wider, ratio)
        length *= 2
    return np.maximum(wider, _by_place(fit, pulled, model)), used, count


def _by_place(fit: Fit, pulled: FloatArray, model: FloatArray) -> FloatArray:
    """By how much variances exceed those of white noise if what is left belongs to places of the step.

    Rounding by the sensor, and operations that lie beside their place, err alike at each pass of
    the same place: no number of steps takes that away.
    """
    determined, wider = _effective(fit), np.ones(len(model))
    for places in PLACES:
        cells = int(min(len(fit.left) / LEAST_IN_CELL, places * determined))
        if cells < PLACES[0] * determined - 1 or cells < LEAST_BLOCKS:
            break
        cell = np.minimum((fit.rows.position * cells).astype(np.int64), cells - 1)
        order = np.argsort(cell, kind="stable")
        scores = _scores(pulled[order], cell[order])
        ratio = np.divide((scores**2).sum(axis=0), model, out=np.ones_like(model), where=model > 0)
        # What belongs to places has been fitted away in part, noise has not.
        systematic = max(0.0, 1 - 1 / max(float(ratio.mean()), 1e-9))
        fitted = cells / (cells - determined) - 1
        wider = np.maximum(wider, ratio * (1 + systematic * fitted))
    return wider


def _effective(fit: Fit) -> float:
    """Number of columns that the samples have determined."""
    return float(len(fit.precision) - np.sum(fit.inverse * fit.precision))


def _processes(
    fit: Fit, pulled: FloatArray, model: FloatArray, wider: FloatArray, confidence: float
) -> FloatArray:
    """Spread of processes beyond that of their blocks: Student's t over as many as there are."""
    count = len(np.unique(fit.rows.process))
    if count < 2:
        return np.zeros((len(model), len(model)))
    scores = _scores(pulled, fit.rows.process)
    scores = scores - scores.mean(axis=0)
    between = scores.T @ scores * count / (count - 1)
    within = np.sqrt(model * wider)
    share = np.divide(np.diag(between), within**2, out=np.ones_like(model), where=within > 0)
    beyond = max(0.0, 1 - 1 / max(float(share.mean()), 1e-9))
    widened: FloatArray = _quantile(confidence, count - 1) ** 2 * beyond * between
    return widened


def _traced(
    fit: Fit, observed: Observed, influence: FloatArray, seconds: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Variance from traced steps being few (a jackknife over them), and that of kinds' times."""
    axis, kinds = observed.axis, len(seconds)
    total = axis.layout_share.mean(axis=0)
    drawn = np.where(total > 0, (fit.misplaced**2).sum(axis=1), 0.0)
    if axis.layouts < 2:
        return np.zeros((kinds, kinds)), drawn
    watts = np.maximum(fit.watts, 0.0)
    curves = axis.curves(watts)
    off = curves - curves.mean(axis=1, keepdims=True)
    moved = fit.rows.weights @ np.vstack([off, np.zeros(off.shape[1])])
    change = -(moved.T @ influence)
    pace = np.divide(seconds, total, out=np.zeros(kinds), where=total > 0)
    change += (axis.layout_share - total) * pace * watts
    # The mean of traced steps stands for that of clean ones, and both are of a few.
    clean = sum(int(line.step[-1]) + 1 for line in observed.lines)
    scale = (1.0 + axis.layouts / clean) / (axis.layouts * (axis.layouts - 1))
    relative = np.divide(
        ((axis.layout_share - total) ** 2).sum(axis=0) * scale, total**2,
        out=np.zeros(kinds), where=total > 0,
    )  # fmt: skip
    return change.T @ change * scale, drawn + relative


def _misplaced(fit: Fit, observed: Observed, influence: FloatArray, seed: int) -> FloatArray:
    """Variance from times that are off: drawn, since what lies beside its place is not linear."""
    axis, kinds = observed.axis, influence.shape[1]
    rng = np.random.default_rng(seed)
    powers = fit.inverse[:kinds, :kinds]
    scale = np.sqrt(np.maximum(np.diag(powers), 1e-300))
    root = np.linalg.cholesky(powers / scale / scale[:, None] + 1e-9 * np.eye(kinds))
    drawn = fit.watts[:, None] + scale[:, None] * (root @ rng.standard_normal((kinds, DRAWS)))
    curves = axis.reached @ np.maximum(drawn, 0.0)
    off = fit.misplaced @ rng.standard_normal((kinds, DRAWS))
    moved = moved_knots(axis, np.maximum(1 + off, LEAST_FACTOR))
    beside = blurred(axis, fit.assumed, seed) @ np.maximum(drawn, 0.0)
    change = np.empty_like(curves)
    for j in range(DRAWS):
        change[:, j] = np.interp(axis.knots, moved[:, j], curves[:, j]) - beside[:, j]
    explained = fit.rows.weights @ np.vstack([change, np.zeros(DRAWS)])
    errors = explained.T @ influence
    variance: FloatArray = errors.T @ errors / DRAWS
    return variance


def _rounded(fit: Fit, observed: Observed, influence: FloatArray, seed: int) -> FloatArray:
    """Variance from rounding by the sensor, drawn.

    Where noise does not spread values over several steps of the sensor, each pass of the same place
    is rounded alike. Where between two steps the true values lie is not known: powers are drawn
    that differ by a step or so.
    """
    resolution = max(each.resolution for each in observed.readings)
    kinds = influence.shape[1]
    if observed.counter or not resolution:
        return np.zeros((kinds, kinds))
    rng = np.random.default_rng(seed)
    powers = fit.watts[:, None] + resolution * rng.standard_normal((kinds, ROUNDINGS))
    exact = fit.columns[:, :kinds] / fit.trust[:, None] @ powers + resolution * rng.random(
        ROUNDINGS
    )
    noise = math.sqrt(max(fit.noise - resolution**2 / 12, 0.0))
    exact += noise * rng.standard_normal(exact.shape)
    errors = (np.rint(exact / resolution) * resolution - exact).T @ influence
    variance: FloatArray = errors.T @ errors / ROUNDINGS
    return variance
