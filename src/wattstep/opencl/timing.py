"""Times of several works in turns, and the figures of what they reach."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from wattstep.schema.figure import Figure, Status

EVENTS: Final = "OpenCL events"
REPETITION_S: Final = 0.012  # that a repetition takes at least, as in the ceilings of engines
ROUNDS: Final = 9
SLOW_ROUNDS: Final = 2
SLOW_S: Final = 0.5  # a work that takes longer is timed in the first rounds alone
MOST_CALLS: Final = 1000
Work = Callable[[int], float]  # seconds of so many calls, one after the other


def host_work(run: Callable[[], object]) -> Work:
    """Something that the host does, on its own clock."""

    def timed(calls: int) -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            run()
        return time.perf_counter() - begin

    return timed


def in_turns(
    works: Mapping[str, Work],
    rounds: int = ROUNDS,
    alive: Callable[[], None] = lambda: None,
    enough: Callable[[], bool] = lambda: False,
) -> dict[str, list[float]]:
    """Seconds of a call of each work, one each round: what disturbs one disturbs its neighbours.

    Args:
        works: By name.
        rounds: How many.
        alive: Called between works.
        enough: Asked after each round whether to end with it.
    """
    calls = dict.fromkeys(works, 1)
    for name, work in works.items():
        once = work(1)  # with what a first call brings with it: compiling, pages
        alive()
        if once < SLOW_S:
            once = max(work(1), 1e-9)
        calls[name] = min(max(round(REPETITION_S / once + 0.5), 1), MOST_CALLS)
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds):
        for name, work in works.items():
            slow = number >= SLOW_ROUNDS and min(seconds[name]) > SLOW_S
            if not slow:
                seconds[name].append(work(calls[name]) / calls[name])
            alive()
        if enough():
            break
    return seconds


def rate(amount: float, seconds: Sequence[float], unit: str, source: str) -> Figure:
    """What a work reaches at best, as in STREAM: whatever disturbs only slows down.

    Args:
        amount: What one call does.
        seconds: Of a call, one each round.
        unit: Of the amount in a second.
        source: The clock.
    """
    best, middle = amount / min(seconds), amount / statistics.median(seconds)
    return Figure(
        value=best,
        unit=unit,
        low=middle,
        high=best,
        n=len(seconds),
        status=Status.MEASURED,
        source=source,
        method=f"best of {len(seconds)} repetitions in turns with the others of its row; the interval "
        "reaches down to their median",
    )


def gain(slower: Sequence[float], faster: Sequence[float]) -> Figure:
    """How many times as fast one is as another, of which both were timed in the same rounds.

    Args:
        slower: Seconds of a call of the one, from the first round on.
        faster: Of the other.
    """
    pairs = [a / b for a, b in zip(slower, faster, strict=False)]
    return Figure(
        value=statistics.median(pairs),
        unit="ratio",
        low=min(pairs),
        high=max(pairs),
        n=len(pairs),
        status=Status.MEASURED,
        source=EVENTS,
        method=f"median of {len(pairs)} rounds in which both were timed, and their range",
    )
