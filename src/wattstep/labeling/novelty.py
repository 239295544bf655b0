"""Whether a sample is of a class that the labeled set has: a conformal test with a stated false-alarm rate.

The score is a weighted sum of a sample's surprises, each standardized by those of the labeled samples, left out
in turn. Its rank among the labeled samples' scores is the p-value (Vovk et al. 2005). The p-values of samples
without labels are a mixture: even ones of known classes, and small ones (Pounds and Morris 2003); that gives
P(known | score), and spares samples that the test alone would call unknown where hardly any is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from wattstep.labeling.arrays import TINY, Floats

# Of lack of label mass, mass at new classes, distance to the nearest labeled sample, distance to the nearest
# class by its spread: chosen on four of the data sets of benchmarks/labeling.py.
WEIGHTS = (2.0, 1.0, 0.25, 1.0)
LEAST_SURPRISE = 4.0  # standard deviations below the mean that count
LEAST_RECENT = 20  # samples without labels from which a share of unknown ones is estimated
STEEPNESSES = (0.05, 0.1, 0.15, 0.2, 0.25)
SHARES = np.linspace(0.05, 1.0, 96)
LEAST_P = 0.002  # finer ones rest on an assumed tail
EFFECTIVE = 10.0  # samples without labels that count, for each labeled one
PRIOR_KNOWN = 3.0


@dataclass(frozen=True, kw_only=True)
class Novelty:
    """The test as it is kept.

    Attributes:
        means, spreads: Of the labeled samples' surprises, shape (4,).
        scores: Of the labeled samples, each left out, ascending, shape (m,).
        prevalence: Share of known samples among those without labels.
        steepness: Of the p-values of unknown samples: their density is steepness * p ** (steepness - 1).
    """

    means: Floats
    spreads: Floats
    scores: Floats
    prevalence: float
    steepness: float

    def score(self, surprise: Floats) -> Floats:
        """More is stranger, shape (n,)."""
        return _score(surprise, self.means, self.spreads)

    def p_values(self, score: Floats) -> Floats:
        """Share of known samples that are at least as strange, shape (n,).

        By rank, with the places between two labeled samples shared out evenly, so that a level between two
        ranks is kept too. Beyond the strangest labeled sample, where ranks end, by Student's t for a further
        value of a normal sample.
        """
        count = len(self.scores)
        above = count - np.interp(score, self.scores, np.arange(count, dtype=float) + 0.5)
        by_rank = np.where(score < self.scores[0], 1.0, above / count)
        last = self.scores[-1]
        spread = max(float(self.scores.std(ddof=1)) if count > 1 else 1.0, 0.05)
        freedom = max(count - 1, 1)

        def tail(values: Floats) -> Floats:
            standard = (values - self.scores.mean()) / (spread * np.sqrt(1 + 1 / count))
            below: Floats = special.stdtr(freedom, -standard)
            return below

        at_last = float(tail(np.array([last]))[0])
        beyond = tail(score) / max(at_last, TINY) * (0.5 / count)
        p: Floats = np.where(score > last, np.minimum(beyond, 0.5 / count), by_rank).clip(TINY, 1)
        return p

    def probability_known(self, p: Floats) -> Floats:
        """P(of a class that has labels), given the p-value, shape (n,)."""
        unknown = self.steepness * np.maximum(p, LEAST_P) ** (self.steepness - 1)
        known: Floats = self.prevalence / (
            self.prevalence + (1 - self.prevalence) * np.maximum(unknown, TINY)
        )
        return known


def learn(labeled: Floats, recent: Floats) -> Novelty:
    """The test from surprises.

    Args:
        labeled: Of labeled samples, each left out in turn, shape (m, 4).
        recent: Of samples without labels, shape (u, 4).
    """
    means, spreads = labeled.mean(axis=0), np.maximum(labeled.std(axis=0), 0.1)
    test = Novelty(
        means=means, spreads=spreads, scores=np.sort(_score(labeled, means, spreads)),
        prevalence=1.0, steepness=STEEPNESSES[0],
    )  # fmt: skip
    if len(recent) < LEAST_RECENT:
        return test
    prevalence, steepness = _mixture(test.p_values(test.score(recent)), len(labeled))
    return replace(test, prevalence=prevalence, steepness=steepness)


def _score(surprise: Floats, means: Floats, spreads: Floats) -> Floats:
    standard = ((surprise - means) / spreads).clip(-LEAST_SURPRISE, None)
    score: Floats = standard @ np.array(WEIGHTS) / sum(WEIGHTS)
    return score


def _mixture(p: Floats, labeled: int) -> tuple[float, float]:
    """Share of known samples and steepness under which p-values are likeliest, over a grid.

    p-values rest on few labeled samples: many of them tell no more than some times as many as those. A few
    known samples are assumed beside them.
    """
    p = np.maximum(p, LEAST_P)
    weight = min(1.0, EFFECTIVE * labeled / len(p))
    best, chosen = -np.inf, (1.0, STEEPNESSES[0])
    for steepness in STEEPNESSES:
        unknown = steepness * p ** (steepness - 1)
        for share in SHARES:
            value = weight * np.log(share + (1 - share) * unknown).sum() + PRIOR_KNOWN * np.log(share)
            if value > best:
                best, chosen = float(value), (float(share), float(steepness))
    return chosen
