"""Student's t against scipy.stats, its ends, and when scipy is loaded."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from wattstep.stats.student import critical_value, half_width, quantile, two_sided

FREEDOM = np.array([1, 1.3, 2, 2.7, 3, 5, 9, 29.4, 120, 1e4])


def test_probabilities_are_those_of_scipy() -> None:
    t, f = np.meshgrid([0, 1e-9, 0.1, 0.5, 1, 2, 4, 12.7, 100, 1e6], FREEDOM)
    expected = 2 * stats.t.sf(t, f)
    seen = expected > 1e-250
    np.testing.assert_allclose(two_sided(t, f)[seen], expected[seen], rtol=1e-8)
    assert (two_sided(t, f)[~seen] < 1e-200).all()


@pytest.mark.parametrize("confidence", [0.2, 0.6, 0.95, 0.999, 1 - 1e-9])
def test_quantiles_are_those_of_scipy(confidence: float) -> None:
    expected = stats.t.isf((1 - confidence) / 2, FREEDOM)
    np.testing.assert_allclose(quantile(confidence, FREEDOM), expected, rtol=1e-9)


def test_critical_values_are_those_of_the_tables() -> None:
    assert critical_value(0.9, 4) == pytest.approx(2.132, abs=5e-4)
    assert critical_value(0.95, math.inf) == pytest.approx(1.95996, abs=5e-6)


def test_what_is_no_number_stays_none_and_infinity_is_beyond_everything() -> None:
    assert np.isnan(two_sided(np.nan, 3.0))
    assert two_sided(np.inf, 3.0) == 0
    assert two_sided(0.0, 3.0) == 1


def test_the_interval_of_a_mean_is_that_of_scipy_and_one_value_has_none() -> None:
    values = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
    low, high = stats.t.interval(0.95, 4, loc=2.8, scale=stats.sem(values))
    assert half_width(values, 0.95) == pytest.approx((high - low) / 2, rel=1e-9)
    assert half_width(values[:1], 0.95) == math.inf


def test_scipy_is_loaded_with_the_first_quantile_only() -> None:
    code = (
        "import sys, wattstep.stats.statistics, wattstep.stats.differences\n"
        "assert 'scipy' not in sys.modules\n"
        "wattstep.stats.student.critical_value(0.95, 3)\n"
        "assert 'scipy.special' in sys.modules and 'scipy.stats' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
