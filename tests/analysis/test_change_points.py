"""Change points: false alarms over series without a change, and changes where they were put."""

from __future__ import annotations

import numpy as np
import pytest
from tests.refusals import refused

from wattstep.stats.change_points import find_changes


def correlated(rng, n, phi):
    noise = rng.standard_normal(n)
    noise[1:] *= np.sqrt(1 - phi * phi)
    for k in range(1, n):
        noise[k] += phi * noise[k - 1]
    return noise


@pytest.mark.parametrize("phi", [0.0, 0.6, 0.9])
def test_hardly_a_steady_series_has_a_change(phi):
    rng = np.random.default_rng(11)
    alarms = sum(
        bool(find_changes(10 + correlated(rng, 200, phi), "s", "made").changes) for _ in range(100)
    )
    assert alarms <= 4  # of 100 at 1 %: more come in 3 of 1000 cases


def test_stalls_of_single_steps_are_no_changes():
    rng = np.random.default_rng(2)
    values = 1 + 0.02 * rng.standard_normal(400)
    values[rng.integers(0, 400, 12)] += 3
    assert not find_changes(values, "s", "made").changes


def test_changes_are_found_where_they_are():
    rng = np.random.default_rng(3)
    values = 1 + 0.05 * correlated(rng, 600, 0.3)
    values[200:] += 0.2
    values[450:] -= 0.3
    found = find_changes(values, "s", "made").changes
    assert [change.index for change in found] == pytest.approx([200, 450], abs=4)
    assert found[0].before.value == pytest.approx(1.0, abs=0.02)
    assert found[0].after.value == pytest.approx(1.2, abs=0.02)


def test_steps_that_are_left_out_keep_the_places_of_the_others():
    values = np.concatenate([np.full(50, 1.0), np.full(50, 2.0)])
    values += 0.01 * np.random.default_rng(0).standard_normal(100)
    values[20:30] = np.nan
    assert find_changes(values, "s", "made").changes[0].index == pytest.approx(50, abs=1)


def test_the_first_steps_that_stand_out_are_the_warm_up():
    rng = np.random.default_rng(4)
    values = 1 + 0.02 * rng.standard_normal(200)
    values[:3] += [2.0, 0.5, 0.3]
    assert find_changes(values, "s", "made").settled == 3


def test_a_warm_up_lasts_until_its_change():
    rng = np.random.default_rng(5)
    values = 1 + 0.02 * rng.standard_normal(300)
    values[:15] += 0.3
    assert find_changes(values, "s", "made").settled == pytest.approx(15, abs=1)


def test_throttling_later_is_a_change_and_no_warm_up():
    rng = np.random.default_rng(6)
    values = 1 + 0.02 * rng.standard_normal(300)
    values[100:] += 0.3
    found = find_changes(values, "s", "made")
    assert [change.index for change in found.changes] == pytest.approx([100], abs=2)
    assert found.settled < 20


def test_what_cannot_be_told_says_why():
    assert "too few" in find_changes(np.ones(1), "s", "made").reason
    assert "too few" in find_changes(np.empty(0), "s", "made").reason
    assert "too few" in find_changes(np.full(100, np.nan), "s", "made").reason
    assert find_changes(np.ones(100), "s", "made").changes == ()
    with refused("not-one-dimensional"):
        find_changes(np.ones((5, 5)), "s", "made")
    with refused("out-of-range", "false alarms"):
        find_changes(np.ones(100), "s", "made", false_alarms=0)
