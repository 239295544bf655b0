"""Memory of what a step makes, worked out by hand, and plans that would hold too much of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.scheduling.made import Table, machine, task

from wattstep.schedule import policies
from wattstep.schedule.memory import LITTLE, most_bytes, peak_bytes
from wattstep.schedule.simulate import simulate
from wattstep.schedule.tasks import TaskGraph

WEIGHTS = 4


def branches(unit: int) -> TaskGraph:
    """Two branches, of 10 units that become 1 each, joined; storage 4 is there before and is updated."""
    tasks = [
        task("0", reads=(WEIGHTS,), writes=(0,)),
        task("1", reads=(0,), writes=(1,)),
        task("2", reads=(WEIGHTS,), writes=(2,)),
        task("3", reads=(2,), writes=(3,)),
        task("4", reads=(1, 3, WEIGHTS), writes=(WEIGHTS,)),
    ]
    return TaskGraph.of(tasks, [10 * unit, unit, 10 * unit, unit, 1000 * unit])


def test_what_a_step_makes_lives_from_its_task_to_its_last_reader() -> None:
    step = branches(1)
    # 10, 11, then 1 + 10, 1 + 10 + 1, then 2; the weights were there.
    assert peak_bytes(step, range(5), range(1, 6)) == 12
    # Both branches at once: 20, then 22.
    assert peak_bytes(step, (0, 1, 0, 1, 2), (1, 2, 1, 2, 3)) == 22
    assert peak_bytes(TaskGraph.of([], []), (), ()) == 0


def test_a_change_in_place_makes_nothing_and_a_result_nobody_takes_is_dropped() -> None:
    tasks = [
        task("a", writes=(0,)),
        task("b", reads=(0,), writes=(0,)),
        task("c", writes=(1,)),
        task("d", writes=(2,)),
    ]
    step = TaskGraph.of(tasks, [5, 7, 8])
    assert peak_bytes(step, range(4), range(1, 5)) == 8


def test_a_tenth_more_than_in_the_frameworks_order_is_the_most_or_what_is_little() -> None:
    assert most_bytes(branches(1), 1.1) == 12 + LITTLE
    assert most_bytes(branches(LITTLE), 1.1) == pytest.approx(1.1 * 12 * LITTLE)


@pytest.mark.parametrize("name", ["co-run", "fill", "critical-path", "heterogeneous"])
def test_branches_run_together_only_where_both_fit(name: str) -> None:
    free, times = machine(2), Table({str(n): [1.0, 1.0] for n in range(5)})
    bound = replace(free, most_memory=1.1)
    spans = []
    for where, unit in ((free, LITTLE), (bound, 1), (bound, LITTLE)):
        step = branches(unit)
        timeline = simulate(step, policies.find(name)(step, times, where), times, where)
        assert where is free or timeline.peak_bytes <= most_bytes(step, 1.1)
        spans.append(timeline.makespan_s)
    # Side by side 3 s; of large ones already 1 beside 2 would hold 21 units for 12, so one after the other, 5 s.
    assert spans == pytest.approx([3.0, 3.0, 5.0])
