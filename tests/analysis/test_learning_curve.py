"""Steps to a goal, from curves whose crossing is known."""

from __future__ import annotations

import numpy as np
import pytest

from wattstep.stats.learning_curve import steps_to_goal

STEPS = 100 * np.arange(1, 200.0)


def curve(kind):
    if kind == "power":
        return 0.1 + 0.9 * (1 + STEPS / 100) ** -0.8
    return 0.1 + 0.9 * np.exp(-STEPS / 2000)


@pytest.mark.parametrize("kind", ["power", "exponential"])
def test_nine_of_ten_intervals_hold_the_step_that_reaches_it(kind):
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(40):
        wrong = curve(kind) + 0.005 * rng.standard_normal(len(STEPS))
        goal = float(curve(kind)[50])
        reached = float(STEPS[np.flatnonzero(wrong <= goal)[0]])
        found = steps_to_goal(STEPS[:25], wrong[:25], goal, "made")
        held += not found.missing and found.low <= reached <= (found.high or np.inf)
    assert held >= 31  # of 40 at 90 %: fewer come in 1 of 100 cases


def test_a_goal_below_the_last_level_is_not_promised():
    wrong = 0.3 + 0.7 * np.exp(-STEPS / 500) + 0.002 * np.random.default_rng(0).standard_normal(199)
    found = steps_to_goal(STEPS[:60], wrong[:60], 0.1, "made")
    assert "does not lead" in found.reason


def test_what_cannot_be_told_says_why():
    wrong = curve("power")
    assert "too few" in steps_to_goal(STEPS[:3], wrong[:3], 0.2, "made").reason
    assert "too few" in steps_to_goal(STEPS[:9], np.full(9, np.nan), 0.2, "made").reason
    assert "reached already" in steps_to_goal(STEPS[:9], wrong[:9], 0.9, "made").reason
    flat = 0.5 + 0.1 * np.random.default_rng(1).standard_normal(20)
    assert "do not improve" in steps_to_goal(STEPS[:20], flat, 0.1, "made").reason
    assert "same steps" in steps_to_goal(np.full(9, 5.0), wrong[:9], 0.01, "made").reason
