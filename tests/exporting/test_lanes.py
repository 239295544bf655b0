"""Within a lane slices lie inside one another or side by side, whatever came in."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wattstep.report.export.lanes import NESTING, Lanes, event_order, nest

intervals = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20)), max_size=30)


def arrays(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    start = np.array([start for start, _ in pairs], np.int64)
    return start, start + np.array([length for _, length in pairs], np.int64)


def by_a_stack(start: np.ndarray, end: np.ndarray) -> bool:
    """Whether a reader that pairs begins and ends by a stack finds each interval's own end."""
    open_rows: list[int] = []
    last = -1
    for row, begins in zip(*map(np.ndarray.tolist, event_order(start, end)), strict=True):
        time = start[row] if begins else end[row]
        assert time >= last
        last = time
        if begins:
            open_rows.append(row)
        elif open_rows.pop() != row:
            return False
    return not open_rows


@given(intervals)
def test_whether_intervals_nest_is_what_a_stack_says(pairs: list[tuple[int, int]]) -> None:
    start, end = arrays(pairs)
    assert nest(start, end) == by_a_stack(start, end)


@given(st.lists(intervals, max_size=4))
def test_every_lane_of_every_batch_nests_and_begins_after_the_batches_before(
    batches: list[list[tuple[int, int]]],
) -> None:
    lanes, until = Lanes(), dict.fromkeys(range(1000), -1)
    for pairs in batches:
        start, end = arrays(pairs)
        found = lanes.of(start, end)
        for lane in set(found.tolist()):
            mine = found == lane
            assert by_a_stack(start[mine], end[mine])
            assert start[mine].min() >= until[lane]
            until[lane] = int(end[mine].max())


def test_intervals_that_nest_stay_on_one_lane() -> None:
    start, end = np.array([0, 0, 1, 5, 5]), np.array([10, 4, 2, 5, 10])
    assert Lanes().of(start, end).tolist() == [0] * 5


def test_of_many_that_overlap_each_has_a_lane_and_later_ones_take_those_again() -> None:
    count = NESTING + 20
    start = np.arange(count)
    end = start + count
    lanes = Lanes().of(np.concatenate([start, start + 1000]), np.concatenate([end, end + 1000]))
    assert sorted(lanes[:count].tolist()) == list(range(count))
    assert sorted(lanes[count:].tolist()) == list(range(count))
