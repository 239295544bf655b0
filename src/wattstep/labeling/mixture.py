"""How likely a sample is of a known class, from how strange it is: a mixture fitted to samples without labels.

Known samples follow Student's t around the labeled ones, whose place and width it is held to; unknown ones one or
two normal distributions beyond (none, where it is not known from elsewhere that there are any), as many as the
Bayesian information criterion allows. By expectation and maximization; what is left between few samples is decided
by weak priors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattstep.labeling.arrays import Floats

FREEDOM = 4.0  # of Student's t: known samples have strange ones among them
RECENT_WEIGHT = (
    2.0  # what samples without labels may count for known ones, as a multiple of the labeled
)
KNOWN, OF_ALL = 8.0, 10.0  # pseudo-samples of the share of known ones
PARAMETERS = (
    4.0  # that a part of the unknown ones costs: share, center, spread, and one for the choice
)
TELLING = 100  # samples as which all together say at most whether any is unknown
QUANTILES: tuple[tuple[float, ...], ...] = ((), (0.5,), (0.3, 0.85))  # where so many parts begin
ROUNDS = 60
NARROWEST = 0.15  # spread of known samples
POINTS = 256  # of the curve that is kept
TINY_DENSITY = 1e-9


@dataclass(frozen=True, kw_only=True)
class Curve:
    """P(known | score) as it is kept: between these points straight, beyond them level.

    Attributes:
        scores: Ascending, shape (k,).
        known: Never rising, shape (k,).
        tail: Share of the known samples among those without labels that are at least as strange, shape (k,).
        prevalence: Share of known samples among those without labels.
    """

    scores: Floats
    known: Floats
    tail: Floats
    prevalence: float

    def at(self, score: Floats) -> Floats:
        """P(known), shape as `score`."""
        known: Floats = np.interp(score, self.scores, self.known)
        return known

    def tail_at(self, score: Floats) -> Floats:
        """Share of known samples that are at least as strange, shape as `score`."""
        tail: Floats = np.interp(score, self.scores, self.tail)
        return tail


def all_known() -> Curve:
    """The curve where nothing is known of samples without labels."""
    return Curve(scores=np.zeros(1), known=np.ones(1), tail=np.zeros(1), prevalence=1.0)


def fit(labeled: Floats, recent: Floats, *, some: bool = True) -> Curve:
    """The curve.

    Args:
        labeled: Scores of labeled samples, each left out in turn, shape (m,).
        recent: Scores of samples without labels, shape (n,).
        some: Some of those are unknown, as is known from elsewhere; otherwise none may be.
    """
    choices = (1, 2) if some else (0, 1, 2)
    fits = [_fitted(labeled, recent, parts) for parts in choices]
    # Densities are not quite these: by the likelihood of many samples something would always be unknown (Miller and
    # Dunson 2018).
    count = len(recent) if some else min(len(recent), TELLING)
    share = count / len(recent)
    costs = [PARAMETERS / 2 * parts * np.log(count) for parts in choices]
    best = max(
        zip(fits, costs, strict=True), key=lambda each: share * each[0].likelihood - each[1]
    )[0]
    scores = np.linspace(recent.min(), recent.max(), POINTS)
    if not len(best.centers):
        known: Floats = np.ones(POINTS)
        return Curve(scores=scores, known=known, tail=_tail(scores, known, recent), prevalence=1.0)
    known = best.prevalence * best.known(scores)
    known = known / (known + (1 - best.prevalence) * best.unknown(scores).sum(axis=0))
    # What is less strange than the middle of the known samples is no less known.
    middle = min(int(np.searchsorted(scores, best.center)), POINTS - 1)
    known[:middle] = known[middle]
    known = np.minimum.accumulate(known)
    return Curve(
        scores=scores, known=known, tail=_tail(scores, known, recent), prevalence=best.prevalence
    )


def _tail(scores: Floats, known: Floats, recent: Floats) -> Floats:
    """Share of known samples at each score and beyond, one more counted in, as a further sample's rank has it."""
    ascending = np.sort(recent)
    chances = np.interp(ascending, scores, known)
    beyond = np.append(np.cumsum(chances[::-1])[::-1], 0.0)
    at_least = beyond[np.searchsorted(ascending, scores)]
    tail: Floats = (at_least + 1) / (beyond[0] + 1)
    return tail


@dataclass(kw_only=True)
class _Mixture:
    """Parameters while they are fitted; `centers`, `spreads` and `shares` are of the unknown samples' parts."""

    center: float
    spread: float
    centers: Floats
    spreads: Floats
    shares: Floats
    prevalence: float
    likelihood: float = -np.inf

    def known(self, scores: Floats) -> Floats:
        """Density of known samples but for a constant that `unknown` lacks as well (1 / sqrt(2 pi))."""
        z = (scores - self.center) / self.spread
        density: Floats = _STUDENT / self.spread * (1 + z**2 / FREEDOM) ** (-(FREEDOM + 1) / 2)
        return density

    def unknown(self, scores: Floats) -> Floats:
        """Densities of unknown samples by part, shape (parts, n)."""
        z = (scores[None, :] - self.centers[:, None]) / self.spreads[:, None]
        exact = (self.shares / self.spreads)[:, None] * np.exp(-(z**2) / 2)
        density: Floats = np.maximum(exact, TINY_DENSITY)
        return density


_STUDENT = 0.375 * np.sqrt(2 * np.pi)  # of Student's t with 4 degrees of freedom at its center


def _fitted(labeled: Floats, recent: Floats, parts: int) -> _Mixture:
    m, n = len(labeled), len(recent)
    center = float(np.median(labeled))
    spread = max(float(labeled.std(ddof=1)), 2 * NARROWEST) if m > 1 else 1.0
    beyond = recent[recent > center + spread]
    if len(beyond) < 3:
        beyond = np.sort(recent)[-3:]
    at = np.quantile(beyond, QUANTILES[parts])
    mixture = _Mixture(
        center=center, spread=spread, centers=at,
        spreads=np.full(parts, max(spread, float(beyond.std()) / 2)),
        shares=np.full(parts, 1 / max(parts, 1)), prevalence=KNOWN / OF_ALL if parts else 1.0,
    )  # fmt: skip
    for _ in range(ROUNDS):
        known = mixture.prevalence * mixture.known(recent)
        unknown = (1 - mixture.prevalence) * mixture.unknown(recent)
        both = known + unknown.sum(axis=0)
        known = np.where(recent <= mixture.center, 1.0, known / both)
        unknown = np.where(recent <= mixture.center, 0.0, unknown / both)
        _move_known(mixture, labeled, recent, known * min(1.0, RECENT_WEIGHT * m / known.sum()))
        if not parts:
            continue
        weights = unknown.sum(axis=1)
        mixture.centers = np.maximum(
            (unknown @ recent + mixture.center + 3 * mixture.spread) / (weights + 1),
            mixture.center + mixture.spread,
        )
        squares = (recent[None, :] - mixture.centers[:, None]) ** 2
        mixture.spreads = np.sqrt(
            ((unknown * squares).sum(axis=1) + 2 * mixture.spread**2) / (weights + 2)
        )
        mixture.shares = (weights + 1) / (weights + 1).sum()
        mixture.prevalence = float(known.sum() + KNOWN) / (n + OF_ALL)
    known = mixture.prevalence * mixture.known(recent)
    unknown = (1 - mixture.prevalence) * mixture.unknown(recent)
    mixture.likelihood = float(np.log(known + unknown.sum(axis=0)).sum())
    return mixture


def _move_known(mixture: _Mixture, labeled: Floats, recent: Floats, weights: Floats) -> None:
    """Center and spread of the known samples, strange ones counting less, as Student's t has it."""
    scores = np.concatenate([labeled, recent])
    each = np.concatenate([np.ones(len(labeled)), weights])
    z = (scores - mixture.center) / mixture.spread
    robust = each * (FREEDOM + 1) / (FREEDOM + z**2)
    mixture.center = float(robust @ scores / robust.sum())
    variance = (robust @ (scores - mixture.center) ** 2 + 0.25) / (each.sum() + 1)
    mixture.spread = max(float(np.sqrt(variance)), NARROWEST)
