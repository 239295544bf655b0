"""What label model, spread labels and student say together."""

from __future__ import annotations

import numpy as np

from wattstep.labeling.pooling import cooled, pooled, spread, teaching


def test_what_the_student_learns() -> None:
    model = np.array([[0.9, 0.1], [0.9, 0.1]])
    masses = np.array([[0.02, 0.06], [0.0, 0.0]])  # of the second walk nothing ends at a label
    # Halves of 0.9 and 0.25, and of 0.9 and what is even.
    assert np.allclose(teaching(model, masses)[:, 0], [0.575, 0.7])


def test_spread_labels_vote_where_a_walk_ends_at_any() -> None:
    votes = spread(np.array([[1e-5, 5e-5], [0.0, 0.0], [1e-3, 0.0]]))
    # Leads of 2/3 and 1 are at levels 1 and 2 of classes 1 and 0.
    assert votes.tolist() == [4, -1, 2]


def test_teachers_and_student_at_a_temperature() -> None:
    together = pooled(np.array([[0.6, 0.4]]), np.array([[0.8, 0.2]]))
    assert np.allclose(together, [[0.75, 0.25]])  # a quarter of 0.6, three of 0.8
    assert np.allclose(cooled(together, 0.5), [[0.9, 0.1]])  # squares: 9 to 1
