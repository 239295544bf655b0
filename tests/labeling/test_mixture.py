"""P(known | score) against mixtures whose truth is known."""

from __future__ import annotations

import numpy as np
from scipy import stats

from wattstep.labeling import mixture


def test_the_curve_is_that_of_the_densities_that_scores_were_drawn_from() -> None:
    random = np.random.default_rng(1)
    labeled = random.standard_t(4, 60)
    recent = np.concatenate([random.standard_t(4, 700), random.normal(5, 1, 300)])
    curve = mixture.fit(labeled, recent)
    assert abs(curve.prevalence - 0.7) < 0.05
    at = np.linspace(-2, 7, 40)
    known, unknown = 0.7 * stats.t.pdf(at, 4), 0.3 * stats.norm.pdf(at, 5, 1)
    # Bayes' rule; weighed by how often a score is there.
    weights = (known + unknown) / (known + unknown).sum()
    assert weights @ np.abs(curve.at(at) - known / (known + unknown)) < 0.03


def test_two_kinds_of_unknown_samples_are_both_unknown() -> None:
    random = np.random.default_rng(2)
    labeled = random.normal(size=50)
    recent = np.concatenate(
        [random.normal(size=700), random.normal(4, 0.5, 200), random.normal(12, 0.5, 100)]
    )
    curve = mixture.fit(labeled, recent)
    assert abs(curve.prevalence - 0.7) < 0.05
    assert curve.at(np.array([4.0, 8.0, 12.0])).max() < 0.1
    assert curve.at(np.array([-1.0, 0.0, 1.0])).min() > 0.95


def test_stranger_is_never_more_known_and_far_beyond_stays_level() -> None:
    random = np.random.default_rng(3)
    for labeled in (np.zeros(1), random.normal(size=6)):
        recent = np.concatenate([random.normal(size=40), random.normal(3, 1, 20)])
        curve = mixture.fit(labeled, recent)
        known = curve.at(np.linspace(-50, 50, 300))
        assert (np.diff(known) <= 0).all()
        assert np.isfinite(known).all()
        assert known[-1] == curve.known[-1]


def test_where_all_scores_are_the_same_there_is_a_curve() -> None:
    assert 0 <= mixture.fit(np.zeros(5), np.zeros(30)).at(np.zeros(1))[0] <= 1


def test_share_of_unknown_samples_where_none_may_be() -> None:
    random = np.random.default_rng(4)

    def skewed(count: int) -> np.ndarray:  # mean 0, spread 1; no such density is fitted
        return (random.gamma(3, 1, count) - 3) / np.sqrt(3)

    for _ in range(4):
        labeled, known = skewed(15), skewed(600)
        assert mixture.fit(labeled, known, some=False).prevalence == 1.0
        both = np.concatenate([known, random.normal(5, 1, 300)])
        curve = mixture.fit(labeled, both, some=False)
        assert abs(curve.prevalence - 2 / 3) < 0.12
        assert curve.at(np.array([6.0]))[0] < 0.1
