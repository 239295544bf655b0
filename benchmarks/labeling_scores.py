"""Scores of labeling with classes that nobody has seen."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
BINS = 10


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


def calibrated_error(probability: Array) -> float:
    """Mean calibration error of so many samples whose probabilities are exactly right: what chance alone makes."""
    random = np.random.default_rng(0)
    draws = [random.random(len(probability)) < probability for _ in range(50)]
    return float(np.mean([calibration_error(probability, right) for right in draws]))


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
