"""Tasks wait for what they must, and for nothing else; the bound of a step is what its graph says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused
from tests.scheduling.made import graph, task

from wattstep.schedule.tasks import Placed, Schedule, Task, TaskGraph, dependencies

ACCESS = st.lists(
    st.tuples(st.frozensets(st.integers(0, 4), max_size=3), st.frozensets(st.integers(0, 4), max_size=2)),
    max_size=9,
)  # fmt: skip


def test_a_read_waits_for_the_last_write_and_a_write_for_the_reads_since() -> None:
    tasks = [
        task("make", writes=(0,)),
        task("read", reads=(0,), writes=(1,)),
        task("read again", reads=(0,), writes=(2,)),
        task("in place", reads=(0,), writes=(0,)),
        task("overwrite", writes=(0,)),
        task("apart", reads=(3,), writes=(4,)),
    ]
    assert dependencies(tasks) == ((), (0,), (0,), (0, 1, 2), (3,), ())


@given(ACCESS)
def test_tasks_that_touch_one_storage_are_ordered_as_the_framework_had_them(
    access: list[tuple[frozenset[int], frozenset[int]]],
) -> None:
    tasks = [task(str(n), reads=tuple(r), writes=tuple(w)) for n, (r, w) in enumerate(access)]
    after = dependencies(tasks)
    reached: list[set[int]] = []
    for waits in after:
        reached.append(set(waits).union(*(reached[other] for other in waits)))
    for second, (reads, writes) in enumerate(access):
        for first, (read_before, written_before) in enumerate(access[:second]):
            conflict = bool(written_before & (reads | writes) or read_before & writes)
            if conflict:
                assert first in reached[second]
        # And no direct wait without a conflict.
        for first in after[second]:
            read_before, written_before = access[first]
            assert written_before & (reads | writes) or read_before & writes


def test_critical_path_and_bound_of_a_diamond() -> None:
    diamond = graph([(), (0,), (0,), (1, 2)])
    seconds = (1.0, 2.0, 5.0, 1.5)
    assert diamond.critical_path(seconds) == pytest.approx(7.5)  # 0, 2, 3
    assert diamond.to_end(seconds) == pytest.approx((7.5, 3.5, 6.5, 1.5))
    assert diamond.bound(seconds, 1) == pytest.approx(9.5)
    assert diamond.bound(seconds, 2) == pytest.approx(7.5)
    assert diamond.before() == ((1, 2), (3,), (3,), ())


@pytest.mark.parametrize("after", [[(0,)], [(), (1,)], [(1,), ()]])
def test_a_task_waits_for_earlier_ones_only(after: list[tuple[int, ...]]) -> None:
    with refused("invalid-value", "task", after[-1] or after[0]):
        graph(after)


def test_storages_and_dependencies_must_be_there() -> None:
    with refused("invalid-value", "storage"):
        TaskGraph.of([task("a", reads=(1,))], [8])
    with refused("invalid-value", "0 tasks"):
        TaskGraph(tasks=(task("a"),), after=(), storage_bytes=())


def test_a_task_of_a_plan_waits_for_graph_plan_and_the_one_before_on_its_worker() -> None:
    plan = Schedule(
        workers=2,
        placed=(
            Placed(task=0, worker=0, threads=1),
            Placed(task=1, worker=1, threads=1),
            Placed(task=2, worker=0, threads=2, waits=(1,)),
        ),
    )
    assert plan.waits(graph([(), (), ()])) == ((), (), (0, 1))


def test_the_graph_of_tasks_knows_their_dependencies() -> None:
    made: list[Task] = [task("a", writes=(0,)), task("b", reads=(0,))]
    assert TaskGraph.of(made, [4]).after == ((), (0,))
