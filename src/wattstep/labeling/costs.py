"""How the samples of a piece are shared among unequal processors, by what each was measured to take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

STEP = 16  # samples by which shares differ


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of a processor, in seconds.

    Attributes:
        piece: Of each piece, however small: launches and copies of their own.
        sample: Of each sample of it, copies included.
        hold: Of getting what samples are looked up in, each time that it has changed.
        slower: Times as long while others work as well.
        changed: Times as long now as when it was measured.
    """

    piece: float
    sample: float
    hold: float = 0.0
    slower: float = 1.0
    changed: float = 1.0

    def seconds(self, samples: int, *, alone: bool) -> float:
        """Of so many samples; none take none."""
        factor = self.changed if alone else self.slower
        return factor * (self.piece + self.sample * samples) if samples else 0.0

    def before_holding(self) -> Cost:
        """Of a piece before which it must get what samples are looked up in."""
        return replace(self, piece=self.piece + self.hold)


@dataclass(frozen=True, kw_only=True)
class Split:
    """A piece among processors.

    Attributes:
        shares: Samples of each processor, in their order.
        seconds: Until the last has ended, predicted.
    """

    shares: tuple[int, ...]
    seconds: float

    @property
    def alone(self) -> bool:
        """Whether one processor does it all."""
        return sum(map(bool, self.shares)) == 1


def fastest(
    costs: Sequence[Cost], samples: int, among: Sequence[Sequence[int]] | None = None
) -> Split:
    """The split after which all is done first: any one processor, or several that end together.

    Args:
        costs: Of each processor.
        samples: Of the piece, 1 at least.
        among: Sets of processors that may share it; None: all sets.
    """
    sets = every_set(len(costs)) if among is None else among
    splits = [split for each in sets if (split := _ending_together(costs, samples, each))]
    return min(splits, key=lambda split: split.seconds)


def every_set(count: int) -> list[tuple[int, ...]]:
    """All sets of so many processors, those of one first."""
    return [each for size in range(1, count + 1) for each in combinations(range(count), size)]


def _ending_together(costs: Sequence[Cost], samples: int, those: Sequence[int]) -> Split | None:
    """A piece shared by all of these, or None where one of them would get nothing of it."""
    if len(those) == 1:
        sizes = np.array([samples])
    else:
        pieces = np.array([costs[n].slower * costs[n].piece for n in those])
        each = np.array([costs[n].slower * costs[n].sample for n in those])
        until = (samples + (pieces / each).sum()) / (1 / each).sum()
        ends = np.round(((until - pieces) / each).cumsum() / STEP).astype(int) * STEP
        ends[-1] = samples
        sizes = np.diff(ends, prepend=0)
    if (sizes <= 0).any():
        return None
    shares = [0] * len(costs)
    for n, size in zip(those, sizes, strict=True):
        shares[n] = int(size)
    alone = len(those) == 1
    ended = max(costs[n].seconds(shares[n], alone=alone) for n in those)
    return Split(shares=tuple(shares), seconds=ended)
