"""When a training counts as steady: temperature, frequency and throughput, each by its criterion."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conditions.made import BEGIN_S, Made, frequency, temperature
from tests.wording import assert_says

from wattstep.train.environment.sustaining import MOST_S, Sustaining


def train(recorder: Made, rate: Callable[[float], float], most_s: float = MOST_S) -> dict[str, Any]:
    """Steps of 8 samples at `rate` samples a second until steady."""
    sustaining = Sustaining(recorder, BEGIN_S, most_s=most_s)  # type: ignore[arg-type]
    sampled_s = BEGIN_S
    while recorder.now_s - BEGIN_S < most_s:
        seconds = 8 / rate(recorder.now_s - BEGIN_S)
        recorder.now_s += seconds
        if recorder.now_s - sampled_s >= 1:
            sampled_s = recorder.now_s
            recorder.sample()
        if sustaining.step(recorder.now_s, seconds, 8, counts=True):
            break
    return sustaining.facts()


def warming(tau_s: float) -> Callable[[float], int]:
    return lambda t_s: round(1000 * (70 - 30 * math.exp(-t_s / tau_s)))


def test_it_ends_when_the_temperature_rises_by_less_than_a_tenth_of_a_degree_a_minute(
    tmp_path: Path,
) -> None:
    """30 °C over a stage of 300 s: 6 exp(-t/300) °C/min is 0.1 at 1228 s; the slope over the 300 s
    before is that of their middle, and somewhat more."""
    found = train(Made(tmp_path, {temperature(): warming(300)}), lambda t_s: 20.0)
    assert found["steady"] is True
    assert found["judged"] == ["temperature", "throughput"]
    assert 1228 + 150 <= found["after_s"] <= 1228 + 180


def test_throughput_that_still_falls_is_not_steady(tmp_path: Path) -> None:
    """It falls by 30 % over 600 s: the two halves of a window differ by 2 % and more until then."""
    recorder = Made(tmp_path, {temperature(resolution=0.01): lambda t_s: 60000})
    found = train(recorder, lambda t_s: 20 * (1 - 0.3 * min(t_s, 600) / 600))
    assert found["steady"] is True
    assert 600 < found["after_s"] < 900


def test_a_lowered_frequency_starts_the_window_anew(tmp_path: Path) -> None:
    def capped(t_s: float) -> int:
        return 2_000_000 if t_s < 400 else 1_500_000

    recorder = Made(tmp_path, {frequency(0): capped})
    found = train(recorder, lambda t_s: 20.0 if t_s < 290 else 19.9)
    assert found["after_s"] == pytest.approx(305, abs=6)  # steady before the cap came
    recorder = Made(tmp_path / "b", {frequency(0): lambda t_s: capped(t_s + 200)})
    found = train(recorder, lambda t_s: 20.0)
    assert found["after_s"] == pytest.approx(500, abs=10)


def test_the_longest_time_ends_it_and_the_run_says_what_still_moved(tmp_path: Path) -> None:
    recorder = Made(tmp_path, {temperature(): warming(3000)})
    found = train(recorder, lambda t_s: 20.0, most_s=600)
    assert found["steady"] is False
    assert found["most_s"] == 600
    assert len(found["moving"]) == 1
    assert_says(recorder.notes[0], "--sustain:", "not steady", "600 s", "thermal.soc", "by +")


def test_a_zone_that_is_powered_down_meanwhile_is_judged_by_what_it_gave(
    tmp_path: Path,
) -> None:
    zones = {
        temperature("soc", 0.1): lambda t_s: 60000,
        temperature("gpu", 0.1): lambda t_s: 50000 if t_s < 60 else None,
    }
    found = train(Made(tmp_path, zones), lambda t_s: 20.0)
    assert found["steady"] is True
    assert found["judged"] == ["temperature", "throughput"]
    assert found["after_s"] == pytest.approx(305, abs=6)
    assert "silent" not in found  # its first minute lies within the 300 s


def test_a_zone_that_never_gave_anything_is_named(tmp_path: Path) -> None:
    zones = {temperature("soc", 0.1): lambda t_s: 60000, temperature("gpu"): lambda t_s: None}
    found = train(Made(tmp_path, zones), lambda t_s: 20.0)
    assert found["steady"] is True
    assert found["after_s"] == pytest.approx(307, abs=8)
    assert found["silent"] == ["gpu"]


def test_traced_steps_do_not_count_for_the_throughput(tmp_path: Path) -> None:
    recorder = Made(tmp_path, {})
    sustaining = Sustaining(recorder, BEGIN_S, most_s=MOST_S)  # type: ignore[arg-type]
    steady = False
    for number in range(1000):
        slow = number % 50 == 7  # never in two halves alike
        seconds = 10.0 if slow and number > 300 else 1.0
        recorder.now_s += seconds
        steady = sustaining.step(recorder.now_s, seconds, 8, counts=not slow)
        if steady:
            break
    assert steady
    assert sustaining.facts()["judged"] == ["throughput"]


def test_what_is_said_meanwhile_is_the_temperature_and_what_moves(tmp_path: Path) -> None:
    recorder = Made(tmp_path, {temperature(): lambda t_s: 60500})
    sustaining = Sustaining(recorder, BEGIN_S, most_s=MOST_S)  # type: ignore[arg-type]
    for _ in range(10):
        recorder.sleep(1)
        sustaining.step(recorder.now_s, 1.0, 8, counts=True)
    assert_says(sustaining.state, "60.5 °C", "not steady", "thermal.soc", "600 s")
