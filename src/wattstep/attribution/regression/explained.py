"""Fit of a sensor's delay and window to the samples, all powers of kinds being free."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from wattstep.attribution.regression.evidence import Evidence, evidence, penalized
from wattstep.attribution.regression.observed import Observed, Rows
from wattstep.schema.arrays import FloatArray

MOST_SPREAD = 2.0  # of the mean power: standard deviation among kinds
LEAST = 3  # observations: fewer explain nothing


@dataclass(frozen=True, kw_only=True, eq=False)
class Explained:
    """Samples explained with one delay and window.

    Attributes:
        delay: In s.
        window: In s.
        evidence: How well.
        rows: The equations.
        watts: Power of each kind and, last, between steps, shape (k + 1,).
        whitened: The equations times the prior's root, shape (n, k + 1).
        solution: Powers about the mean in units of the prior's root, shape (k + 1,).
        total: -2 log likelihood of all samples, those included that lie outside of clean steps.
    """

    delay: float
    window: float
    evidence: Evidence
    rows: Rows
    watts: FloatArray
    whitened: FloatArray
    solution: FloatArray
    total: float


class Explaining:
    """Explains the same samples with one delay and window after another.

    Args:
        observed: The samples.
        root: Lower root of the prior's covariance, shape (k + 1, k + 1).
    """

    def __init__(self, observed: Observed, root: FloatArray) -> None:
        self.observed = observed
        self._root = root
        self._table = observed.table() @ root
        inside = observed.rows(0.0, 0.0).watts if not observed.counter else _watts(observed)
        # What a window leaves unexplained may have any power that samples have.
        self._any = float(np.log(inside.var() + 1e-300)) if len(inside) else 0.0

    def score(self, delay: float, window: float, ratio: float) -> float:
        """-2 log likelihood of all samples; infinite where too few lie in clean steps.

        A window that leaves out the samples that it cannot explain is no better for it: these have
        the likelihood of samples of which nothing is known.

        Args:
            delay: In s.
            window: In s.
            ratio: Of noise to spread, as `explain` found it nearby.
        """
        rows = self.observed.rows(delay, window)
        count = len(rows.watts)
        if count < LEAST:
            return float("inf")
        whitened = rows.weights @ self._table
        about = rows.watts - rows.watts.mean()
        gram, right = whitened.T @ whitened, whitened.T @ about
        return self._total(penalized(gram, right, float(about @ about), count, ratio), count)

    def _total(self, score: float, count: int) -> float:
        return count * score + (self.observed.count - count) * self._any

    def explain(self, delay: float, window: float) -> Explained | None:
        """The samples explained, or None where too few lie in clean steps."""
        rows = self.observed.rows(delay, window)
        count = len(rows.watts)
        if count < LEAST:
            return None
        whitened = rows.weights @ self._table
        middle = float(rows.watts.mean())
        about = rows.watts - middle
        gram, right = whitened.T @ whitened, whitened.T @ about
        variances = evidence(gram.copy(), right, float(about @ about), count, most_spread(middle))
        gram[np.diag_indices(len(gram))] += variances.ratio
        solution = linalg.solve(gram, right, assume_a="pos", check_finite=False)
        return Explained(
            delay=delay, window=window, evidence=variances, rows=rows, whitened=whitened,
            solution=solution, watts=middle + self._root @ solution,
            total=self._total(variances.score, count),
        )  # fmt: skip


def most_spread(middle: float) -> float:
    """The largest variance of powers that is believed in W²: none is negative, and few are far off.

    Args:
        middle: Mean power in W.
    """
    return (MOST_SPREAD * middle) ** 2 + 1e-300


def _watts(observed: Observed) -> FloatArray:
    return np.concatenate([each.watts for each in observed.readings])
