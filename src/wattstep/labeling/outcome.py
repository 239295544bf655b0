"""What a batch was labeled as."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from wattstep.labeling.arrays import Floats, Ints

LABELED: Final = 0
UNKNOWN: Final = 1
ABSTAINED: Final = 2
UNREADABLE: Final = 3  # a value of the sample is no finite number
STATUSES: Final = ("labeled", "unknown", "abstained", "unreadable")


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A batch before classes get their names; entries as in `Labels`."""

    status: Ints
    classes: Floats
    probability: Floats
    p_value: Floats
    score: Floats
    cluster: Ints
    votes: Ints


def none_judged(classes: int, heuristics: int) -> Judged:
    """A batch of no samples."""
    none, counts = np.empty(0), np.empty(0, dtype=np.int64)
    return Judged(
        status=counts, classes=np.empty((0, classes)), probability=none, p_value=none, score=none,
        cluster=counts, votes=np.empty((0, heuristics), dtype=np.int64),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Labels:
    """One entry a sample.

    Attributes:
        status: Index in `STATUSES`, shape (n,).
        labels: The likeliest of the known classes, whatever the status, shape (n,); for an unreadable
            sample the first class, which means nothing.
        probability: That this label is right, the chance that its class is unknown counted in, shape (n,);
            0 for an unreadable sample.
        class_probabilities: Of the known classes, given that it is one of them, shape (n, classes).
        p_value: Share of known samples that are at least as strange, shape (n,): unknown at or below the
            stated false-alarm rate; NaN for an unreadable sample.
        score: More is stranger, shape (n,).
        cluster: Index in `clusters` of the new class, -1 for none, shape (n,).
        clusters: Names of the new classes.
        votes: Class index that each heuristic voted for, -1 where it abstained, shape (n, heuristics).
        heuristics: Their names.
    """

    status: Ints
    labels: np.ndarray[Any, Any]
    probability: Floats
    class_probabilities: Floats
    p_value: Floats
    score: Floats
    cluster: Ints
    clusters: tuple[str, ...]
    votes: Ints
    heuristics: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.status)

    def voters(self, row: int) -> tuple[str, ...]:
        """The heuristics that voted for the label of a sample."""
        best = int(self.class_probabilities[row].argmax())
        return tuple(self.heuristics[n] for n in np.flatnonzero(self.votes[row] == best))
