"""Heat of a training that lasts: how warm the device gets, when it throttles, and what a step then takes.

One thermal resistance beside one heat capacity, from the hottest sensor to the air, with the values of
the device's file: from the idle device's temperature on, T(t) = T_steady - (T_steady - T_idle)
exp(-t / tau), T_steady = ambient + R P. Where T_steady lies above the limit, clocks go down until power
suits the limit: dynamic power goes with the clock to the power of `clock_exponent`, the time of what is
not bound by memory with its inverse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from wattstep.devices.table import Device, Value
from wattstep.predict.fitted import NORMAL_90
from wattstep.predict.power import Ranged
from wattstep.schema.arrays import FloatArray
from wattstep.schema.figure import Missing

DRAWS: Final = 2000
ENDS: Final = (0.05, 0.95)
NEVER: Final = Missing("it does not get as warm as its limit")
LEAST_CLOCK: Final = 0.1  # of the highest: below, no device keeps its clocks down


@dataclass(frozen=True, kw_only=True)
class Heat:
    """A training that lasts.

    Attributes:
        steady: Temperature in °C in which it ends, throttled or not.
        to_limit: Time in s from the idle device until it throttles.
        slowdown: Step time once throttled over that before, 1 or more.
        throttles: Probability that it throttles.
    """

    steady: Ranged | Missing
    to_limit: Ranged | Missing
    slowdown: Ranged | Missing
    throttles: float


def heat_of(device: Device, power: Ranged, bound_by_memory: float) -> Heat:
    """Heat of a training.

    Args:
        device: With its thermal values.
        power: Mean of a step, in W.
        bound_by_memory: Part of the step's time that does not go with the clock, 0 to 1.
    """
    thermal, idle = device.thermal, device.power.idle
    lacking = [
        name
        for name, value in (
            ("thermal.resistance", thermal.resistance),
            ("thermal.ambient", thermal.ambient),
        )
        if value is None
    ]
    if lacking:
        why = Missing(f"{device.name} lacks {' and '.join(lacking)}")
        return Heat(steady=why, to_limit=why, slowdown=why, throttles=0.0)
    assert thermal.resistance is not None
    assert thermal.ambient is not None
    generator = np.random.default_rng(0)
    drawn = _drawn(Value(**vars(power), basis="", source=""), generator)
    resistance = _drawn(thermal.resistance, generator)
    ambient = _drawn(thermal.ambient, generator, linear=True)
    free = ambient + resistance * drawn
    if thermal.throttle is None:
        why = Missing(f"{device.name} lacks thermal.throttle")
        return Heat(steady=_ranged(free), to_limit=why, slowdown=why, throttles=0.0)
    limit = _drawn(thermal.throttle, generator, linear=True)
    hot = free > limit
    steady = _ranged(np.minimum(free, limit))
    throttles = float(hot.mean())
    if not hot[0] and throttles < 1 - ENDS[1]:
        return Heat(
            steady=steady,
            to_limit=NEVER,
            slowdown=Ranged(value=1.0, low=1.0, high=1.0),
            throttles=throttles,
        )
    to_limit: Ranged | Missing = Missing(f"{device.name} lacks thermal.time_constant or power.idle")
    if thermal.time_constant is not None and idle is not None:
        begin = np.minimum(ambient + resistance * _drawn(idle, generator), limit)
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.where(hot, (free - limit) / (free - begin), 0.0)
            seconds = -_drawn(thermal.time_constant, generator) * np.log(left)
        to_limit = NEVER if not hot[0] else _ranged(seconds)
    exponent = device.power.clock_exponent
    slowdown: Ranged | Missing = Missing(f"{device.name} lacks power.clock_exponent or power.idle")
    if exponent is not None and idle is not None:
        still = np.minimum(_drawn(idle, generator), 0.95 * drawn)
        allowed = np.clip(((limit - ambient) / resistance - still) / (drawn - still), 1e-6, 1.0)
        clock = np.maximum(allowed ** (1 / _drawn(exponent, generator)), LEAST_CLOCK)
        slowdown = _ranged(bound_by_memory + (1 - bound_by_memory) / clock)
    return Heat(steady=steady, to_limit=to_limit, slowdown=slowdown, throttles=throttles)


def temperature_after(device: Device, power: Ranged, seconds: float) -> Ranged | Missing:
    """Temperature in °C of the hottest sensor when a training ends that began on the idle device.

    Args:
        device: With its thermal values.
        power: Mean of a step, in W.
        seconds: That it takes.
    """
    thermal, idle = device.thermal, device.power.idle
    if (
        thermal.resistance is None
        or thermal.ambient is None
        or thermal.time_constant is None
        or idle is None
    ):
        return Missing(
            f"{device.name} lacks thermal.resistance, ambient or time_constant, or power.idle"
        )
    generator = np.random.default_rng(0)
    drawn = _drawn(Value(**vars(power), basis="", source=""), generator)
    resistance = _drawn(thermal.resistance, generator)
    ambient = _drawn(thermal.ambient, generator, linear=True)
    left = np.exp(-seconds / _drawn(thermal.time_constant, generator))
    free, begin = ambient + resistance * drawn, ambient + resistance * _drawn(idle, generator)
    warm = free - (free - begin) * left
    if thermal.throttle is not None:
        warm = np.minimum(warm, _drawn(thermal.throttle, generator, linear=True))
    return _ranged(warm)


def _drawn(value: Value, generator: np.random.Generator, *, linear: bool = False) -> FloatArray:
    """Draws of a value, the first its best: two normal halves, of its logarithm but where it is a temperature."""
    z = np.concatenate([[0.0], generator.standard_normal(DRAWS)]) / NORMAL_90
    low, best, high = (
        np.array([value.low, value.value, value.high])
        if linear
        else np.log(np.maximum([value.low, value.value, value.high], 1e-9))
    )
    made: FloatArray = best + z * np.where(z > 0, high - best, best - low)
    return made if linear else np.exp(made)


def _ranged(values: FloatArray) -> Ranged:
    """The first draw, and between which ends 90 % lie; draws that never come to it are infinite."""
    low, high = np.quantile(values[1:], ENDS, method="nearest")
    best = float(values[0])
    return Ranged(value=best, low=min(float(low), best), high=max(float(high), best))
