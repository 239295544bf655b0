"""Every policy's plan can be carried out, none is below the bounds, and small ones stand against all plans there are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise, permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refused
from tests.scheduling.made import Table, graph, machine, task

from wattstep.schedule import policies
from wattstep.schedule.machine import Machine
from wattstep.schedule.placing import Costs, lower_bound
from wattstep.schedule.simulate import simulate
from wattstep.schedule.tasks import TaskGraph
from wattstep.schedule.times import MachineTimes, Times
from wattstep.schedule.validity import check

KINDS = ("convolution", "elementwise", "normalization", "loss", "other")
MACHINES = (machine(1), machine(3), machine(2, 1), machine(2, link=1e9), machine(1, 2, link=1e8))


@st.composite
def graphs(draw: st.DrawFn) -> TaskGraph:
    """Up to nine tasks of a few kinds that read and write five storages."""
    storages = st.lists(st.integers(0, 4), max_size=2, unique=True).map(tuple)
    tasks = [
        task(
            f"{draw(st.integers(0, 3))}",
            kind=draw(st.sampled_from(KINDS)),
            reads=draw(storages),
            writes=draw(storages),
            flops=draw(st.sampled_from((0, 10**6, 10**9))),
            bytes_moved=draw(st.sampled_from((100, 10**6, 10**8))),
        )
        for _ in range(draw(st.integers(0, 9)))
    ]
    return TaskGraph.of(tasks, [10**7] * 5)


@settings(max_examples=30, deadline=None)
@given(graphs(), st.sampled_from(MACHINES))
def test_every_plan_is_valid_and_none_beats_the_bounds(step: TaskGraph, where: Machine) -> None:
    times = MachineTimes(where)
    path, work = lower_bound(Costs(step, times, where))
    spans = {}
    for name in policies.POLICIES:
        plan = policies.find(name)(step, times, where)
        check(step, plan, where)
        timeline = simulate(step, plan, times, where)
        spans[name] = timeline.makespan_s
        assert timeline.makespan_s >= max(path, work) * (1 - 1e-9)
        assert -1e-9 <= timeline.idle_share < 1
        for number, waits in enumerate(step.after):
            assert all(
                timeline.begin_s[number] >= timeline.end_s[other] * (1 - 1e-9) for other in waits
            )
    # Each falls back to what it improves upon.
    order = ("default", "global", "per-kind", "co-run", "critical-path", "heterogeneous")
    for simple, better in pairwise(order):
        assert spans[better] <= spans[simple] * (1 + 1e-9)
    assert spans["critical-path"] <= spans["fill"] * (1 + 1e-9)
    assert spans["joules"] <= spans["heterogeneous"] * 1.1 * (1 + 1e-9)


def test_a_plan_says_which_policy_is_the_simplest_that_comes_to_it() -> None:
    """One operation that never scales: fewer threads are no better than all. Two chains: nothing else runs beside one."""
    one, where = graph([()]), machine(2)
    scales, never = Table({"0": [2.0, 1.0]}), Table({"0": [1.0, 2.0]})
    names = ("default", "global", "per-kind", "co-run", "fill", "critical-path")
    assert {policies.find(name)(one, scales, where).policy for name in names} == {"default"}
    told = [policies.find(name)(one, never, where).policy for name in names]
    assert told == ["default", *["global"] * 5]
    two = graph([(), ()])
    unlike = Table({"0": [2.0, 1.0], "1": [1.0, 1.5]})
    assert policies.find("per-kind")(two, unlike, where).policy == "per-kind"
    alone = Table({"0": [1.0, 1.0], "1": [1.0, 1.0]})
    assert policies.find("co-run")(two, alone, where).policy == "co-run"
    assert policies.find("critical-path")(two, alone, where).policy in ("co-run", "fill")


def every_makespan(step: TaskGraph, times: Times, where: Machine) -> Iterator[float]:
    """Makespans of all plans on two equal cores that start each task as early as order, cores and threads let it."""
    count = len(step.tasks)
    for order in permutations(range(count)):
        places = {number: place for place, number in enumerate(order)}
        if any(places[other] > places[n] for n in order for other in step.after[n]):
            continue
        for cores in product(((0,), (1,), (0, 1)), repeat=count):
            free, ends = [0.0, 0.0], [0.0] * count
            for number in order:
                own = cores[number]
                begin = max(
                    *(free[core] for core in own), 0.0, *(ends[n] for n in step.after[number])
                )
                ends[number] = begin + times.seconds(step.tasks[number], len(own)).value
                for core in own:
                    free[core] = ends[number]
            yield max(ends)  # fmt: skip


def small(seed: int) -> tuple[TaskGraph, Table]:
    """Four tasks with random waits; two threads make each of them 1 to 2 times as fast."""
    dice = random.Random(seed)
    after = [tuple(n for n in range(number) if dice.random() < 0.35) for number in range(4)]
    rows = {}
    for number in range(4):
        seconds = dice.uniform(0.5, 3.0)
        rows[str(number)] = [seconds, seconds / dice.uniform(1.0, 2.0)]
    return graph(after), Table(rows)


@pytest.mark.parametrize("name", ["co-run", "fill", "critical-path", "heterogeneous"])
def test_small_plans_stand_beside_the_best_of_all_plans(name: str) -> None:
    """One after the other is at most twice the optimum on two cores, since no task is faster than its work halved."""
    where = machine(2)
    ratios = []
    for seed in range(25):
        step, times = small(seed)
        optimum = min(every_makespan(step, times, where))
        assert max(lower_bound(Costs(step, times, where))) <= optimum * (1 + 1e-9)
        plan = policies.find(name)(step, times, where)
        ratios.append(simulate(step, plan, times, where).makespan_s / optimum)
    assert min(ratios) >= 1 - 1e-9
    assert max(ratios) <= 2
    limits = {"co-run": 1.10, "fill": 1.30, "critical-path": 1.06, "heterogeneous": 1.04}
    assert sum(ratios) / len(ratios) < limits[name]


def test_operations_that_do_not_scale_run_beside_each_other() -> None:
    """Four tasks of 1 s whatever their threads: one after the other 4 s, on two cores 2 s."""
    step, where = graph([(), (), (), ()]), machine(2)
    times = Table({str(n): [1.0, 1.0] for n in range(4)})
    spans = {
        name: simulate(step, policies.find(name)(step, times, where), times, where).makespan_s
        for name in policies.POLICIES
    }
    assert spans["default"] == spans["global"] == spans["per-kind"] == pytest.approx(4.0)
    assert spans["co-run"] == spans["critical-path"] == spans["heterogeneous"] == pytest.approx(2.0)


def test_operations_that_scale_are_left_one_after_the_other() -> None:
    """Perfectly divided among two threads, and 1.5 times as long beside another: together nothing is gained."""
    step, where = graph([(), (), ()]), machine(2)
    times = Table({str(n): [2.0, 1.0] for n in range(3)}, beside=1.5)
    for name in policies.POLICIES:
        plan = policies.find(name)(step, times, where)
        assert simulate(step, plan, times, where).makespan_s == pytest.approx(3.0)


def test_each_kind_and_shape_gets_its_own_threads_where_a_change_of_them_is_cheap() -> None:
    """Task 0 is best on 1 thread, task 1 on 2: 1 + 1 s; with one number for both 1 + 1.8 s or 1.5 + 1 s."""
    step, where = graph([(), (0,)]), machine(2)
    rows = {"0": [1.0, 1.5], "1": [1.8, 1.0]}
    for switch, seconds, threads in ((0.0, 2.0, [1, 2]), (0.1, 2.2, [1, 2]), (1.0, 2.5, [2, 2])):
        times = Table(rows, switch=switch)
        plan = policies.find("per-kind")(step, times, where)
        assert simulate(step, plan, times, where).makespan_s == pytest.approx(seconds)
        assert [one.threads for one in plan.placed] == threads


def test_a_small_operation_fills_the_core_that_a_large_one_leaves() -> None:
    """The large one gains nothing from a third thread; the small one ends beside it: 2 s in place of 2.5."""
    step, where = graph([(), ()]), machine(3)
    times = Table({"0": [4.0, 2.0, 2.0], "1": [0.5, 0.5, 0.5]})
    plan = policies.find("fill")(step, times, where)
    assert simulate(step, plan, times, where).makespan_s == pytest.approx(2.0)


def test_what_the_end_of_the_step_waits_for_comes_first() -> None:
    """Chain 2, 3, 4 of 3 s, and two tasks of 1.5 s before it in the framework's order: 3 s, where the order took 4.5."""
    step, where = graph([(), (), (), (2,), (3,)]), machine(2)
    times = Table({"0": [1.5], "1": [1.5], "2": [1.0], "3": [1.0], "4": [1.0]})
    plan = policies.find("critical-path")(step, times, where)
    assert simulate(step, plan, times, where).makespan_s == pytest.approx(3.0)


def test_least_joules_takes_fewer_cores_where_more_save_little_time() -> None:
    """A second core saves 5 % of the time and doubles the power: one core, as the bound lets 10 % pass."""
    step, where = graph([()]), machine(2, idle_w=0.1, core_w=1.0)
    times = Table({"0": [1.0, 0.95]})
    plan = policies.find("joules")(step, times, where)
    assert plan.placed[0].threads == 1
    slow = policies.find("joules")(step, Table({"0": [1.0, 0.6]}), where)
    assert slow.placed[0].threads == 2  # one core would take 1.67 times as long


@pytest.mark.parametrize(("link", "clusters"), [(1e9, {1}), (1.0, {0})])
def test_an_accelerator_is_used_where_copies_do_not_eat_its_gain(
    link: float, clusters: set[int]
) -> None:
    """Tenfold speed on a task of 1 s: worth 100 bytes at 10^9 B/s, not at 1 B/s."""
    step = TaskGraph.of([task("0", reads=(0,), writes=(1,))], [100, 100])
    where = machine(1, link=link)
    plan = policies.find("heterogeneous")(step, Table({"0": {0: [1.0], 1: [0.1]}}), where)
    assert {where.cluster_of[core] for one in plan.placed for core in one.cores} == clusters


def test_an_unknown_policy_is_refused() -> None:
    with refused("unknown-policy", "best", "critical-path"):
        policies.find("best")
