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
        value of a normal sample. Where ranks tell nothing of small p-values, which few labeled samples that lie
        close together by luck make far too small, never below the share of recent samples that are at least as
        strange, each counted by P(known).
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
        return p if _ranks_tell(count) else np.maximum(p, self.known.tail_at(score))


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
    # Where small p-values are a tail's that no labeled sample lies in, the scores as a whole say whether some are unknown.
    told = _ranks_tell(len(labeled))
    if not told or _some_unknown(test.p_values(scores), len(labeled)):
        test = replace(test, known=mixture.fit(test.scores, scores, some=told))
    if test.prevalence == 1.0:
        # Nothing speaks for unknown samples: whatever is called so is more likely a false alarm.
        return replace(test, level=false_alarm / 2**MOST_HALVINGS)
    return replace(test, level=_level(test.p_values(scores), test.prevalence, false_alarm))


def _ranks_tell(labeled: int) -> bool:
    """Whether ranks among so many have small p-values: the least is one over one more."""
    return (labeled + 1) * SMALL >= 1


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
