"""The energy that samples of a run tell: of the machine, by rail, by a power model."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from wattstep.errors import DamagedRunError, InvalidValueError
from wattstep.recorded.calibration import TOTAL, Calibration, read_calibrations
from wattstep.recorded.clock_error import ClockError
from wattstep.recorded.contradictions import APART_HERE, SAME, Contradiction, contradictions
from wattstep.recorded.counters import Counters
from wattstep.recorded.curves import (
    curve_of_gauge,
)
from wattstep.recorded.imported import Alignment
from wattstep.recorded.plausible import counts_energy, saturated
from wattstep.recorded.power import (
    NEVER_COUNTED,
    NEXT,
    EnergySource,
    calibrated,
    modelled,
    modelled_machine,
    spoken,
    summed,
)
from wattstep.recorded.refresh import written_unit
from wattstep.recorded.sampled import GAP_PERIODS
from wattstep.schema.arrays import BoolArray, IntArray
from wattstep.schema.channel import Channel
from wattstep.schema.figure import Missing
from wattstep.schema.run_documents import DeviceFacts
from wattstep.schema.settings import PowerModel

ASK_DOCTOR = ", and wattstep doctor says what was looked for"
NO_SENSOR = f"no power sensor was found: --power-model vcpu models power{ASK_DOCTOR}"
ONLY_PARTS = "only parts of the machine are measured ({}), and no total: see energy by rail"
CARDS = "of the graphics cards alone: the rest of the machine is not in it"
_CARD = re.compile(r"gpu\d+\.power")
NOT_WHOLE = "no total: {} belongs to it and gave no values, or the same one at every read; see energy by rail"
NO_CPU_TIME = (
    "the power model needs the CPU time of the training, which was not sampled; what it gives the "
    "machine as a whole is machine_energy_per_step"
)
LEFT_OUT = "{} value(s) of {} left out as failed reads: {:.3g} {} is many times all others"
ODD = "{} read(s) of {} left out as failed reads: right after them it stood where it was before, which a counter cannot"
SATURATED = (
    "{} shows its highest value, {:.4g} {}, in {:,} of {:,} samples: it seems to be at the end of "
    "its range, where more power flows than it shows"
)
NEAR_END = 0.9  # of a documented range: power may be a product with a voltage that moves
NO_IMPORTED_POWER = "no power is among the imported telemetry"
WITHIN = 1.01  # of each other: two steps that are the same
THINNED = (
    "{reads:,} values were thinned (--keep), of {seconds} in all of {channel}: totals, means and extremes of "
    "the whole are those of all reads; what single samples tell (operations' energy, percentiles, "
    "update intervals, what went with slow steps) rests on those that were kept"
)
NOT_KEPT = "single samples of the time of these steps were not kept (--keep)"


def real_cores(device: DeviceFacts) -> int:
    """Cores that the training could run on: an emulated board's are not."""
    return int(device.get("emulated_on", device).get("cores") or 1)


class Series(Counters):
    """The samples of a run, and the energy that they tell."""

    @cached_property
    def power_alignment(self) -> Alignment | None:
        """Relation of the clocks of all channels of power and energy, and of the trace."""
        return self.alignment(self.power_channels())

    def leaving_out(self, excluded: BoolArray, excluded_as: str) -> Series:
        """Copy in which these steps (disturbed ones, say) are not among the clean ones."""
        other = copy.copy(self)
        other.__dict__["steps"] = replace(self.steps, excluded=excluded, excluded_as=excluded_as)
        other.__dict__.pop("_caught_up", None)  # which depends on the clean steps
        return other

    @property
    def energy(self) -> EnergySource | Missing:
        """Energy of the machine as far as sensors see it, or why there is none.

        By a power model it is the training's own; see `machine_by_model`.
        """
        source = self.energy_by_its_clock
        return (
            source if isinstance(source, Missing) else self._aligned(source, self.power_alignment)
        )

    @property
    def energy_by_its_clock(self) -> EnergySource | Missing:
        """Energy of the training for figures without steps, on the sensors' own clock."""
        source, by = self.uncalibrated, self.calibrations
        if isinstance(source, Missing):
            return source
        if source.saturated:
            return Missing(source.saturated)
        totals = self._totals
        if TOTAL in by:
            source = calibrated(source, by[TOTAL])
        elif by and not isinstance(totals, Missing):
            # Rails that were calibrated one by one make a calibrated total.
            source = summed([self._calibrated(name, each) for name, each in totals.items()])
        return source

    def _aligned(self, source: EnergySource, alignment: Alignment | None) -> EnergySource:
        """The source, with how its clock fits to that of the trace."""
        if alignment is None:
            return source
        return replace(
            source, source=f"{source.source}, {alignment.words}", clock=clock_of(alignment)
        )

    @cached_property
    def calibrations(self) -> dict[str, Calibration]:
        """Calibrations against an external meter, by channel or "total"."""
        document = self._tables.info.calibration
        try:
            return read_calibrations(document) if document else {}
        except InvalidValueError as error:
            raise DamagedRunError(
                f"run.json garbles its calibration: {error}", id="damaged-field"
            ) from error

    def _calibrated(self, name: str, source: EnergySource) -> EnergySource:
        by = self.calibrations.get(name)
        return source if by is None else calibrated(source, by)

    @property
    def _power_model(self) -> PowerModel | None:
        model = self._tables.info.power_model
        return None if model is None else PowerModel.from_dict(model)

    @cached_property
    def uncalibrated(self) -> EnergySource | Missing:
        """Energy as the sensors gave it, before any calibration."""
        totals = self._totals
        if not isinstance(totals, Missing):
            return summed(list(totals.values()))
        model = self._power_model
        if model is None:
            return totals
        if self.process_cpu is None:
            return self.without(NO_CPU_TIME)
        curve, read = self.process_cpu
        return modelled(curve, model, read)

    @cached_property
    def machine_by_model(self) -> EnergySource | Missing | None:
        """Energy of the whole machine where a power model gives it, or why it cannot.

        None where no model is in use: then `energy` is the machine's already.
        """
        model = self._power_model
        if model is None or not isinstance(self._totals, Missing):
            return None
        if not self.core_busy:
            return self.without(
                "the power model needs the busy time of the cores, which was not sampled"
            )
        return modelled_machine(list(self.core_busy.values()), model)

    @property
    def dynamic_share(self) -> float | None:
        """Of the training's energy by a power model, what is no idle power; None without one."""
        model = self._power_model
        if model is None or self.machine_by_model is None:
            return None
        return model.dynamic_share

    @property
    def machine_energy(self) -> EnergySource | Missing:
        """Energy of the machine as a whole: by sensors, else by a power model, or why there is none."""
        by_model = self.machine_by_model
        return self.energy if by_model is None else by_model

    @cached_property
    def _totals(self) -> dict[str, EnergySource] | Missing:
        """Channels that together are the machine: counters of energy, else meters, else batteries.

        Each of these is a total only as a whole: where one channel gave nothing, it is none, and
        the next is tried. Without any, why.
        """
        meters = self._planned("power_total")
        of_batteries = [channel for channel in meters if channel.domain == "battery"]
        others = [channel for channel in meters if channel.domain != "battery"]
        of_batteries += self._currents(of_batteries)
        silent: list[str] = []
        for kind in (self._planned("energy_total"), others, of_batteries):
            lacking = [name for channel in kind for name in self._lacking(channel)]
            if kind and not lacking and all(map(self._does_not_count, kind)):
                lacking = [channel.name for channel in kind]
            if kind and not lacking:
                return {channel.name: self._total_of(channel) for channel in kind}
            silent += lacking
        if silent:
            return Missing(NOT_WHOLE.format(", ".join(silent)))
        parts = list(self.with_role("energy_part", "power_part"))
        if parts and self.imported.is_import and all(_CARD.fullmatch(c.name) for c in parts):
            return {c.name: self._card(c) for c in parts}
        if parts:
            return Missing(ONLY_PARTS.format(", ".join(c.name for c in parts)))
        return self.without(NO_IMPORTED_POWER if self.imported.is_import else NO_SENSOR)

    @property
    def total_channels(self) -> list[Channel]:
        """The channels that together are the machine's energy; none where there is no such."""
        totals = self._totals
        return [] if isinstance(totals, Missing) else [self.channels[name] for name in totals]

    def _card(self, channel: Channel) -> EnergySource:
        source = self._energy_of(channel)
        return replace(source, note="; ".join(part for part in (source.note, CARDS) if part))

    def _currents(self, meters: Sequence[Channel]) -> list[Channel]:
        """The currents of batteries that do not tell their power."""
        known = {_device(channel) for channel in meters}
        return [c for c in self._planned("battery_current") if _device(c) not in known]

    def _lacking(self, channel: Channel) -> list[str]:
        """Names of what a part of the total is made of and gave no values."""
        made_of = [channel.name]
        if channel.role == "battery_current":
            made_of.append(f"{_device(channel)}.voltage")
        return [name for name in made_of if not self._has_samples(name)]

    def _total_of(self, channel: Channel) -> EnergySource:
        return (self._of_battery if channel.role == "battery_current" else self._energy_of)(channel)

    def _of_battery(self, channel: Channel) -> EnergySource:
        """Power of a battery that gives current and voltage only."""
        voltage = self.channels[f"{_device(channel)}.voltage"]
        t_ns, current = self.raw(channel.name)
        v_ns, volts = self.raw(voltage.name)
        known = np.isfinite(volts)
        power = current * np.interp(t_ns - t_ns[0], v_ns[known] - t_ns[0], volts[known])
        gap_ns = round(GAP_PERIODS * float(np.median(np.diff(t_ns))))
        carries_s, limit = self._carries(channel, voltage)
        return EnergySource(
            curve=curve_of_gauge(t_ns, power, gap_ns),
            status=self.status(channel, voltage),
            source=f"{channel.source} times its voltage",
            gauge=(t_ns, power),
            note=self._noted(channel, voltage),
            carries_s=carries_s,
            limit=limit,
            saturated=self._saturated(channel),
            half_step_w=self._half_step(channel) * abs(float(np.nanmean(volts))),
            slow_s=max(self._slow_s(channel), self._slow_s(voltage)),
        )

    @cached_property
    def rails(self) -> dict[str, EnergySource]:
        """Energy by rail, where sensors tell them apart; parts and totals, never to be added.

        Of one rail alone only where it is no total, of which the same would be said twice. A rail whose
        power and energy both are there is one, by its counter.
        """
        sources = self.distinct_rails
        if len(sources) < 2 and not isinstance(self._totals, Missing):
            return {}
        return {
            name: self._aligned(
                self._calibrated(name, source), self.alignment([self.channels[name]])
            )
            for name, source in sources.items()
        }

    @cached_property
    def uncalibrated_rails(self) -> dict[str, EnergySource]:
        """Every rail as its sensor says it, be it the only one."""
        names = ("energy_total", "power_total", "energy_part", "power_part")
        return {c.name: self._energy_of(c) for c in self.with_role(*names)}

    @cached_property
    def distinct_rails(self) -> dict[str, EnergySource]:
        """The rails of which no two tell the same: a counter before a gauge, where it counts."""
        sources = self.uncalibrated_rails
        channels = [self.channels[name] for name in sources]
        live = [c for c in channels if not self._does_not_count(c)]
        counted = {self._thing(c) for c in live if c.kind == "counter"}
        sampled = {self._thing(c) for c in live if c.kind == "gauge"} - counted
        return {
            c.name: sources[c.name]
            for c in channels
            if self._thing(c) not in (counted if c.kind == "gauge" else sampled)
        }

    @cached_property
    def outside(self) -> dict[str, EnergySource]:
        """Energy of rails beside the machine's own: a carrier board's."""
        return {
            c.name: self._aligned(self._energy_of(c), self.alignment([c]))
            for c in self.with_role("power_outside")
        }

    def power_channels(self) -> list[Channel]:
        """Channels of power and energy: totals, parts, and what lies outside."""
        kinds = ("total", "part", "outside")
        roles = [f"{what}_{kind}" for what in ("power", "energy") for kind in kinds]
        return list(self.with_role(*roles, "battery_current"))

    def _energy_of(self, channel: Channel) -> EnergySource:
        gauge = self.raw(channel.name) if channel.kind == "gauge" else None
        carries_s, limit = self._carries(channel)
        contradiction = self._contradictions.get(channel.name)
        beside = [self.curve(contradiction.other)] if contradiction and contradiction.other else []
        whole, others = self._told_by(channel)
        return EnergySource(
            curve=whole,
            status=self.status(channel),
            source=f"{channel.source} ({channel.name})",
            gauge=gauge,
            note=self._noted(channel),
            carries_s=carries_s,
            limit=limit,
            saturated=None if gauge is None else self._saturated(channel),
            resolution=self.refresh(channel).resolution,
            half_step_w=self._half_step(channel),
            window_s=channel.window_s,
            prompt=channel.kind == "counter" and not self.refresh(channel).slower,
            slow_s=self._slow_s(channel),
            observed_share=channel.observed_share,
            thinned=channel.name in self.stretches,
            stretches=None if gauge is None else self._stretches(channel.name),
            systematic=contradiction.apart if contradiction else None,
            beside=(*beside, *others),
        )

    def _noted(self, *channels: Channel) -> str | None:
        """Notes on these channels, and on values that were left out."""
        left_out = [
            note
            for c in channels
            for note in (self._of_glitches(c), self._of_resets(c), *self._of_doubts(c))
        ]
        found = [self._contradictions.get(channel.name) for channel in channels]
        contradicting = [each.note for each in found if each]
        return NEXT.join(filter(None, [_notes(channels), *left_out, *contradicting])) or None

    def _of_glitches(self, channel: Channel) -> str | None:
        """That values were left out, where some were."""
        at = np.flatnonzero(self._glitches(channel.name))
        if not len(at):
            return None
        if counts_energy(channel):
            return ODD.format(len(at), channel.name)
        most = float(np.abs(self.samples[channel.name][1][at]).max())
        return LEFT_OUT.format(len(at), channel.name, most, channel.unit)

    @property
    def doubtful(self) -> list[str]:
        """Notes on counters that may not have counted all, and on channels that contradict each other."""
        counters = [c for c in self.power_channels() if c.kind == "counter"]
        notes = [NEVER_COUNTED.format(c.name) for c in counters if self._stands_still(c)]
        notes += filter(None, map(self._of_glitches, counters))
        notes += filter(None, map(self._of_resets, counters))
        notes += [n for c in counters if not self._does_not_count(c) for n in self._of_doubts(c)]
        return [*notes, *dict.fromkeys(each.note for each in self._contradictions.values())]

    @cached_property
    def _contradictions(self) -> dict[str, Contradiction]:
        """By channel, where what was sampled says different things of the same."""
        sampled = [c for c in self.channels.values() if self._has_samples(c.name)]
        return contradictions(sampled, self, SAME if self.imported.is_import else APART_HERE)

    @property
    def thinned(self) -> str | None:
        """Note that samples were thinned, where some were."""
        if not self.stretches:
            return None
        reads = sum(int(each.reads.sum()) for each in self.stretches.values())
        seconds = {n: float((s.end_ns - s.begin_ns).sum()) for n, s in self.stretches.items()}
        power = {channel.name for channel in self.power_channels()}
        channel = max(seconds, key=lambda name: (name in power, seconds[name]))
        return THINNED.format(reads=reads, seconds=spoken(seconds[channel] * 1e-9), channel=channel)

    def is_thinned(self, start_ns: IntArray, end_ns: IntArray) -> BoolArray:
        """Mask of intervals of which single samples of the machine's energy were not kept.

        Args:
            start_ns: Begin of each.
            end_ns: Their ends.
        """
        mask = np.zeros(len(start_ns), bool)
        for channel in self.total_channels:
            if (stretches := self.stretches.get(channel.name)) is not None:
                at = np.searchsorted(stretches.begin_ns, end_ns) - 1
                mask |= (at >= 0) & (stretches.end_ns[np.maximum(at, 0)] > start_ns)
        return mask

    def _saturated(self, channel: Channel) -> str | None:
        """Reason why the channel shows less than there is, where it was at the end of its range."""
        saturation = saturated(self.raw(channel.name)[1])
        if saturation is None:
            return None
        most, times = saturation
        # Far below its documented range a sensor could have shown more: the load stood still there.
        if channel.range_to is not None and most < NEAR_END * channel.range_to:
            return None
        of = len(self.samples[channel.name][1])
        return SATURATED.format(channel.name, most, channel.unit, times, of)

    def _slow_s(self, channel: Channel) -> float:
        """The update interval in s of a channel that is updated more slowly than it is read; or 0."""
        updates = self.refresh(channel)
        return (updates.interval.value or 0.0) if updates.slower else 0.0

    def _half_step(self, channel: Channel) -> float:
        """Half of a gauge's smallest step; 0 for a counter.

        The documented step where there is one that is more than the unit that values are written
        in: what was seen may be the steps of the voltage alone, under a current that stands still,
        or the levels of a load that is coarser than its sensor.
        """
        if channel.kind == "counter":
            return 0.0
        unit = abs(channel.scale)
        if self._is_copy(channel):
            unit = written_unit(self.raw(channel.name)[1])
        steps = [channel.resolution, self.refresh(channel).resolution]
        return next((step for step in steps if step and step > WITHIN * unit), unit) / 2

    def _carries(self, *channels: Channel) -> tuple[float, str]:
        """The shortest time whose energy these can tell, and why; 0 and "" where none is known."""
        limits: list[tuple[float, str]] = [(0.0, "")]
        for channel in channels:
            updates = self.refresh(channel)
            if updates.slower:
                value, low = updates.interval.value, updates.interval.low
                assert value is not None
                assert low is not None
                # Only what is sure: the lower end.
                limits.append((low, f"{channel.name} gave a new value every {spoken(value)}"))
            if channel.window_s is not None:
                words = f"{channel.name} averages over {spoken(channel.window_s)}"
                limits.append((channel.window_s, words))
            if channel.kind == "counter" and np.isfinite(updates.spacing_s):
                # A gauge's samples can be sorted by the phase of the step; differences cannot.
                words = f"{channel.name} was read every {spoken(updates.spacing_s)}"
                limits.append((updates.spacing_s, words))
        return max(limits)


def clock_of(alignment: Alignment | None) -> ClockError | None:
    """The error of a clock that is not that of the trace, where it is known and there is any."""
    if alignment is None or not alignment.uncertainty_s:
        return None
    return ClockError(
        seconds=alignment.uncertainty_s, words=alignment.words, centred=alignment.by_load
    )


def _device(channel: Channel) -> str:
    """The part of a channel's name that it shares with others of its battery."""
    return channel.name.rpartition(".")[0]


def _notes(channels: Iterable[Channel]) -> str | None:
    return "; ".join(dict.fromkeys(c.note for c in channels if c.note)) or None
