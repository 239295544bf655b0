"""Phases of steps: their names in order, and when each began."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wattstep.schema.arrays import FloatArray, IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Phases:
    """When the phases of steps began; every step has the same sequence of them.

    Attributes:
        names: Of the phases in their order; a name may come twice.
        edges_ns: Begin of each phase and end of the last, shape (steps, phases + 1).
    """

    names: tuple[str, ...]
    edges_ns: IntArray

    @property
    def durations_s(self) -> FloatArray:
        """Shape (steps, phases)."""
        return np.diff(self.edges_ns, axis=1) * 1e-9


def common_phases(sequences: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The sequence of phases that most steps have."""
    counts: dict[tuple[str, ...], int] = {}
    for sequence in sequences:
        counts[sequence] = counts.get(sequence, 0) + 1
    return max(counts, key=lambda sequence: counts[sequence]) if counts else ()
