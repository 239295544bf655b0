"""Intervals of shares against published ones."""

from __future__ import annotations

import pytest

from wattstep.stats.proportions import newcombe, wilson


def test_the_interval_of_a_difference_is_the_published_one() -> None:
    """Newcombe 1998, table II, contrast (a): 56/70 - 48/80, method 10: 0.0524 to 0.3339."""
    assert newcombe(56 / 70, 70, 48 / 80, 80) == pytest.approx((0.0524, 0.3339), abs=1e-4)


def test_the_interval_of_a_share_is_the_published_one() -> None:
    """Newcombe 1998 (two-sided intervals for the single proportion): 81/263 by Wilson: 0.2553 to 0.3662."""
    assert wilson(81 / 263, 263, 0.95) == pytest.approx((0.2553, 0.3662), abs=1e-4)
