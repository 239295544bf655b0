"""Which steps are clean, and what lies between them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattstep.recorded.steps import Steps, slices

MS = 1_000_000


def steps_of(
    spans: list[tuple[int, int]],
    *,
    warmup: int = 0,
    traced: tuple[int, ...] = (),
    windows: tuple[tuple[int, int], ...] = (),
    rests: tuple[tuple[int, int], ...] = (),
) -> Steps:
    count = len(spans)
    index = np.arange(count)
    start, end = np.array(spans, np.int64).reshape(-1, 2).T
    return Steps(
        index=index,
        start_ns=start,
        end_ns=end,
        samples=np.full(count, 4.0),
        loss=np.full(count, np.nan),
        warmup=index < warmup,
        traced=np.isin(index, traced),
        window_ns=np.array(windows, np.int64).reshape(-1, 2),
        rest_ns={"evaluation": np.array(rests, np.int64).reshape(-1, 2)},
    )


def equal(count: int, length: int = 10, gap: int = 1) -> list[tuple[int, int]]:
    return [(n * (length + gap), n * (length + gap) + length) for n in range(count)]


def test_warm_up_traced_steps_and_the_step_after_them_are_not_clean() -> None:
    steps = steps_of(equal(10), warmup=3, traced=(6,))
    assert list(np.flatnonzero(steps.clean)) == [3, 4, 5, 8, 9]


def test_the_gap_before_a_step_counts_where_it_follows_a_clean_one() -> None:
    steps = steps_of(equal(6), warmup=1, traced=(3,))
    assert steps.gap_s * 1e9 == pytest.approx([0, 0, 1, 0, 0, 0])


def test_a_rest_between_two_steps_is_no_gap() -> None:
    steps = steps_of([(0, 10), (100, 110), (111, 121)], rests=((15, 95),))
    assert list(steps.follows) == [False, False, True]
    assert [list(span) for span in steps.stretches()] == [[0, 10], [100, 121]]


def test_a_stretch_ends_where_something_else_begins() -> None:
    steps = steps_of(equal(10), warmup=2, traced=(5,), windows=((55, 66),))
    assert [list(span) for span in steps.stretches()] == [[22, 54], [77, 109]]


def test_no_clean_step_means_no_stretch() -> None:
    assert steps_of(equal(3), warmup=3).stretches().shape == (0, 2)


def test_slices_are_at_least_as_long_as_asked_but_for_short_stretches() -> None:
    parts = slices(np.array([[0, 100], [200, 205]]), 30)
    assert [list(part) for part in parts] == [[0, 33], [33, 66], [66, 100], [200, 205]]


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 500)), max_size=8), st.integers(1, 99))
def test_slices_leave_nothing_out_and_count_nothing_twice(
    lengths: list[tuple[int, int]], least: int
) -> None:
    now, stretches = 0, []
    for gap, length in lengths:
        stretches.append((now + gap, now + gap + length))
        now += gap + length
    parts = slices(np.array(stretches, np.int64).reshape(-1, 2), least)
    assert int(np.diff(parts, axis=1).sum()) == sum(length for _, length in lengths)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(parts))


# --- slices of whole steps ----------------------------------------------------------------------


def test_slices_are_whole_steps_with_their_gaps_and_as_long_as_asked() -> None:
    """Steps of 10 and gaps of 1, the first two warm-up, the sixth traced."""
    steps = steps_of(equal(12), warmup=2, traced=(5,))
    assert [list(part) for part in steps.slices(20)] == [
        [22, 44],
        [44, 54],
        [77, 99],
        [99, 121],
        [121, 131],
    ]
    assert [list(part) for part in steps.slices(1000)] == [[22, 54], [77, 131]]


def test_slices_cover_what_stretches_cover() -> None:
    steps = steps_of(equal(40), warmup=3, traced=(9, 20), rests=((341, 341),))
    for least in (1, 15, 40):
        parts = steps.slices(least)
        assert np.ptp(parts, axis=1).sum() == np.ptp(steps.stretches(), axis=1).sum()
        assert set(parts[:, 0]) <= set(steps.start_ns)
        assert (parts[:, 1] > parts[:, 0]).all()


def test_slices_of_no_step_are_none() -> None:
    assert steps_of(equal(3), warmup=3).slices(10).shape == (0, 2)
