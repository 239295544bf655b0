"""Normal scores of samples among those in memory, worked out by hand."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from wattstep.labeling.ranks import ranks_among


def test_scores_between_ties_and_beyond() -> None:
    # Of four samples: two at 0, one at 10, one at 1000; their middles are 1/4, 5/8 and 7/8 of all.
    learned = ranks_among(np.array([[0.0], [1000.0], [0.0], [10.0]]))
    low, middle, high = (NormalDist().inv_cdf(share) for share in (1 / 4, 5 / 8, 7 / 8))
    x = np.array([[0.0], [10.0], [1000.0], [5.0], [-3.0], [1002.0]])
    scores = [low, middle, high, (low + middle) / 2, low - 3, high + 2]
    np.testing.assert_allclose(learned.of(x)[:, 0], scores)


def test_features_that_hardly_vary_stay_so() -> None:
    x = np.array([[0.0, 7.0], [0.01, 7.0], [0.02, 7.0]])
    scores = ranks_among(x).of(x)
    assert np.isclose(scores[:, 0].std(), x[:, 0].std())
    assert (scores[:, 1] == 0).all()
