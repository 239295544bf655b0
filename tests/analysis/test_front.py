"""The front of time and energy."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wattstep.stats.front import non_dominated

COST = st.tuples(st.integers(0, 8), st.integers(0, 8)).map(lambda p: (float(p[0]), float(p[1])))


def test_a_way_that_another_beats_in_both_is_not_on_the_front() -> None:
    assert non_dominated([(1, 9), (2, 5), (3, 6), (4, 5), (5, 1)]) == [
        True, True, False, False, True
    ]  # fmt: skip


@given(st.lists(COST, max_size=12))
def test_the_front_is_what_the_definition_says(costs: list[tuple[float, float]]) -> None:
    by_definition = [
        not any(other[0] <= one[0] and other[1] <= one[1] and other != one for other in costs)
        for one in costs
    ]
    assert non_dominated(costs) == by_definition
