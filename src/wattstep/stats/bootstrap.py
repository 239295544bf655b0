"""Block bootstrap: how long blocks are, which are drawn, and where the interval ends.

Neighbouring values are alike, so blocks of neighbours are drawn instead of single values (Künsch
1989), and blocks wrap around the end so that each value is drawn as often (Politis and Romano 1992).
Of few blocks, percentiles of the resamples do not reach far enough: all intervals are widened as
Student's t is wider than the normal distribution (Hesterberg 2015).
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

import numpy as np

from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.stats.student import critical_value

MOST_BLOCKS: Final = 1000  # more blocks in a resample would cost time and change nothing
FEW_BLOCKS: Final = 8  # percentiles of fewer cannot reach far enough


def block_starts(n: int, length: int, resamples: int, seed: int) -> IntArray:
    """First values of the blocks of each resample, shape (resamples, blocks).

    Args:
        n: Values of the series.
        length: Values in a block.
        resamples: How many are drawn.
        seed: Of the draws.
    """
    return np.random.default_rng(seed).integers(0, n, (resamples, -(-n // length)), dtype=np.int32)


def resampled(n: int, length: int, resamples: int, seed: int) -> IntArray:
    """Places of the values of each resample, as many as there are, shape (resamples, n).

    Args:
        n: Values of the series.
        length: Values in a block; blocks wrap around the end.
        resamples: How many are drawn.
        seed: Of the draws.
    """
    starts = block_starts(n, length, resamples, seed)
    places: IntArray = (starts[:, :, None] + np.arange(length)) % n
    return places.reshape(resamples, -1)[:, :n]


def ends(deviations: FloatArray, blocks: int, confidence: float) -> tuple[float, float]:
    """Ends of the interval, from how far resamples lie from the estimate.

    Args:
        deviations: Of the resamples, shape (resamples,).
        blocks: In each of them, 2 or more.
        confidence: e.g. 0.95.
    """
    factor = factor_of_few(blocks, confidence)
    if blocks < FEW_BLOCKS:
        half = factor * float(deviations.std())
        return -half, half
    tail = NormalDist().cdf(-factor)
    low, high = np.quantile(deviations, [tail, 1 - tail])
    return float(low), float(high)


def factor_of_few(blocks: int, confidence: float) -> float:
    """Half width of an interval in standard deviations of the resamples of so many blocks.

    Student's t, and what the spread within resamples is too small by.
    """
    return math.sqrt(blocks / (blocks - 1)) * critical_value(confidence, blocks - 1)


def usual_block_length(n: int) -> int:
    """Values in a block where the estimate is no mean: the cube root of n (Hall, Horowitz and Jing 1995)."""
    return max(1, round(math.pow(n, 1 / 3)))


def autocovariances(values: FloatArray) -> FloatArray:
    """Autocovariances at lags 0, 1, ..., n - 1, each a sum over n, shape (n,)."""
    n = len(values)
    spectrum = np.fft.rfft(values - values.mean(), 2 * n)
    covariances: FloatArray = np.fft.irfft(np.abs(spectrum) ** 2, 2 * n)[:n] / n
    return covariances


def block_length(covariances: FloatArray) -> int:
    """Values in a block for the mean of a series, by the rule of Politis and White (2004, corrected 2009).

    Args:
        covariances: Of the series, see `autocovariances`.
    """
    n = len(covariances)
    least = -(-n // MOST_BLOCKS)
    if n < 4 or covariances[0] <= 0:
        return least
    cut = _significant_lags(covariances)
    lags = np.arange(1, min(2 * cut, n - 1) + 1)
    weighted = np.minimum(1.0, 2 * (1 - lags / (2 * cut))) * covariances[lags]
    long_run = covariances[0] + 2 * weighted.sum()
    if long_run <= 0:
        return least
    slope = 2 * (lags * weighted).sum()
    best = math.pow(1.5 * n * (slope / long_run) ** 2, 1 / 3)
    most = math.ceil(min(3 * math.sqrt(n), n / 3))
    return max(least, 1, round(min(best, float(most))))


def _significant_lags(covariances: FloatArray) -> int:
    """The lag after which a run of correlations is too small to tell from none."""
    n = len(covariances)
    run = max(5, math.ceil(math.sqrt(math.log10(n))))
    last = min(math.ceil(math.sqrt(n)) + run, n - 1)
    limit = 2 * math.sqrt(math.log10(n) / n)
    large = np.flatnonzero(np.abs(covariances[1 : last + 1]) > limit * covariances[0]) + 1
    edges = np.concatenate(([0], large, [last + run + 1]))
    first_run = int(np.argmax(np.diff(edges) > run))
    return max(1, int(edges[first_run]))
