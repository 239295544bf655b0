"""Whether two trainings learn the same: their losses, step by step, against what rounding does to one of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

FACTOR: Final = (
    30.0  # times what one rounding of every parameter does: kernels round more than once
)
FLOOR: Final = 1e-5  # of the loss: sums over a batch in another order


class LossCheck:
    """Compares losses with those of one training: the default, or the default in a precision that is permitted.

    A difference is noise where it is at most 30 times as large as the largest that moving every
    parameter by one rounding has made up to that step, or 1e-5 of the loss.

    Args:
        plain: Losses of that training, by the index of the step.
        nudged: Of the same, whose parameters were moved by one rounding of their own type, likewise.
        whose: Whose they are, in words; "": the default's.
    """

    def __init__(
        self, plain: Mapping[int, float], nudged: Mapping[int, float], whose: str = ""
    ) -> None:
        self._plain = plain
        self._whose = whose and f" as with {whose} alone"
        self._most: dict[int, float] = {}
        largest = 0.0
        for index in sorted(plain):
            if index not in nudged:
                break
            moved = abs(nudged[index] - plain[index])
            largest = max(largest, moved if math.isfinite(moved) else math.inf)
            self._most[index] = max(FACTOR * largest, FLOOR * abs(plain[index]))

    def compared(self, losses: Mapping[int, float]) -> int:
        """Number of steps that can be compared."""
        return sum(1 for index in losses if index in self._most)

    def divergence(self, losses: Mapping[int, float]) -> str:
        """The first step whose loss is no number although the default's is, in words; "": none is."""
        for index in sorted(losses):
            if math.isfinite(self._plain.get(index, math.nan)) and not math.isfinite(losses[index]):
                return f"it diverges: the loss of step {index + 1} is {losses[index]}"
        return ""

    def difference(self, losses: Mapping[int, float]) -> str:
        """The first step that differs by more than rounding explains, in words; "": none does."""
        for index in sorted(losses):
            if index not in self._most:
                continue
            plain, other = self._plain[index], losses[index]
            same = other == plain or (math.isnan(other) and math.isnan(plain))
            # What is not finite never lies within anything.
            if not (same or abs(other - plain) <= self._most[index]):
                return (
                    f"it learns something else: the loss of step {index + 1} is {other:.6g}, not {plain:.6g}"
                    f"{self._whose} (rounding explains {self._most[index]:.2g}); --allow losses permits it"
                )
        return ""
