"""Repeatability, against profiles and noise of known variance."""

from __future__ import annotations

import numpy as np
import pytest
from tests.wording import assert_says

from wattstep.recorded.repeatability import repeatability


def made(step_s, noise, *, steps=None, spacing_s=0.01, dither=0.05, level=0.0, seed=1):
    """Samples of a sine of variance 0.5, noise upon it, and the edges of the steps."""
    rng = np.random.default_rng(seed)
    steps = steps or max(60, round(15 / step_s))
    lengths = step_s * (1 + 0.03 * rng.standard_normal(steps))
    begins = np.concatenate([[0.0], np.cumsum(lengths)])
    t_s = (np.arange(1, int(begins[-1] / spacing_s) - 1)) * spacing_s
    t_s = t_s + dither * spacing_s * rng.uniform(-1, 1, len(t_s))
    step = np.searchsorted(begins, t_s, side="right") - 1
    value = np.sin(2 * np.pi * (t_s - begins[step]) / lengths[step])
    value = value + noise * rng.standard_normal(len(t_s)) + level * rng.standard_normal(steps)[step]
    edges = (begins * 1e9).astype(np.int64)
    return (t_s * 1e9).astype(np.int64), value, edges[:-1], edges[1:]


@pytest.mark.parametrize("step_s", [0.5, 0.09, 0.023])
@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_it_is_the_share_of_the_variance_that_steps_have_in_common(step_s, noise):
    found = repeatability(*made(step_s, noise), "made").correlation
    truth = 0.5 / (0.5 + noise**2)
    assert found.value == pytest.approx(truth, abs=0.05)
    assert found.low - 0.02 <= truth <= found.high + 0.02


def test_steps_shorter_than_a_sample_are_folded_by_phase():
    found = repeatability(*made(0.004, 0.3), "made")
    assert found.folded
    assert found.correlation.value == pytest.approx(0.5 / 0.59, abs=0.06)
    assert "hold" in found.corrected.reason  # no step shows the noise of its samples


def test_the_ceiling_leaves_out_the_noise_of_single_samples():
    found = repeatability(*made(0.5, 1.0), "made")
    assert found.correlation.value == pytest.approx(1 / 3, abs=0.05)
    assert found.corrected.value > 0.9


def test_steps_may_differ_in_level():
    found = repeatability(*made(0.5, 0.3, level=5.0), "made").correlation
    assert found.value == pytest.approx(0.5 / 0.59, abs=0.05)


def test_noise_does_not_repeat():
    t_ns, value, starts, ends = made(0.5, 1.0)
    noise = np.random.default_rng(3).standard_normal(len(value))
    found = repeatability(t_ns, noise, starts, ends, "made")
    assert found.correlation.low <= 0 <= found.correlation.high
    assert found.corrected.missing


def test_what_cannot_be_told_says_why():
    t_ns, value, starts, ends = made(0.5, 0.3)
    cases = {
        "constant": (t_ns, np.full(len(value), 2.0), starts, ends),
        "no value was read": (t_ns, np.full(len(value), np.nan), starts, ends),
        "empty": (t_ns[:0], value[:0], starts, ends),
        "steps are too few": (t_ns, value, starts[:1], ends[:1]),
        "0 steps are too few": (t_ns, value, starts, starts),
    }
    for words, series in cases.items():
        assert words in repeatability(*series, "made").correlation.reason


def test_a_source_slower_than_the_step_shows_no_course():
    t_ns, value, starts, ends = made(0.2, 0.3)
    held = value[np.arange(len(value)) // 30 * 30]
    assert "new value every" in repeatability(t_ns, held, starts, ends, "made").correlation.reason


def test_samples_that_are_locked_to_the_steps_say_so():
    starts = np.arange(100) * 10**8
    t_ns = np.sort(np.concatenate([starts + 10**7, starts + 6 * 10**7]))
    value = np.random.default_rng(0).standard_normal(200)
    found = repeatability(t_ns, value, starts, starts + 10**8, "made").correlation
    assert "same 2 phases" in found.reason


@pytest.mark.parametrize("spacing_s", [0.02, 0.05, 0.2])
def test_one_step_in_many_with_a_sample_is_told_like_any_other(spacing_s):
    """LeNet: steps of 4 ms beside a sensor of 20 to 200 ms; ten steps in a row hold one sample."""
    steps = round(600 * spacing_s / 0.004)
    found = repeatability(*made(0.004, 0.3, steps=steps, spacing_s=spacing_s), "made")
    truth = 0.5 * np.sinc(1 / found.bins) ** 2 / (0.5 + 0.09)  # a phase shows the mean of its part
    assert found.folded
    assert found.correlation.low - 0.02 <= truth <= found.correlation.high + 0.02


def test_samples_of_few_steps_among_many_are_too_few():
    """A killed sampler: sixty samples in a single step, no step to compare it with."""
    t_ns, value, starts, ends = made(1.0, 0.3)
    first = t_ns < ends[0]
    found = repeatability(t_ns[first], value[first], starts, ends, "made").correlation
    assert_says(found.reason, "1 of 60 steps", 5)


def test_what_differs_between_steps_only_has_no_course_to_repeat():
    t_ns, _, starts, ends = made(0.5, 0.3)
    step = np.searchsorted(starts, t_ns, side="right") - 1
    found = repeatability(t_ns, (step % 7).astype(float), starts, ends, "made").correlation
    assert found.missing
    assert "within a step" in found.reason


@pytest.mark.parametrize("seed", range(200))
def test_any_series_gives_a_finite_figure_or_a_reason(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(60, 200))
    t_ns = np.cumsum(rng.integers(1, 10 ** int(rng.integers(2, 9)), count))
    lengths = rng.integers(1, 10 ** int(rng.integers(2, 9)), int(rng.integers(5, 400)))
    ends = np.cumsum(lengths)
    value = np.round(rng.standard_normal(count), int(rng.integers(0, 3)))
    value[rng.random(count) < rng.random() / 2] = 0.0
    for found in (repeatability(t_ns, value, ends - lengths, ends, "made"),):
        for figure in (found.correlation, found.corrected):
            numbers = (figure.value, figure.low, figure.high)
            assert figure.reason if figure.missing else np.isfinite(numbers).all()
