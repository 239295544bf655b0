"""Pareto front of several ways to train: no other is both quicker and cheaper."""

from __future__ import annotations

from collections.abc import Sequence


def non_dominated(costs: Sequence[tuple[float, float]]) -> list[bool]:
    """For each pair of costs, whether it lies on the Pareto front.

    A pair is dominated where another one is no worse in both and better in one; equal pairs do
    not dominate each other.

    Args:
        costs: Time and energy (or any two costs), the less the better.
    """
    order = sorted(range(len(costs)), key=lambda n: costs[n])
    on_front = [False] * len(costs)
    best: tuple[float, float] | None = None
    for n in order:
        if best is None or costs[n][1] < best[1] or costs[n] == best:
            on_front[n] = True
            best = costs[n]
    return on_front
