"""How much instances of an operation differ: against numpy, by hand, and with variances that were put in."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refused

from wattstep.attribution.variation import Instances, Variation, between_shapes, variation


def of(windows: list[list[tuple[int, float]]]) -> Instances:
    """For each window its instances in order: operation and time."""
    flat = [(window, group, s) for window, row in enumerate(windows) for group, s in row]
    return Instances(
        group=np.array([group for _, group, _ in flat], np.int64),
        groups=1 + max((group for _, group, _ in flat), default=-1),
        window=np.array([window for window, _, _ in flat], np.int64),
        windows=len(windows),
        seconds=np.array([s for _, _, s in flat], np.float64),
    )


def once(times: list[float]) -> Variation:
    """An operation that is called once in each window."""
    return variation(of([[(0, s)] for s in times]))


def test_an_instance_is_slow_beyond_one_and_a_half_medians() -> None:
    found = once([1.0, 1.0, 1.0, 1.0, 1.49, 1.51, 1.0, 4.0, 1.0])
    assert found.slow.tolist() == [False] * 5 + [True, False, True, False]
    assert found.lost_s.tolist() == pytest.approx([0, 0, 0, 0, 0, 0.51, 0, 3, 0])
    assert found.usual_s.tolist() == [1.0] * 9


def test_what_spreads_widely_anyway_has_no_slow_instances() -> None:
    """Median 2, median deviation 0.8: three robust deviations reach to 5.56."""
    times = [1.0, 1.2, 1.4, 2.0, 2.6, 2.8, 3.0, 3.5, 1.1]
    assert statistics.median(abs(s - 2.0) for s in times) == pytest.approx(0.8)
    assert not once(times).slow.any()


def test_with_four_windows_nothing_is_called_slow() -> None:
    assert not once([1.0, 1.0, 1.0, 9.0]).slow.any()
    assert once([1.0, 1.0, 1.0, 1.0, 9.0]).slow.tolist() == [False] * 4 + [True]


def test_calls_at_different_places_of_the_step_are_compared_with_their_own_place() -> None:
    """The second call always takes three times the first: that is no slow instance."""
    found = variation(of([[(0, 1.0), (0, 3.0)]] * 10))
    assert not found.slow.any()
    assert found.between_positions[0] == pytest.approx(1.0)
    assert found.between_steps[0] == pytest.approx(0.0)
    assert found.position.tolist() == [0, 1] * 10


def test_where_the_number_of_calls_changes_all_calls_are_compared_together() -> None:
    rows = [[(0, 1.0), (0, 1.0)], [(0, 1.0)]] * 5 + [[(0, 1.0), (0, 3.0)]]
    found = variation(of(rows))
    assert found.steady_calls.tolist() == [0]
    assert found.slow.tolist() == [False] * 16 + [True]
    assert np.isnan(found.between_positions[0])


def test_variance_that_was_put_in_between_steps_positions_and_calls_is_found_again() -> None:
    """Deviations of 3, 2 and 1 ms: 9, 4 and 1 of 14 parts of the variance."""
    random = np.random.default_rng(5)
    steps, calls = 3000, 40
    values = (
        0.1
        + 3e-3 * random.standard_normal((steps, 1))
        + 2e-3 * np.tile([-1.0, 1.0], calls // 2)
        + 1e-3 * random.standard_normal((steps, calls))
    )
    found = variation(of([[(0, float(s)) for s in row] for row in values]))
    # Positions that stand at ±2 ms have a variance of 4 * 40 / 39 between them.
    assert found.between_steps[0] == pytest.approx(9 / 14.1, abs=0.03)
    assert found.between_positions[0] == pytest.approx(4.1 / 14.1, abs=0.03)


def test_steps_are_told_from_calls_where_the_number_of_calls_changes() -> None:
    random = np.random.default_rng(6)
    rows = []
    for _ in range(4000):
        own = 2e-3 * random.standard_normal()
        rows.append(
            [(0, 0.1 + own + 1e-3 * random.standard_normal()) for _ in range(random.integers(1, 6))]
        )
    assert variation(of(rows)).between_steps[0] == pytest.approx(4 / 5, abs=0.03)


def test_one_call_a_step_varies_between_steps_only() -> None:
    found = once([1.0, 2.0, 3.0, 2.0, 2.5])
    assert found.between_steps.tolist() == [1.0]
    assert np.isnan(found.between_positions[0])


def test_operations_that_take_no_time_are_never_slow_and_have_no_relative_spread() -> None:
    found = once([0.0] * 8)
    assert not found.slow.any()
    assert np.isnan(found.cv[0])
    assert not once([0.0] * 7 + [1.0]).slow.any()  # 0 is no measure of what is usual


def test_constant_times_do_not_vary() -> None:
    found = once([2.0] * 6)
    assert found.cv.tolist() == [0.0]
    assert found.deviation_s.tolist() == [0.0]
    assert np.isnan(found.between_steps[0])  # of nothing there are no parts


def test_nothing_at_all_is_no_operation() -> None:
    found = variation(of([]))
    assert len(found.calls) == 0
    assert len(found.slow) == 0


def test_an_operation_number_without_instances_has_no_values() -> None:
    found = variation(of([[(1, 1.0)]] * 6))
    assert found.calls.tolist() == [0, 6]
    assert np.isnan(found.median_s[0])
    assert found.total_s.tolist() == [0.0, 6.0]


TIMES = st.floats(0.0, 10.0).map(lambda s: round(s, 3))
ROWS = st.lists(
    st.lists(st.tuples(st.integers(0, 3), TIMES), max_size=6), min_size=1, max_size=12
)  # fmt: skip


@settings(max_examples=150)
@given(ROWS)
def test_spread_is_that_of_numpy_for_every_operation(rows: list[list[tuple[int, float]]]) -> None:
    instances = of(rows)
    found = variation(instances)
    for group in range(instances.groups):
        values = instances.seconds[instances.group == group]
        assert found.calls[group] == len(values)
        if not len(values):
            continue
        median = np.median(values)
        assert found.median_s[group] == pytest.approx(median)
        assert found.high_s[group] == pytest.approx(np.quantile(values, 0.95))
        assert found.deviation_s[group] == pytest.approx(np.median(np.abs(values - median)))
        if len(values) > 1 and values.mean() > 0:
            assert found.cv[group] == pytest.approx(values.std(ddof=1) / values.mean(), abs=1e-9)
    assert (found.lost_s[found.slow] > 0).all()
    assert (found.lost_s[~found.slow] == 0).all()
    for shares in (found.between_steps, found.between_positions):
        known = shares[np.isfinite(shares)]
        assert ((known >= 0) & (known <= 1)).all()


@pytest.mark.parametrize(
    ("group", "window", "seconds", "id"),
    [
        ([0], [0, 0], [1.0], "unequal-lengths"),
        ([0], [0], [np.nan], "not-finite"),
        ([0], [0], [-1.0], "not-finite"),
        ([0, 0], [1, 0], [1.0, 1.0], "unordered-instances"),
    ],
)
def test_what_cannot_be_instances_is_refused(
    group: list[int], window: list[int], seconds: list[float], id: str
) -> None:
    with refused(id):
        Instances(
            group=np.array(group), groups=1, window=np.array(window), windows=2,
            seconds=np.array(seconds),
        )  # fmt: skip


def test_variation_between_shapes_is_told_from_that_within_them() -> None:
    """Of 1, 1.2, 3, 3.2 the shapes explain 4 of 4.04; omega squared: (4 - 0.02) / (4.04 + 0.02)."""
    seconds = np.array([1.0, 1.2, 3.0, 3.2, 5.0, 5.0])
    operation = np.array([0, 0, 0, 0, 1, 1])
    shares = between_shapes(seconds, operation, np.array([0, 0, 1, 1, 2, 2]))
    assert shares[0] == pytest.approx(3.98 / 4.06)
    assert np.isnan(shares[1])  # one shape


def test_shapes_that_make_no_difference_explain_nothing() -> None:
    seconds = np.array([1.0, 3.0, 1.0, 3.0])
    shares = between_shapes(seconds, np.zeros(4, int), np.array([0, 0, 1, 1]))
    assert shares.tolist() == [0.0]


def test_without_a_second_instance_of_any_shape_nothing_is_said() -> None:
    shares = between_shapes(np.array([1.0, 2.0]), np.zeros(2, int), np.array([0, 1]))
    assert np.isnan(shares).all()
