"""How the samples of a piece are shared among unequal processors, by what each was measured to take and its power."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        return self.factor(alone=alone) * (self.piece + self.sample * samples) if samples else 0.0

    def most(self, seconds: float, *, alone: bool) -> float:
        """Samples that it does in so many seconds; below 0 where it begins none."""
        return (seconds / self.factor(alone=alone) - self.piece) / self.sample

    def before_holding(self) -> Cost:
        """Of a piece before which it must get what samples are looked up in."""
        return replace(self, piece=self.piece + self.hold)

    def factor(self, *, alone: bool) -> float:
        """Times as long as when it was measured."""
        return self.changed if alone else self.slower


@dataclass(frozen=True, kw_only=True)
class Split:
    """A piece among processors.

    Attributes:
        shares: Samples of each processor, in their order.
        busy: Seconds that each works on them, predicted.
    """

    shares: tuple[int, ...]
    busy: tuple[float, ...]

    @property
    def seconds(self) -> float:
        """Until the last has ended."""
        return max(self.busy)

    @property
    def alone(self) -> bool:
        """Whether one processor does it all."""
        return sum(map(bool, self.shares)) == 1

    def joules(self, watts: Sequence[float]) -> float:
        """Energy, by the power that each processor adds while it works."""
        return sum(power * seconds for power, seconds in zip(watts, self.busy, strict=True))


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


def cheapest(
    costs: Sequence[Cost], watts: Sequence[float], samples: int, within: float
) -> Split | None:
    """The split of least energy after which all is done within so many seconds; None: there is none.

    Args:
        costs: Of each processor.
        watts: That each adds while it works.
        samples: Of the piece, 1 at least.
        within: Seconds.
    """
    sets = every_set(len(costs))
    splits = [split for each in sets if (split := _within(costs, watts, samples, each, within))]
    return min(splits, key=lambda split: (split.joules(watts), split.seconds), default=None)


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
    return _split(costs, dict(zip(those, sizes.tolist(), strict=True)))


def _within(
    costs: Sequence[Cost],
    watts: Sequence[float],
    samples: int,
    those: Sequence[int],
    seconds: float,
) -> Split | None:
    """A piece shared by all of these, most of it by who takes least energy a sample, or None where it takes longer.

    As a sample takes the same energy whoever has how many, filling them up in that order is the least there is.
    """
    alone = len(those) == 1
    sizes = dict.fromkeys(those, STEP)
    sizes[those[-1]] = samples % STEP or STEP  # what steps leave, as where all end together
    left = samples - sum(sizes.values())
    if left < 0:
        return None
    for n in sorted(those, key=lambda n: watts[n] * costs[n].factor(alone=alone) * costs[n].sample):
        room = costs[n].most(seconds, alone=alone) - sizes[n]
        if room < 0:
            return None
        more = min(left, int(room // STEP) * STEP)
        sizes[n] += more
        left -= more
    return None if left else _split(costs, sizes)


def _split(costs: Sequence[Cost], sizes: Mapping[int, int]) -> Split:
    """What comes of so many samples for each processor that has some."""
    shares = tuple(sizes.get(n, 0) for n in range(len(costs)))
    alone = len(sizes) == 1
    busy = (cost.seconds(share, alone=alone) for cost, share in zip(costs, shares, strict=True))
    return Split(shares=shares, busy=tuple(busy))
