"""Memory of what a step makes, worked out by hand, and plans that would hold too much of it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.scheduling.made import Table, machine, task

from wattstep.schedule import policies
from wattstep.schedule.memory import LITTLE, Room, most_bytes, peak_bytes
from wattstep.schedule.placing import Costs
from wattstep.schedule.simulate import simulate
from wattstep.schedule.tasks import TaskGraph
from wattstep.schedule.teams import in_teams

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


@pytest.mark.parametrize(
    ("name", "cores", "keeps_teams"),
    [
        ("co-run", (2,), False), ("co-run", (2,), True), ("critical-path", (2,), False),
        ("critical-path", (2,), True), ("heterogeneous", (1, 1), True),
    ],
)  # fmt: skip
def test_a_task_without_room_waits_for_whose_end_makes_it(
    name: str, cores: tuple[int, ...], keeps_teams: bool
) -> None:
    tasks = [
        task("0", writes=(0,)),
        task("1", reads=(0,), writes=(1,)),
        task("2", writes=(2,)),
        task("3", reads=(2,), writes=(3,)),
        task("4", reads=(1, 3), writes=(4,)),
    ]
    step = TaskGraph.of(tasks, [each * LITTLE for each in (100, 10, 10, 20, 0)])

    def taking(*seconds: float) -> Table:
        return Table({str(n): {0: [s, s], 1: [s]} for n, s in enumerate(seconds)})

    times = taking(1.0, 2.0, 1.0, 1.0, 1.0)
    free = replace(machine(*cores), keeps_teams=keeps_teams)
    bound = replace(free, most_memory=1.1)
    # In order 100, 110, then 10 + 10, 40, 30 units: 121 are the most. Side by side 0 and 2 hold 110, then 1 and 3
    # 140: 3 waits for the end of 1, at 3 s, by which 0's result goes. 5 s, for 6 in order and 4 without a bound.
    for where, span, most in ((free, 4.0, 140), (bound, 5.0, 120)):
        plan = policies.find(name)(step, times, where)
        timeline = simulate(step, plan, times, where)
        assert timeline.makespan_s == pytest.approx(span)
        assert timeline.peak_bytes == most * LITTLE
    # Whatever takes longer than was told, 3 waits for 1.
    assert simulate(step, plan, taking(1.0, 50.0, 1.0, 1.0, 1.0), bound).peak_bytes == 120 * LITTLE


@pytest.mark.parametrize("seed", range(40))
def test_room_that_is_reserved_suffices_for_every_order_in_which_tasks_begin(seed: int) -> None:
    """Drawn graphs, begun in drawn orders by up to three at a time, with no more than their own order holds."""
    dice = Random(seed)
    count = 30
    tasks = [
        task(
            str(number),
            reads=tuple(
                {dice.randrange(number) for _ in range(dice.randrange(3))} if number else ()
            ),
            writes=(number,),
        )
        for number in range(count)
    ]
    step = TaskGraph.of(tasks, [dice.randrange(100) for _ in range(count)])
    alone = peak_bytes(step, range(count), range(1, count + 1))
    room = Room(step, alone, reserving=True)
    begin, end, running = [0] * count, [0] * count, list[int]()
    for now in range(1, 1000):
        ready = [
            number for number in range(count)
            if not begin[number] and all(end[other] for other in step.after[number])
        ]  # fmt: skip
        fitting = [number for number in ready if room.fits(number)]
        assert fitting or running or not ready  # something may go on, always
        if fitting and len(running) < 3 and dice.random() < 0.7:
            chosen = dice.choice(fitting)
            room.begin(chosen)
            begin[chosen] = now
            running.append(chosen)
        elif running:
            chosen = running.pop(dice.randrange(len(running)))
            room.end(chosen)
            end[chosen] = now
        elif not ready:
            break
    assert all(end)
    assert peak_bytes(step, begin, end) <= alone


@pytest.mark.parametrize("seed", range(40))
def test_teams_of_drawn_graphs_keep_within_the_bound(seed: int) -> None:
    dice = Random(seed)
    count = 40
    tasks = [
        task(
            str(number),
            reads=tuple(
                {dice.randrange(number) for _ in range(dice.randrange(3))} if number else ()
            ),
            writes=(number,),
        )
        for number in range(count)
    ]
    step = TaskGraph.of(tasks, [dice.randrange(100) * LITTLE for _ in range(count)])
    times = Table({str(number): [dice.uniform(0.1, 1.0)] for number in range(count)})
    bound = replace(machine(4), keeps_teams=True, most_memory=1.1)
    costs = Costs(step, times, bound)
    to_end = step.to_end([1.0] * count)
    for rank in (None, to_end):
        timeline = simulate(step, in_teams(costs, [(0,), (1,), (2, 3)], rank=rank), times, bound)
        assert timeline.peak_bytes <= most_bytes(step, 1.1)
