"""Workers that keep their cores: sizes of teams, plans worked out by hand, and that every policy keeps to it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scheduling.made import Table, graph, machine
from tests.scheduling.test_policies import graphs

from wattstep.schedule import policies
from wattstep.schedule.memory import most_bytes
from wattstep.schedule.placing import Costs
from wattstep.schedule.simulate import simulate
from wattstep.schedule.tasks import Placed, Schedule, TaskGraph
from wattstep.schedule.teams import even, in_teams, uneven
from wattstep.schedule.times import MachineTimes
from wattstep.schedule.validity import check


def test_sizes_of_teams() -> None:
    assert list(even(1)) == list(uneven(1)) == []
    assert list(even(2)) == list(uneven(2)) == [(1, 1)]
    assert list(even(3)) == [(2, 1), (1, 1, 1)]
    assert list(even(8)) == [(4, 4), (2, 2, 2, 2), (1,) * 8]
    assert list(uneven(8)) == [(7, 1), (6, 2), (4, 4)]


@settings(max_examples=30, deadline=None)
@given(graphs(), st.integers(1, 9))
def test_workers_of_every_policy_keep_their_cores_and_the_bound_of_memory(
    step: TaskGraph, cores: int
) -> None:
    where = replace(machine(cores), keeps_teams=True, most_memory=1.1)
    times = MachineTimes(where)
    spans = {}
    for name in policies.POLICIES:
        plan = policies.find(name)(step, times, where)
        check(step, plan, where)
        if plan.workers > 1:
            own = {one.worker: set() for one in plan.placed}
            for one in plan.placed:
                own[one.worker].add(one.cores)
            assert all(len(each) == 1 for each in own.values())
        timeline = simulate(step, plan, times, where)
        assert timeline.peak_bytes <= most_bytes(step, 1.1)
        spans[name] = timeline.makespan_s
    for name in ("co-run", "fill", "critical-path", "heterogeneous"):
        assert spans[name] <= spans["per-kind"] * (1 + 1e-9)


def test_four_tasks_that_two_cores_hardly_shorten_go_to_two_workers() -> None:
    step = graph([(), (), (), ()])
    where = replace(machine(2), keeps_teams=True)
    times = Table({f"{n}": [1.0, 0.9] for n in range(4)}, beside=1.1)
    plan = policies.find("co-run")(step, times, where)
    assert plan.workers == 2
    assert {one.threads for one in plan.placed} == {1}
    # Two by two, each 1.1 times as long beside the other; one after the other they take 3.6 s.
    assert simulate(step, plan, times, where).makespan_s == pytest.approx(2.2)


def test_a_task_before_others_is_not_divided_among_the_cores_of_two_workers() -> None:
    """The first would take 1 s on both cores and 2 s on one: 1 + 3 s with a change of teams, 5 s without, 5.2 s alone."""
    step = graph([(), (0,), (0,)])
    times = Table({"0": [2.0, 1.0], "1": [3.0, 2.1], "2": [3.0, 2.1]})
    free, kept = machine(2), replace(machine(2), keeps_teams=True)
    spans = [
        simulate(step, policies.find("co-run")(step, times, where), times, where).makespan_s
        for where in (free, kept)
    ]
    assert spans == pytest.approx([4.0, 5.0])


def test_what_would_end_later_on_a_small_team_waits_for_the_large_one() -> None:
    step = graph([(), (), ()])
    times = Table({"0": [4.0, 3.0, 2.0], "1": [9.0, 5.0, 3.0], "2": [1.5, 1.0, 0.8]})
    plan = in_teams(Costs(step, times, machine(4)), [(0, 1, 2), (3,)])
    own = {one.task: one.cores for one in plan.placed}
    # 9 s on the small team would end after 2 + 3 s on the large one; 1.5 s end before 2 + 0.8 s.
    assert own == {0: (0, 1, 2), 1: (0, 1, 2), 2: (3,)}
    assert simulate(step, plan, times, machine(4)).makespan_s == pytest.approx(5.0)


def test_a_worker_on_changing_cores_keeps_no_team() -> None:
    def of(*cores: tuple[int, ...], workers: int) -> Schedule:
        placed = [
            Placed(task=n, worker=n % workers, threads=len(own), cores=own)
            for n, own in enumerate(cores)
        ]
        return Schedule(workers=workers, placed=tuple(placed))

    assert of((0,), (0, 1), (1,), workers=1).keeps_teams
    assert of((0,), (1,), (0,), (1,), workers=2).keeps_teams
    assert not of((0,), (1,), (0, 1), workers=2).keeps_teams


@settings(max_examples=30, deadline=None)
@given(graphs(), st.lists(st.integers(1, 4), min_size=2, max_size=3))
def test_workers_on_clusters_keep_to_cores_of_one(step: TaskGraph, cores: list[int]) -> None:
    where = replace(machine(*cores), keeps_teams=True, most_memory=1.1)
    times = MachineTimes(where)
    plan = policies.find("heterogeneous")(step, times, where)
    check(step, plan, where)
    own = {(one.worker, one.cores) for one in plan.placed}
    assert len(own) == (plan.workers if step.tasks else 0)
    every = set(range(where.count))
    for _, each in own:
        assert set(each) == every or len({where.cluster_of[core] for core in each}) == 1
    spans = {
        name: simulate(step, policies.find(name)(step, times, where), times, where).makespan_s
        for name in ("default", "global", "heterogeneous")
    }
    assert spans["heterogeneous"] <= min(spans.values()) * (1 + 1e-9)


def test_the_slower_of_two_cores_has_as_much_less() -> None:
    """Nine tasks of 1 s, of 2 s on the slow core: six there and three here end at 6 s."""
    step = graph([()] * 9)
    where = replace(machine(1, 1), keeps_teams=True)
    times = Table({f"{n}": {0: [1.0], 1: [2.0]} for n in range(9)})
    plan = policies.find("heterogeneous")(step, times, where)
    assert [len(own) for own in plan.by_worker()] in ([6, 3], [3, 6])
    assert sum(one.cores == (1,) for one in plan.placed) == 3
    assert simulate(step, plan, times, where).makespan_s == pytest.approx(6.0)


def test_a_cluster_is_shared_out_beside_one_that_is_not() -> None:
    """Two tasks that two cores do not shorten, and one that four of another cluster take a quarter of."""
    step = graph([(), (), ()])
    where = replace(machine(2, 4), keeps_teams=True)
    two = {0: [1.0, 1.0], 1: [9.0] * 4}
    times = Table({"0": two, "1": two, "2": {0: [4.0, 2.0], 1: [4.0, 2.0, 1.4, 1.0]}})
    plan = policies.find("heterogeneous")(step, times, where)
    cores = {one.task: one.cores for one in plan.placed}
    assert {cores[0], cores[1]} == {(0,), (1,)}
    assert cores[2] == (2, 3, 4, 5)
    assert simulate(step, plan, times, where).makespan_s == pytest.approx(1.0)
