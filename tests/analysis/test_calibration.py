"""Calibration against a meter: gain, offset and shift of synthetic pairs whose truth is known."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.refusals import refused

from wattstep.recorded.calibration import Calibration, calibrated, find_shift, fit, shifted
from wattstep.recorded.curves import Curve, curve_of_gauge

SECOND = 1_000_000_000


def power(t_s: np.ndarray, seed: int) -> np.ndarray:
    """Load that goes on and off at random moments, 2 to 8 W, with a slow drift."""
    random = np.random.default_rng(seed)
    edges = np.cumsum(random.uniform(0.5, 4.0, 200))
    level = random.uniform(2.0, 8.0, 201)
    return level[np.searchsorted(edges, t_s)] + 0.1 * np.sin(t_s / 20)


def pair(
    seed: int, gain: float = 1.1, offset: float = 3.2, shift_s: float = 0.0, seconds: float = 120
) -> tuple[Curve, Curve]:
    """The own sensor (every 40 ms, quantum 40 mW, noise) and the meter (every 10 ms, noise)."""
    random = np.random.default_rng(seed + 1000)
    t = np.arange(0, seconds, 0.04)
    own = np.round((power(t, seed) + random.normal(0, 0.05, len(t))) / 0.04) * 0.04
    m = np.arange(5, seconds - 5, 0.01)
    meter = gain * power(m, seed) + offset + random.normal(0, 0.02, len(m))
    t_ns = (t * 1e9).astype(np.int64) + 77 * SECOND
    m_ns = ((m - shift_s) * 1e9).astype(np.int64) + 77 * SECOND
    return curve_of_gauge(t_ns, own), curve_of_gauge(m_ns, meter)


def test_gain_and_offset_come_back() -> None:
    own, meter = pair(1)
    found = fit(own, meter, window_ns=SECOND)
    assert found.gain == pytest.approx(1.1, rel=0.01)
    assert found.offset_w == pytest.approx(3.2, abs=0.05)
    assert found.correlation > 0.99


def test_the_intervals_hold_the_truth_as_often_as_they_say() -> None:
    runs = 60
    held = 0
    for seed in range(runs):
        found = fit(*pair(seed, seconds=70), window_ns=SECOND)
        held += found.gain_low <= 1.1 <= found.gain_high
    # 95 %: of 60, fewer than 52 has a probability below 1 % (binomial).
    assert held >= 52


@pytest.mark.parametrize("shift_s", [0.0, 1.37, -3.21, 40.0])
def test_the_shift_of_the_meters_clock_is_found_within_20_ms(shift_s: float) -> None:
    own, meter = pair(3, shift_s=shift_s)
    found, correlation = find_shift(own, meter, 20_000_000, 2**62)
    assert found == pytest.approx(shift_s, abs=0.02)
    assert correlation > 0.95
    assert fit(own, shifted(meter, found), window_ns=SECOND).gain == pytest.approx(1.1, rel=0.02)


def test_a_shift_is_looked_for_within_its_bounds() -> None:
    own, meter = pair(3, shift_s=1.37)
    found, _ = find_shift(own, meter, 20_000_000, 2 * SECOND)
    assert found == pytest.approx(1.37, abs=0.02)
    far, _ = find_shift(own, meter, 20_000_000, SECOND // 2)
    assert abs(far) <= 0.52


def test_a_calibrated_energy_is_the_meters() -> None:
    own, meter = pair(5)
    whole = calibrated(own, fit(own, meter, window_ns=SECOND))
    begin, end = meter.t_ns[0], meter.t_ns[-1]
    ours, theirs = (float(c.difference([begin], [end])[0][0]) for c in (whole, meter))
    assert ours == pytest.approx(theirs, rel=0.005)


def test_the_systematic_error_grows_away_from_where_it_was_calibrated() -> None:
    found = fit(*pair(1), window_ns=SECOND, accuracy=0.01)
    at_center = found.systematic(found.center_w)
    assert 0.01 <= at_center < 0.02  # the meter's own 1 %, and little else
    assert found.systematic(10 * found.center_w) > at_center


def test_a_power_that_does_not_vary_tells_no_gain() -> None:
    t = np.arange(0, 100, 0.05)
    random = np.random.default_rng(0)
    t_ns = (t * 1e9).astype(np.int64)
    flat = curve_of_gauge(t_ns, 5 + random.normal(0, 0.01, len(t)))
    meter = curve_of_gauge(t_ns, 8 + random.normal(0, 0.01, len(t)))
    with refused("unrelated-power"):
        fit(flat, meter, window_ns=SECOND)


def test_the_log_of_something_else_is_refused() -> None:
    own, _ = pair(1)
    _, other = pair(2)
    with refused("unrelated-power"):
        fit(own, other, window_ns=SECOND)


def test_logs_that_do_not_overlap_are_refused() -> None:
    own, meter = pair(1, shift_s=500)
    with refused("too-few-windows", "0 windows"):
        fit(own, meter, window_ns=SECOND)


def test_a_calibration_survives_json() -> None:
    found = fit(*pair(1), window_ns=SECOND)
    assert Calibration.from_dict(json.loads(json.dumps(found.to_dict()))) == found


@pytest.mark.parametrize("wrong", [{"gain": None}, {"variance": 3}, {"variance": [1]}, {"x": 1}])
def test_what_is_no_calibration_is_refused(wrong: dict[str, object]) -> None:
    good = fit(*pair(1), window_ns=SECOND).to_dict()
    for document in ({}, {"gain": 1}, good | wrong):
        with refused("no-calibration"):
            Calibration.from_dict(document)
