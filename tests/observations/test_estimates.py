"""Means over processes, differences and ratios, against intervals worked out by hand."""

from __future__ import annotations

import math

import pytest
from tests.observations.made import figure
from tests.wording import assert_says

from wattstep.insight.observe.estimates import Estimate, difference, of_processes, over
from wattstep.schema.figure import Status, counted, missing


def estimate(found: Estimate | str) -> Estimate:
    assert isinstance(found, Estimate)
    return found


def test_of_several_processes_the_interval_is_students_t_over_their_means() -> None:
    """1, 2, 3: mean 2, deviation 1, error 1/√3; t of 2 degrees of freedom is 4.303."""
    found = estimate(of_processes([figure(1.0), figure(2.0), figure(3.0)]))
    low, high = found.interval()
    assert (low, high) == pytest.approx((2 - 4.303 / math.sqrt(3), 2 + 4.303 / math.sqrt(3)), 1e-3)
    assert found.processes == 3
    assert_says(found.figure().method, "3 processes", "Student's t")


def test_of_one_process_the_interval_is_the_figures_own_and_says_so() -> None:
    found = estimate(of_processes([figure(5.0, half=0.4)]))
    assert found.interval() == pytest.approx((4.6, 5.4), 1e-3)
    assert "one process" in found.method


def test_processes_that_happen_to_agree_are_no_surer_than_their_own_intervals() -> None:
    """Two processes at 5 ± 0.4: 5 ± 0.4/√2."""
    found = estimate(of_processes([figure(5.0, half=0.4), figure(5.0, half=0.4)]))
    assert found.interval()[1] == pytest.approx(5 + 0.4 / math.sqrt(2), rel=1e-3)
    assert_says(found.figure().method, "2 processes", "their own steps")


def test_what_was_counted_has_no_error() -> None:
    found = estimate(of_processes([counted(7, "B", "tensors")]))
    assert found.interval(0.999) == (7, 7)


def test_a_value_without_interval_leaves_everything_open() -> None:
    found = estimate(of_processes([figure(5.0, half=None)]))
    assert found.interval() == (-math.inf, math.inf)
    assert found.figure().low is None


def test_missing_processes_are_left_out_and_all_missing_is_the_reason() -> None:
    gap = missing("W", "no power sensor")
    assert estimate(of_processes([gap, figure(3.0, 0.1)])).value == 3.0
    assert of_processes([gap, gap]) == "no power sensor"


def test_a_ratio_is_a_difference_of_logarithms() -> None:
    small = estimate(of_processes([figure(10.0, 0.1)], logarithm=True))
    large = estimate(of_processes([figure(40.0, 0.4)], logarithm=True))
    ratio = difference(small, large).figure()
    assert ratio.value == pytest.approx(4.0)
    assert ratio.unit == "ratio"
    # ±1 % on both sides: ±√2 %.
    assert ratio.high == pytest.approx(4 * math.exp(math.sqrt(2) * 0.01), rel=1e-4)
    exponent = over(difference(small, large), math.log(16), "1", "")
    assert exponent.value == pytest.approx(0.5)


def test_degrees_of_freedom_of_a_difference_are_welchs() -> None:
    """Errors 3 and 4 with 2 and 4 degrees of freedom: 25² / (81/2 + 256/4) = 5.98."""
    a = Estimate(value=0, error=3, degrees_of_freedom=2, unit="s", processes=3, status=Status.MEASURED,
                 source="", method="")  # fmt: skip
    b = Estimate(value=0, error=4, degrees_of_freedom=4, unit="s", processes=5, status=Status.MODELLED,
                 source="", method="")  # fmt: skip
    found = difference(a, b)
    assert found.error == 5
    assert found.degrees_of_freedom == pytest.approx(625 / (81 / 2 + 256 / 4))
    assert (found.processes, found.status) == (3, Status.MODELLED)


def test_one_process_beside_several_is_taken_to_spread_as_they_do() -> None:
    """1, 2, 3: an error of 1/√3 of the mean and of 1 for one process; t of 2 degrees of freedom."""
    several = estimate(of_processes([figure(1.0), figure(2.0), figure(3.0)]))
    one = estimate(of_processes([figure(5.0)], between=0.45))
    for found in (difference(several, one), difference(one, several)):
        low, high = found.interval()
        assert (high - low) / 2 == pytest.approx(4.303 * math.sqrt(1 + 1 / 3), rel=1e-3)
        assert found.processes == 1


def test_ratios_of_what_is_not_above_nothing_are_refused() -> None:
    assert "not above 0" in str(of_processes([figure(0.0, 0.1)], logarithm=True))


def test_bounds_cut_the_interval() -> None:
    found = estimate(of_processes([figure(0.95, 0.2)], within=(-1.0, 1.0)))
    assert found.interval()[1] == 1.0
