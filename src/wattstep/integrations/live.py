"""Costs of a training so far: joules, watts, what a step takes now, and what the battery holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Final

from wattstep.integrations.naming import metric_name
from wattstep.live.so_far import LOOK_EVERY_S, SoFar
from wattstep.record.recorder import Recorder
from wattstep.schema.figure import Status, missing
from wattstep.schema.spelling import rounded

_SOON: Final = "no power was read yet"


class Live:
    """Looks every other second into what the sampler wrote.

    Args:
        recorder: Has been started.
        clock: Monotonic time in s.

    Attributes:
        power: Mean of the last seconds, a Figure in W.
        energy: Since the recording began, a Figure in J.
        energy_per_step: Of the steps since the last look at that power, a Figure in J.
        battery: Charge over capacity, a Figure.
    """

    def __init__(self, recorder: Recorder, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._so_far = SoFar(recorder.path.absolute(), recorder.info)
        self._looked_s = clock()
        self._before = (0, 0.0)  # steps and their seconds at the last look
        reason = self._so_far.meters.reason or _SOON
        self.power = missing("W", reason)
        self.energy = missing("J", reason)
        self.energy_per_step = missing("J", reason)
        self.battery = missing("ratio", reason)

    def due(self) -> bool:
        """True if it is time to look again."""
        return self._clock() - self._looked_s >= LOOK_EVERY_S

    def look(self, steps: int, seconds: float) -> None:
        """Takes in what was sampled since.

        Args:
            steps: Done so far.
            seconds: That they took together, in s.
        """
        self._looked_s = self._clock()
        self._so_far.look()
        figures = self._so_far.figures()
        self.power, self.energy = figures["power"], figures["energy"]
        self.battery = figures["battery"]
        done, took = steps - self._before[0], seconds - self._before[1]
        if self.power.value is not None and done > 0:
            self._before = (steps, seconds)
            self.energy_per_step = replace(
                self.power, value=self.power.value * took / done, unit="J",
                method=f"{self.power.method}, over the steps since the last look",
            )  # fmt: skip

    def words(self) -> str:
        """For a progress line: "3.2 J/step, 410 J so far, battery 81 %", with the status if weak."""
        if self.energy.value is None:
            parts = ["joules missing: no power sensor"] if self._so_far.meters.reason else []
        else:
            parts = [f"{_short(self.energy.value)}J so far"]
            if self.energy_per_step.value is not None:
                parts.insert(0, f"{_short(self.energy_per_step.value)}J/step")
            if self.energy.status is not Status.MEASURED:
                parts = [f"≈ {parts[0]}", *parts[1:], self.energy.status.value]
        if self.battery.value is not None:
            parts.append(f"battery {100 * self.battery.value:.0f} %")
        return ", ".join(parts)

    def numbers(self) -> dict[str, float]:
        """For a logger: what is known, by names that tell unit and status."""
        figures = {
            "power": self.power,
            "energy_so_far": self.energy,
            "energy_per_step_now": self.energy_per_step,
            "battery": self.battery,
        }
        return {
            metric_name(name, figure): figure.value
            for name, figure in figures.items()
            if figure.value is not None
        }


def _short(value: float) -> str:
    """Three digits and a prefix, as far as the unit follows."""
    for factor, prefix in ((1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ")):
        if value >= factor:
            return f"{rounded(value / factor)} {prefix}"
    return f"{rounded(value)} "
