"""Joules so far and watts now, by the same sources as those of the finished run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from wattstep.live.eta import energy_for, level_after
from wattstep.live.running import BIN_NS, NONE, Floats, Ints, Running, rates
from wattstep.recorded.calibration import TOTAL, Calibration, read_calibrations
from wattstep.schema.channel import TRAINING_CPU, Channel, thing_of
from wattstep.schema.figure import Figure, Missing, Status, missing, weakest
from wattstep.schema.run_info import RunInfo
from wattstep.schema.settings import PowerModel

WINDOW_S: Final = 2.0  # power now is the mean of so long
RAILS: Final = ("energy_total", "power_total", "energy_part", "power_part")
BATTERY: Final = ("battery_energy", "battery_charge", "battery_voltage", "battery_current")
METERS: Final = (*RAILS, *BATTERY, *TRAINING_CPU)
LEAST_COVERED: Final = 0.95
SINCE: Final = "what was sampled since the recording began"
MOST_WIDENED: Final = 16.0  # times the window, for sensors that give a value only now and then
NO_SENSOR: Final = "no power sensor was found (--power-model gives a modelled figure)"
ONLY_PARTS: Final = "only parts of the machine are measured ({}), and no total (--power-model gives a modelled figure)"
NO_CPU_TIME: Final = "the power model needs the CPU time of the training, which is not sampled"
NO_BATTERY: Final = "no battery runs the machine"
NOT_FULL: Final = "the battery does not tell what it holds when full"
NO_VOLTAGE: Final = "the battery reports its charge but no voltage: energy cannot be related to it"


class Meters:
    """Power and energy of the machine and of its rails, and what its batteries hold.

    By a power model power and energy are the training's own.

    Args:
        info: Description of the run.
        channels: State of each of its channels, by name; filled by somebody else.

    Attributes:
        reason: Reason why there is no power; None where there is.
        status: Of power: measured, replayed or modelled.
    """

    def __init__(self, info: RunInfo, channels: Mapping[str, Running]) -> None:
        planned = [channel for read in info.reads for channel in read.channels]
        self._meters = chosen_meters(planned)
        model = None if self._meters else info.power_model
        self._model = None if model is None else PowerModel.from_dict(model)
        self._cpu = own_cpu_time(planned) if self._model else []
        self._by = read_calibrations(info.calibration) if info.calibration else {}
        self._held = [c for c in planned if c.role in ("battery_energy", "battery_charge")]
        self._rails = [c for c in planned if c.role in RAILS]
        self._products = {
            c.name: _BatteryPower(c, read.every * info.interval_s)
            for read in info.reads
            for c in read.channels
            if c.role == "battery_current" and c in self._meters
        }
        derived = {name: product.running for name, product in self._products.items()}
        self._channels = {**channels, **derived}
        self.reason = reason_for_none(self._meters, self._cpu, self._model, self._rails)
        self.status = Status.MODELLED if self._cpu else weakest_status(self._meters)

    def take(self, samples: Mapping[str, tuple[Ints, Floats]]) -> None:
        """Takes in samples by channel, for what is made of two of them."""
        for product in self._products.values():
            product.take(samples)

    @property
    def source(self) -> str:
        """The sensors, or the model."""
        if self._model:
            return f"power model {self._model.name} over the CPU time of the training"
        return " + ".join(channel.source for channel in self._meters)

    # --- power and energy of the whole --------------------------------------------------------

    def power(self) -> Figure:
        """Mean power in W of the last seconds, as far as sensors see it."""
        if self.reason is not None:
            return missing("W", self.reason)
        parts = []
        for channel in self._meters or self._cpu:
            watts = self._watts_of(channel, WINDOW_S)
            if watts is None:
                return missing("W", f"{channel.name} {self._silent(channel)}")
            parts.append(watts)
        return Figure(
            value=self._whole(sum(parts), 1.0), unit="W", status=self.status, source=self.source,
            method=f"mean of the last {WINDOW_S:g} s",
        )  # fmt: skip

    def energy(self) -> Figure:
        """Energy in J since the recording began."""
        if self.reason is not None:
            return missing("J", self.reason)
        total, covered, longest = 0.0, [], 0.0
        for channel in self._meters or self._cpu:
            part = self._joules_of(channel)
            if part is None:
                return missing("J", f"{channel.name} {self._silent(channel)}")
            total += part[0]
            covered.append(part[1])
            longest = max(longest, part[2])
        share = min(covered) / longest if longest > 0 else 1.0
        reason = (
            f"power covers {100 * share:.0f} % of the recording" if share < LEAST_COVERED else None
        )
        return Figure(
            value=self._whole(total, max(covered)), unit="J", status=self.status,
            source=self.source, method=SINCE, reason=reason,
        )  # fmt: skip

    def _whole(self, value: float, seconds: float) -> float:
        """The sum, as the calibration of the total has it."""
        by = self._by.get(TOTAL)
        return value if by is None else by.gain * value + by.offset_w * seconds

    def _calibration(self, channel: Channel) -> Calibration | None:
        return None if TOTAL in self._by else self._by.get(channel.name)

    def _watts_of(self, channel: Channel, seconds: float) -> float | None:
        """Mean power by one meter, or by the model of one core; over longer where values are rare."""
        running = self._channels.get(channel.name)
        while running is not None and seconds <= WINDOW_S * MOST_WIDENED:
            gain = running.gained(seconds)
            if gain is not None:
                return self._in_joules(channel, *gain) / gain[1]
            seconds *= 2
        return None

    def _joules_of(self, channel: Channel) -> tuple[float, float, float] | None:
        """Energy in J, the time that samples cover, and all the time, in s."""
        running = self._channels.get(channel.name)
        if running is None or not running.covered_s:
            return None
        gain = self._in_joules(channel, running.total, running.covered_s)
        return gain, running.covered_s, running.span_s

    def _in_joules(self, channel: Channel, gain: float, seconds: float) -> float:
        if self._model is not None:
            return self._model.busy_watts_a_core * max(gain, 0.0)
        by = self._calibration(channel)
        return gain if by is None else by.gain * gain + by.offset_w * seconds

    def _silent(self, channel: Channel) -> str:
        """Problem of a channel that tells nothing."""
        running = self._channels.get(channel.name)
        none = running is None or running.last is None
        return "gave no value yet" if none else "gives no values any more"

    def rails(self) -> dict[str, Figure]:
        """Mean power of the last seconds by rail; parts and totals, never to be added.

        A rail whose power and energy both are there is one, by its counter, where that counts.
        """
        figures: dict[str, Figure] = {}
        for channel in self._rails:
            watts = self._watts_of(channel, WINDOW_S)
            if watts is None:
                figures[channel.name] = missing("W", self._silent(channel))
                continue
            figures[channel.name] = Figure(
                value=watts, unit="W", status=Status(channel.status), source=channel.source,
                method=f"mean of the last {WINDOW_S:g} s",
            )  # fmt: skip
        counting = {thing_of(c.name, c.unit) for c in self._rails
                    if c.kind == "counter" and figures[c.name].value}  # fmt: skip
        of_gauges = {thing_of(c.name, c.unit) for c in self._rails if c.kind == "gauge"} - counting
        figures = {
            c.name: figures[c.name]
            for c in self._rails
            if thing_of(c.name, c.unit) not in (counting if c.kind == "gauge" else of_gauges)
        }
        return figures if len(figures) > 1 or self.reason is not None else {}

    def history(self) -> dict[int, float]:
        """Power in W by the number of its half second, of the last minutes, where all of it is known."""
        return self._summed({c.name: rates(r.trail) for c, r in self._known()})

    def _since_begin(self) -> tuple[dict[int, float], int]:
        """Mean powers of the whole run by bin, in few values, and how many half seconds each is the mean of."""
        meters = self._known()
        bins = max((running.track_bins for _, running in meters), default=1)
        return self._summed({c.name: rates(r.track, bins) for c, r in meters}), bins

    def _known(self) -> list[tuple[Channel, Running]]:
        meters = ((c, self._channels.get(c.name)) for c in self._meters or self._cpu)
        return [(channel, running) for channel, running in meters if running is not None]

    def _summed(self, parts: Mapping[str, Mapping[int, float]]) -> dict[int, float]:
        channels = self._meters or self._cpu
        if self.reason is not None or len(parts) < len(channels):
            return {}
        shared = set.intersection(*(set(parts[channel.name]) for channel in channels))
        return {
            number: self._whole(
                sum(self._in_joules(c, parts[c.name][number], 1.0) for c in channels), 1.0
            )
            for number in sorted(shared)
        }

    # --- what is left -------------------------------------------------------------------------

    def energy_left(self, time: Figure, since_ns: int) -> Figure:
        """Energy in J that the time left will take, by the power since the steps that count began.

        Args:
            time: Left, in s.
            since_ns: When they began.
        """
        if self.reason is not None:
            return missing("J", self.reason)
        watts, bins = self._since_begin()
        seen = {n: value for n, value in watts.items() if n * bins * BIN_NS >= since_ns}
        span = max(seen) - min(seen) if len(seen) > 1 else 1
        every_s = span * bins * BIN_NS * 1e-9 / max(len(seen) - 1, 1)
        return energy_for(time, np.array(list(seen.values())), every_s, self.status.value)

    def battery(self, energy_left: Figure) -> tuple[Figure, Figure]:
        """Charge of the batteries over what they can hold: now, and when the run ends.

        Batteries that tell coulombs are weighed by their voltages; where those are not known, a
        share is told of coulombs alone, and none of what joules will take of it.
        """
        charge = self._in_batteries()
        if isinstance(charge, Missing):
            return missing("ratio", charge), missing("ratio", charge)
        held, full, unit = charge
        source = ", ".join(channel.source for channel in self._held)
        now = Figure(
            value=held / full, unit="ratio", status=weakest_status(self._held), source=source
        )
        if unit == "C":
            return now, missing("ratio", NO_VOLTAGE)
        return now, level_after(energy_left, held, full, source)

    def _in_batteries(self) -> tuple[float, float, str] | Missing:
        """Charge and capacity of the batteries, and the unit of both; or the reason why that is not known."""
        if not self._held:
            return Missing(NO_BATTERY)
        if not all(channel.limit for channel in self._held):
            return Missing(NOT_FULL)
        parts = []
        for channel in self._held:
            running = self._channels.get(channel.name)
            if running is None or running.last is None:
                return Missing(f"{channel.name} gave no value yet")
            volts = self._volts(channel) if channel.role == "battery_charge" else 1.0
            parts.append((running.last, channel.limit or 0.0, volts))
        joules = [(held * v, full * v) for held, full, v in parts if v is not None]
        if len(joules) == len(parts):
            return sum(held for held, _ in joules), sum(full for _, full in joules), "J"
        if any(channel.role != "battery_charge" for channel in self._held):
            return Missing(NO_VOLTAGE)
        return sum(held for held, *_ in parts), sum(full for _, full, _ in parts), "C"

    def _volts(self, channel: Channel) -> float | None:
        """Of a battery in the last seconds: at no other voltage it gives what it holds."""
        running = self._channels.get(f"{device_of(channel)}.voltage")
        return None if running is None else running.rate(WINDOW_S) or running.last


class _BatteryPower:
    """The power of a battery that tells current and voltage: their product at each moment.

    Args:
        current: The channel of its current.
        period_s: The time between two samples, as planned.
    """

    def __init__(self, current: Channel, period_s: float) -> None:
        self._names = current.name, f"{device_of(current)}.voltage"
        self._waiting = [NONE, NONE]
        self.running = Running(replace(current, unit="W"), period_s)

    def take(self, samples: Mapping[str, tuple[Ints, Floats]]) -> None:
        """Takes in new samples of both."""
        for which, name in enumerate(self._names):
            old, new = self._waiting[which], samples.get(name, NONE)
            self._waiting[which] = np.append(old[0], new[0]), np.append(old[1], new[1])
        (t_ns, amperes), (v_ns, volts) = self._waiting
        finite = np.flatnonzero(np.isfinite(volts))
        if not len(finite) or not len(t_ns):
            return
        at = np.interp(t_ns - v_ns[0], v_ns[finite] - v_ns[0], volts[finite])
        self.running.take(t_ns, amperes * at)
        self._waiting = [NONE, (v_ns[finite[-1:]], volts[finite[-1:]])]


def chosen_meters(channels: Sequence[Channel]) -> list[Channel]:
    """Channels that together are the machine: counters of energy, else meters, else batteries."""
    meters = [c for c in channels if c.role == "power_total"]
    of_batteries = [c for c in meters if c.domain == "battery"]
    others = [c for c in meters if c.domain != "battery"]
    devices = {device_of(c) for c in of_batteries}
    currents = [c for c in channels if c.role == "battery_current" and device_of(c) not in devices]
    counters = [c for c in channels if c.role == "energy_total"]
    return counters or others or [*of_batteries, *currents]


def own_cpu_time(channels: Sequence[Channel]) -> list[Channel]:
    """Channels that together are the CPU time of the training and its children; empty where that is not sampled."""
    by_role = {role: [c for c in channels if c.role == role] for role in TRAINING_CPU}
    exact, coarse, children = by_role.values()
    # Perf counts children too; the coarser clocks do not.
    return exact[:1] or ([coarse[0], *children[:1]] if coarse else [])


def reason_for_none(
    meters: Sequence[Channel],
    cpu: Sequence[Channel],
    model: PowerModel | None,
    rails: Sequence[Channel],
) -> str | None:
    """Reason why there is no power; None where there is."""
    if meters or cpu:
        return None
    if model is not None:
        return NO_CPU_TIME
    return ONLY_PARTS.format(", ".join(rail.name for rail in rails)) if rails else NO_SENSOR


def weakest_status(channels: Sequence[Channel]) -> Status:
    """Best status of the power of these channels."""
    return weakest(Status(channel.status) for channel in channels) if channels else Status.MISSING


def device_of(channel: Channel) -> str:
    """The name of what the channel belongs to, e.g. its battery."""
    return channel.name.rpartition(".")[0]
