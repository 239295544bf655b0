"""How far a labeling is, as counts: what `progress.json` holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from wattstep.labeling.arrays import Floats
from wattstep.labeling.outcome import LABELED, UNKNOWN, UNREADABLE, Labels

EXAMPLES: Final = 8  # of each label, and of each new class, that the page shows
MOST_CELLS: Final = 200  # of the course over pieces: neighbours are added up beyond


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Counts of some pieces that follow each other.

    Attributes:
        samples: How many.
        by_label: Samples that were labeled, by label as text.
        by_cluster: Unknown samples by new class; "" for none.
        abstained, unreadable: Others.
        probability: Sum over the labeled samples of the probability that their label is right.
        known: Sum over the readable samples of the probability that they are of a class known then.
    """

    samples: int
    by_label: Mapping[str, int]
    by_cluster: Mapping[str, int]
    abstained: int
    unreadable: int
    probability: float
    known: float

    def plus(self, other: Stretch) -> Stretch:
        """Both together."""
        return Stretch(
            samples=self.samples + other.samples,
            by_label=_added(self.by_label, other.by_label),
            by_cluster=_added(self.by_cluster, other.by_cluster),
            abstained=self.abstained + other.abstained,
            unreadable=self.unreadable + other.unreadable,
            probability=self.probability + other.probability,
            known=self.known + other.known,
        )


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What is done.

    Attributes:
        samples: Labeled so far.
        parts: Files written.
        course: Counts by stretches of about equal length.
        per_stretch: Pieces of a stretch.
        pieces: Pieces so far.
        examples: Features of some samples by what they were labeled as, for pictures.
        files: Identity of each data file that was begun.
        rows: Samples of each of these that are labeled.
        labeled: Identities of the labeled set.
        decided: What a person made of new classes: a label, the new class that it is part of, "" for none.
        told: Answers that were told, each as `deciding.key_of` knows it.
        state: SHA-256 of the labeler's state that belongs to this.
    """

    samples: int = 0
    parts: int = 0
    course: tuple[Stretch, ...] = ()
    per_stretch: int = 1
    pieces: int = 0
    examples: Mapping[str, list[list[float]]] | None = None
    files: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    labeled: tuple[str, ...] = ()
    decided: Mapping[str, str] = field(default_factory=dict)
    told: tuple[str, ...] = ()
    state: str = ""

    def total(self) -> Stretch:
        """Counts of all samples."""
        total = Stretch(
            samples=0, by_label={}, by_cluster={}, abstained=0, unreadable=0, probability=0.0,
            known=0.0,
        )  # fmt: skip
        for each in self.course:
            total = total.plus(each)
        return total


def after(progress: Progress, x: Floats, told: Labels) -> Progress:
    """Progress with a further piece counted."""
    stretch = counted(told)
    course, per = list(progress.course), progress.per_stretch
    if progress.pieces % per == 0:
        course.append(stretch)
    else:
        course[-1] = course[-1].plus(stretch)
    done = progress.pieces + 1
    if len(course) > MOST_CELLS and done % (2 * per) == 0:
        course = [course[n].plus(course[n + 1]) for n in range(0, len(course), 2)]
        per *= 2
    return replace(
        progress,
        samples=progress.samples + len(told),
        parts=progress.parts + 1,
        course=tuple(course),
        per_stretch=per,
        pieces=done,
        examples=_examples(progress.examples or {}, x, told),
    )


def counted(told: Labels) -> Stretch:
    """Counts of a piece."""
    labeled, unknown = told.status == LABELED, told.status == UNKNOWN
    names = ["" if n < 0 else told.clusters[n] for n in told.cluster[unknown]]
    return Stretch(
        samples=len(told),
        by_label=_counts([str(label) for label in told.labels[labeled]]),
        by_cluster=_counts(names),
        abstained=int((told.status == 2).sum()),
        unreadable=int((told.status == UNREADABLE).sum()),
        probability=float(told.probability[labeled].sum()),
        # `probability` is that of the label among known classes, times that of being of one.
        known=float((told.probability / told.class_probabilities.max(axis=1)).sum()),
    )


def _examples(
    before: Mapping[str, list[list[float]]], x: Floats, told: Labels
) -> dict[str, list[list[float]]]:
    """The first samples of each label and of each kind of unknown, as they came."""
    examples = {name: list(rows) for name, rows in before.items()}
    for row in range(len(told)):
        if told.status[row] == LABELED:
            name = str(told.labels[row])
        elif told.status[row] == UNKNOWN:
            name = told.clusters[told.cluster[row]] if told.cluster[row] >= 0 else "unknown"
        else:
            continue
        shown = examples.setdefault(name, [])
        if len(shown) < EXAMPLES and len(examples) <= 64:
            shown.append([float(value) for value in x[row]])
    return examples


def _counts(names: Sequence[str]) -> dict[str, int]:
    values, counts = np.unique(np.array(names, dtype=str), return_counts=True)
    return {str(value): int(count) for value, count in zip(values, counts, strict=True)}


def _added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
