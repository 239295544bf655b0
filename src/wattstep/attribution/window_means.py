"""Means over traced steps, with intervals that hold however few there are: every table of operations has its own from here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.stats.student import critical_value

CONFIDENCE: Final = 0.95
ONE_WINDOW = "one traced step: no interval is known"


@dataclass(frozen=True, kw_only=True, eq=False)
class Windows:
    """Weights with which traced steps stand for clean ones.

    Attributes:
        kind: Of each window's step, counted from 0: steps may take turns; shape (windows,).
        factor: How much each window counts, 1 on average: a kind of step counts as often as it
            comes in clean steps, not as often as it happened to be traced; shape (windows,).
        unseen: Share of the clean time that steps are longer by than any that was traced.
    """

    kind: IntArray
    factor: FloatArray
    unseen: float = 0.0

    @property
    def count(self) -> int:
        """Number of windows."""
        return len(self.kind)

    @cached_property
    def _of_kind(self) -> FloatArray:
        """Windows of each kind, a row a kind that sums to 1."""
        which = (np.arange(self.kind.max(initial=0) + 1)[:, None] == self.kind).astype(np.float64)
        shares: FloatArray = which / np.maximum(which.sum(axis=1, keepdims=True), 1.0)
        return shares

    def means(self, sums: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means of what was counted in each window, and half widths of their intervals.

        Kinds of steps that take turns are strata: how they differ is no error.

        Args:
            sums: Of each group in each window, shape (groups, windows).

        Returns:
            Means, shape (groups,), and half widths, NaN where a kind was traced once only, likewise.
        """
        weighed = sums * self.factor
        middle = weighed @ self._of_kind.T
        there = (sums != 0) @ (self._of_kind.T > 0) > 0
        counts = there @ (self._of_kind > 0).sum(axis=1)
        kinds = np.maximum(there.sum(axis=1), 1)
        # A kind that a group never runs in adds nothing to its spread.
        return weighed.mean(axis=1), self._half_width(weighed - middle[:, self.kind], counts, kinds)

    def shares(
        self, sums: FloatArray, by_column: FloatArray, whole: FloatArray, relative: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Means of shares of a whole whose own mean is known, and half widths of their intervals.

        What groups take was scaled so that all of them make the known whole: the whole's own
        changes from window to window are none of the share's (the ratio estimator of surveys,
        Cochran 1977, section 6.3).

        Args:
            sums: What each group takes in each window, shape (groups, windows).
            by_column: What each group takes of each part that was scaled by itself, summed over
                the windows, shape (groups, columns).
            whole: All that is in each part in each window, shape (windows, columns).
            relative: Half width of the relative interval of each part's own mean, shape (columns,).

        Returns:
            As `means`; what parts leave open adds to what shares do.
        """
        total = whole.sum(axis=0)
        share = np.divide(by_column, total, out=np.zeros_like(by_column), where=total > 0)
        errors = sums - share @ whole.T
        counts = np.minimum(((by_column != 0) @ (whole > 0).T > 0).sum(axis=1), self.count)
        of_share = self._half_width(errors, counts, np.ones_like(counts))
        # Parts of a step change together as often as not: their errors are not taken to cancel.
        of_parts = by_column @ relative / self.count
        return sums.mean(axis=1), np.hypot(of_share, of_parts)

    def _half_width(self, errors: FloatArray, counts: IntArray, fitted: IntArray) -> FloatArray:
        """Half widths of the mean's interval: Student's t, over as many windows as take part.

        Args:
            errors: Of each group in each window, shape (groups, windows).
            counts: Windows that take part, shape (groups,).
            fitted: Means that were taken off, likewise.
        """
        counts = np.where(counts > 0, counts, self.count)  # what is nothing in all of them
        degrees = counts - fitted
        squares = (errors**2).sum(axis=1)
        known = degrees > 0
        variance = squares * counts / np.where(known, degrees, 1) / self.count**2
        different, which = np.unique(np.where(known, degrees, 1), return_inverse=True)
        quantile = np.array([critical_value(CONFIDENCE, int(f)) for f in different])[which]
        half_width: FloatArray = np.where(known, quantile * np.sqrt(variance), np.nan)
        return half_width
