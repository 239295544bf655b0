"""Values of a power sensor that cannot be true: single ones far beyond all others, and a pile at the top."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from wattstep.recorded.plausible import glitches, saturated
from wattstep.schema.arrays import FloatArray

RNG = np.random.default_rng(0)
USUAL = 5.0 + RNG.standard_normal(2000)


def test_one_value_many_times_all_others_is_a_glitch_and_no_other_is() -> None:
    value = USUAL.copy()
    value[700] = 1e9
    assert np.flatnonzero(glitches(value)).tolist() == [700]


def test_a_load_of_ten_times_as_much_is_no_glitch() -> None:
    value = USUAL.copy()
    value[700] = 50.0
    assert not glitches(value).any()


def test_more_than_one_in_a_thousand_are_power_and_no_glitches() -> None:
    value = USUAL.copy()
    value[:2] = 1e6
    assert glitches(value).sum() == 2
    value[:3] = 1e6
    assert not glitches(value).any()


def test_failed_reads_and_silent_sensors_have_no_glitches() -> None:
    value = USUAL.copy()
    value[10] = np.nan
    assert not glitches(value).any()
    assert not glitches(np.zeros(2000)).any()
    assert not glitches(np.append(np.ones(20), 1e9)).any()  # too few to know what is usual


@pytest.mark.parametrize("quantum", [0.0, 0.05])
def test_a_pile_at_the_top_alone_is_the_end_of_the_range(quantum: float) -> None:
    value = np.rint(USUAL / quantum) * quantum if quantum else USUAL
    assert saturated(value) is None
    top = 6.0
    found = saturated(np.minimum(value, top))
    assert found is not None
    assert found == (pytest.approx(top), int((value >= top - 1e-9).sum()))


def test_a_pile_at_the_top_is_seen_where_each_sample_is_far_from_the_one_before() -> None:
    """In turn 0 to 10 and 40 to 79 steps of 0.22 W, 100 times each; no more than 60 are shown."""
    low, high = np.tile(np.arange(40) % 11, 100), np.repeat(np.arange(40, 80), 100)
    value = 0.22 * np.stack([low, RNG.permutation(high)], axis=1).ravel()
    assert saturated(value) is None
    assert saturated(np.minimum(value, 60 * 0.22)) == (pytest.approx(13.2), 2000)


def test_a_pile_of_four_in_a_thousand_is_seen() -> None:
    """Of 10,000 normal values 47 lie beyond 2.6 standard deviations; a normal load has no pile."""
    value = 5.0 + np.random.default_rng(3).standard_normal(10_000)
    cut = np.minimum(value, 7.6)
    beyond = int((value > 7.6).sum())
    assert 30 <= beyond <= 60
    assert saturated(np.rint(value / 0.01) * 0.01) is None
    assert saturated(np.rint(cut / 0.01) * 0.01) == (
        pytest.approx(7.6),
        pytest.approx(beyond, abs=3),
    )


def test_a_load_that_stands_still_at_its_highest_and_elsewhere_is_not_at_the_end() -> None:
    """Two levels and ramps between them: values pile up at the top, but below as well."""
    ramps = np.linspace(2, 8, 200)
    value = np.concatenate([np.full(300, 8.0), ramps, np.full(300, 2.0), ramps])
    assert saturated(value) is None


def in_turn(watts: Sequence[float], times: int, averaged_s: float) -> FloatArray:
    """What a sensor of 1 mW shows of powers in turn for 31 to 79 ms each, a value each 10 ms.

    Args:
        watts: The powers, W.
        times: How often all come.
        averaged_s: What the values average over; 1 ns is an instant.
    """
    lasts = np.random.default_rng(5).uniform(0.031, 0.079, times * len(watts))
    edges = np.append(0.0, np.cumsum(lasts))
    energy = np.append(0.0, np.cumsum(lasts * np.tile(watts, times)))
    at = np.arange(1, int(edges[-1] / 0.01)) * 0.01
    spent = np.interp(at, edges, energy) - np.interp(at - averaged_s, edges, energy)
    shown: FloatArray = np.rint(spent / averaged_s / 1e-3) * 1e-3
    return shown


def test_averages_that_go_to_the_highest_power_at_once_and_not_to_others_are_cut_off() -> None:
    """2 to 10 W stand exactly still: cut at 8 W, a quarter of the changes from 2 W show no value between."""
    value = in_turn((2.0, 6.0, 10.0, 4.0), 200, averaged_s=0.010)
    assert saturated(value) is None
    found = saturated(np.minimum(value, 8.0))
    assert found is not None
    assert found[0] == pytest.approx(8.0)


@pytest.mark.parametrize("watts", [(2.0, 10.0), (2.0, 6.0, 10.0, 4.0)])
@pytest.mark.parametrize("averaged_s", [1e-9, 0.002, 0.010])
def test_powers_that_stand_exactly_still_are_all_that_a_fine_sensor_shows_and_no_end(
    watts: tuple[float, ...], averaged_s: float
) -> None:
    assert saturated(in_turn(watts, 200, averaged_s)) is None


def test_an_idle_power_that_stands_still_does_not_tell_that_the_load_does() -> None:
    """Steps of 0.1 W hide what varies by 1 % at 2 W, not at 8 W."""
    rng = np.random.default_rng(1)
    watts = np.column_stack([np.full((500, 3), 2.0), rng.uniform(4, 10, (500, 3))]).ravel()
    value = watts * (1 + 0.01 * rng.standard_normal(len(watts)))
    assert saturated(np.rint(value / 0.1) * 0.1) is None
    found = saturated(np.rint(np.minimum(value, 8.0) / 0.1) * 0.1)
    assert found == (pytest.approx(8.0), int((value >= 7.95).sum()))


def test_plateaus_of_another_power_in_each_step_are_no_end_unless_many_meet_there() -> None:
    """40 steps with three powers of their own for 25 samples each."""
    rng = np.random.default_rng(2)
    watts = np.column_stack([rng.normal(mean, 0.05 * mean, 40) for mean in (2, 6, 10)])
    value = np.repeat(watts.ravel(), 25)
    assert saturated(value) is None
    cut = 25 * int((watts >= 10.0).sum())
    assert saturated(np.minimum(value, 10.0)) == (10.0, cut)


def test_values_that_are_read_a_hundred_times_each_are_no_pile() -> None:
    value = np.repeat(USUAL[:100], 100)
    assert saturated(value) is None
    found = saturated(np.minimum(value, 5.0))
    assert found == (5.0, 100 * int((USUAL[:100] >= 5.0).sum()))


def test_a_constant_sensor_and_a_few_values_are_not_at_the_end() -> None:
    assert saturated(np.full(2000, 5.0)) is None
    assert saturated(np.minimum(USUAL[:20], 5.0)) is None
