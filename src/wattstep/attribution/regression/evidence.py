"""Evidence of equations: how well powers of kinds explain them, whatever these are, and the noise that is left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from wattstep.schema.arrays import FloatArray

RATIOS = np.geomspace(1e-13, 1e3, 65)  # of noise to spread of powers, relative to the best seen


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The marginal likelihood of samples with power among kinds normal about a known mean.

    Attributes:
        score: -2 log likelihood for one observation; less is better.
        noise: Variance of one observation in W².
        spread: Variance of the kinds' power about the mean in W².
    """

    score: float
    noise: float
    spread: float

    @property
    def ratio(self) -> float:
        """Noise over spread."""
        return self.noise / self.spread


def evidence(
    gram: FloatArray, right: FloatArray, square: float, count: int, most: float = np.inf
) -> Evidence:
    """Evidence with the best ratio of noise to spread (MacKay 1992, eq. 4.8, on a grid).

    Args:
        gram: Of the equations after whitening the prior, shape (k, k).
        right: The same with the observations, shape (k,).
        square: Sum of squared observations.
        count: How many observations there are.
        most: The largest spread that is believed, in W².
    """
    values, vectors = linalg.eigh(gram, overwrite_a=True, check_finite=False, driver="evd")
    values = np.maximum(values, 0.0)
    along = (vectors.T @ right) ** 2
    ratios = RATIOS * max(float(values[-1]), 1e-300)
    left = square - (along[None, :] / (values[None, :] + ratios[:, None])).sum(axis=1)
    # Rounding leaves this much of a sum of squares.
    left = np.maximum(left, 1e-14 * square + 1e-300)
    scores = np.log(left / count) + np.log1p(values[None, :] / ratios[:, None]).sum(axis=1) / count
    believed = left / count <= most * ratios
    best = int(np.argmin(np.where(believed, scores, scores.max() + 1)))
    noise = float(left[best]) / count
    return Evidence(score=float(scores[best]), noise=noise, spread=noise / float(ratios[best]))


def penalized(
    gram: FloatArray, right: FloatArray, square: float, count: int, ratio: float
) -> float:
    """The score of `evidence` with a given ratio of noise to spread: faster, for many tries alike.

    Args:
        gram: Of the equations after whitening the prior, shape (k, k); it is overwritten.
        right: The same with the observations, shape (k,).
        square: Sum of squared observations.
        count: How many observations there are.
        ratio: Noise over spread.
    """
    gram[np.diag_indices(len(gram))] += ratio
    lower, failed = linalg.lapack.dpotrf(gram, lower=1, overwrite_a=1)
    if failed:
        return np.inf
    along = linalg.lapack.dtrtrs(lower, right, lower=1)[0]
    left = max(square - float(along @ along), 1e-14 * square + 1e-300)
    spanned = 2 * float(np.log(np.diag(lower)).sum()) - len(gram) * np.log(ratio)
    return float(np.log(left / count) + spanned / count)
