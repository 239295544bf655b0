"""Simulated steps take what one works out by hand."""

from __future__ import annotations

import pytest
from tests.refusals import refused
from tests.scheduling.made import Table, graph, machine

from wattstep.schedule.simulate import simulate
from wattstep.schedule.tasks import Placed, Schedule


def test_two_chains_beside_each_other_end_with_the_longer_one() -> None:
    plan = Schedule(
        workers=2,
        placed=(
            Placed(task=0, worker=0, threads=1, cores=(0,)),
            Placed(task=1, worker=1, threads=1, cores=(1,)),
            Placed(task=2, worker=0, threads=1, cores=(0,)),
            Placed(task=3, worker=1, threads=1, cores=(1,)),
        ),
    )
    times = Table({"0": [1.0], "1": [2.0], "2": [1.5], "3": [2.0]})
    timeline = simulate(
        graph([(), (), (0,), (0, 1)]), plan, times, machine(2, idle_w=3.0, core_w=2.0)
    )
    assert timeline.begin_s == pytest.approx((0.0, 0.0, 1.0, 2.0))
    assert timeline.end_s == pytest.approx((1.0, 2.0, 2.5, 4.0))
    assert timeline.makespan_s == pytest.approx(4.0)
    assert timeline.idle_share == pytest.approx(1 - 6.5 / 8)
    assert timeline.joules == pytest.approx(3.0 * 4.0 + 2.0 * 6.5)
    assert timeline.worker == (0, 1, 0, 1)


def test_neighbours_slow_each_other_only_while_they_run_together() -> None:
    """Both at 1 / 1.5: after 3 s the shorter of 2 s is done; the longer has done 2 of 5 and goes on alone."""
    plan = Schedule(
        workers=2,
        placed=(
            Placed(task=0, worker=0, threads=1, cores=(0,)),
            Placed(task=1, worker=1, threads=1, cores=(1,)),
        ),
    )
    times = Table({"0": [2.0], "1": [5.0]}, beside=1.5)
    timeline = simulate(graph([(), ()]), plan, times, machine(2))
    assert timeline.end_s == pytest.approx((3.0, 6.0))


def test_a_change_of_threads_costs_also_from_one_step_to_the_next() -> None:
    plan = Schedule(
        workers=1,
        placed=(
            Placed(task=0, worker=0, threads=1, cores=(0,)),
            Placed(task=1, worker=0, threads=2, cores=(0, 1)),
            Placed(task=2, worker=0, threads=2, cores=(0, 1)),
        ),
    )
    times = Table({"0": [1.0, 1.0], "1": [3.0, 2.0], "2": [3.0, 2.0]}, switch=0.25)
    timeline = simulate(graph([(), (), ()]), plan, times, machine(2))
    assert timeline.makespan_s == pytest.approx(5.5)
    assert timeline.switch_s == pytest.approx(0.5)


def test_a_team_over_unequal_clusters_takes_what_the_slower_cores_take() -> None:
    plan = Schedule(workers=1, placed=(Placed(task=0, worker=0, threads=3, cores=(0, 1, 2)),))
    times = Table({"0": {0: [3.0, 1.5, 1.0], 1: [6.0, 3.0, 2.0]}})
    assert simulate(graph([()]), plan, times, machine(1, 2)).makespan_s == pytest.approx(2.0)


def test_what_an_accelerator_reads_is_copied_once_and_what_it_wrote_copied_back() -> None:
    """100 bytes at 1000 B/s: 0.1 s to the accelerator for task 1, none for task 2, 0.1 s back for task 3."""
    plan = Schedule(
        workers=2,
        placed=(
            Placed(task=0, worker=0, threads=1, cores=(0,)),
            Placed(task=1, worker=1, threads=1, cores=(1,)),
            Placed(task=2, worker=1, threads=1, cores=(1,)),
            Placed(task=3, worker=0, threads=1, cores=(0,)),
        ),
    )
    times = Table({name: {0: [1.0], 1: [0.5]} for name in "0123"})
    timeline = simulate(
        graph([(), (0,), (0,), (2,)], storage=100), plan, times, machine(1, link=1e3)
    )
    assert timeline.copy_s == pytest.approx(0.2)
    assert timeline.begin_s == pytest.approx((0.0, 1.0, 1.6, 2.1))
    assert timeline.makespan_s == pytest.approx(3.2)


ONE = Placed(task=0, worker=0, threads=1, cores=(0,))
TWO = Placed(task=1, worker=0, threads=1, cores=(0,))


@pytest.mark.parametrize(
    ("workers", "placed", "what"),
    [
        (1, (ONE,), "0 times"),
        (1, (ONE, TWO, TWO), "2 times"),
        (1, (ONE, TWO, Placed(task=7, worker=0, threads=1, cores=(0,))), "task 7"),
        (1, (TWO, ONE), "deadlock"),
        (1, (ONE, Placed(task=1, worker=3, threads=1, cores=(0,))), "there are 1"),
        (1, (ONE, Placed(task=1, worker=0, threads=9, cores=(0,))), "has 2 cores"),
        (1, (ONE, Placed(task=1, worker=0, threads=2, cores=(0, 0))), "2 threads on cores"),
        (1, (ONE, Placed(task=1, worker=0, threads=1, cores=(5,))), "cores 0 to 1"),
        (1, (ONE, Placed(task=1, worker=0, threads=1, cores=(1,), waits=(8,))), "there is not"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused(
    workers: int, placed: tuple[Placed, ...], what: str
) -> None:
    plan = Schedule(workers=workers, placed=placed)
    with refused("invalid-schedule", what):
        simulate(graph([(), (0,)]), plan, Table({"0": [1.0], "1": [1.0]}), machine(2))


def test_two_tasks_that_may_run_at_once_have_no_core_in_common() -> None:
    apart = (ONE, Placed(task=1, worker=1, threads=2, cores=(0, 1)))
    times = Table({"0": [1.0], "1": [1.0]})
    with refused("invalid-schedule", "core 0"):
        simulate(graph([(), ()]), Schedule(workers=2, placed=apart), times, machine(2))
    waiting = (ONE, Placed(task=1, worker=1, threads=2, cores=(0, 1), waits=(0,)))
    timeline = simulate(graph([(), ()]), Schedule(workers=2, placed=waiting), times, machine(2))
    assert timeline.makespan_s == pytest.approx(2.0)
