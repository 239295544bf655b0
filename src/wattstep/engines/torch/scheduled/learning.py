"""Measures what the tasks of an update take, alone and beside each other, on its own tensors, which are as before afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log
from random import Random
from resource import RUSAGE_SELF, getrusage
from statistics import median
from time import perf_counter_ns
from typing import Final, NamedTuple

import torch

from wattstep.engines.torch.memory import tensors_in
from wattstep.engines.torch.scheduled.capture import Captured
from wattstep.engines.torch.scheduled.put_back import put_back
from wattstep.engines.torch.scheduled.threads import TorchThreads
from wattstep.schedule.interference import at_random, factors, handovers
from wattstep.schedule.machine import Machine
from wattstep.schedule.model import TaskTimes
from wattstep.schedule.pace import LEAST_CHANGE
from wattstep.schedule.placing import Costs
from wattstep.schedule.tasks import Placed, Schedule
from wattstep.schema.processes import give_back_free_memory

ROUNDS: Final = 16
WARM: Final = 3  # steps of new code that do not count: the first two take up to half as long again
REPEATS: Final = 3  # of a round that count
MOST_TRIES: Final = 6  # to have these without another program's taking a core
TOGETHER: Final = 4  # plans in which tasks run beside each other
LEAST_S: Final = 1e-9  # of a task: the clock's own step
# An update that lasts as long has operations of milliseconds, of which one measurement tells enough: ResNet50's
# at batch 64, 3 s on two cores, took seven minutes to learn by three of each.
LONG_S: Final = 1.0
READINGS: Final = 1000


@dataclass(frozen=True, kw_only=True)
class Learned:
    """What measuring the tasks of an update came to.

    Attributes:
        outside_s: Seconds of an update beside its tasks: it begins, and its workers are called.
        steps: How often it was carried out for that.
        factor: Times as long as in what was known before that tasks take now; None: nothing was known, or
            it holds.
        problem: What a reader must know of how that was done.
    """

    outside_s: float
    steps: int
    factor: float | None
    problem: str = ""


class _Step(NamedTuple):
    """One update as it was carried out, in s from its call; per task, shape (n,)."""

    begin_s: list[float]
    end_s: list[float]
    lasted_s: float


def learn(
    captured: Captured,
    batch: Sequence[torch.Tensor],
    machine: Machine,
    optimizer: torch.optim.Optimizer,
    model: TaskTimes,
    cores: Sequence[int] = (),
) -> Learned:
    """Adds to a performance model what is not known of the tasks of an update, by carrying it out again and again.

    All tasks have the same number of threads in a round: the one that most of them want to be tried next.
    Then every other task has one thread, which tells what a change of the number costs; then they run two
    at a time in orders drawn at random, in turn with one at a time. Where the model knows the tasks from
    before, a first round tells whether that still holds (`TaskTimes.disturbed`).

    Of several clusters each has rounds of its own, by a worker that is kept to its cores, and there is one on the
    cores of all together; tasks then run beside each other on two of them.

    Args:
        captured: The update.
        batch: Tensors that it takes.
        machine: Its cores.
        optimizer: Whose state it changes.
        model: Of this machine.
        cores: The number of each of the machine's cores for `TorchThreads`; (): the same.
    """
    with _restored(captured, optimizer) as problem:
        learned = _Learning(captured, batch, machine, model, cores).run()
    return replace(learned, problem=problem)


class _Learning:
    def __init__(
        self,
        captured: Captured,
        batch: Sequence[torch.Tensor],
        machine: Machine,
        model: TaskTimes,
        cores: Sequence[int],
    ) -> None:
        self._captured, self._batch, self._machine, self._model = captured, batch, machine, model
        self._cores = cores
        self._clusters = range(len(machine.clusters))
        self._tasks = captured.graph.tasks
        self._looks = sorted({(task.kind, task.shape) for task in self._tasks})
        self._reading_s = _reading_s()
        self._outside_s: list[float] = []
        self._steps = 0

    def run(self) -> Learned:
        """As `learn`."""
        model, cores = self._model, self._machine.count
        several = [model.together] if len(self._clusters) > 1 else []
        places = [*self._clusters, *several]
        known = [look for look in self._looks if all(model.knows(*look, place) for place in places)]
        model.settle()
        factor = self._check(known) if known else None
        for cluster in self._clusters:
            self._learn_alone(cluster)
        if cores > 1 and (factor is not None or len(known) < len(self._looks)):
            for place in several:
                self._measure(cores, place)
            self._learn_switch()
            self._learn_together()
        if not self._outside_s:
            self._measure(1)
        model.settle()  # what was measured here is the state that it holds in
        return Learned(outside_s=median(self._outside_s), steps=self._steps, factor=factor)

    def _check(self, known: Sequence[tuple[str, str]]) -> float | None:
        """Times as long that tasks take as was known; None: as long."""
        for cluster in self._clusters:
            best = Counter(self._model.best(*look, cluster) for look in known)
            self._measure(best.most_common(1)[0][0], cluster)
        if self._model.disturbed():
            if abs(log(self._model.change())) >= LEAST_CHANGE:
                return self._model.relearn()
            self._model.settle()  # medians follow what is small by themselves
        return None

    def _learn_alone(self, cluster: int) -> None:
        """What each task takes on a cluster, by numbers of threads."""
        for _ in range(ROUNDS):
            wanted = Counter(
                threads
                for look in self._looks
                if (threads := self._model.next_to_try(*look, cluster)) is not None
            )
            if not wanted:
                break
            self._measure(wanted.most_common(1)[0][0], cluster)

    def _measure(self, threads: int, cluster: int = 0) -> None:
        """Each task, with what lies between it and the next, on so many threads."""
        for step in self._carried_out(self._alone([threads] * len(self._tasks), cluster)):
            self._outside_s.append(step.begin_s[0] if step.begin_s else step.lasted_s)
            for task, seconds in zip(self._tasks, self._until_next(step), strict=True):
                self._model.add(task.kind, task.shape, threads, seconds, cluster)

    def _learn_switch(self) -> None:
        """What tasks take longer after a change of the number of threads than without, on the largest cluster."""
        cluster = max(self._clusters, key=lambda one: self._machine.clusters[one].cores)
        cores = self._machine.clusters[cluster].cores
        if cores < 2:
            return
        threads = [1 if number % 2 else cores for number in range(len(self._tasks))]
        for step in self._carried_out(self._alone(threads, cluster)):
            seconds = self._until_next(step)
            for number in range(1, len(self._tasks)):
                alone = self._model.seconds(self._tasks[number], threads[number], cluster).value
                self._model.add_switch(
                    threads[number - 1], threads[number], seconds[number] - alone
                )

    def _learn_together(self) -> None:
        """How kinds slow each other down, and what handing over from one worker to the next takes."""
        half = max(1, self._machine.count // 2)
        costs = Costs(self._captured.graph, self._model, self._machine)
        draw = Random(0)
        halves = self._alone([half] * len(self._tasks))
        for _ in range(TOGETHER):
            plan = at_random(costs, draw)
            if plan.workers < 2:
                return
            alone = halves if len(self._clusters) == 1 else _one_by_one(plan)
            waits = plan.waits(self._captured.graph)
            workers = [one.worker for one in sorted(plan.placed, key=lambda one: one.task)]
            spans = [
                [max(last - first, LEAST_S) for first, last in zip(each.begin_s, each.end_s, strict=True)]
                for each in self._carried_out(alone)
            ]  # fmt: skip
            middles = [median(each) for each in zip(*spans, strict=True)]
            for step in self._carried_out(plan):
                told = factors(self._captured.graph, step.begin_s, step.end_s, middles)
                for (kind, other), factor in told.items():
                    self._model.add_beside(kind, other, factor)
                waited = handovers(waits, workers, step.begin_s, step.end_s)
                if waited:
                    self._model.add_handover(median(waited))

    def _alone(self, threads: Sequence[int], cluster: int = 0) -> Schedule:
        """One worker, kept to a cluster's cores where there are others."""
        is_kept = len(self._clusters) > 1 and cluster in self._clusters
        cores = tuple(self._machine.cores(cluster)) if is_kept else ()
        placed = [
            Placed(task=task, worker=0, threads=each, cores=cores)
            for task, each in enumerate(threads)
        ]
        return Schedule(workers=1, placed=tuple(placed))

    def _until_next(self, step: _Step) -> list[float]:
        """Seconds of each task of one worker, what follows it until the next begins included: tensors that are
        freed, and its statement's part of the program."""
        begins = [*step.begin_s, step.lasted_s]
        return [
            max(then - first - 2 * self._reading_s, LEAST_S) for first, then in pairwise(begins)
        ]

    def _carried_out(self, plan: Schedule) -> Iterator[_Step]:
        """The update by a plan, a few times over, those first in which no thread had to give way to another program.

        Once only where it lasts long.
        """
        count = len(self._tasks)
        own = plan.on_cores(self._cores) if self._cores else plan
        give_back_free_memory()  # of the threads of the plan before, which those of this one do not use
        with closing(TorchThreads(self._captured, own)) as executor:
            executor.trace()
            called = perf_counter_ns()
            executor.step(self._batch)
            is_long = perf_counter_ns() - called > LONG_S * 1e9
            warm, repeats, most_tries = (1, 1, 2) if is_long else (WARM, REPEATS, MOST_TRIES)
            for _ in range(warm - 1):
                executor.step(self._batch)
            told = tries = 0
            while told < repeats:
                times, gave_way = executor.trace(), _gave_way()
                called = perf_counter_ns()
                executor.step(self._batch)
                ended = perf_counter_ns()
                tries += 1
                if _gave_way() > gave_way and most_tries - tries >= repeats - told:
                    continue
                told += 1
                yield _Step(
                    begin_s=[(each - called) * 1e-9 for each in times[: 2 * count : 2]],
                    end_s=[(each - called) * 1e-9 for each in times[1 : 2 * count : 2]],
                    lasted_s=(ended - called) * 1e-9,
                )
            self._steps += warm + tries


def _one_by_one(plan: Schedule) -> Schedule:
    """All tasks where a plan has them, but in the framework's order, each after the one before."""
    placed = sorted(plan.placed, key=lambda one: one.task)
    return replace(
        plan,
        placed=tuple(replace(one, waits=(one.task - 1,) if one.task else ()) for one in placed),
    )


def _gave_way() -> int:
    """How often the system has taken a core from a thread of this process."""
    return getrusage(RUSAGE_SELF).ru_nivcsw


def _reading_s() -> float:
    """Seconds that a task's reading of the clock takes, which steps that are not traced do without."""
    times = [0] * 2
    begin = perf_counter_ns()
    for _ in range(READINGS):
        times[0] = perf_counter_ns()
    return (perf_counter_ns() - begin) * 1e-9 / READINGS


@contextmanager
def _restored(captured: Captured, optimizer: torch.optim.Optimizer) -> Iterator[str]:
    """Afterwards tensors that all steps share, the optimizer's state and torch's generator are as before.

    Yields:
        As `put_back`.
    """
    state = tensors_in(list(optimizer.state.values()))
    generator, threads = torch.get_rng_state(), torch.get_num_threads()
    with put_back([*captured.outside.values(), *state]) as problem:
        try:
            yield problem
        finally:
            torch.set_num_threads(threads)
            torch.set_rng_state(generator)
