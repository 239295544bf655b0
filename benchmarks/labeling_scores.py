"""Scores of labeling with classes that nobody has seen."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
BINS = 10
DRAWS = 50  # of outcomes


def open_auc(right: Array, score: Array, known: Array) -> float:
    """OpenAUC (Wang et al. 2022): pairs of a known sample that is labeled right and an unknown one that seems stranger."""
    ours, others = score[known], np.sort(score[~known])
    beyond = len(others) - np.searchsorted(others, ours, side="right")
    level = np.searchsorted(others, ours, side="right") - np.searchsorted(others, ours, side="left")
    return float((right[known] * (beyond + 0.5 * level)).mean() / len(others))


def auroc(score: Array, known: Array) -> float:
    """Pairs of a known and an unknown sample of which the unknown one seems stranger."""
    return open_auc(np.ones(len(known)), score, known)


def calibration_error(probability: Array, right: Array) -> float:
    """Expected calibration error over ten bins of equal width."""
    bins = np.minimum((probability * BINS).astype(int), BINS - 1)
    error = 0.0
    for each in range(BINS):
        inside = bins == each
        if inside.any():
            error += abs(probability[inside].mean() - right[inside].mean()) * inside.mean()
    return float(error)


def calibrated_error(probability: Array, labels: int | None = None) -> float:
    """Mean calibration error of so many samples whose probabilities are exactly right: what chance alone makes.

    With a number of labels they are right but for one number, by which all log odds are moved, and which so many
    further samples tell that are known to be right or wrong, with a normal distribution around the truth as its prior:
    nobody knows less, and whoever learns classes from the labels, too, has fewer for it.
    """
    random = np.random.default_rng(0)
    errors = []
    for _ in range(DRAWS):
        right = random.random(len(probability)) < probability
        told = probability if labels is None else _moved(probability, labels, random)
        errors.append(calibration_error(told, right))
    return float(np.mean(errors))


def _moved(probability: Array, labels: int, random: np.random.Generator) -> Array:
    """Probabilities whose level was learned from so many samples like them: the mode of the posterior."""
    from scipy.optimize import brentq
    from scipy.special import expit, logit

    odds = logit(probability.clip(1e-6, 1 - 1e-6))
    drawn = random.choice(odds, labels)
    right = random.random(labels) < expit(drawn)

    def slope(move: float) -> float:
        return float((expit(drawn + move) - right).sum() + move)

    return expit(odds + brentq(slope, -labels - 1, labels + 1))


def brier(probabilities: Array, codes: Array) -> float:
    """Mean squared distance of probabilities from the truth, summed over classes."""
    truth = np.zeros_like(probabilities)
    truth[np.arange(len(codes)), codes] = 1
    return float(((probabilities - truth) ** 2).sum(axis=1).mean())


def hungarian(clusters: Array, classes: Array) -> float:
    """Share of samples in the cluster that is matched with their class; -1 is no cluster."""
    from scipy.optimize import linear_sum_assignment

    names, codes = np.unique(classes, return_inverse=True)
    labels = np.unique(clusters[clusters >= 0])
    table = np.array(
        [[((clusters == one) & (codes == n)).sum() for n in range(len(names))] for one in labels]
    )
    if not table.size:
        return 0.0
    rows, columns = linear_sum_assignment(-table)
    return float(table[rows, columns].sum() / len(classes))
