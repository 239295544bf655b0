"""Joules so far and watts now, by the same sources as those of the finished run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wattstep.analysis.calibration import TOTAL, Calibration, read_calibrations
from wattstep.conditions.ahead import Stretches, energy_for, level_after
from wattstep.conditions.live_power import (
    CPU_TIME,
    chosen_meters,
    device_of,
    own_cpu_time,
    reason_for_none,
    weakest_status,
)
from wattstep.records.channel import Channel
from wattstep.records.figure import Figure, Status, missing
from wattstep.records.run_info import RunInfo
from wattstep.watching.running import BIN_NS, Running

WINDOW_S: Final = 2.0  # power now is the mean of so long
RAILS: Final = ("energy_total", "power_total", "energy_part", "power_part")
BATTERY: Final = ("battery_energy", "battery_charge", "battery_voltage", "battery_current")
METERS: Final = (*RAILS, *BATTERY, *CPU_TIME)
LEAST_COVERED: Final = 0.95
SINCE: Final = "what was sampled since the recording began"
MOST_WIDENED: Final = 16.0  # times the window, for sensors that give a value only now and then


class Meters:
    """Power and energy of the machine and of its rails, and what its batteries hold.

    By a power model power and energy are the training's own.

    Args:
        info: What is recorded.
        channels: What its channels gave, by name; filled by somebody else.
    """

    def __init__(self, info: RunInfo, channels: Mapping[str, Running]) -> None:
        self._channels = channels
        known = [channel for read in info.reads for channel in read.channels]
        self._meters = chosen_meters(known)
        self._model = None if self._meters else info.power_model
        self._cpu = own_cpu_time(known) if self._model else []
        self._by = read_calibrations(info.calibration) if info.calibration else {}
        self._held = [c for c in known if c.role in ("battery_energy", "battery_charge")]
        self._rails = [c for c in known if c.role in RAILS]
        self.reason = reason_for_none(self._meters, self._cpu, self._model)
        self.status = Status.MODELLED if self._cpu else weakest_status(self._meters)

    @property
    def source(self) -> str:
        """The sensors, or the model."""
        if self._model:
            return f"power model {self._model.get('name', '')} over the CPU time of the training"
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
            found = self._joules_of(channel)
            if found is None:
                return missing("J", f"{channel.name} {self._silent(channel)}")
            total += found[0]
            covered.append(found[1])
            longest = max(longest, found[2])
        share = min(covered) / longest if longest > 0 else 1.0
        reason = f"power covers {share:.0%} of the recording" if share < LEAST_COVERED else None
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
            found = running.gained(seconds)
            if found is not None:
                return self._in_joules(channel, *found) / found[1]
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
            return float(self._model["busy_watts_a_core"]) * max(gain, 0.0)
        if channel.role == "battery_current":
            gain *= self._volts(channel) or 0.0
        by = self._calibration(channel)
        return gain if by is None else by.gain * gain + by.offset_w * seconds

    def _volts(self, channel: Channel) -> float | None:
        """Of a battery: the mean so far."""
        running = self._channels.get(f"{device_of(channel)}.voltage")
        if running is None or running.last is None:
            return None
        return running.total / running.covered_s if running.covered_s else running.last

    def _silent(self, channel: Channel) -> str:
        """What is wrong with a channel that tells nothing."""
        running = self._channels.get(channel.name)
        none = running is None or running.last is None
        return "gave no value yet" if none else "gives no values any more"

    def rails(self) -> dict[str, Figure]:
        """Mean power of the last seconds by rail; parts and totals, never to be added."""
        found: dict[str, Figure] = {}
        for channel in self._rails:
            watts = self._watts_of(channel, WINDOW_S)
            if watts is None:
                found[channel.name] = missing("W", self._silent(channel))
                continue
            found[channel.name] = Figure(
                value=watts, unit="W", status=Status(channel.status), source=channel.source,
                method=f"mean of the last {WINDOW_S:g} s",
            )  # fmt: skip
        return found if len(found) > 1 else {}

    def history(self) -> dict[int, float]:
        """Power in W by the number of its half second, where all of it is known."""
        if self.reason is not None:
            return {}
        sums: dict[int, list[float]] = {}
        channels = self._meters or self._cpu
        for channel in channels:
            running = self._channels.get(channel.name)
            for number, rate in ({} if running is None else running.rates()).items():
                sums.setdefault(number, []).append(self._in_joules(channel, rate, 1.0))
        whole = {
            number: sum(parts) for number, parts in sums.items() if len(parts) == len(channels)
        }
        return {number: self._whole(watts, 1.0) for number, watts in whole.items()}

    # --- what is left -------------------------------------------------------------------------

    def energy_left(self, time: Figure, since_ns: int) -> Figure:
        """Energy in J that the time left will take, by the power of the last two minutes.

        Args:
            time: Left, in s.
            since_ns: When the steps that count began.
        """
        if self.reason is not None:
            return missing("J", self.reason)
        seen = sorted(item for item in self.history().items() if item[0] * BIN_NS >= since_ns)
        watts = Stretches()
        for _, value in seen:
            watts.add(value)
        span = seen[-1][0] - seen[0][0] if len(seen) > 1 else 1
        every_s = span * BIN_NS * 1e-9 / max(len(seen) - 1, 1)
        return energy_for(time, watts, every_s, self.status.value)

    def battery(self, energy_left: Figure) -> tuple[Figure, Figure]:
        """What the batteries hold over what they can: now, and when the run ends."""
        held, full, sources = 0.0, 0.0, []
        if not self._held:
            reason = "no battery runs the machine"
            return missing("ratio", reason), missing("ratio", reason)
        for channel in self._held:
            running = self._channels.get(channel.name)
            volts = self._volts(channel) if channel.role == "battery_charge" else 1.0
            if not channel.limit:
                reason = "the battery does not tell what it holds when full"
            elif running is None or running.last is None or volts is None:
                reason = f"{channel.name} gave no value yet"
            else:
                held, full = held + running.last * volts, full + channel.limit * volts
                sources.append(channel.source)
                continue
            return missing("ratio", reason), missing("ratio", reason)
        source = ", ".join(sources)
        now = Figure(
            value=held / full, unit="ratio", status=weakest_status(self._held), source=source
        )
        return now, level_after(energy_left, held, full, source)
