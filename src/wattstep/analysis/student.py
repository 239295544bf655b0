"""Student's t for any degrees of freedom, fractions too, without the quarter of a second that loading scipy takes."""

from __future__ import annotations

import functools
import math
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from wattstep.analysis.steps import FloatArray

TINY: Final = 1e-300
MOST_TERMS: Final = 300
NEWTON_STEPS: Final = 20
ENDLESS: Final = 1e6  # degrees of freedom from which on it is the normal distribution


def two_sided(t: ArrayLike, freedom: ArrayLike) -> FloatArray:
    """The probability that Student's t lies beyond t on either side.

    It is the regularised incomplete beta function I_x(f/2, 1/2) at x = f / (f + t²) (Abramowitz and
    Stegun 26.7.1), by its continued fraction (26.5.8).

    Args:
        t: Any shape; NaN stays NaN.
        freedom: Degrees of freedom above 0, of a shape that fits.
    """
    square, f = np.broadcast_arrays(np.asarray(t, np.float64) ** 2, np.asarray(freedom, np.float64))
    known = np.isfinite(square) & np.isfinite(f)
    finite, freedoms = np.where(known, square, 1.0), np.where(known, f, 1.0)
    whole = freedoms + finite
    beyond = np.clip(_beta(freedoms / 2, freedoms / whole, finite / whole), 0.0, 1.0)
    result: FloatArray = np.where(known, beyond, np.where(np.isinf(square), 0.0, np.nan))
    return result


def quantile(confidence: float, freedom: ArrayLike) -> FloatArray:
    """The t within which, on both sides of 0, Student's t lies with this probability.

    Args:
        confidence: e.g. 0.95.
        freedom: Degrees of freedom, at least 1, any shape.
    """
    f = np.asarray(freedom, np.float64)
    peak = np.exp(_log_gamma((f + 1) / 2) - _log_gamma(f / 2)) / np.sqrt(f * math.pi)
    t = np.full(f.shape, NormalDist().inv_cdf((1 + confidence) / 2))
    # Newton's method on logarithms of both: far out, the probability is a power of t.
    for _ in range(NEWTON_STEPS):
        beyond = two_sided(t, f)
        density = 2 * peak * (1 + t**2 / f) ** (-(f + 1) / 2)
        further = np.log(beyond / (1 - confidence)) * beyond / (density * t)
        t = t * np.exp(further)
        if (np.abs(further) < 1e-13).all():
            break
    return t


@functools.lru_cache(maxsize=4096)
def critical_value(confidence: float, freedom: float) -> float:
    """The same of one number of degrees of freedom, kept: it takes milliseconds, and few are asked for.

    Args:
        confidence: e.g. 0.95.
        freedom: Degrees of freedom, at least 1; infinite for the normal distribution.
    """
    if freedom >= ENDLESS:
        return NormalDist().inv_cdf((1 + confidence) / 2)
    return float(quantile(confidence, freedom))


def _beta(a: FloatArray, x: FloatArray, rest: FloatArray) -> FloatArray:
    """I_x(a, 1/2), with rest = 1 - x given for its own sake: near 1, x alone has lost it."""
    b = 0.5
    with np.errstate(divide="ignore", invalid="ignore"):
        front = np.exp(
            _log_gamma(a + b) - _log_gamma(a) - math.lgamma(b) + a * np.log(x) + b * np.log(rest)
        )
        near = x < (a + 1) / (a + b + 2)
        straight = front * _fraction(a, np.full_like(a, b), np.where(near, x, 0.0)) / a
        turned = 1 - front * _fraction(np.full_like(a, b), a, np.where(near, 0.0, rest)) / b
    found: FloatArray = np.where(rest <= 0, 1.0, np.where(near, straight, turned))
    return found


def _log_gamma(values: FloatArray) -> FloatArray:
    return np.array([math.lgamma(value) for value in values.ravel()]).reshape(values.shape)


def _fraction(a: FloatArray, b: FloatArray, x: FloatArray) -> FloatArray:
    """The continued fraction of the incomplete beta function, by the method of Lentz (1976)."""

    def apart(values: FloatArray) -> FloatArray:
        return np.where(np.abs(values) < TINY, TINY, values)

    c = np.ones_like(x)
    d = 1 / apart(1 - (a + b) * x / (a + 1))
    result = d
    for m in range(1, MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        factor = np.ones_like(x)
        for term in (even, odd):
            d, c = 1 / apart(1 + term * d), apart(1 + term / c)
            factor = factor * d * c
        result = result * factor
        if (np.abs(factor - 1) < 1e-15).all():
            break
    return result
