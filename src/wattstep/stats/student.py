"""Student's t for any degrees of freedom, fractions too: two-sided probabilities and quantiles.

By the incomplete beta function of scipy.special, which is loaded with the first call only: it takes
0.2 s of processor time, and nothing that records needs it.
"""

from __future__ import annotations

import functools
import math
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from wattstep.schema.arrays import FloatArray

NORMAL: Final = 1.959963984540054  # 97.5 % quantile of the normal distribution
ENDLESS: Final = 1e6  # degrees of freedom from which on it is the normal distribution


def two_sided(t: ArrayLike, dof: ArrayLike) -> FloatArray:
    """The probability that Student's t lies beyond t on either side.

    It is the regularised incomplete beta function I_x(f/2, 1/2) at x = f / (f + t²) (Abramowitz and
    Stegun 26.7.1).

    Args:
        t: Any shape; NaN stays NaN.
        dof: Degrees of freedom above 0, of a shape that fits; infinite ones give NaN.
    """
    from scipy import special

    square, f = np.asarray(t, np.float64) ** 2, np.asarray(dof, np.float64)
    with np.errstate(invalid="ignore"):
        # Near t = 0, x alone has lost what is left to 1.
        near = special.betaincc(0.5, f / 2, square / (f + square))
        far = special.betainc(f / 2, 0.5, f / (f + square))
    result: FloatArray = np.where(np.isfinite(f), np.where(square < f, near, far), np.nan)
    return result


def quantile(confidence: float, dof: ArrayLike) -> FloatArray:
    """The t within which, on both sides of 0, Student's t lies with this probability.

    Args:
        confidence: e.g. 0.95.
        dof: Degrees of freedom, at least 1, any shape.
    """
    from scipy import special

    f = np.asarray(dof, np.float64)
    if confidence < 0.5:  # the smaller of the two shares of f + t² has all its digits
        square = special.betaincinv(0.5, f / 2, confidence)
        result: FloatArray = np.sqrt(f * square / (1 - square))
    else:
        rest = special.betaincinv(f / 2, 0.5, 1 - confidence)
        result = np.sqrt(f * (1 - rest) / rest)
    return result


@functools.lru_cache(maxsize=4096)
def critical_value(confidence: float, dof: float) -> float:
    """Quantile for one number of degrees of freedom, cached.

    Args:
        confidence: e.g. 0.95.
        dof: Degrees of freedom, at least 1; infinite for the normal distribution.
    """
    if dof >= ENDLESS:
        return NormalDist().inv_cdf((1 + confidence) / 2)
    return float(quantile(confidence, dof))


def half_width(values: FloatArray, confidence: float) -> float:
    """Half width of the interval of a mean of independent values: Student's t; infinite below two.

    Args:
        values: Shape (n,).
        confidence: e.g. 0.95.
    """
    n = len(values)
    if n < 2:
        return math.inf
    return critical_value(confidence, n - 1) * float(values.std(ddof=1)) / math.sqrt(n)
