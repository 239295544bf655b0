"""Pareto front of several ways to train: no other is better in one cost and no worse in the others."""

from __future__ import annotations

from collections.abc import Sequence


def non_dominated(costs: Sequence[tuple[float, ...]]) -> list[bool]:
    """For each tuple of costs, whether it lies on the Pareto front.

    A tuple is dominated where another one is no worse in all and better in one; equal tuples do not
    dominate each other.

    Args:
        costs: Time and energy, or any costs, the less the better; tuples of one length.
    """
    order = sorted(range(len(costs)), key=lambda n: costs[n])
    on_front = [False] * len(costs)
    front: list[tuple[float, ...]] = []  # in this order none is dominated by a later one
    for n in order:
        mine = costs[n]
        if not any(
            other != mine and all(theirs <= own for theirs, own in zip(other, mine, strict=True))
            for other in front
        ):
            on_front[n] = True
            front.append(mine)
    return on_front
