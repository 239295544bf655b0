"""Whether a sample is of a class that the labeled set has: a conformal test with a stated false-alarm rate.

The score is a weighted sum of a sample's surprises, each standardized by those of the labeled samples, left out
in turn. Its rank among the labeled samples' scores is the p-value (Vovk et al. 2005). The p-values of samples
without labels are a mixture of even ones, of known classes, and small ones (Pounds and Morris 2003): that gives
P(known | p), and a stricter level where the stated one would call more known samples unknown than unknown ones.
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
STEEPNESS = 0.1  # p-values of unknown samples have the density STEEPNESS * p ** (STEEPNESS - 1)
SMALL = 0.05  # p-values by which unknown samples are counted
MOST_HALVINGS = 4  # of the stated rate of false alarms
LEAST_P = 0.002  # finer ones rest on an assumed tail


@dataclass(frozen=True, kw_only=True)
class Novelty:
    """The test as it is kept.

    Attributes:
        means, spreads: Of the labeled samples' surprises, shape (4,).
        scores: Of the labeled samples, each left out, ascending, shape (m,).
        prevalence: Share of known samples among those without labels.
        level: At this p-value and below samples are unknown.
    """

    means: Floats
    spreads: Floats
    scores: Floats
    prevalence: float
    level: float

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
        unknown = STEEPNESS * np.maximum(p, LEAST_P) ** (STEEPNESS - 1)
        known: Floats = self.prevalence / (
            self.prevalence + (1 - self.prevalence) * np.maximum(unknown, TINY)
        )
        return known


def learn(labeled: Floats, recent: Floats, false_alarm: float) -> Novelty:
    """The test from surprises.

    Args:
        labeled: Of labeled samples, each left out in turn, shape (m, 4).
        recent: Of samples without labels, shape (u, 4).
        false_alarm: Share of known samples that may be called unknown at most.
    """
    means, spreads = labeled.mean(axis=0), np.maximum(labeled.std(axis=0), 0.1)
    test = Novelty(
        means=means, spreads=spreads, scores=np.sort(_score(labeled, means, spreads)),
        prevalence=1.0, level=false_alarm,
    )  # fmt: skip
    if len(recent) < LEAST_RECENT:
        return test
    p = test.p_values(test.score(recent))
    prevalence = _prevalence(p, len(labeled))
    return replace(test, prevalence=prevalence, level=_level(p, prevalence, false_alarm))


def _score(surprise: Floats, means: Floats, spreads: Floats) -> Floats:
    standard = ((surprise - means) / spreads).clip(-LEAST_SURPRISE, None)
    score: Floats = standard @ np.array(WEIGHTS) / sum(WEIGHTS)
    return score


def _prevalence(p: Floats, labeled: int) -> float:
    """Share of known samples, from how many p-values are small beyond those that known samples have.

    All are, unless that is more than a standard error: labeled samples, being few, may happen to lie closer
    together than others of their classes.
    """
    error = np.sqrt(SMALL * (1 - SMALL) * (1 / labeled + 1 / len(p)))
    excess = float((p <= SMALL).mean()) - SMALL
    if excess <= error:
        return 1.0
    return float(np.clip(1 - excess / (SMALL**STEEPNESS - SMALL), 0.05, 1.0))


def _level(p: Floats, prevalence: float, most: float) -> float:
    """The p-value at or below which unknown samples are more than known ones: the stated rate or less.

    Halved as long as, between the half and the whole, there are no more than twice as many samples as known
    ones alone would be.
    """
    level = most
    for _ in range(MOST_HALVINGS):
        between = ((p > level / 2) & (p <= level)).mean()
        if between > 2 * prevalence * level / 2:
            break
        level /= 2
    return level
