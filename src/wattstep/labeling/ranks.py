"""Features as normal scores among the samples in memory: a few outlying values no longer decide what is near.

Scores by ranks make of each feature a normal one (van der Waerden 1952), as the nonparanormal has it (Liu et al.
2009); unlike plain ranks they leave tails apart. Beyond the samples in memory distances stay what they were, so that
what is new there stays far.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from wattstep.labeling.arrays import Floats


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """Samples in memory by feature.

    Attributes:
        values: Ascending by column, shape (n, d).
        scores: Quantile of the standard normal distribution at the share of samples below each value, half of those
            at it among them, shape (n, d); less where the feature varied less.
    """

    values: Floats
    scores: Floats

    def of(self, x: Floats) -> Floats:
        """Scores of samples, shape (n, d): between two values straight, beyond the last ones on by their distance."""
        inside = x.clip(self.values[0], self.values[-1])
        scores: Floats = x - inside
        for column in range(x.shape[1]):
            scores[:, column] += np.interp(
                inside[:, column], self.values[:, column], self.scores[:, column]
            )
        return scores


def ranks_among(x: Floats) -> Ranks:
    """Ranks among these samples, standardized, shape (n, d)."""
    values = np.sort(x, axis=0)
    scores = special.ndtri((stats.rankdata(values, axis=0) - 0.5) / len(x))
    spread = scores.std(axis=0)
    scores = scores * np.minimum(1.0, values.std(axis=0) / np.where(spread > 0, spread, 1.0))
    return Ranks(values=values, scores=scores)
