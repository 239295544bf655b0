"""How kinds of operations slow each other down, from tasks that ran beside each other and what they take alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

import numpy as np

from wattstep.schedule.least_squares import fit_robustly
from wattstep.schedule.model import MOST_FACTOR
from wattstep.schedule.placing import Costs, Start, State, along_the_clock
from wattstep.schedule.tasks import Schedule, TaskGraph
from wattstep.schema.arrays import FloatArray

LEAST_S: Final = 2e-5  # beside a kind, all tasks of another together: less says nothing of the two
LEAST_TASKS: Final = 2
LEAST_PART: Final = 0.1  # of its time that a task must have run beside others to count
FASTEST: Final = 1.25  # pace beside others, in parts of that alone
USUAL: Final = 0.8  # likewise, with which the search for it begins
NEAR: Final = (
    0.1  # error in parts of the time that a task lasted, up to which it is taken to be noise
)


def at_random(costs: Costs, draw: Random) -> Schedule:
    """A plan in which as many tasks as can be run two at a time, in an order drawn at random.

    Each has half of the cores; of several clusters, all cores of one of two that are drawn.

    Args:
        costs: Of the tasks.
        draw: The dice.
    """
    machine = costs.machine
    clusters = range(len(machine.clusters))
    if len(clusters) > 1:
        teams = [tuple(machine.cores(one)) for one in draw.sample(clusters, 2)]
    else:
        half = max(1, machine.count // 2)
        teams = [
            tuple(range(first, first + half)) for first in range(0, machine.count - half + 1, half)
        ]

    def choose(state: State) -> list[Start]:
        free = [team for team in teams if team[0] in state.free]
        tasks = draw.sample(state.ready, min(len(state.ready), len(free)))
        return list(zip(tasks, free, strict=False))

    return along_the_clock(costs, sum(teams, ()), choose)


def factors(
    graph: TaskGraph,
    begin_s: Sequence[float],
    end_s: Sequence[float],
    alone_s: Sequence[float],
) -> Mapping[tuple[str, str], float]:
    """Times as long that operations of a kind take beside one of another, by kind and the one beside it.

    While a task has a neighbour it goes at a pace that depends on both kinds, else at its own: what it takes alone
    is the time without neighbours and, for each kind, the time beside it times that pace. Over the tasks of a kind
    errors in parts of the time that it lasted are least, squared where they are small, as they are beyond (`NEAR`): a
    short task that lost its core to another program lasts a hundred times as long, and must not decide for its kind.

    Args:
        graph: Of the step.
        begin_s: When each task began, shape (n,).
        end_s: When it ended, with at most one other beside it at a time, shape (n,).
        alone_s: What it takes alone on as many cores, shape (n,).
    """
    kinds = sorted({task.kind for task in graph.tasks})
    column = {kind: number for number, kind in enumerate(kinds)}
    beside = _beside(graph, begin_s, end_s, column)
    rows: dict[str, list[int]] = defaultdict(list)
    for number, task in enumerate(graph.tasks):
        lasted = end_s[number] - begin_s[number]
        if lasted > 0 and beside[number].sum() >= LEAST_PART * lasted:
            rows[task.kind].append(number)
    told: dict[tuple[str, str], float] = {}
    for kind, numbers in rows.items():
        overlaps = beside[numbers]
        used = [
            other
            for other in range(len(kinds))
            if overlaps[:, other].sum() >= LEAST_S and (overlaps[:, other] > 0).sum() >= LEAST_TASKS
        ]
        if not used:
            continue
        alone = np.array([alone_s[number] for number in numbers])
        spans = np.array([end_s[number] - begin_s[number] for number in numbers])
        # What ran beside kinds of which too little is known counts as alone.
        shares = overlaps[:, used] / spans[:, None]
        own = alone / spans - (1 - shares.sum(axis=1))
        usual = np.full(len(used), USUAL)
        paces = fit_robustly(
            shares,
            own,
            usual,
            low=np.full_like(usual, 1 / MOST_FACTOR),
            high=np.full_like(usual, FASTEST),
            scale=NEAR,
        )
        told |= {
            (kind, kinds[other]): 1 / float(pace) for other, pace in zip(used, paces, strict=True)
        }
    return told


def _beside(
    graph: TaskGraph, begin_s: Sequence[float], end_s: Sequence[float], column: Mapping[str, int]
) -> FloatArray:
    """Seconds that each task ran beside one of each kind, shape (n, kinds)."""
    beside = np.zeros((len(graph.tasks), len(column)))
    running: list[int] = []
    for number in sorted(range(len(graph.tasks)), key=lambda one: begin_s[one]):
        running = [other for other in running if end_s[other] > begin_s[number]]
        for other in running:
            both = min(end_s[number], end_s[other]) - begin_s[number]
            beside[number, column[graph.tasks[other].kind]] += both
            beside[other, column[graph.tasks[number].kind]] += both
        running.append(number)
    return beside


def handovers(
    waits: Sequence[Sequence[int]],
    workers: Sequence[int],
    begin_s: Sequence[float],
    end_s: Sequence[float],
) -> list[float]:
    """Seconds from the end of a task to the begin of one on another worker that had nothing else to wait for.

    Args:
        waits: Tasks that each waits for, those before it on its worker included, shape (n,).
        workers: Of each task.
        begin_s: When each began.
        end_s: When each ended.
    """
    seconds = []
    for number, earlier in enumerate(waits):
        last = max(earlier, key=lambda one: end_s[one], default=None)
        if last is not None and workers[last] != workers[number]:
            own = [end_s[one] for one in earlier if workers[one] == workers[number]]
            # The worker must have been waiting, else nothing is handed over.
            if max(own, default=0.0) < end_s[last]:
                seconds.append(begin_s[number] - end_s[last])
    return seconds
