"""Merges what cannot be distinguished into the finest groups that can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from wattstep.attribution.regression.problem import Kinds
from wattstep.schema.arrays import IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Merged:
    """Kinds of one group, at which level they came together, and whether that was enough."""

    members: IntArray
    level: int
    resolved: bool


def merge(kinds: Kinds, is_told: Callable[[IntArray], bool]) -> Sequence[Merged]:
    """Level by level, what is told by itself leaves; the rest goes on to the next level.

    Args:
        kinds: With their levels, finest first.
        is_told: Whether kinds are told from all others, together.
    """
    left = np.arange(len(kinds.names))
    groups: list[Merged] = []
    for number, level in enumerate(kinds.levels):
        staying = []
        for label in np.unique(level[left]):
            members = left[level[left] == label]
            if is_told(members):
                groups.append(Merged(members=members, level=number, resolved=True))
            else:
                staying.append(members)
        left = np.sort(np.concatenate(staying)) if staying else left[:0]
        if not len(left):
            break
    if len(left):
        groups.append(Merged(members=left, level=len(kinds.levels) - 1, resolved=False))
    return sorted(groups, key=lambda group: int(group.members[0]))
