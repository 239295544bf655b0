"""Heat of a training that lasts, with values that have no spread, as one works it out by hand."""

from __future__ import annotations

from dataclasses import replace
from math import exp

import pytest

from wattstep import devices
from wattstep.devices.table import Device, Value
from wattstep.predict.power import Ranged
from wattstep.predict.thermal import NEVER, heat_of
from wattstep.schema.figure import Missing

ORIN = devices.find("jetson-agx-orin")


def exact(value: float) -> Value:
    return Value(value=value, low=value, high=value, basis="calibration", source="made")


def device(*, limit: float | None = 60.0, spread: float = 1.0) -> Device:
    """In a room of 20 °C: 2 K/W (times and divided by `spread`), 100 s, 5 W idle; power as the clock's square."""
    resistance = replace(exact(2.0), low=2.0 / spread, high=2.0 * spread)
    thermal = replace(
        ORIN.thermal,
        resistance=resistance,
        time_constant=exact(100.0),
        ambient=exact(20.0),
        throttle=None if limit is None else exact(limit),
    )
    power = replace(ORIN.power, idle=exact(5.0), clock_exponent=exact(2.0))
    return replace(ORIN, thermal=thermal, power=power)


def watts(value: float) -> Ranged:
    return Ranged(value=value, low=value, high=value)


def test_a_cool_training_ends_at_resistance_times_power() -> None:
    heat = heat_of(device(), watts(15.0), 0.0)
    assert isinstance(heat.steady, Ranged)
    assert heat.steady.value == pytest.approx(20 + 2 * 15)
    assert heat.to_limit is NEVER
    assert heat.throttles == 0.0


def test_a_hot_one_throttles_when_the_curve_crosses_the_limit() -> None:
    heat = heat_of(device(), watts(30.0), 0.0)  # 80 °C in the end, from 30 °C idle
    assert isinstance(heat.to_limit, Ranged)
    seconds = heat.to_limit.value
    assert 80 - (80 - 30) * exp(-seconds / 100) == pytest.approx(60.0)
    assert isinstance(heat.steady, Ranged)
    assert heat.steady.value == 60.0
    assert heat.throttles == 1.0


def test_throttled_steps_are_as_slow_as_the_limit_allows() -> None:
    # 60 °C allow 20 W: 15 of 25 W beyond idle, a clock of the root of 0.6.
    for by_memory in (0.0, 0.25):
        heat = heat_of(device(), watts(30.0), by_memory)
        assert isinstance(heat.slowdown, Ranged)
        assert heat.slowdown.value == pytest.approx(by_memory + (1 - by_memory) / 0.6**0.5)


def test_a_spread_of_values_is_one_of_the_figures() -> None:
    heat = heat_of(device(spread=1.5), watts(19.0), 0.0)  # 58 °C at best, 46 to 77 by its spread
    assert isinstance(heat.steady, Ranged)
    assert 44 < heat.steady.low < 48
    assert heat.steady.high == 60.0
    # Beyond the limit from 2.105 K/W on: z = 1.645 ln(1.0526) / ln(1.5) = 0.208.
    assert heat.throttles == pytest.approx(0.418, abs=0.03)
    assert heat.to_limit is NEVER


def test_what_a_device_does_not_say_is_missing_by_its_name() -> None:
    bare = device()
    without = replace(bare, thermal=replace(bare.thermal, resistance=None))
    heat = heat_of(without, watts(30.0), 0.0)
    assert isinstance(heat.steady, Missing)
    assert "thermal.resistance" in heat.steady
    endless = heat_of(device(limit=None), watts(30.0), 0.0)
    assert isinstance(endless.steady, Ranged)
    assert endless.steady.value == pytest.approx(80.0)
    assert isinstance(endless.to_limit, Missing)
    assert "thermal.throttle" in endless.to_limit
