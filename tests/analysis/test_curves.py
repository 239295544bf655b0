import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused

from wattstep.errors import InvalidValueError
from wattstep.recorded.curves import (
    curve_of_clock,
    curve_of_counter,
    curve_of_gauge,
    unwrap,
)

S = 1_000_000_000
NAN = float("nan")


def test_five_watts_for_two_seconds_are_ten_joules():
    curve = curve_of_gauge([0, 2 * S], [5.0, 5.0])
    assert curve.unit == "J"
    assert curve.total.tolist() == [0.0, 10.0]
    assert curve.at([0, S, 2 * S]).tolist() == [0.0, 5.0, 10.0]


def test_a_ramp_from_0_to_4_watts_in_one_second_is_two_joules():
    assert curve_of_gauge([0, S], [0.0, 4.0]).total[-1] == 2.0


def test_times_since_1970_keep_their_nanoseconds():
    base = 1_790_000_000 * S
    curve = curve_of_gauge([base, base + 1000], [1e9, 1e9])
    values, covered = curve.difference([base + 500], [base + 501])
    assert values.tolist() == pytest.approx([1.0], rel=1e-12)
    assert covered.tolist() == [1.0]


def test_outside_the_sampled_range_there_is_no_value():
    curve = curve_of_gauge([S, 2 * S], [5.0, 5.0])
    assert np.isnan(curve.at([0, 3 * S])).all()
    values, covered = curve.difference([0, 0, 3 * S], [2 * S, S // 2, 4 * S])
    assert values[0] == 5.0
    assert covered.tolist() == [0.5, 0.0, 0.0]
    assert np.isnan(values[1:]).all()


def test_a_failed_read_makes_a_gap_on_both_sides_of_it():
    curve = curve_of_gauge(np.arange(5) * S, [2.0, 2.0, NAN, 2.0, 2.0])
    assert np.isnan(curve.at([2 * S]))
    assert curve.at([S, 3 * S]).tolist() == [2.0, 2.0]
    values, covered = curve.difference([0, S, S + S // 2], [4 * S, 3 * S, 3 * S + S // 2])
    assert values[0] == 4.0
    assert np.isnan(values[1])
    assert values[2] == 1.0
    assert covered.tolist() == [0.5, 0.0, 0.25]


def test_samples_further_apart_than_the_longest_gap_are_not_joined():
    curve = curve_of_gauge([0, S, 11 * S], [1.0, 1.0, 1.0], max_gap_ns=2 * S)
    values, covered = curve.difference([0], [11 * S])
    assert values.tolist() == [1.0]
    assert covered.tolist() == pytest.approx([1 / 11])


def test_an_instant_is_covered_where_it_was_sampled():
    curve = curve_of_gauge([0, S, 2 * S, 3 * S], [1.0, NAN, 1.0, 1.0])
    at = [0, S, 2 * S, 5 * S // 2, 4 * S]
    values, covered = curve.difference(at, at)
    assert covered.tolist() == [1.0, 0.0, 1.0, 1.0, 0.0]
    assert values[[0, 2, 3]].tolist() == [0.0, 0.0, 0.0]
    assert np.isnan(values[[1, 4]]).all()


@pytest.mark.parametrize("samples", [[], [NAN], [7.0]])
def test_fewer_than_two_reads_cover_nothing(samples):
    curve = curve_of_gauge(np.arange(len(samples)), samples)
    values, covered = curve.difference([-5], [5])
    assert np.isnan(values).all()
    assert covered.tolist() == [0.0]


def test_a_single_time_is_answered_by_a_single_value():
    curve = curve_of_gauge([0, S], [1.0, 1.0])
    assert float(curve.at(S // 4)) == 0.25
    values, covered = curve.difference(0, S // 2)
    assert (float(values), float(covered)) == (0.5, 1.0)


def test_a_counter_counts_from_its_first_sample():
    curve = curve_of_counter([0, 10, 20], [100.0, 103.0, 109.0], unit="B")
    assert curve.total.tolist() == [0.0, 3.0, 9.0]
    assert curve.at([15]).tolist() == [6.0]


def test_a_counter_that_falls_was_reset_and_has_a_gap_there():
    curve = curve_of_counter([0, 10, 20, 30], [100.0, 103.0, 1.0, 4.0], unit="B")
    values, covered = curve.difference([0, 10], [30, 20])
    assert values[0] == 6.0
    assert np.isnan(values[1])
    assert covered.tolist() == pytest.approx([2 / 3, 0.0])


def test_the_clock_is_a_curve_of_seconds():
    values, _ = curve_of_clock(S, 3 * S).difference([S], [5 * S // 2])
    assert values.tolist() == [1.5]


@pytest.mark.parametrize("times", [[0, 0], [1, 0], [0.0, 1.0], [0, 2**62]])
def test_unsorted_repeated_fractional_and_absurd_times_are_refused(times):
    with pytest.raises(InvalidValueError):
        curve_of_gauge(times, [1.0, 1.0])
    with pytest.raises(InvalidValueError):
        curve_of_counter(times, [1.0, 1.0], unit="J")


def test_infinite_samples_and_backward_intervals_are_refused():
    with refused("not-finite"):
        curve_of_gauge([0, 1], [1.0, float("inf")])
    with refused("backward-interval"):
        curve_of_gauge([0, 1], [1.0, 1.0]).difference([1], [0])


def test_a_wrap_adds_the_distance_around():
    assert unwrap([90, 95, 3, 8], wrap=100).tolist() == [90, 95, 103, 108]


def test_several_wraps_add_up():
    assert unwrap([60, 10, 60, 10], wrap=100).tolist() == [60, 110, 160, 210]


def test_a_step_back_too_long_for_a_wrap_is_a_reset():
    # As a wrap it would be a step of 60 where steps of 5 are the rule.
    assert unwrap([90, 95, 55, 60], wrap=100).tolist() == [90, 95, 55, 60]
    # As a wrap it would be more than half the range.
    assert unwrap([0, 90, 80], wrap=100).tolist() == [0, 90, 80]


def test_a_counter_without_wrap_is_left_alone():
    assert unwrap([5, 3, 9], wrap=None).tolist() == [5, 3, 9]


def test_raw_values_beyond_the_wrap_are_refused():
    with refused("out-of-range", "100"):
        unwrap([1, 101], wrap=100)


@given(st.lists(st.integers(1, 40), min_size=2, max_size=60), st.integers(0, 999))
def test_unwrapping_gives_back_the_steps(steps, first):
    steps = [40, *steps]  # the largest step has been seen
    truth = first % 900 + np.concatenate(([0], np.cumsum(steps)))
    counted = unwrap(truth % 1000, wrap=1000)
    assert np.diff(counted).tolist() == steps


@given(
    st.lists(st.tuples(st.integers(1, 1000), st.floats(0, 50) | st.just(NAN)), max_size=30),
    st.lists(st.integers(-100, 20_000), min_size=2, max_size=20),
)
def test_neighbouring_intervals_add_up(samples, cuts):
    times = np.cumsum([step for step, _ in samples]).astype(np.int64)
    curve = curve_of_gauge(times, [value for _, value in samples])
    cuts = np.sort(cuts)
    parts, covered = curve.difference(cuts[:-1], cuts[1:])
    whole, covered_whole = curve.difference(cuts[:1], cuts[-1:])
    assert np.nansum(parts) == pytest.approx(np.nansum(whole), rel=1e-9, abs=1e-20)
    length = np.diff(cuts)
    assert (covered * length).sum() == pytest.approx((covered_whole * length.sum()).sum(), abs=1e-6)
    assert ((covered >= 0) & (covered <= 1)).all()


@pytest.mark.parametrize(
    ("outside", "bound"),
    [(0.0, 1), (10.0, 0)],  # what flows between intervals in each sample's time, of 5 within
)
def test_bounds_of_intervals_that_share_samples_with_others(outside: float, bound: int) -> None:
    """Intervals of 5 ms, each with 5 ms beside it between the same two samples."""
    t_ns = np.arange(11) * 10_000_000
    curve = curve_of_counter(t_ns, np.arange(11) * (5.0 + outside), unit="s")
    given = curve.difference(t_ns[:-1], t_ns[:-1] + 5_000_000)[0].sum()
    assert given * curve.apart(t_ns[:-1], t_ns[:-1] + 5_000_000)[bound] == pytest.approx(50)


def test_intervals_from_sample_to_sample_are_known() -> None:
    t_ns = np.arange(11) * 10_000_000
    curve = curve_of_counter(t_ns, np.arange(11) ** 2.0, unit="s")
    assert curve.apart(t_ns[2:8:2], t_ns[3:9:2]) == (1.0, 1.0)
