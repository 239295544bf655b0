"""Rates of false discoveries against scipy, among tests that were not made too."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from wattstep.stats.false_discovery import false_discovery


def test_false_discovery_rates_are_those_of_scipy_and_untested_ones_do_not_count() -> None:
    p = np.array([0.01, 0.8, 0.02, 0.03, 0.5])
    expected = stats.false_discovery_control(p)
    np.testing.assert_allclose(false_discovery(p), expected)
    among = np.array([0.01, math.nan, 0.8, 0.02, 0.03, math.nan, 0.5])
    found = false_discovery(among)
    np.testing.assert_allclose(found[np.isfinite(among)], expected)
    assert np.isnan(found[[1, 5]]).all()
    assert len(false_discovery(np.empty(0))) == 0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_a_smaller_probability_never_has_a_larger_rate(p: list[float]) -> None:
    q = false_discovery(np.array(p))
    order = np.argsort(p, kind="stable")
    assert (np.diff(q[order]) >= 0).all()
    assert (q >= np.array(p) - 1e-15).all()
    assert (q <= 1).all()
