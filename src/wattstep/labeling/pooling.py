"""Label model, spread labels and student together, and the temperature of what they say, by labels that none has seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wattstep.labeling import label_model
from wattstep.labeling.arrays import TINY, Floats, Ints, one_hot, softmax
from wattstep.labeling.heuristics import Heuristic, symbols_of, taught

STUDENT = 0.75  # its part of the probabilities, beside that of those from which it learns
TRACE = 1e-9  # of a walk, for each class: where next to nothing of it ends at any label, none is likelier


@dataclass(frozen=True, kw_only=True)
class Walked:
    """Samples among the nodes of the graph.

    Attributes:
        standard: Standardized, shape (n, d).
        ends: Probability that a walk from each ends at each labeled sample, shape (n, m).
        symbols: Votes on it: of heuristics that were not made from it, and of labels as they spread, shape (n, h + 1).
    """

    standard: Floats
    ends: Floats
    symbols: Ints


def teaching(model: Floats, masses: Floats) -> Floats:
    """What the student learns: the mean of label model and spread labels, shape (n, classes); `masses` as of `spread`."""
    return (model + _believed(masses)) / 2


def pooled(teachers: Floats, student: Floats) -> Floats:
    """What teachers and student say together, before the temperature, shape (n, classes)."""
    return (1 - STUDENT) * teachers + STUDENT * student


def cooled(probabilities: Floats, temperature: float) -> Floats:
    """Probabilities at a temperature, shape (n, classes)."""
    return softmax(np.log(probabilities + TINY) / temperature)


def spread(masses: Floats) -> Ints:
    """The vote of labels as they spread over the graph: the last heuristic.

    Args:
        masses: How much of the walk from each sample ends at labeled samples of each class, shape (n, classes).
    """
    return symbols_of(_believed(masses), 0.0)


def _believed(masses: Floats) -> Floats:
    classes = masses.shape[1]
    beliefs: Floats = (masses + TRACE) / (masses.sum(axis=1, keepdims=True) + TRACE * classes)
    return beliefs


def temperature(
    labeled: Walked,
    codes: Ints,
    folds: Ints,
    apart: Sequence[Sequence[Heuristic]],
    recent: Walked,
    trust: Floats,
    classes: int,
) -> float:
    """By labeled samples that none of those who judge them has seen: each part in turn is left out.

    Args:
        labeled: Labeled samples.
        codes, folds: Class and part of each, shape (m,).
        apart: For each part the heuristics as they are without it.
        recent: Samples without labels.
        trust: How far each of those is of a known class, shape (u,).
        classes: How many there are.
    """
    found = np.full((len(codes), classes), np.nan)
    for part, heuristics in enumerate(apart):
        held = folds == part
        if not held.any() or held.all():
            continue
        hot = one_hot(codes[~held], classes)
        masses = recent.ends[:, ~held] @ hot
        symbols = np.column_stack(
            [*(each.symbols(recent.standard) for each in heuristics), spread(masses)]
        )
        model = label_model.learn(labeled.symbols[~held], codes[~held], classes, symbols, trust)
        student = taught(recent.standard, teaching(model.probabilities(symbols), masses), trust)
        teachers = teaching(
            model.probabilities(labeled.symbols[held]), labeled.ends[held][:, ~held] @ hot
        )
        found[held] = pooled(teachers, student.probabilities(labeled.standard[held]))
    told = np.isfinite(found[:, 0])
    return label_model.temperature(np.log(found[told] + TINY), codes[told])
