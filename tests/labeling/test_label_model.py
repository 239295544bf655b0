"""The label model against accuracies and dependence that are known."""

from __future__ import annotations

import numpy as np

from wattstep.labeling import label_model
from wattstep.labeling.heuristics import LEVELS


def votes(truth: np.ndarray, accuracies: list[float], random: np.random.Generator) -> np.ndarray:
    columns = []
    for accuracy in accuracies:
        right = random.random(len(truth)) < accuracy
        columns.append(np.where(right, truth, (truth + random.integers(1, 3, len(truth))) % 3))
    return np.stack(columns, axis=1) * LEVELS


def test_accuracies_are_learned_from_samples_without_labels() -> None:
    random = np.random.default_rng(1)
    accuracies = [0.9, 0.8, 0.75, 0.7, 0.6]
    few, many = random.integers(0, 3, 12), random.integers(0, 3, 2000)
    model = label_model.learn(
        votes(few, accuracies, random), few, 3, votes(many, accuracies, random), np.ones(2000)
    )
    # Twelve labels alone are off by the root of p (1 - p) / 12, 0.12 in the mean of the five.
    assert np.abs(model.accuracies - accuracies).mean() < 0.08


def test_copies_of_one_heuristic_do_not_outvote_the_others() -> None:
    random = np.random.default_rng(2)
    truth, many = random.integers(0, 3, 60), random.integers(0, 3, 1000)

    def copied(of: np.ndarray) -> np.ndarray:
        own = votes(of, [0.6, 0.8, 0.8], random)
        return np.column_stack([np.repeat(own[:, :1], 8, axis=1), own[:, 1:]])

    model = label_model.learn(copied(truth), truth, 3, copied(many), np.ones(1000))
    assert model.voices[:8].max() < 0.5 * model.voices[8:].min()
    test = random.integers(0, 3, 2000)
    accuracy = (model.probabilities(copied(test)).argmax(axis=1) == test).mean()
    # Two of 0.8 that err apart, and one of 0.6: by Bayes' rule 0.84; with eight voices for the one, 0.6.
    assert accuracy > 0.78


def test_an_abstention_says_nothing() -> None:
    random = np.random.default_rng(3)
    truth = random.integers(0, 3, 90)
    given = votes(truth, [0.9, 0.9], random)
    model = label_model.learn(given, truth, 3, np.empty((0, 2), dtype=int), np.empty(0))
    nothing = model.probabilities(np.full((1, 2), -1))
    np.testing.assert_allclose(
        nothing[0],
        model.prior ** (1 / model.temperature) / (model.prior ** (1 / model.temperature)).sum(),
    )
