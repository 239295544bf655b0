"""Sensors that show a known power: they average, delay, round, clip, forget and count as real ones do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from truth_programs import Curve
from wattstep.schema.channel import Channel

Array = np.ndarray[Any, Any]
OUTLIER_W = 1e9


@dataclass(frozen=True, kw_only=True)
class Sensor:
    """How power becomes samples.

    Attributes:
        way: What it shows: a mean of the last `window_s`, the power at an instant, an exponential
            average with time constant `window_s`, or the energy until then.
        window_s: See `way`; of no meaning for instants and counters.
        read_s: How often it is read.
        refresh_s: How often it has a new value; 0: whenever it is read.
        documented: Whether the channel says its window (a counter: its quantum).
        delay_s: Age of a value when it comes to be.
        dither: Of the reads, relative to `read_s`, evenly spread.
        late: Share of the reads that come late by up to half of `read_s`.
        unsteady: Of the refresh, relative, standard deviation.
        noise: Relative to the mean power; of a counter: to the mean energy of a refresh.
        quantum: Smallest step of the value in W or J; 0: none.
        clip: Where it saturates, relative to the highest value; 0: nowhere.
        range_to: What the channel says that it can show at most, in W, or None.
        outlier: Whether one sample is 1 GW.
        constant: Whether it shows the mean power of the steps for ever.
    """

    way: Literal["average", "instant", "exponential", "counter"] = "average"
    window_s: float = 0.010
    read_s: float = 0.010
    refresh_s: float = 0.0
    documented: bool = True
    delay_s: float = 0.0
    dither: float = 0.05
    late: float = 0.0
    unsteady: float = 0.0
    noise: float = 0.0
    quantum: float = 1e-3
    clip: float = 0.0
    range_to: float | None = None
    outlier: bool = False
    constant: bool = False

    @property
    def resolved_s(self) -> float:
        """What its samples can carry in time, roughly: what operations are long or short against."""
        own = self.window_s if self.way in ("average", "exponential") else 0.0
        return max(own, self.refresh_s or self.read_s)

    @property
    def channel(self) -> Channel:
        """As a run describes it."""
        if self.way == "counter":
            return Channel(
                name="package.energy", unit="J", kind="counter", domain="soc", role="energy_total",
                source="made", resolution=self.quantum if self.documented else None,
            )  # fmt: skip
        return Channel(
            name="board.power", unit="W", kind="gauge", domain="soc", role="power_total",
            source="made", window_s=self.window_s if self.documented else None,
            range_to=self.range_to,
        )  # fmt: skip


def samples(
    sensor: Sensor, curve: Curve, rng: np.random.Generator, stuck_w: float
) -> tuple[Array, Array]:
    """When it was read in s on the curve's clock, and what it showed.

    Args:
        sensor: What is read.
        curve: The true power.
        rng: What chooses.
        stuck_w: What a constant one shows.
    """
    read = _reads(sensor, curve.t[-1], rng)
    at, of = (read, np.arange(len(read))) if not sensor.refresh_s else _refreshed(sensor, read, rng)
    shown = _shown(sensor, curve, at - sensor.delay_s)
    mean = float(curve.total[-1] / curve.t[-1])
    unit = mean * (sensor.refresh_s or sensor.read_s) if sensor.way == "counter" else mean
    shown = shown + sensor.noise * unit * rng.standard_normal(len(shown))
    if sensor.constant:
        shown = np.full(len(shown), stuck_w)
    if sensor.clip:
        shown = np.minimum(shown, sensor.clip * np.quantile(shown, 0.999))
    if sensor.quantum and not sensor.constant:
        rounded = np.floor if sensor.way == "counter" else np.rint
        shown = rounded(shown / sensor.quantum) * sensor.quantum
    shown = np.maximum.accumulate(shown) if sensor.way == "counter" else np.maximum(shown, 0)
    value = shown[of]
    if sensor.outlier:
        value[int(rng.integers(len(value) // 4, 3 * len(value) // 4))] = OUTLIER_W
    return read, value


def _reads(sensor: Sensor, end_s: float, rng: np.random.Generator) -> Array:
    """Ticks of a sampler: dithered, some of them late."""
    ticks = np.arange(0.01, end_s - sensor.read_s, sensor.read_s)
    read = ticks + sensor.read_s * sensor.dither * rng.uniform(-1, 1, len(ticks))
    late = rng.random(len(ticks)) < sensor.late
    result: Array = read + np.where(late, 0.5 * sensor.read_s * rng.random(len(ticks)), 0)
    return result


def _refreshed(sensor: Sensor, read: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """When values came to be, and which of them each read found."""
    count = int((read[-1] - read[0]) / sensor.refresh_s * 1.05) + 20
    apart = sensor.refresh_s * (1 + sensor.unsteady * rng.standard_normal(count))
    at = read[0] - sensor.refresh_s * (1 + rng.random()) + np.cumsum(np.maximum(apart, 1e-6))
    of = np.searchsorted(at, read, side="right") - 1
    return at, np.maximum(of, 0)


def _shown(sensor: Sensor, curve: Curve, at: Array) -> Array:
    if sensor.way == "counter":
        return curve.energy(at) - curve.energy(at[:1]) + 100.0
    if sensor.way == "instant":
        return curve.power(at)
    if sensor.way == "exponential":
        return curve.smoothed(at, sensor.window_s)
    mean: Array = (curve.energy(at) - curve.energy(at - sensor.window_s)) / sensor.window_s
    return mean
