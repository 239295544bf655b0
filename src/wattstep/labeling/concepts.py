"""What held for a time, so that it can be taken up again where it holds once more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from wattstep.labeling.arrays import Bools, Floats, Ints
from wattstep.labeling.heuristics import Heuristic
from wattstep.labeling.label_model import LabelModel

LEVEL = 0.05  # of the test of doing better than what there is now


@dataclass(frozen=True, kw_only=True)
class Concept:
    """Labeled samples of a time, and what was made from them."""

    x: Floats
    codes: Ints
    heuristics: list[Heuristic]
    model: LabelModel


def combined(model: LabelModel, symbols: Ints) -> Ints:
    """Classes by a model from its heuristics alone, without the graph of then, shape (n,)."""
    count = symbols.shape[1]
    bare = replace(model, confusions=model.confusions[:count], voices=model.voices[:count])
    classes: Ints = bare.probabilities(symbols).argmax(axis=1)
    return classes


def recognised(
    concepts: Sequence[Concept], standard: Floats, codes: Ints, now: Bools
) -> int | None:
    """The concept that does better by most than what there is now, by a one-sided sign test; None where none does.

    Args:
        concepts: Earlier ones.
        standard: Labeled samples of now, standardized, shape (m, d).
        codes: Their classes.
        now: On which of them what there is now is right.
    """
    best: tuple[int, int] | None = None
    for number, concept in enumerate(concepts):
        symbols = np.stack([each.symbols(standard) for each in concept.heuristics], axis=1)
        right = combined(concept.model, symbols) == codes
        better, worse = int((right & ~now).sum()), int((now & ~right).sum())
        p = special.bdtrc(better - 1, better + worse, 0.5) if better else 1.0
        if p <= LEVEL and (best is None or better > best[0]):
            best = (better, number)
    return None if best is None else best[1]
