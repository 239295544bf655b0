"""Whether a sample is of a class that the labeled set has: a conformal test with a stated false-alarm rate.

The score is a weighted sum of a sample's surprises, each standardized by those of the labeled samples, left out
in turn. Its rank among the labeled samples' scores is the p-value (Vovk et al. 2005). Where more p-values of
samples without labels are small than known samples would have, a mixture of their scores gives P(known | score)
(`mixture.py`), and a stricter level where the stated one would call more known samples unknown than unknown ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from wattstep.labeling import mixture
from wattstep.labeling.arrays import TINY, Floats
from wattstep.labeling.mixture import Curve

# Of lack of label mass, mass at new classes, distance to the nearest labeled sample, distance to the nearest
# class by its spread: chosen on four of the data sets of benchmarks/labeling.py.
WEIGHTS = (2.0, 1.0, 0.25, 1.0)
LEAST_SURPRISE = 4.0  # standard deviations below the mean that count
LEAST_RECENT = 20  # samples without labels from which a share of unknown ones is estimated
SMALL = 0.05  # p-values by which unknown samples are counted
MOST_HALVINGS = 4  # of the stated rate of false alarms


@dataclass(frozen=True, kw_only=True)
class Novelty:
    """The test as it is kept.

    Attributes:
        means, spreads: Of the labeled samples' surprises, shape (4,).
        scores: Of the labeled samples, each left out, ascending, shape (m,).
        known: P(known | score).
        level: At this p-value and below samples are unknown.
    """

    means: Floats
    spreads: Floats
    scores: Floats
    known: Curve
    level: float

    @property
    def prevalence(self) -> float:
        """Share of known samples among those without labels."""
        return self.known.prevalence

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
        known=mixture.all_known(), level=false_alarm,
    )  # fmt: skip
    if len(recent) < LEAST_RECENT:
        return test
    scores = test.score(recent)
    p = test.p_values(scores)
    # The least p-value that m ranks have is one over m + 1. Where that is not small, small ones are a tail's that no
    # sample lies in: there the scores as a whole say whether some are unknown.
    told = (len(labeled) + 1) * SMALL >= 1
    known = mixture.all_known()
    if not told or _some_unknown(p, len(labeled)):
        known = mixture.fit(test.scores, scores, some=told)
    if known.prevalence == 1.0:
        # Nothing speaks for unknown samples: whatever is called so is more likely a false alarm.
        return replace(test, level=false_alarm / 2**MOST_HALVINGS)
    return replace(test, known=known, level=_level(p, known.prevalence, false_alarm))


def _score(surprise: Floats, means: Floats, spreads: Floats) -> Floats:
    standard = ((surprise - means) / spreads).clip(-LEAST_SURPRISE, None)
    score: Floats = standard @ np.array(WEIGHTS) / sum(WEIGHTS)
    return score


def _some_unknown(p: Floats, labeled: int) -> bool:
    """Whether more p-values are small than those of known samples, by more than a standard error.

    Labeled samples, being few, may happen to lie closer together than others of their classes.
    """
    error = np.sqrt(SMALL * (1 - SMALL) * (1 / labeled + 1 / len(p)))
    return bool((p <= SMALL).mean() - SMALL > error)


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
