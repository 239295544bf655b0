"""How a tune of a drawn space ended: how far from the best of all ways, with which share of an exhaustive search's steps."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass

from tests.tuning.made import MadeSpace, made_space

from wattstep.tune.search import Search
from wattstep.tune.space import DEFAULT, Candidate
from wattstep.tune.turns import Ask

NEAR = 0.05
MANY_WAYS = 48  # of fewer, a tenth is no more than a verdict takes


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What a tune of one space ended with.

    Attributes:
        away: By how much the candidate that it named costs more than the best of all ways.
        claimed: Likewise of what it told to use: the default where nothing was better beyond doubt.
        at_equal_steps: Likewise of an exhaustive search that has as many steps in all.
        share: Of the steps of an exhaustive search that gives each way what the tune gave the one it named.
        steps: That it made.
        ways: That there are.
    """

    away: float
    claimed: float
    at_equal_steps: float
    share: float
    steps: int
    ways: int


def ended(seed: int, bursts: float) -> Ended:
    """Tunes the space of this seed."""
    space = made_space(seed, bursts)
    tuned = Search(space.values, space.bench).run()
    named = tuned.measured[1].candidate if len(tuned.measured) > 1 else DEFAULT
    chosen = tuned.chosen.candidate if tuned.chosen else DEFAULT
    own: Counter[Candidate] = Counter()
    for ask in space.bench.asks:
        own[ask.candidate] += ask.steps

    def away(candidate: Candidate) -> float:
        return space.bench.cost(candidate) / space.best - 1

    return Ended(
        away=away(named),
        claimed=away(chosen),
        at_equal_steps=away(exhausted(made_space(seed, bursts), tuned.steps)),
        share=tuned.steps / (len(space.ways) * own[named]),
        steps=tuned.steps,
        ways=len(space.ways),
    )


def exhausted(space: MadeSpace, steps: int) -> Candidate:
    """The best by an exhaustive search that has so many steps: turns of three each, as many rounds as there are steps for."""
    means: dict[Candidate, list[float]] = {}
    ways = list(space.ways)
    for number in range(steps // 3):
        way = ways[number % len(ways)]
        turn = space.bench.measure(Ask(stage="one by one", round=number, candidate=way, steps=3))
        if not turn.refused:
            means.setdefault(way, []).append(turn.step_s)
    return min(means, key=lambda each: statistics.median(means[each]))
