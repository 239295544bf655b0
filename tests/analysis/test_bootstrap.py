"""Block bootstrap: intervals hold known truths as often as they say, also of few blocks and of neighbours that are alike."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from wattstep.recorded.calibration import fit
from wattstep.recorded.curves import curve_of_counter
from wattstep.schema.arrays import FloatArray
from wattstep.stats.bootstrap import autocovariances, block_starts, ends, resampled

SECOND = 1_000_000_000


def autoregressive(random: np.random.Generator, n: int, alike: float) -> FloatArray:
    """A stationary AR(1) process of variance 1."""
    noise = random.normal(0, np.sqrt(1 - alike**2), n)
    noise[0] = random.normal()
    return np.asarray(lfilter([1.0], [1.0, -alike], noise))


@pytest.mark.parametrize("blocks", [2, 3, 5, 8, 12])
def test_means_of_few_independent_blocks_are_held_as_often_as_they_say(blocks: int) -> None:
    random = np.random.default_rng(blocks)
    held, trials = 0, 400
    for trial in range(trials):
        values = random.standard_normal(blocks)
        drawn = values[block_starts(blocks, 1, 400, trial)].mean(axis=1)
        low, high = ends(drawn - values.mean(), blocks, 0.95)
        held += low <= -values.mean() <= high
    # 95 %: of 400, fewer than 366 has a probability below 0.1 % (binomial).
    assert held >= 366


def test_blocks_keep_neighbours_together_and_draw_every_value_as_often() -> None:
    places = resampled(20, 4, 5000, 0)
    assert places.shape == (5000, 20)
    assert set(np.diff(places[:, :4], axis=1).ravel() % 20) == {1}
    assert np.bincount(places.ravel()) == pytest.approx(np.full(20, 5000), rel=0.1)


def test_autocovariances_are_sums_of_products_over_n() -> None:
    values = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
    away = values - 2.8
    expected = [float(away[: 5 - lag] @ away[lag:]) / 5 for lag in range(5)]
    np.testing.assert_allclose(autocovariances(values), expected, atol=1e-12)


@pytest.mark.parametrize(("seconds", "alike"), [(24, 0.0), (24, 0.5), (24, 0.8), (200, 0.5)])
def test_gain_and_offset_of_few_windows_that_are_alike_are_held_as_often_as_they_say(
    seconds: int, alike: float
) -> None:
    """The meter is 1.1 times the board's sensors and 0.5 W more, and errs alike in neighbouring seconds."""
    gains = offsets = 0
    for seed in range(150):
        random = np.random.default_rng(seed)
        own = 5 + 2.0 * (np.arange(seconds) % 12 < 6) + random.random(seconds)
        meter = 1.1 * own + 0.5 + 0.03 * autoregressive(random, seconds, alike)
        t_ns = np.arange(seconds + 1) * SECOND
        curves = [
            curve_of_counter(t_ns, np.append(0.0, np.cumsum(w)), unit="J") for w in (own, meter)
        ]
        found = fit(*curves, window_ns=SECOND)
        gains += found.gain_low <= 1.1 <= found.gain_high
        offsets += found.offset_low <= 0.5 <= found.offset_high
    # 95 %: of 150, fewer than 134 has a probability below 0.3 % (binomial).
    assert min(gains, offsets) >= 134
