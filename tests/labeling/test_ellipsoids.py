"""Distances from known classes in features that no label tells of."""

from __future__ import annotations

import numpy as np

from wattstep.labeling import ellipsoids


def test_a_feature_that_labels_have_one_value_of_varies_as_among_all_samples() -> None:
    labeled = np.array([[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    recent = np.array([[0.0, 3.0], [0.0, 0.0], [0.0, 0.0]])
    # Of six values one is 3 and five are 0: their variance is 1.25, three squared over it 7.2.
    fitted = ellipsoids.fit(labeled, np.zeros(3, dtype=int), recent)
    assert np.isclose(np.exp(fitted.distance(np.array([[0.0, 3.0]])))[0], 7.2, rtol=1e-5)
