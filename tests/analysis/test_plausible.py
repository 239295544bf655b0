"""Values of a power sensor that cannot be true: single ones far beyond all others, and a pile at the top."""

from __future__ import annotations

import numpy as np
import pytest

from wattstep.analysis.plausible import glitches, saturated

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


def test_a_load_that_stands_still_at_its_highest_and_elsewhere_is_not_at_the_end() -> None:
    """Two levels and ramps between them: values pile up at the top, but below as well."""
    ramps = np.linspace(2, 8, 200)
    value = np.concatenate([np.full(300, 8.0), ramps, np.full(300, 2.0), ramps])
    assert saturated(value) is None


def test_a_constant_sensor_and_a_few_values_are_not_at_the_end() -> None:
    assert saturated(np.full(2000, 5.0)) is None
    assert saturated(np.minimum(USUAL[:20], 5.0)) is None
