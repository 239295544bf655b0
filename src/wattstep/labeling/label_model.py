"""Votes of heuristics become probabilities of classes: accuracies and dependence learned without labels.

Naive Bayes over votes whose confusions are learned by expectation and maximization (Dawid and Skene 1979), with
what the labeled samples show as their prior. A vote comes at one of three levels of confidence. Heuristics
that err on the same samples share a voice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize

from wattstep.labeling.arrays import Floats, Ints, one_hot, softmax
from wattstep.labeling.heuristics import LEVELS, votes_in

ROUNDS = 8  # of expectation and maximization
CONCENTRATION = 6.0  # pseudo-samples of a heuristic's mean behaviour in that on each class
RECENT_WEIGHT = 2.0  # what unlabeled samples may count together, as a multiple of the labeled ones
COLDEST, HOTTEST = 0.2, 5.0


@dataclass(frozen=True, kw_only=True)
class LabelModel:
    """The model as it is kept.

    Attributes:
        prior: Of classes, shape (c,).
        confusions: P(vote and level | class) of each heuristic where it votes, shape (h, c, c * 3).
        voices: How much of a voice each heuristic has, from 0 to 1, shape (h,).
        accuracies: P(right | votes), as learned, shape (h,).
        temperature: By which log probabilities are divided.
    """

    prior: Floats
    confusions: Floats
    voices: Floats
    accuracies: Floats
    temperature: float = 1.0

    def logits(self, symbols: Ints) -> Floats:
        """Log probabilities of classes up to a constant, before the temperature, shape (n, c)."""
        heuristics, classes, count = self.confusions.shape
        table = np.zeros(
            (heuristics, count + 1, classes)
        )  # the last row: an abstention says nothing
        table[:, :-1] = np.log(self.confusions).transpose(0, 2, 1) * self.voices[:, None, None]
        logits: Floats = np.broadcast_to(np.log(self.prior), (len(symbols), classes)).copy()
        for number in range(heuristics):
            logits += table[number, symbols[:, number]]
        return logits

    def probabilities(self, symbols: Ints) -> Floats:
        """P(class | votes), shape (n, c)."""
        return softmax(self.logits(symbols) / self.temperature)


def learn(labeled: Ints, codes: Ints, classes: int, recent: Ints, trust: Floats) -> LabelModel:
    """The model.

    Args:
        labeled: Votes on labeled samples that the heuristics were not made from, shape (m, h).
        codes: Their classes.
        classes: How many there are.
        recent: Votes on samples without labels, shape (u, h).
        trust: How far each of those counts, from 0 to 1: less where its class may be unknown, shape (u,).
    """
    truth = one_hot(codes, classes)
    sizes = truth.sum(axis=0)
    weights = trust * min(1.0, RECENT_WEIGHT * len(codes) / max(float(trust.sum()), 1.0))
    of_labeled = _counts(labeled, truth, classes)
    both = np.concatenate([labeled, recent])
    posterior: Floats = np.empty((0, classes))
    voices = _voices(labeled, truth)
    model = _maximized(of_labeled, sizes, voices)
    for _ in range(ROUNDS if len(recent) else 0):
        posterior = softmax(model.logits(recent))
        counts = of_labeled + _counts(recent, posterior * weights[:, None], classes)
        model = _maximized(counts, sizes + weights @ posterior, voices)
    if len(recent):
        model = replace(model, voices=_voices(both, np.concatenate([truth, posterior])))
    return replace(model, temperature=temperature(model.logits(labeled), codes))


def _counts(symbols: Ints, posterior: Floats, classes: int) -> Floats:
    """Expected numbers of votes by heuristic, class and symbol, shape (h, c, c * 3)."""
    counts = np.zeros((symbols.shape[1], classes, classes * LEVELS))
    for number in range(symbols.shape[1]):
        voted = symbols[:, number] >= 0
        sums = np.zeros((classes * LEVELS, classes))
        np.add.at(sums, symbols[voted, number], posterior[voted])
        counts[number] = sums.T
    return counts


def _maximized(counts: Floats, sizes: Floats, voices: Floats) -> LabelModel:
    classes = counts.shape[1]
    parted = counts.reshape(len(counts), classes, classes, LEVELS)
    diagonal = np.arange(classes)
    right = parted[:, diagonal, diagonal, :].sum(axis=1)  # by level, shape (h, 3)
    wrong = parted.sum(axis=(1, 2)) - right
    total = (right + wrong).sum(axis=1, keepdims=True)
    accuracies = ((right.sum(axis=1) + 1) / (total[:, 0] + 1 + max(classes - 1, 1))).clip(
        0.01, 0.995
    )
    levels = (right + wrong + 1) / (total + LEVELS)
    # Accuracy at each level, held to that of all.
    at_level = (right + 2 * accuracies[:, None]) / (right + wrong + 2)
    mean = np.empty_like(parted)
    mean[:] = ((levels * (1 - at_level))[:, None, None, :]) / max(classes - 1, 1)
    mean[:, diagonal, diagonal, :] = (levels * at_level)[:, None, :]
    posterior = parted + CONCENTRATION * mean
    confusions = posterior.reshape(counts.shape)
    confusions = confusions / confusions.sum(axis=2, keepdims=True)
    # A vote never speaks against its own class, even where the few labeled samples make it look so.
    of_class = np.repeat(diagonal, LEVELS)
    own = confusions[:, of_class, np.arange(classes * LEVELS)]
    confusions = np.minimum(confusions, own[:, None, :])
    prior = (sizes + 1) / (sizes.sum() + classes)
    return LabelModel(
        prior=prior, confusions=np.maximum(confusions, 1e-6), voices=voices, accuracies=accuracies
    )


def _voices(symbols: Ints, posterior: Floats) -> Floats:
    """How much of a voice each heuristic has: one over how many err where it does, itself among them, shape (h,).

    Samples that are hard for all make errors that heuristics have in common without depending on each other:
    the correlation that three in four pairs have at least is taken for that, and does not count.
    """
    votes = votes_in(symbols)
    voted = votes >= 0
    errors = np.where(voted, 1 - np.take_along_axis(posterior, np.maximum(votes, 0), axis=1), 0.0)
    counts = np.maximum(voted.sum(axis=0), 1)
    centered = np.where(voted, errors - errors.sum(axis=0) / counts, 0.0)
    both = voted.astype(float).T @ voted
    products = centered.T @ centered
    spreads = np.sqrt(np.diag(products) / counts)
    correlations = products / (np.outer(spreads, spreads) * both + 1)
    np.fill_diagonal(correlations, 0)
    pairs = correlations[np.triu_indices(len(correlations), 1)].clip(0, 0.9)
    common = float(np.quantile(pairs, 0.25)) if len(pairs) else 0.0
    beyond = ((correlations - common) / (1 - common)).clip(0, 1)
    np.fill_diagonal(beyond, 0)
    voices: Floats = 1 / (1 + beyond.sum(axis=1))
    return voices


def temperature(logits: Floats, codes: Ints) -> float:
    """What logits of labeled samples are divided by so that their classes are likeliest, held to 1 by a weak prior."""
    if logits.shape[1] == 1:
        return 1.0
    rows = np.arange(len(codes))

    def loss(log_temperature: float) -> float:
        scaled = logits / np.exp(log_temperature)
        top = scaled.max(axis=1)
        normalizer = top + np.log(np.exp(scaled - top[:, None]).sum(axis=1))
        return float((normalizer - scaled[rows, codes]).sum() + log_temperature**2)

    found = optimize.minimize_scalar(
        loss, bounds=(np.log(COLDEST), np.log(HOTTEST)), method="bounded"
    )
    return float(np.exp(found.x))
