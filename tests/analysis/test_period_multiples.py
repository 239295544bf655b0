"""A step is told from its parts and from several steps together, or nothing is said."""

from __future__ import annotations

import numpy as np
import pytest

from wattstep.recorded.period.multiples import settled

STEP_S = 0.4


def made(second, *, steps=150, jitter=0.02, noise=0.3, correlation=0.0, seed=0, step_s=STEP_S):
    """Times in s and values of steps of two humps, of 1 and of the height given."""
    rng = np.random.default_rng(seed)
    lengths = step_s * (1 + jitter * rng.standard_normal(steps))
    begins = np.concatenate([[0.0], np.cumsum(lengths)])
    t_s = np.arange(1, int(begins[-1] / 0.01) - 1) * 0.01
    t_s = t_s + 0.0005 * rng.uniform(-1, 1, len(t_s))
    step = np.clip(np.searchsorted(begins, t_s, side="right") - 1, 0, steps - 1)
    at = (t_s - begins[step]) / lengths[step]
    value = (at < 0.3) * 1.0 + ((at > 0.5) & (at < 0.8)) * second
    wander = rng.standard_normal(len(t_s))
    for k in range(1, len(wander)):
        wander[k] = correlation * wander[k - 1] + np.sqrt(1 - correlation**2) * wander[k]
    value = value + noise * wander
    return t_s, value - value.mean()


@pytest.mark.parametrize("claimed", [0.5, 1, 2, 3])
def test_of_parts_and_multiples_the_step_is_given(claimed):
    t_s, value = made(0.8)
    assert settled(t_s, value, claimed * STEP_S) == pytest.approx(STEP_S)


def test_equal_halves_are_the_steps():
    t_s, value = made(1.0)
    assert settled(t_s, value, STEP_S) == pytest.approx(STEP_S / 2)


@pytest.mark.parametrize("correlation", [0.5, 0.9])
def test_correlated_noise_is_no_alternation(correlation):
    for seed in range(10):
        t_s, value = made(0.0, correlation=correlation, seed=seed)
        told = settled(t_s, value, STEP_S)
        assert isinstance(told, str) or told == pytest.approx(STEP_S)


def test_where_noise_hides_an_alternation_the_two_are_named_and_nothing_is_claimed():
    t_s, value = made(0.8, noise=1.5, steps=60)
    told = settled(t_s, value, STEP_S / 2)
    assert isinstance(told, str)
    assert "200 ms" in told
    assert "400 ms" in told


def test_a_handful_of_periods_is_too_short_to_tell():
    t_s, value = made(0.8, steps=5)
    assert "too short" in settled(t_s, value, STEP_S)
