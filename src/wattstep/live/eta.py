"""Forecast of a training that runs: time and joules left, and the charge of the battery at the end."""

from __future__ import annotations

from typing import Final

import numpy as np

from wattstep.schema.arrays import FloatArray
from wattstep.schema.figure import CLOCK, Figure, Missing, Status, missing
from wattstep.stats.forecast import CONFIDENCE, begun, energy_left, expected_mean, predicted

MOST: Final = 128  # stretches of steps that are kept: then two make one


class Stretches:
    """A series of any length in at most so many means, each over equally many values."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self.each = 1
        self.values: list[float] = []
        self._open = 0.0
        self._held = 0

    def add(self, value: float) -> None:
        """Takes the next value."""
        self._open += value
        self._held += 1
        if self._held < self.each:
            return
        self.values.append(self._open / self.each)
        self._open, self._held = 0.0, 0
        if len(self.values) >= self._most:
            pairs = zip(self.values[::2], self.values[1::2], strict=True)
            self.values = [(a + b) / 2 for a, b in pairs]
            self.each *= 2


def time_given(seconds: float) -> Figure:
    """Remainder of a time that a run was given, in s."""
    left = max(seconds, 0.0)
    return Figure(
        value=left, low=left, high=left, unit="s", status=Status.PREDICTED, source=CLOCK,
        method="the time that the run was given, less what is over",
    )  # fmt: skip


def time_for_steps(seconds: Stretches, steps: float) -> Figure:
    """Time of so many steps in s, by the times of those that were."""
    if steps <= 0:
        return Figure(value=0.0, unit="s", status=Status.PREDICTED, source=CLOCK)
    values = np.array(seconds.values)
    forecast = expected_mean(values[begun(values) :], steps, seconds.each)
    return (
        missing("s", forecast)
        if isinstance(forecast, Missing)
        else predicted(forecast, steps, "s", CLOCK)
    )


def energy_for(time: Figure, watts: FloatArray, every_s: float, status: str) -> Figure:
    """Energy of the time that is left, in J.

    Args:
        time: Left, in s.
        watts: Mean power, a value for every `every_s` seconds so far, shape (n,).
        every_s: See `watts`.
        status: Of the power.
    """
    if not time.value:
        return missing("J", time.reason or "nothing is left")
    forecast = expected_mean(watts[begun(watts) :], time.value, every_s)
    return energy_left(time, forecast, f"power that is {status}")


def level_after(energy: Figure, held: float, full: float, source: str) -> Figure:
    """Charge of batteries at the end, over what they can hold.

    Args:
        energy: That is still to be used, in J.
        held: Charge now, in J.
        full: Capacity, in J.
        source: Of the charge.
    """
    if energy.value is None:
        return missing("ratio", energy.reason or "the joules left are not known")
    ends = [(held - (end or energy.value)) / full for end in (energy.high, energy.low)]
    return Figure(
        value=(held - energy.value) / full, low=ends[0], high=ends[1], unit="ratio",
        confidence=CONFIDENCE, status=Status.PREDICTED, source=source,
        method="what it holds less the joules left, over what it holds when full",
    )  # fmt: skip
