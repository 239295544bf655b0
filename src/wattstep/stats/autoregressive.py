"""The interval of the mean of a short series whose neighbours are alike by an unknown amount.

Of few values a correlation cannot be determined: its estimate is far too small, and a bootstrap of
blocks has too few of them. So each correlation that an AR(1) process may have is given the
weight that the series and a prior leave it, and the mean the mixture of Student's t that
follows (Bayes' rule with flat priors of the mean and of the logarithm of the spread; Zellner and
Tiao 1964). The more values there are, the less the prior says.
"""

from __future__ import annotations

import functools
from typing import Final

import numpy as np

from wattstep.schema.arrays import FloatArray
from wattstep.stats.student import two_sided

CORRELATIONS: Final = np.linspace(0.0, 0.97, 40)
# Between a flat prior, which at 0.9 holds 83 % of what it says, and that of Jeffreys, which is as
# wide again as it need be (benchmarks/few.py).
PRIOR: Final = (1 - CORRELATIONS**2) ** -0.75
PLACES: Final = np.concatenate(([0.0], np.geomspace(1e-2, 1e4, 400)))  # of a tail, in errors
LOOKED_AT: Final = 300


def ends_of_mean(residuals: FloatArray, confidence: float) -> tuple[float, float]:
    """Distances of the true mean below and above the mean of a series.

    Args:
        residuals: The values less their mean, in their order, shape (n,) with n of 2 or more.
        confidence: e.g. 0.95.

    Returns:
        The lower end, at most 0, and the upper one, at least 0.
    """
    scale = float(np.abs(residuals).max())
    if scale <= 0:
        return 0.0, 0.0
    middle, error, weight = _posterior(residuals / scale)
    tail = (1 - confidence) / 2
    away = np.concatenate(
        ([0.0], np.geomspace(0.01 * float(error.min()), 1e3 * float(error.max()), LOOKED_AT))
    )
    low, high = (
        _end(away, sign * middle, error, weight, len(residuals) - 1, tail) for sign in (-1, 1)
    )
    return -scale * low, scale * high


def _posterior(values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean at each correlation, its standard error there, and the weight of it."""
    n, rho = len(values), CORRELATIONS
    # The inverse of the matrix of correlations has three diagonals.
    factor = 1 / (1 - rho**2)
    outer = values[0] + values[-1]
    squares_outer = values[0] ** 2 + values[-1] ** 2
    total, squares = values.sum(), (values**2).sum()
    products = (values[1:] * values[:-1]).sum()
    ones = factor * (2 + (n - 2) * (1 + rho**2) - 2 * rho * (n - 1))
    sums = factor * (outer + (total - outer) * (1 + rho**2) - rho * (2 * total - outer))
    spread = (
        factor * (squares_outer + (squares - squares_outer) * (1 + rho**2) - 2 * rho * products)
        - sums**2 / ones
    )
    spread = np.maximum(spread, 1e-12 * squares)
    log = -0.5 * (n - 1) * np.log(1 - rho**2) - 0.5 * np.log(ones) - 0.5 * (n - 1) * np.log(spread)
    weight = PRIOR * np.exp(log - log.max())
    return sums / ones, np.sqrt(spread / (n - 1) / ones), weight / weight.sum()


def _end(
    away: FloatArray,
    middle: FloatArray,
    error: FloatArray,
    weight: FloatArray,
    dof: int,
    tail: float,
) -> float:
    """The first of some distances beyond which the mixture has no more than a tail."""
    places = (away[:, None] - middle) / error
    beyond = np.interp(np.abs(places), PLACES, _tails(dof))
    left = np.where(places >= 0, beyond, 1 - beyond) @ weight
    return float(np.interp(-tail, -left, away))


@functools.lru_cache(maxsize=512)
def _tails(dof: int) -> FloatArray:
    """Probability beyond each of `PLACES` by Student's t."""
    tails: FloatArray = two_sided(PLACES, np.full(PLACES.shape, float(dof))) / 2
    return tails
