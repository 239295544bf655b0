"""The period of the steps from samples alone, against steps that were made."""

from __future__ import annotations

import numpy as np
import pytest

from wattstep.recorded.period.cycles import cycles_together
from wattstep.recorded.period.period import period, rates

STEPS = 150


def made(
    step_s, shape, *, spacing_s=0.01, dither=0.05, jitter=0.02, noise=0.3, steps=STEPS, seed=0
):
    """Times in ns, values, and the mean step in s."""
    rng = np.random.default_rng(seed)
    lengths = step_s * (1 + jitter * rng.standard_normal(steps))
    begins = np.concatenate([[0.0], np.cumsum(lengths)])
    t_s = np.arange(1, int(begins[-1] / spacing_s) - 1) * spacing_s
    t_s = t_s + dither * spacing_s * rng.uniform(-1, 1, len(t_s))
    step = np.clip(np.searchsorted(begins, t_s, side="right") - 1, 0, steps - 1)
    value = shape((t_s - begins[step]) / lengths[step]) + noise * rng.standard_normal(len(t_s))
    return (t_s * 1e9).astype(np.int64) + 10**15, value, float(lengths.mean())


def square(at):
    return (at < 0.4) * 1.0


def halves(at):
    """The second half of a step is much like the first."""
    return (at < 0.3) * 1.0 + ((at > 0.5) & (at < 0.8)) * 0.7


def blocks(at):
    return np.sign(np.sin(12 * np.pi * at)) * (at < 0.85)


@pytest.mark.parametrize("step_s", [0.09, 0.4, 1.3])
def test_the_period_lies_in_its_interval(step_s):
    t_ns, value, mean = made(step_s, square)
    found = period(t_ns, value, "made")
    assert found.low <= mean <= found.high
    assert found.value == pytest.approx(mean, rel=0.02)
    assert found.unit == "s"


def test_gaps_and_failed_reads_do_not_matter():
    t_ns, value, mean = made(0.4, square)
    value[300:340] = np.nan
    kept = np.ones(len(t_ns), bool)
    kept[1000:1400] = False
    assert period(t_ns[kept], value[kept], "made").value == pytest.approx(mean, rel=0.02)


@pytest.mark.parametrize("shape", [halves, blocks])
def test_a_part_that_resembles_the_rest_is_no_step(shape):
    t_ns, value, mean = made(1.0, shape, noise=0.2)
    assert period(t_ns, value, "made").value == pytest.approx(mean, rel=0.03)


def test_two_steps_together_are_none_either():
    t_ns, value, mean = made(0.4, square, jitter=0.001, noise=0.05)
    assert period(t_ns, value, "made").value == pytest.approx(mean, rel=0.02)


@pytest.mark.parametrize(
    ("step_s", "spacing_s", "dither"),
    [(0.009, 0.01, 0.05), (0.009, 0.01, 0.0), (0.09, 0.1, 0.0), (0.021, 0.02, 0.05)],
)
def test_steps_shorter_than_the_samples_are_never_given_a_period(step_s, spacing_s, dither):
    t_ns, value, _ = made(
        step_s, square, spacing_s=spacing_s, dither=dither, jitter=0.002, noise=0.1,
        steps=round(1500 * spacing_s / step_s),
    )  # fmt: skip
    found = period(t_ns, value, "made")
    assert found.missing
    assert found.reason


def test_undithered_samples_cannot_tell_a_period_from_its_aliases_and_say_so():
    t_ns, value, mean = made(1.0, square, dither=0.0)
    found = period(t_ns, value, "made")
    assert "aliases" in found.reason
    told = period(t_ns, value, "made", longer_than_s=0.5)
    assert told.value == pytest.approx(mean, rel=0.02)


def test_a_source_that_updates_slowly_counts_by_its_updates():
    t_ns, value, _ = made(1.0, square, noise=0.05)
    held = value[np.arange(len(value)) // 10 * 10]
    found = period(t_ns, held, "made")
    assert "aliases" in found.reason
    assert period(t_ns, held, "made", longer_than_s=0.4).value == pytest.approx(1.0, rel=0.03)


@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.99])
def test_noise_has_no_period(correlation):
    rng = np.random.default_rng(7)
    for _ in range(10):
        noise = rng.standard_normal(1000)
        for k in range(1, len(noise)):
            noise[k] += correlation * noise[k - 1]
        assert period(np.arange(1000) * 10**7, noise, "made").missing


def test_what_cannot_have_a_period_says_why():
    t_ns = np.arange(1000) * 10**7
    assert "constant" in period(t_ns, np.full(1000, 3.0), "made").reason
    assert "too few" in period(t_ns[:10], np.arange(10.0), "made").reason
    assert "1000 reads failed" in period(t_ns, np.full(1000, np.nan), "made").reason
    assert "too few" in period(t_ns[:0], np.empty(0), "made").reason


def test_three_steps_are_too_few():
    t_ns, value, _ = made(2.0, square, steps=3)
    assert period(t_ns, value, "made").missing


def test_of_a_few_steps_with_equal_parts_the_step_is_given_or_nothing():
    for steps in (6, 7, 8):
        t_ns, value, _ = made(4.0, blocks, steps=steps, jitter=0.0, noise=0.05)
        found = period(t_ns, value, "made")
        assert found.missing or found.value == pytest.approx(4.0, rel=0.03)


def test_rates_of_a_counter_lie_between_its_reads():
    t_ns = np.array([0, 10, 30, 40, 50]) * 10**8
    at, rate = rates(t_ns, np.array([0.0, 2.0, 4.0, 1.0, np.nan]))
    assert at.tolist() == [5 * 10**8, 20 * 10**8, 35 * 10**8, 45 * 10**8]
    assert rate[:2].tolist() == [2.0, 1.0]
    assert np.isnan(rate[2:]).all()  # it went back, and a read failed


def test_equal_cycles_are_steps_by_themselves():
    at = np.arange(32 * 100)
    wave = np.sin(2 * np.pi * at / 32) + 0.1 * np.random.default_rng(0).standard_normal(len(at))
    assert cycles_together(wave, np.ones(len(wave)), 32.0) == 1
    third = wave * np.where(at // 32 % 3 == 0, 1.5, 1.0)
    assert cycles_together(third, np.ones(len(wave)), 32.0) == 3
