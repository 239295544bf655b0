"""p-values of the test for unknown classes with few labeled samples."""

from __future__ import annotations

import numpy as np

from wattstep.labeling.novelty import learn


def surprises(scores: np.ndarray) -> np.ndarray:
    """Samples all of whose surprises are the same, shape (n, 4)."""
    return np.repeat(scores[:, None], 4, axis=1)


def test_known_samples_with_heavy_tails_and_few_labels() -> None:
    random = np.random.default_rng(0)
    rates = []
    for _ in range(40):
        labeled, recent, further = (random.standard_t(2, count) for count in (6, 200, 500))
        test = learn(surprises(labeled), surprises(recent), 0.05)
        rates.append((test.p_values(test.score(surprises(further))) <= 0.05).mean())
    assert np.mean(rates) <= 0.06


def test_unknown_samples_far_from_few_labeled_ones() -> None:
    random = np.random.default_rng(1)
    labeled, known = random.normal(size=6), random.normal(size=200)
    recent = np.concatenate([known, random.normal(15, 1, 100)])
    test = learn(surprises(labeled), surprises(recent), 0.05)
    assert (
        test.p_values(test.score(surprises(random.normal(15, 1, 500)))) <= test.level
    ).mean() > 0.9
    assert (
        test.p_values(test.score(surprises(random.normal(size=500)))) <= test.level
    ).mean() <= 0.06
