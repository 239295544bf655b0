"""Waiting before and after a run: idle, and until temperature and frequency are steady."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from tests.conditions.made import Made, clock, frequency, temperature
from tests.wording import assert_says

from wattstep.record.recorder import Recorder
from wattstep.run import load
from wattstep.train.environment.steadiness import Criterion
from wattstep.train.environment.waiting import AFTER, STABLE, stay_idle, wait_until_steady


def wait(recorder: Made, **options: Any) -> dict[str, Any]:
    said: list[float] = []
    found = wait_until_steady(
        recorder, said.append, sleep=recorder.sleep, clock=recorder.clock, **options  # type: ignore[arg-type]
    )  # fmt: skip
    assert all(0 <= share <= 1 for share in said)
    return found


def cooling(tau_s: float, by_c: float, step_c: float) -> Any:
    """Towards 40 °C, in millidegrees, in steps of the sensor."""

    def raw(t_s: float) -> int:
        value = 40 + by_c * math.exp(-t_s / tau_s)
        return round(round(value / step_c) * step_c * 1000)

    return raw


def test_the_wait_ends_when_the_slope_is_below_half_a_degree_a_minute(tmp_path: Path) -> None:
    """20 °C over a stage of 60 s: 20 exp(-t/60) °C/min, below 0.5 from 221 s on, whose mean over
    the 30 s before is reached some 15 s later."""
    recorder = Made(tmp_path, {temperature(): cooling(60, 20, 0.01)})
    found = wait(recorder)
    assert found["steady"] is True
    assert 221 <= found["waited_s"] <= 245
    assert found["judged"] == ["temperature"]
    assert recorder.rests == [(STABLE, 0.0, found["waited_s"])]
    assert not recorder.notes


def test_a_coarse_sensor_is_watched_for_as_long_as_a_slope_takes_to_show(tmp_path: Path) -> None:
    """0.8 °C a minute through steps of 1 °C: 75 s without a step, and not steady for all that."""
    recorder = Made(tmp_path, {temperature(): lambda t_s: 1000 * round(40 + 0.8 * t_s / 60)})
    found = wait(recorder)
    assert found["steady"] is False
    assert found["waited_s"] == 600.0
    assert "°C a minute" in found["moving"][0]
    assert_says(recorder.notes[0], "--stable:", "not steady", "600 s", "thermal.soc")


def test_a_temperature_that_never_moves_is_steady_after_two_minutes(tmp_path: Path) -> None:
    found = wait(Made(tmp_path, {temperature(): lambda t_s: 41000}))
    assert found["steady"] is True
    assert found["waited_s"] == pytest.approx(121, abs=1.1)


def test_a_documented_step_shortens_the_look_back(tmp_path: Path) -> None:
    found = wait(Made(tmp_path, {temperature(resolution=0.1): lambda t_s: 41000}))
    assert found["waited_s"] == pytest.approx(31, abs=1.1)


def test_a_frequency_that_ranges_over_more_than_a_twentieth_is_not_steady(tmp_path: Path) -> None:
    """Two cores between 1.8 and 2.0 GHz in turns of 20 s until 100 s, then steady."""

    def turning(t_s: float) -> int:
        return 1_800_000 if t_s < 100 and int(t_s / 20) % 2 else 2_000_000

    recorder = Made(tmp_path, {frequency(core): turning for core in (0, 1)})
    found = wait(recorder)
    assert found["steady"] is True
    assert found["judged"] == ["frequency"]
    # The last turn at 1.8 GHz ends at 80 s; the window of 30 s is free of it from 110 s on.
    assert 104 <= found["waited_s"] <= 116


def test_the_cores_are_judged_without_the_clocks_of_memory_and_gpu_beside_them(
    tmp_path: Path,
) -> None:
    """Four cores go from 1200 to 1090 MHz (9 %) at 20 s: free of that 30 s later. All six clocks
    together lose 440 of 9300 MHz, less than 5 %."""
    cores = {frequency(core): lambda t_s: 1_200_000 if t_s < 20 else 1_090_000 for core in range(4)}
    others = {clock("gpu"): lambda t_s: 1_300_000, clock("memory"): lambda t_s: 3_200_000}
    recorder = Made(tmp_path, {**cores, **others})
    found = wait(recorder, most_s=40.0)
    (moving,) = found["moving"]
    assert_says(moving, "cpu frequency", "9 % of 1200 MHz")
    found = wait(recorder)
    assert found["steady"] is True
    assert recorder.now_s - 1000 == pytest.approx(50, abs=6)


def test_a_gpu_clock_that_moves_is_not_steady_either(tmp_path: Path) -> None:
    cores = {frequency(core): lambda t_s: 2_000_000 for core in range(8)}
    recorder = Made(tmp_path, {**cores, clock("gpu"): lambda t_s: 900_000 - 5000 * round(t_s)})
    assert wait(recorder, most_s=120.0)["moving"][0].startswith("gpu frequency")


def test_what_is_asked_for_of_a_raspberry_pi_does_not_hide_what_its_firmware_gives(
    tmp_path: Path,
) -> None:
    """The request stays at 1400 MHz; the firmware goes down to 1200 MHz at 20 s."""
    requests = {clock("cpu", "frequency_requested"): lambda t_s: 1_400_000}
    true = {clock("cpu"): lambda t_s: 1_400_000 if t_s < 20 else 1_200_000}
    found = wait(Made(tmp_path, {**requests, **true}), most_s=40.0)
    (moving,) = found["moving"]
    assert_says(moving, "cpu frequency", "14 % of 1400 MHz")


def test_a_zone_that_is_powered_down_is_left_out_and_named(tmp_path: Path) -> None:
    recorder = Made(
        tmp_path,
        {
            temperature("a", 0.1): lambda t_s: 40000, temperature("b"): lambda t_s: None,
            frequency(0): lambda t_s: 1_000_000, clock("gpu"): lambda t_s: None,
        },
    )  # fmt: skip
    found = wait(recorder)
    assert found["steady"] is True
    assert found["waited_s"] == pytest.approx(31, abs=1.1)
    assert found["judged"] == ["temperature", "frequency"]
    assert found["silent"] == ["b", "gpu frequency"]


def test_a_zone_that_is_silent_for_less_than_the_window_is_waited_for(tmp_path: Path) -> None:
    """It comes up after 20 s, and is then seen for 30 s."""
    recorder = Made(
        tmp_path,
        {
            temperature("a", 0.1): lambda t_s: 40000,
            temperature("b", 0.1): lambda t_s: None if t_s < 20 else 45000,
        },
    )
    found = wait(recorder)
    assert found["waited_s"] == pytest.approx(50, abs=1.1)
    assert "silent" not in found


def test_where_all_zones_are_silent_temperature_is_not_judged(tmp_path: Path) -> None:
    silent = {temperature(name, 0.1): lambda t_s: None for name in ("a", "b")}
    recorder = Made(tmp_path / "clock", {**silent, frequency(0): lambda t_s: 1_000_000})
    found = wait(recorder)
    assert found["steady"] is True
    assert found["judged"] == ["frequency"]
    recorder = Made(tmp_path / "nothing", silent)
    found = wait(recorder)
    assert found["steady"] is None
    assert found["waited_s"] == pytest.approx(30, abs=1.1)
    assert found["judged"] == []
    assert found["silent"] == ["a", "b"]
    (note,) = recorder.notes
    assert_says(note, "--stable: a, b")


def test_where_nothing_can_be_read_nothing_is_waited_for_and_that_is_said(tmp_path: Path) -> None:
    recorder = Made(tmp_path, {})
    found = wait(recorder)
    assert found["steady"] is None
    assert recorder.now_s == 1000.0
    (note,) = recorder.notes
    assert_says(note, "--stable:", "temperature", "frequency", "not waited")


def test_idle_time_is_a_rest_of_its_own_length(tmp_path: Path) -> None:
    recorder = Made(tmp_path, {})
    said: list[float] = []
    stay_idle(recorder, AFTER, 2.5, said.append, sleep=recorder.sleep)  # type: ignore[arg-type]
    ((name, begin, end),) = recorder.rests
    assert name == "idle_after"
    assert end - begin == pytest.approx(2.5)
    assert said == [0.0, pytest.approx(0.4), pytest.approx(0.8)]


def test_a_real_recorder_is_watched_through_its_own_journals(tmp_path: Path) -> None:
    """An emulated board that rests: steady as soon as three seconds of it have been seen."""
    criterion = Criterion(window_s=3.0, slope_c_per_min=60.0, frequency_range=1.0)
    with Recorder(tmp_path / "run", trace="none", target="emulate:jetson-tx2") as recorder:
        found = wait_until_steady(recorder, lambda share: None, criterion=criterion, most_s=20)
        with recorder.step(samples=1):
            pass
    assert found["steady"] is True
    assert found["judged"] == ["temperature", "frequency"]
    ((begin, end),) = load(tmp_path / "run").series.steps.rest_ns[STABLE]
    assert (end - begin) * 1e-9 == pytest.approx(found["waited_s"], abs=0.2)
