"""Means, ratios and medians over steps as Figures, with intervals that know that neighbouring steps are alike."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from wattstep.errors import InvalidValueError
from wattstep.schema.arrays import FloatArray
from wattstep.schema.figure import Figure, Status
from wattstep.stats.autoregressive import ends_of_mean
from wattstep.stats.bootstrap import autocovariances, block_length, block_starts, ends
from wattstep.stats.proportions import wilson

_CONFIDENCE = 0.95
_RESAMPLES = 2000
_MANY = 20_000  # beyond this, runs of neighbouring steps are summed first
_SHORT = 250  # up to here, blocks are too few to hold what neighbours share
_SEES_RARE = 30  # fewer steps miss what one in ten does in more than one case of twenty
_NORMAL = NormalDist()
NOT_BELOW = "cut at 0: less than nothing cannot be"


def mean_figure(
    values: ArrayLike,
    unit: str,
    source: str,
    status: Status,
    block: int | None = None,
    seed: int = 0,
    signed: bool = False,
) -> Figure:
    """The mean of a quantity over steps, with a 95 % interval.

    Up to 250 steps it is Student's t for a series that is correlated by an unknown amount
    (`stats/autoregressive.py`): wide where steps are few, since few cannot tell how alike
    neighbours are. Beyond, and where a block is given, it comes from a circular block bootstrap:
    percentiles of the resampled means, widened for few blocks (as t to normal, Hesterberg 2015)
    and, where blocks are too short to hold all of the correlation, to the long-run variance of an
    AR(1) process. With fewer than 8 blocks it is Student's t times the bootstrap's standard error,
    widened likewise. Of few values that differ much it would reach below 0: where the quantity
    cannot, it is cut there, which takes away no value that could be the true one.

    Args:
        values: One value a step, in the order of the steps, in `unit`, shape (n,).
        unit: SI unit of the values and the figure.
        source: The sensor or clock behind them.
        status: How the values came about.
        block: Steps in a block, 1 where values are known to be independent; None: chosen from the
            autocorrelation (Politis and White 2004).
        seed: Seed of the resampling.
        signed: Whether the true mean may be below 0 though no value is: of differences, say.

    Returns:
        The figure; missing where there are no values, without interval where there is one.

    Raises:
        InvalidValueError: A value is NaN or infinite, or the block is less than 1.
    """
    array = _checked(values, "values")
    return _ratio(array, np.ones(len(array)), "mean", unit, source, status, block, seed, signed)


def ratio_figure(
    numerators: ArrayLike,
    denominators: ArrayLike,
    unit: str,
    source: str,
    status: Status,
    block: int | None = None,
    seed: int = 0,
    signed: bool = False,
) -> Figure:
    """Sum over sum, e.g. samples by seconds for throughput, with a 95 % interval.

    Both sides of a step are resampled together; otherwise like `mean_figure`.

    Args:
        numerators: One value a step, shape (n,).
        denominators: One value a step, none negative, shape (n,).
        unit: SI unit of the quotient.
        source: The sensors or clocks behind them.
        status: How the values came about, the weaker of the two.
        block: Steps in a block; None: chosen from the autocorrelation.
        seed: Seed of the resampling.
        signed: Whether the true quotient may be below 0 though no numerator is.

    Returns:
        The figure; missing where there are no values or the denominators add up to 0.

    Raises:
        InvalidValueError: A value is NaN or infinite, a denominator negative, or the lengths differ.
    """
    above, below = _checked(numerators, "numerators"), _checked(denominators, "denominators")
    if len(above) != len(below):
        raise InvalidValueError(
            f"{len(above)} numerators do not fit {len(below)} denominators", id="unequal-lengths"
        )
    if (below < 0).any():
        raise InvalidValueError("denominators must not be negative", id="out-of-range")
    if len(below) and not below.sum() > 0:
        reason = "the denominators add up to 0"
        return _bare(None, "sum by sum", unit, source, status, len(below), reason)
    return _ratio(above, below, "sum by sum", unit, source, status, block, seed, signed)


def median_figure(
    values: ArrayLike,
    unit: str,
    source: str,
    status: Status,
    block: int | None = None,
    seed: int = 0,
) -> Figure:
    """The median of a quantity over steps, with a 95 % interval.

    The share of steps below the median is resampled, as a mean is, and its interval read off the
    sorted values (Woodruff 1952). Of fewer than six steps it is at most their whole range, which
    holds the true median less often: `confidence` says so.

    Args:
        values: One value a step, in the order of the steps, in `unit`, shape (n,).
        unit: SI unit of the values and the figure.
        source: The sensor or clock behind them.
        status: How the values came about.
        block: Steps in a block; None: chosen from the autocorrelation.
        seed: Seed of the resampling.

    Returns:
        The figure; missing where there are no values, without interval where there is one.

    Raises:
        InvalidValueError: A value is NaN or infinite, or the block is less than 1.
    """
    array = _checked(values, "values")
    if why := _no_interval(len(array), block):
        value = float(np.median(array)) if len(array) else None
        return _bare(value, "median", unit, source, status, len(array), why)
    median = float(np.median(array))
    below = (array < median) + 0.5 * (array == median)
    low, high, method = _interval(below, np.ones(len(array)), block, seed)
    shares = np.clip([low, high], 0.0, 1.0)
    bounds = np.quantile(array, shares)
    return Figure(
        value=median,
        unit=unit,
        status=status,
        low=float(bounds[0]),
        high=float(bounds[1]),
        confidence=min(_CONFIDENCE, 1 - 2.0 ** (1 - len(array))),
        n=len(array),
        method=f"median, {method}, of the share of steps below it",
        source=source,
    )


def ends_of_estimate(influence: FloatArray, seed: int = 0) -> tuple[float, float]:
    """Distances of the truth below and above an estimate that is about a mean over neighbours, 95 %.

    Args:
        influence: Change of the estimate by each value, times their number, in their order; the
            mean of it is 0, shape (n,) with n of 2 or more.
        seed: Seed of the resampling.

    Returns:
        The lower end, at most 0, and the upper one, at least 0.
    """
    low, high, _ = _interval(influence, np.ones(len(influence)), None, seed)
    return min(low, 0.0), max(high, 0.0)


def share_figure(right: int, n: int, source: str) -> Figure:
    """The share of independent samples that is right, with the 95 % interval of Wilson (1927).

    Args:
        right: How many are.
        n: How many there are, at least 1.
        source: Source of the samples.
    """
    share = right / n
    low, high = wilson(share, n, _CONFIDENCE)
    return Figure(
        value=share,
        unit="ratio",
        status=Status.MEASURED,
        low=low,
        high=high,
        confidence=_CONFIDENCE,
        n=n,
        method="share that is right; interval of Wilson over samples",
        source=source,
    )


def change_figure(won: int, lost: int, n: int, source: str) -> Figure:
    """By how much the share of the same samples changed, with a 95 % interval.

    The interval is that of a difference of paired proportions (the normal one of Wald): only
    samples that changed sides are uncertain.

    Args:
        won: How many are right now and were not before.
        lost: How many are not right any more.
        n: How many there are, at least 1.
        source: Source of the samples.
    """
    value = (won - lost) / n
    normal = _NORMAL.inv_cdf((1 + _CONFIDENCE) / 2)
    half_width = normal * math.sqrt(won + lost - (won - lost) ** 2 / n) / n
    return Figure(
        value=value,
        unit="ratio",
        status=Status.MEASURED,
        low=value - half_width,
        high=value + half_width,
        confidence=_CONFIDENCE,
        n=n,
        method="difference on the same samples, paired",
        source=source,
    )


def _checked(values: ArrayLike, name: str) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise InvalidValueError(f"{name} must have one dimension, not {array.ndim}")
    if not np.isfinite(array).all():
        raise InvalidValueError(
            f"{name} must be finite: leave out the steps that have no value", id="not-finite"
        )
    return array


def _no_interval(n: int, block: int | None) -> str | None:
    """Reason why so many values in such blocks have no interval, or None where they have one."""
    if block is not None and block < 1:
        raise InvalidValueError(f"a block needs at least one step, not {block}", id="out-of-range")
    if n < 2:
        return "one value has no interval" if n else "no values"
    if block is not None and n < 2 * block:
        return f"{n} steps are less than two blocks of {block}: no interval"
    return None


def _bare(
    value: float | None, name: str, unit: str, source: str, status: Status, n: int, reason: str
) -> Figure:
    """A figure without interval, missing where there is no value."""
    return Figure(
        value=value,
        unit=unit,
        status=Status.MISSING if value is None else status,
        n=n,
        method=None if value is None else name,
        source=source,
        reason=reason,
    )


def _ratio(
    above: FloatArray,
    below: FloatArray,
    name: str,
    unit: str,
    source: str,
    status: Status,
    block: int | None,
    seed: int,
    signed: bool,
) -> Figure:
    n = len(above)
    value = float(above.sum() / below.sum()) if n else None
    if why := _no_interval(n, block):
        return _bare(value, name, unit, source, status, n, why)
    low, high, method = _interval(above, below, block, seed)
    if low < 0 and not signed and (above >= 0).all():
        low, method = 0.0, f"{method}; {NOT_BELOW}"
    return Figure(
        value=value,
        unit=unit,
        status=status,
        low=low,
        high=high,
        confidence=_CONFIDENCE,
        n=n,
        method=f"{name}, {method}",
        source=source,
    )


def _interval(
    above: FloatArray, below: FloatArray, block: int | None, seed: int
) -> tuple[float, float, str]:
    """The interval of sum(above) / sum(below), and how it was made."""
    n_steps = len(above)
    if block is None and n_steps <= _SHORT:
        ratio = float(above.sum() / below.sum())
        low, high = ends_of_mean((above - ratio * below) / float(below.mean()), _CONFIDENCE)
        return ratio + low, ratio + high, _words_of_short(n_steps)
    run = -(-n_steps // _MANY)
    if run > 1:
        bounds = np.arange(0, n_steps, run)
        above, below = np.add.reduceat(above, bounds), np.add.reduceat(below, bounds)
    ratio = float(above.sum() / below.sum())
    residual = above - ratio * below
    covariances = autocovariances(residual)
    length = block_length(covariances) if block is None else -(-block // run)
    ratios = _resampled(above, below, length, seed)
    n_blocks = -(-len(above) // length)
    wider = math.sqrt(n_blocks * length / len(above) * _shortfall(residual, covariances, length))
    low, high = ends(ratios - ratio, n_blocks, _CONFIDENCE)
    method = f"block bootstrap over steps (blocks of {length * run}, {_RESAMPLES} resamples)"
    return ratio + wider * low, ratio + wider * high, method


def _words_of_short(n: int) -> str:
    words = "Student's t over steps, correlated as an AR(1) process of any strength"
    if n >= _SEES_RARE:
        return words
    return f"{words}; what less than one step in {max(n // 3, 2)} does may not be in it"


def _resampled(above: FloatArray, below: FloatArray, length: int, seed: int) -> FloatArray:
    """Ratios of resamples made of blocks that wrap around the end."""
    n = len(above)
    starts = block_starts(n, length, _RESAMPLES, seed)
    above_sums: FloatArray = _block_sums(above, length)[starts].sum(axis=1)
    if (below == below[0]).all():
        return above_sums / float(below[0] * length * starts.shape[1])
    below_sums: FloatArray = _block_sums(below, length)[starts].sum(axis=1)
    drawn = below_sums > 0
    ratios: FloatArray = above_sums[drawn] / below_sums[drawn]
    return ratios


def _block_sums(values: FloatArray, length: int) -> FloatArray:
    """Sums of the blocks that begin at each value."""
    sums = np.zeros(len(values) + length)
    np.cumsum(np.concatenate((values, values[: length - 1])), out=sums[1:])
    return sums[length:] - sums[: len(values)]


def _shortfall(residual: FloatArray, covariances: FloatArray, length: int) -> float:
    """By how much the long-run variance of an AR(1) process exceeds that of the blocks, at least 1."""
    n = len(residual)
    between_blocks = float((_block_sums(residual, length) ** 2).mean()) / length
    if not (between_blocks > 0 and covariances[0] > 0):
        return 1.0
    lag_one = float(covariances[1] / covariances[0])
    # The estimate of a correlation is biased towards less (Kendall 1954).
    lag_one = min(lag_one + (1 + 3 * lag_one) / n, 0.95)
    long_run = float(covariances[0]) * (1 + lag_one) / (1 - lag_one)
    return max(1.0, long_run / between_blocks)
