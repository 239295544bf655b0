"""What a training has taken so far: joules, watts, what a step takes now, and what the battery holds."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Final

from wattstep.conditions.journals import Follower
from wattstep.conditions.live_power import LivePower
from wattstep.integrations.naming import metric_name
from wattstep.recorder import Recorder
from wattstep.records.figure import Figure, Status, missing
from wattstep.records.journal import JOURNAL

LOOK_EVERY_S: Final = 1.0
_HELD: Final = ("battery_energy", "battery_charge")
_SOON: Final = "no power was read yet"


class Live:
    """Looks once a second into what the sampler wrote.

    Args:
        recorder: Has been started.
        clock: Monotonic time in s.

    Attributes:
        power: Mean since the last look, a Figure in W.
        energy: Since the recording began, a Figure in J.
        energy_per_step: Of the steps since the last look, a Figure in J.
        battery: What it holds over what it can, a Figure.
    """

    def __init__(self, recorder: Recorder, clock: Callable[[], float] = perf_counter) -> None:
        info, journal = recorder.info, recorder.path.absolute() / JOURNAL
        self._clock = clock
        self._meter = LivePower(info.reads, journal, info.power_model, info.calibration)
        self._follower = Follower(journal, info.reads, _HELD)
        self._full = {c.name: c.limit for c in self._follower.channels if c.limit}
        self._held: dict[str, float] = {}
        self._looked_s = clock()
        self._powered_s = self._looked_s  # up to when the power is known
        self._joules = 0.0
        self._before = (0, 0.0)  # steps and their seconds at the last look
        reason = self._meter.reason or _SOON
        self.power = missing("W", reason)
        self.energy = missing("J", reason)
        self.energy_per_step = missing("J", reason)
        self.battery = missing("ratio", "no battery that tells what it holds")

    def due(self) -> bool:
        """Whether it is time to look again."""
        return self._clock() - self._looked_s >= LOOK_EVERY_S

    def look(self, steps: int, seconds: float) -> None:
        """Takes in what was sampled since.

        Args:
            steps: Done so far.
            seconds: That they took together, in s.
        """
        self._looked_s = now = self._clock()
        watts = self._meter.look()
        if watts is not None:
            self._joules += watts * (now - self._powered_s)
            self._powered_s = now
            self.power = self._figure(watts, "W")
            self.energy = self._figure(self._joules, "J")
            done, took = steps - self._before[0], seconds - self._before[1]
            if done > 0:
                self.energy_per_step = self._figure(watts * took / done, "J")
            self._before = (steps, seconds)
        self._look_at_battery()

    def _figure(self, value: float, unit: str) -> Figure:
        return Figure(
            value=value, unit=unit, status=self._meter.status, source="the sampler's journals",
            method="mean power between two looks, over the time between them",
        )  # fmt: skip

    def _look_at_battery(self) -> None:
        for name, samples in self._follower.new_samples().items():
            self._held[name] = samples[-1][1]
        known = [name for name in self._full if name in self._held]
        units = {name.rpartition(".")[2] for name in known}
        if known and len(units) == 1:  # joules and coulombs do not add up
            held = sum(self._held[name] for name in known)
            full = sum(self._full[name] or 0.0 for name in known)
            self.battery = Figure(
                value=held / full, unit="ratio", status=Status.MEASURED, source=", ".join(known)
            )

    def words(self) -> str:
        """For a progress line: "3.2 J/step, 410 J so far, battery 81 %", with the status if weak."""
        if self.energy.value is None:
            said = [] if self.energy.reason == _SOON else ["joules missing: no power sensor"]
        else:
            said = [f"{_short(self.energy.value)}J so far"]
            if self.energy_per_step.value is not None:
                said.insert(0, f"{_short(self.energy_per_step.value)}J/step")
            if self.energy.status is not Status.MEASURED:
                said = [f"≈ {said[0]}", *said[1:], self.energy.status.value]
        if self.battery.value is not None:
            said.append(f"battery {self.battery.value:.0%}".replace("%", " %"))
        return ", ".join(said)

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
            return f"{value / factor:.3g} {prefix}"
    return f"{value:.3g} "
