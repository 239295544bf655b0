"""Power while it is being recorded, from the sampler's journals: of the machine, or by a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from wattstep.analysis.calibration import TOTAL, read_calibrations
from wattstep.conditions.journals import Follower, Sample
from wattstep.records.channel import Channel
from wattstep.records.figure import Status, weakest
from wattstep.records.run_info import PlannedRead

NO_SENSOR: Final = "no power sensor was found (--power-model gives a modelled figure)"
NO_CPU_TIME: Final = "the power model needs the CPU time of the training, which is not sampled"
_METERS: Final = ("energy_total", "power_total", "battery_current", "battery_voltage")
CPU_TIME: Final = ("process_cpu_time", "process_cpu_time_coarse", "children_cpu_time")


class LivePower:
    """The mean power since it was last asked; the same sources as those of the finished run.

    Args:
        reads: What is sampled.
        journal: Folder of the run's journals.
        model: The power model that was asked for, or None.
        calibration: As the run has it, or None.

    Attributes:
        reason: Why there is no power; None where there is.
        status: Measured, replayed or modelled.
    """

    def __init__(
        self,
        reads: Sequence[PlannedRead],
        journal: Path,
        model: Mapping[str, Any] | None,
        calibration: Mapping[str, Any] | None,
    ) -> None:
        channels = [channel for read in reads for channel in read.channels]
        self._meters = chosen_meters(channels)
        self._model = model if not self._meters else None
        self._cpu = own_cpu_time(channels) if self._model else []
        self._by = read_calibrations(calibration) if calibration else {}
        self._volts = {device_of(c): c.name for c in channels if c.role == "battery_voltage"}
        roles = _METERS if self._meters else CPU_TIME if self._cpu else ()
        self._follower = Follower(journal, reads, roles)
        self._new: dict[str, list[Sample]] = {}
        self._voltage: dict[str, float] = {}
        self.reason = reason_for_none(self._meters, self._cpu, self._model)
        self.status = Status.MODELLED if self._cpu else weakest_status(self._meters)

    def look(self) -> float | None:
        """Mean power in W since the last answer; None where something has no new value yet."""
        if self.reason is not None:
            return None
        for name, samples in self._follower.new_samples().items():
            self._new.setdefault(name, []).extend(samples)
        if self._cpu:
            parts = [self._modelled(channel) for channel in self._cpu]
        else:
            parts = [self._of(channel) for channel in self._meters]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        for name, samples in self._new.items():
            # A counter goes on from its last value.
            self._new[name] = samples[-1:] if self._counts(name) else []
        total = sum(known)
        by = self._by.get(TOTAL)
        return total if by is None else by.gain * total + by.offset_w

    def _counts(self, name: str) -> bool:
        return any(c.name == name and c.kind == "counter" for c in (*self._meters, *self._cpu))

    def _of(self, channel: Channel) -> float | None:
        """Mean power by one meter."""
        samples = self._new.get(channel.name, [])
        if channel.kind == "counter":
            watts = _rate(samples, channel)
        elif channel.role == "battery_current":
            watts = self._of_battery(channel, samples)
        else:
            watts = fmean(value for _, value in samples) if samples else None
        by = None if TOTAL in self._by else self._by.get(channel.name)
        return watts if by is None or watts is None else by.gain * watts + by.offset_w

    def _of_battery(self, channel: Channel, samples: Sequence[Sample]) -> float | None:
        name = self._volts.get(device_of(channel), "")
        if volts := self._new.get(name):
            self._voltage[name] = volts[-1][1]
        if not samples or name not in self._voltage:
            return None
        return fmean(value for _, value in samples) * self._voltage[name]

    def _modelled(self, channel: Channel) -> float | None:
        """The training's own, as `analysis.power.modelled` has it."""
        assert self._model is not None
        cores = _rate(self._new.get(channel.name, []), channel)
        return None if cores is None else float(self._model["busy_watts_a_core"]) * cores


def chosen_meters(channels: Sequence[Channel]) -> list[Channel]:
    """What together is the machine: counters of energy, else meters, else batteries."""
    meters = [c for c in channels if c.role == "power_total"]
    of_batteries = [c for c in meters if c.domain == "battery"]
    others = [c for c in meters if c.domain != "battery"]
    known = {device_of(c) for c in of_batteries}
    currents = [c for c in channels if c.role == "battery_current" and device_of(c) not in known]
    counters = [c for c in channels if c.role == "energy_total"]
    return counters or others or [*of_batteries, *currents]


def own_cpu_time(channels: Sequence[Channel]) -> list[Channel]:
    """What together is the CPU time of the training and its children; empty where that is not sampled."""
    by_role = {role: [c for c in channels if c.role == role] for role in CPU_TIME}
    exact, coarse, children = by_role.values()
    # Perf counts children too; the coarser clocks do not.
    return exact[:1] or ([coarse[0], *children[:1]] if coarse else [])


def reason_for_none(
    meters: Sequence[Channel], cpu: Sequence[Channel], model: Mapping[str, Any] | None
) -> str | None:
    """Why there is no power; None where there is."""
    if meters or cpu:
        return None
    return NO_SENSOR if model is None else NO_CPU_TIME


def weakest_status(channels: Sequence[Channel]) -> Status:
    """What the power of these channels is at best."""
    return weakest(Status(channel.status) for channel in channels) if channels else Status.MISSING


def device_of(channel: Channel) -> str:
    """The name of what the channel belongs to, e.g. its battery."""
    return channel.name.rpartition(".")[0]


def _rate(samples: Sequence[Sample], channel: Channel) -> float | None:
    """Of a counter, between its first new value and its last; a reset tells nothing."""
    if len(samples) < 2 or samples[-1][0] <= samples[0][0]:
        return None
    gain = samples[-1][1] - samples[0][1]
    if gain < 0 and channel.wrap is not None:
        gain += channel.wrap * channel.scale
    return gain / (samples[-1][0] - samples[0][0]) if gain >= 0 else None
