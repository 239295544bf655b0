"""The mixed linear model: powers of kinds, and what else moves the samples, all with their prior spread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize

from wattstep.schema.arrays import BoolArray, FloatArray

IMPOSSIBLE = 1e30  # finite: a simplex search takes differences
TRIES = 40
MOST_TURNS = 60


@dataclass(frozen=True, kw_only=True, eq=False)
class Equations:
    """Normal equations of samples about their mean; the first columns are powers of kinds.

    Attributes:
        gram: Shape (c, c).
        right: Shape (c,).
        square: Sum of squares of the samples about their mean.
        count: How many samples there are.
        inverse: Of the prior covariance of powers, in units of their variance, shape (k + 1, k + 1).
        log_size: Logarithm of the determinant of that covariance.
    """

    gram: FloatArray
    right: FloatArray
    square: float
    count: int
    inverse: FloatArray
    log_size: float

    def precision(self, spread: float) -> FloatArray:
        """Inverse of the prior covariance of all columns; others than powers have variance 1.

        Args:
            spread: Variance of powers.
        """
        kinds = len(self.inverse)
        whole = np.eye(len(self.gram))
        whole[:kinds, :kinds] = self.inverse / spread
        return whole


@dataclass(frozen=True, kw_only=True)
class Variances:
    """Of noise (one sample) and of powers among kinds, in W², and -2 log likelihood with them."""

    noise: float
    spread: float
    score: float


def likeliest(
    equations: Equations, begin: tuple[float, float], most: float, tries: int = TRIES
) -> Variances:
    """The variances that make the samples likeliest (restricted to their mean: type II likelihood).

    Args:
        equations: The normal equations.
        begin: Noise and spread to begin with.
        most: The largest spread that is believed, in W².
        tries: How often the likelihood is computed.
    """
    kinds = len(equations.inverse)

    def score(logs: FloatArray) -> float:
        noise, spread = np.exp(np.clip(logs, -80, 80))
        if spread > most:
            return IMPOSSIBLE
        whole = equations.gram / noise + equations.precision(float(spread))
        lower, failed = linalg.lapack.dpotrf(whole, lower=1, overwrite_a=1)
        if failed:
            return IMPOSSIBLE
        along = linalg.lapack.dtrtrs(lower, equations.right / noise, lower=1)[0]
        size = 2 * float(np.log(np.diag(lower)).sum())
        prior = kinds * float(np.log(spread)) + equations.log_size
        fit = equations.square / noise - float(along @ along)
        return float(equations.count * np.log(noise) + size + prior + max(fit, 0.0))

    first = np.log(np.array([begin[0], min(begin[1], most / 3)]))
    result = optimize.minimize(
        score, first, method="Nelder-Mead",
        options={"initial_simplex": first + np.array([[0, 0], [0.7, 0], [0, -0.7]]),
                 "maxfev": tries, "xatol": 0.02, "fatol": 0.02},
    )  # fmt: skip
    noise, spread = np.exp(np.clip(result.x, -80, 80))
    return Variances(noise=float(noise), spread=float(spread), score=float(result.fun))


def least_squares_bounded(
    whole: FloatArray, right: FloatArray, bounded: BoolArray, lowest: FloatArray
) -> FloatArray:
    """The minimum of x'Wx/2 - r'x with some entries bounded from below (block principal pivoting).

    Portugal, Júdice and Vicente (1994). Where pivoting goes round in circles, one at a time.

    Args:
        whole: W, positive definite, shape (c, c).
        right: r, shape (c,).
        bounded: Which entries are bounded, shape (c,).
        lowest: Their bounds, shape (c,).
    """
    at_bound = np.zeros(len(right), bool)
    fewest, patience = len(right) + 1, 3
    solution = lowest.copy()
    for _ in range(MOST_TURNS):
        free = ~at_bound
        solution = np.where(at_bound, lowest, 0.0)
        known = whole[np.ix_(free, at_bound)] @ lowest[at_bound]
        solution[free] = solved(whole[np.ix_(free, free)], right[free] - known)
        pull = whole @ solution - right
        size = 1e-10 * max(float(np.abs(right).max(initial=0)), 1e-300)
        below = free & bounded & (solution < lowest)
        released = at_bound & (pull < -size)
        wrong = np.flatnonzero(below | released)
        if not len(wrong):
            break
        if len(wrong) < fewest:
            fewest, patience = len(wrong), 3
        elif patience > 0:
            patience -= 1
        else:
            wrong = wrong[-1:]
        at_bound[wrong] = ~at_bound[wrong]
    within: FloatArray = np.where(bounded, np.maximum(solution, lowest), solution)
    return within


def inverted(whole: FloatArray) -> FloatArray:
    """Inverse of a positive definite matrix whose entries differ by many orders of magnitude.

    Args:
        whole: Shape (c, c).
    """
    scale = 1 / np.sqrt(np.diag(whole))
    result: FloatArray
    lower, failed = linalg.lapack.dpotrf(whole * scale * scale[:, None], lower=1, overwrite_a=1)
    if failed:
        result = np.linalg.pinv(whole * scale * scale[:, None], hermitian=True).astype(np.float64)
        return result * scale * scale[:, None]
    half, _ = linalg.lapack.dpotri(lower, lower=1, overwrite_c=1)
    result = np.tril(half) + np.tril(half, -1).T
    return result * scale * scale[:, None]


def solved(whole: FloatArray, right: FloatArray) -> FloatArray:
    """Solution of equations with such a matrix.

    Args:
        whole: Shape (c, c).
        right: Shape (c,).
    """
    if not len(right):
        return right
    scale = 1 / np.sqrt(np.diag(whole))
    lower, failed = linalg.lapack.dpotrf(whole * scale * scale[:, None], lower=1, overwrite_a=1)
    if failed:
        return inverted(whole) @ right
    solution: FloatArray = linalg.lapack.dpotrs(lower, right * scale, lower=1)[0] * scale
    return solution
