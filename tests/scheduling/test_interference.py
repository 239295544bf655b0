"""How operations slow each other down is told from tasks that ran together, against truths that were written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import numpy as np
import pytest
from tests.scheduling.made import graph, machine, task

from wattstep.schedule.interference import at_random, factors, handovers
from wattstep.schedule.model import MOST_FACTOR, TaskTimes
from wattstep.schedule.placing import Costs
from wattstep.schedule.simulate import simulate
from wattstep.schedule.tasks import Placed, Schedule, Task, TaskGraph
from wattstep.schedule.times import Factor, Running, Seconds
from wattstep.schedule.validity import check

TRUTH = {
    ("memory", "memory"): 1.9, ("memory", "compute"): 1.15,
    ("compute", "memory"): 1.05, ("compute", "compute"): 1.0,
}  # fmt: skip


class True_:
    """Times of tasks by their bytes, and factors of neighbours by their kinds."""

    def __init__(self, beside: Mapping[tuple[str, str], float], handover: float = 0.0) -> None:
        self._beside, self._handover = beside, handover

    def seconds(self, task: Task, threads: int, cluster: int = 0) -> Seconds:
        value = task.bytes_moved * 1e-6 / threads
        return Seconds(value, value, value)

    def switch_s(self, from_threads: int, to_threads: int) -> float:
        return 0.0

    def slowdown(self, one: Running, others: Sequence[Running]) -> Factor:
        value = 1.0
        for other in others:
            value *= self._beside[one.task.kind, other.task.kind]
        return Factor(value, value, value)

    def handover_s(self) -> float:
        return self._handover


def steps(seed: int = 4, count: int = 120) -> TaskGraph:
    """Tasks of two kinds, of 100 to 3,000 us, that wait for one of those before them or for none."""
    draw = Random(seed)
    tasks, after = [], []
    for number in range(count):
        kind = draw.choice(("memory", "compute"))
        tasks.append(task(f"{number}", kind=kind, bytes_moved=draw.randint(100, 3000)))
        after.append((draw.randrange(number),) if number and draw.random() < 0.5 else ())
    return TaskGraph(tasks=tuple(tasks), after=tuple(after), storage_bytes=())


def carried_out(
    step: TaskGraph, times: True_, seed: int
) -> tuple[Schedule, tuple[float, ...], tuple[float, ...]]:
    plan = at_random(Costs(step, times, machine(2)), Random(seed))
    check(step, plan, machine(2))
    assert plan.workers == 2
    timeline = simulate(step, plan, times, machine(2))
    return plan, timeline.begin_s, timeline.end_s


def test_factors_of_neighbours_are_those_that_the_steps_were_made_with() -> None:
    step, times = steps(), True_(TRUTH)
    alone = [times.seconds(each, 1).value for each in step.tasks]
    _, begin, end = carried_out(step, times, 1)
    assert factors(step, begin, end, alone) == pytest.approx(TRUTH, rel=1e-6)


def test_with_noise_the_truth_lies_in_the_models_interval() -> None:
    """8 % on each task, four random orders three times over: an interval of 90 % holds at least 3 of 4 factors."""
    step, times = steps(), True_(TRUTH)
    dice = np.random.default_rng(8)
    model = TaskTimes("here", (2,))
    for seed in range(4):
        _, begin, end = carried_out(step, times, seed)
        for _ in range(3):
            alone = [
                times.seconds(each, 1).value * float(np.exp(dice.normal(0, 0.08)))
                for each in step.tasks
            ]
            for (kind, other), factor in factors(step, begin, end, alone).items():
                model.add_beside(kind, other, factor)
    told = model.pairs()
    assert told.keys() == TRUTH.keys()
    inside = [told[pair].low <= truth <= told[pair].high for pair, truth in TRUTH.items()]
    assert sum(inside) >= 3
    assert told["memory", "memory"].value == pytest.approx(1.9, rel=0.06)
    assert told["compute", "compute"].low == 1.0  # nothing is faster for a neighbour
    assert told["memory", "memory"].high < 2.4


class Late(True_):
    """As these, but for some tasks from which another program takes their core for 4 ms."""

    late: frozenset[str] = frozenset()

    def seconds(self, task: Task, threads: int, cluster: int = 0) -> Seconds:
        value = super().seconds(task, threads).value + 4e-3 * (task.name in self.late)
        return Seconds(value, value, value)


def test_tasks_that_lost_their_core_do_not_decide_what_their_kind_takes() -> None:
    step, times = steps(), Late(TRUTH)
    alone = [times.seconds(each, 1).value for each in step.tasks]
    for seed in range(3):
        plan, *_ = carried_out(step, times, seed)
        times.late = frozenset(Random(seed).sample([each.name for each in step.tasks], 4))
        timeline = simulate(step, plan, times, machine(2))
        times.late = frozenset()
        told = factors(step, timeline.begin_s, timeline.end_s, alone)
        assert told == pytest.approx(TRUTH, rel=0.1)


def test_a_factor_at_the_limit_of_estimates_is_not_taken_for_sure() -> None:
    # Each task took 100 times as long as alone: what held it up is not the neighbour's doing for sure.
    step = TaskGraph(
        tasks=tuple(task(str(n), kind="a", bytes_moved=1000) for n in range(4)),
        after=((), (), (0, 1), (0, 1)),
        storage_bytes=(),
    )
    told = factors(step, [0.0, 0.0, 0.1, 0.1], [0.1, 0.1, 0.2, 0.2], [1e-3] * 4)
    model = TaskTimes("here", (2,))
    for _ in range(9):
        model.add_beside("a", "a", told["a", "a"])
    assert model.pairs()["a", "a"] == pytest.approx((MOST_FACTOR, 1.0, MOST_FACTOR))


def test_kinds_that_never_met_are_not_told() -> None:
    step = TaskGraph(
        tasks=tuple(task(str(n), kind=kind, bytes_moved=1000) for n, kind in enumerate("aabb")),
        after=((), (), (0, 1), (0, 1)),
        storage_bytes=(),
    )
    begin, end = [0.0, 0.0, 1e-3, 1e-3], [1e-3, 1e-3, 3e-3, 3e-3]
    told = factors(step, begin, end, [1e-3] * 4)
    assert told == pytest.approx({("a", "a"): 1.0, ("b", "b"): 2.0})


def test_handing_over_is_what_passes_after_the_last_task_of_another_worker() -> None:
    # 0 on worker 0 to 1.0; 1 on worker 1 waits for it since 0.2; 2 on worker 0 waited for nothing.
    waits = [(), (3, 0), (0,), ()]
    workers = [0, 1, 0, 1]
    begin, end = [0.0, 1.25, 1.0, 0.0], [1.0, 2.0, 2.0, 0.2]
    assert handovers(waits, workers, begin, end) == pytest.approx([0.25])
    # A worker that was busy until then had nothing handed over.
    assert handovers(waits, workers, begin, [1.0, 2.0, 2.0, 1.1]) == []


def test_what_waits_for_another_worker_begins_later_by_the_handing_over() -> None:
    plan = Schedule(
        workers=2,
        placed=(
            Placed(task=0, worker=0, threads=1, cores=(0,)),
            Placed(task=1, worker=1, threads=1, cores=(1,)),
            Placed(task=2, worker=0, threads=1, cores=(0,)),
            Placed(task=3, worker=1, threads=1, cores=(1,)),
        ),
    )
    step = TaskGraph(
        tasks=tuple(task(str(n), bytes_moved=size) for n, size in enumerate((1e6, 2e6, 5e5, 1e6))),  # type: ignore[arg-type]
        after=((), (), (1,), (0, 1)),
        storage_bytes=(),
    )
    times = True_({("other", "other"): 1.0}, handover=0.25)
    timeline = simulate(step, plan, times, machine(2))
    # 2 waits for 1 on the other worker, to 2.0; 3 for 0, long ended, and its own worker's 1.
    assert timeline.begin_s == pytest.approx((0.0, 0.0, 2.25, 2.0))
    assert timeline.end_s == pytest.approx((1.0, 2.0, 2.75, 3.0))


def test_a_worker_busy_past_the_end_of_what_it_needs_waits_for_no_handover() -> None:
    placed = tuple(
        Placed(task=number, worker=number % 2, threads=1, cores=(number % 2,))
        for number in range(4)
    )
    step = TaskGraph(
        tasks=tuple(
            task(str(n), bytes_moved=size) for n, size in enumerate((1000, 1100, 500, 500))
        ),
        after=((), (), (1,), (0,)),
        storage_bytes=(),
    )
    times = True_({("other", "other"): 1.0}, handover=0.25e-3)
    timeline = simulate(step, Schedule(workers=2, placed=placed), times, machine(2))
    # 3 needs 0, which had ended 0.1 ms before its own worker was free: the signal was there. 2 waited for 1.
    assert timeline.begin_s == pytest.approx((0.0, 0.0, 1.35e-3, 1.1e-3))


def test_a_step_of_chains_has_no_orders_for_two_workers() -> None:
    chain = graph([(), (0,), (1,)])
    tasks = tuple(task(str(n), bytes_moved=10) for n in range(3))
    step = TaskGraph(tasks=tasks, after=chain.after, storage_bytes=())
    plan = at_random(Costs(step, True_({}), machine(2)), Random(0))
    assert plan.workers == 1


def test_tasks_drawn_on_clusters_have_all_cores_of_two_of_them() -> None:
    step, where = steps(), machine(2, 1, 4)
    seen = set()
    for seed in range(12):
        plan = at_random(Costs(step, True_(TRUTH), where), Random(seed))
        check(step, plan, where)
        own = {one.cores for one in plan.placed}
        assert len(own) == plan.workers == 2
        seen |= own
    assert seen == {(0, 1), (2,), (3, 4, 5, 6)}
