"""What a training that runs has still before it: time, joules, and what the battery will hold at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np

from wattstep.analysis.forecast import CONFIDENCE, begun, energy_left, outlook, predicted
from wattstep.analysis.power import spoken
from wattstep.conditions.journals import Follower
from wattstep.conditions.live_power import LivePower
from wattstep.records.channel import Channel
from wattstep.records.figure import Figure, Status, missing
from wattstep.records.journal import JOURNAL
from wattstep.records.run_info import RunInfo

LEAST_SAID = 0.01  # of a time: a lower end that is less says nothing
LOOK_EVERY_S: Final = 1.0  # at the power
WORK_OUT_EVERY_S: Final = 2.0  # what is left
MOST: Final = 128  # stretches of steps, and seconds of power, that are kept: then two make one
CLOCK: Final = "monotonic clock"


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
    """What is left of a time that a run was given, in s."""
    left = max(seconds, 0.0)
    return Figure(
        value=left, low=left, high=left, unit="s", status=Status.PREDICTED, source=CLOCK,
        method="the time that the run was given, less what is over",
    )  # fmt: skip


def time_for_steps(seconds: Stretches, steps: float) -> Figure:
    """What so many steps will take, in s, by the times of those that were."""
    if steps <= 0:
        return Figure(value=0.0, unit="s", status=Status.PREDICTED, source=CLOCK)
    values = np.array(seconds.values)
    found = outlook(values[begun(values) :], steps, seconds.each)
    return missing("s", found) if isinstance(found, str) else predicted(found, steps, "s", CLOCK)


def energy_for(time: Figure, watts: Stretches, every_s: float, status: str) -> Figure:
    """What the time that is left will take, in J.

    Args:
        time: Left, in s.
        watts: Mean power, a value for every `every_s` seconds so far.
        every_s: See `watts`.
        status: Of the power.
    """
    if not time.value:
        return missing("J", time.reason or "nothing is left")
    values = np.array(watts.values)
    found = outlook(values[begun(values) :], time.value, watts.each * every_s)
    return energy_left(time, found, f"power that is {status}")


def level_after(energy: Figure, held: float, full: float, source: str) -> Figure:
    """What batteries will hold at the end, over what they can.

    Args:
        energy: That is still to be used, in J.
        held: What they hold now, in J.
        full: What they can hold, in J.
        source: Of what they hold.
    """
    if energy.value is None:
        return missing("ratio", energy.reason or "the joules left are not known")
    ends = [(held - (end or energy.value)) / full for end in (energy.high, energy.low)]
    return Figure(
        value=(held - energy.value) / full, low=ends[0], high=ends[1], unit="ratio",
        confidence=CONFIDENCE, status=Status.PREDICTED, source=source,
        method="what it holds less the joules left, over what it holds when full",
    )  # fmt: skip


class Ahead:
    """Told of every step, it says once a second what is left.

    Args:
        path: Folder of the run that is being recorded.
        info: What is known of it.
        clock: Monotonic time in s.

    Attributes:
        cost_s: CPU time of the calling thread that looking took.
    """

    def __init__(
        self, path: Path, info: RunInfo, clock: Callable[[], float] = perf_counter
    ) -> None:
        self._clock = clock
        journal = path / JOURNAL
        self._power = LivePower(info.reads, journal, info.power_model, info.calibration)
        self._battery = _Battery(journal, info.reads)
        self._steps, self._watts = Stretches(), Stretches()
        self._looked_s = self._ended_s = clock()
        self._worked_out_s = self._looked_s - WORK_OUT_EVERY_S
        self._source = self._power.status.value
        self.time = missing("s", "no step was done yet")
        self.energy = missing("J", self._power.reason or "no step was done yet")
        self.level = missing("ratio", self._battery.reason or "no step was done yet")

    @property
    def unpowered(self) -> str:
        """Why there are no joules; "" where there are."""
        return self._power.reason or ""

    def begin(self) -> None:
        """The steps that count begin here."""
        self._ended_s = self._clock()

    def step(self, *, counts: bool) -> None:
        """A step is done; the time of those that do not count belongs to the next that does."""
        if counts:
            now = self._clock()
            self._steps.add(now - self._ended_s)
            self._ended_s = now

    def apart(self, seconds: float) -> None:
        """So much time went into something beside the training."""
        self._ended_s += seconds

    def due(self) -> bool:
        """Whether it is time to look again."""
        return self._clock() - self._looked_s >= LOOK_EVERY_S

    def look(self, *, steps: float | None = None, seconds: float | None = None) -> None:
        """Takes in the power since the last look, and every other second works out what is left.

        Args:
            steps: That are to come; None where time limits the run.
            seconds: That are to come; None where steps do.
        """
        self._looked_s = self._clock()
        watts = self._power.look()
        if watts is not None:
            self._watts.add(watts)
        if self._looked_s - self._worked_out_s < WORK_OUT_EVERY_S:
            return
        self._worked_out_s = self._looked_s
        self.time = self._time(steps, seconds)
        self.energy = self._energy()
        self.level = self._battery.level(self.energy)

    def _time(self, steps: float | None, seconds: float | None) -> Figure:
        if steps is None:
            return time_given(seconds or 0.0)
        return time_for_steps(self._steps, steps)

    def _energy(self) -> Figure:
        if self._power.reason is not None:
            return missing("J", self._power.reason)
        return energy_for(self.time, self._watts, LOOK_EVERY_S, self._source)

    def words(self) -> str:
        """What is left, in a few words; "" where nothing is known yet."""
        if self.time.missing:
            return ""
        said = [f"{lasting(self.time)} left"]
        if not self.energy.missing:
            weak = f", {self._source}" * (self._power.status is not Status.MEASURED)
            said.append(f"{joules(self.energy)} to finish{weak}")
        if self.level.value is not None:
            said.append(f"battery {max(self.level.value, 0.0):.0%} at the end")
            if self.level.value <= 0:
                said[-1] = "the battery will be empty before the end"
        return ", ".join(said)

    def document(self) -> dict[str, Any]:
        """JSON-ready."""
        figures = {"time_left": self.time, "energy_left": self.energy, "battery_left": self.level}
        return {name: figure.to_dict() for name, figure in figures.items()}


class _Battery:
    """What the batteries hold, and what they can."""

    def __init__(self, journal: Path, reads: Sequence[Any]) -> None:
        roles = ("battery_energy", "battery_charge", "battery_voltage")
        self._follower = Follower(journal, reads, roles)
        held = [c for c in self._follower.channels if c.role != "battery_voltage"]
        self._held: Mapping[str, Channel] = {c.name: c for c in held}
        self._values: dict[str, float] = {}
        self.reason: str | None = None
        if not held:
            self.reason = "no battery runs the machine"
        elif any(not channel.limit for channel in held):
            self.reason = "the battery does not tell what it holds when full"

    def level(self, energy: Figure) -> Figure:
        """What it will hold at the end, over what it can."""
        if self.reason is not None:
            return missing("ratio", self.reason)
        for name, samples in self._follower.new_samples().items():
            self._values[name] = samples[-1][1]
        if energy.value is None:
            return missing("ratio", energy.reason or "the joules left are not known")
        now, full = 0.0, 0.0
        for name, channel in self._held.items():
            volts = 1.0
            if channel.role == "battery_charge":
                volts = self._values.get(f"{name.rpartition('.')[0]}.voltage", 0.0)
            if name not in self._values or not volts:
                return missing("ratio", f"{name} gave no value yet")
            assert channel.limit is not None
            now, full = now + self._values[name] * volts, full + channel.limit * volts
        return level_after(energy, now, full, ", ".join(self._held))


def lasting(time: Figure) -> str:
    """A time that has a value, with its interval."""
    assert time.value is not None
    if time.low is None or time.high is None or time.low == time.high:
        return clock_time(time.value)
    if time.low < LEAST_SAID * time.value:  # steps are still to come: it is never nothing
        return f"{clock_time(time.value)} (at most {clock_time(time.high)})"
    return f"{clock_time(time.value)} ({clock_time(time.low)} to {clock_time(time.high)})"


def clock_time(seconds: float) -> str:
    """In s, minutes or hours."""
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    if seconds >= 90:
        return f"{seconds / 60:.1f} min"
    return f"{seconds:.0f} s" if seconds >= 1 else spoken(max(seconds, 0.0))


def joules(energy: Figure) -> str:
    """An energy that has a value, with its interval, if it has one."""
    assert energy.value is not None
    factor, unit = (1e-3, "kJ") if energy.value >= 10_000 else (1.0, "J")
    value = f"{factor * energy.value:.3g} {unit}"
    if energy.low is None or energy.high is None:
        return value
    return f"{value} ({factor * energy.low:.3g} to {factor * energy.high:.3g})"
