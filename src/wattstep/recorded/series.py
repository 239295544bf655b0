"""Samples by what they are for: busy time of cores, CPU time of the training, energy, memory."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from wattstep.errors import DamagedRunError, InvalidValueError
from wattstep.recorded.calibration import TOTAL, Calibration, read_calibrations
from wattstep.recorded.clock_error import ClockError
from wattstep.recorded.contradictions import Contradiction, contradictions, counter_counts
from wattstep.recorded.curves import (
    Curve,
    add_curves,
    countable,
    curve_across,
    curve_of,
    curve_of_counter,
    curve_of_gauge,
    unwrapped,
)
from wattstep.recorded.imported import NO_TELEMETRY, Alignment, Imported
from wattstep.recorded.plausible import BEYOND, USUAL, glitches, saturated, tells_power
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
from wattstep.recorded.reading import Tables
from wattstep.recorded.refresh import Refresh, refresh, written_unit
from wattstep.recorded.steps import Steps
from wattstep.recorded.stretches import Stretches, Totals, totals, with_holes
from wattstep.recorded.which_gpu import own_channels
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.channel import Channel, thing_of
from wattstep.schema.figure import Missing, Status, weakest
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
MANY = 100  # values: a load that moves shows in them
CUT_SHORT = (
    "{} {}: its power covers {:.0f} % of the {}, and what was drawn in the rest is not known"
)
MOST = 0.95  # of the steps' time: a log that covers so much is not cut short
STANDS_STILL = "{} showed {:.3g} {} in all {:,} values: it may stand still, whatever the load does"
LEFT_OUT = "{} value(s) of {} left out as failed reads: {:.3g} {} is many times all others"
SATURATED = (
    "{} shows its highest value, {:.4g} {}, in {:,} of {:,} samples: it seems to be at the end of "
    "its range, where more power flows than it shows"
)
UNREAD = "{} has no reading for {} of {} ({:.3g} %): what was drawn then is in no figure"
SAMPLED = 0.999  # of a log: rounding apart, all of it
RESETS = (
    "{} went back {} times (a reset, or a counter that began again): what it counted in {} around that "
    "is not known, and in no figure"
)
LEAPS = "{} grew {} times by more than a megawatt makes, which is a mistake: what it counted in {} there is in no figure"
NEAR_END = 0.9  # of a documented range: power may be a product with a voltage that moves
NO_IMPORTED_POWER = "no power is among the imported telemetry"
WITHIN = 1.01  # of each other: two steps that are the same
SILENT_NS = 1_000_000_000  # without samples is told; the sampler may be a little late at any time
THINNED = (
    "{reads:,} values were thinned (--keep), of {seconds} in all of {channel}: totals, means and extremes of "
    "the whole are those of all reads; what single samples tell (operations' energy, percentiles, "
    "update intervals, what went with slow steps) rests on those that were kept"
)
NOT_KEPT = "single samples of the time of these steps were not kept (--keep)"
GAP_PERIODS = 20  # periods without a sample are a gap


def real_cores(device: DeviceFacts) -> int:
    """Cores that the training could run on: an emulated board's are not."""
    return int(device.get("emulated_on", device).get("cores") or 1)


class Series:
    """The samples of a run.

    Attributes:
        channels: By name; of several GPUs, those of the ones that trained.
        gpu_note: That it is not known which did; None: it is, or it is no question.
        samples: Times, values and errors by channel; where samples were thinned, one without a value.
        stretches: What stands for samples that were thinned, by channel.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.channels, self.gpu_note = own_channels(tables.channels(), tables.info.device)
        others = tables.channels().keys() - self.channels.keys()
        self.stretches = {n: s for n, s in tables.stretches.items() if n not in others}
        self.samples = {
            n: with_holes(each, self.stretches.get(n))
            for n, each in tables.samples().items()
            if n not in others
        }
        self._refresh: dict[str, Refresh] = {}
        self._glitch: dict[str, BoolArray] = {}

    @cached_property
    def steps(self) -> Steps:
        """The steps of the run; without any, the recording as a whole."""
        steps_of_tables = self._tables.steps()
        if not steps_of_tables.absent:
            return steps_of_tables
        return replace(steps_of_tables, whole_ns=self.recorded_ns)

    @cached_property
    def recorded_ns(self) -> tuple[int, int] | None:
        """From the first sample to the last; None where they make no time."""
        times = [t_ns for t_ns, _, _ in self.samples.values() if len(t_ns)]
        if not times:
            return None
        begin, end = min(int(t[0]) for t in times), max(int(t[-1]) for t in times)
        return (begin, end) if end > begin else None

    @property
    def imported(self) -> Imported:
        """Description of the import, for a run that was imported."""
        return self._tables.imported

    def without(self, reason: str) -> Missing:
        """Reason why something is missing that samples would tell: there are none at all, or `reason`."""
        return Missing(NO_TELEMETRY if self.imported.is_import and not self.samples else reason)

    def alignment(self, channels: Iterable[Channel]) -> Alignment | None:
        """Relation of the clocks of channels and trace; None where they are one clock."""
        if self.steps.absent:
            return None
        return self.imported.alignment(channel.name for channel in channels)

    @cached_property
    def power_alignment(self) -> Alignment | None:
        """Relation of the clocks of all channels of power and energy, and of the trace."""
        return self.alignment(self.power_channels())

    def leaving_out(self, excluded: BoolArray, excluded_as: str) -> Series:
        """Copy in which these steps (disturbed ones, say) are not among the clean ones."""
        other = copy.copy(self)
        other.__dict__["steps"] = replace(self.steps, excluded=excluded, excluded_as=excluded_as)
        return other

    def status(self, *channels: Channel) -> Status:
        """Status of figures of these channels: measured, replayed or modelled."""
        return weakest(Status(channel.status) for channel in channels)

    def status_of(self, *roles: str) -> Status:
        """Status of figures of the channels of some roles; measured where there are none."""
        channels = list(self.with_role(*roles))
        return self.status(*channels) if channels else Status.MEASURED

    def refresh(self, channel: Channel) -> Refresh:
        """Refresh interval and resolution of a channel."""
        if channel.name not in self._refresh:
            t_ns, value = self.raw(channel.name)
            least = abs(channel.scale) if channel.kind == "gauge" else 0.0
            if self._is_copy(channel):
                least = written_unit(value)
            thinned = self.stretches.get(channel.name)
            self._refresh[channel.name] = refresh(
                t_ns, value, channel.source, least, self.status(channel),
                None if thinned is None else thinned.begin_ns,
            )  # fmt: skip
        return self._refresh[channel.name]

    def _is_copy(self, channel: Channel) -> bool:
        """True if its scale is that of a log or of a copy, and not that of the source."""
        foreign = self.imported.is_import and channel.scale == 1
        return channel.status == "replayed" or foreign

    def with_role(self, *roles: str) -> Iterator[Channel]:
        """Channels of these roles that have samples."""
        return (channel for channel in self._planned(*roles) if self._has_samples(channel.name))

    def _planned(self, *roles: str) -> list[Channel]:
        """Channels of these roles, whether they gave anything or not."""
        return [channel for channel in self.channels.values() if channel.role in roles]

    def _has_samples(self, name: str) -> bool:
        return name in self.samples and bool(np.isfinite(self.samples[name][1]).sum() > 1)

    def raw(self, name: str) -> tuple[IntArray, FloatArray]:
        """Times in ns and values of a channel."""
        t_ns, value, _ = self.samples[name]
        if (glitch := self._glitches(name)).any():
            value = np.where(glitch, np.nan, value)
        return t_ns, np.abs(value) if name in self._of_either_sign else value

    def _glitches(self, name: str) -> BoolArray:
        """Mask of a power gauge's values that are no power: they count as failed reads."""
        if name not in self._glitch:
            value = self.samples[name][1]
            channel = self.channels.get(name)
            is_power = channel is not None and tells_power(channel)
            mask = glitches(value) if is_power else np.zeros(len(value), bool)
            thinned = self.stretches.get(name)
            if mask.any() and thinned is not None and thinned.known.any():
                # Of a load that few of the samples that stayed are of.
                usual = np.quantile(np.abs(thinned.mean[thinned.known]), USUAL)
                mask &= np.abs(value) > BEYOND * usual
            self._glitch[name] = mask
        return self._glitch[name]

    @cached_property
    def _of_either_sign(self) -> frozenset[str]:
        """Names of battery channels that kept the sign of their driver, known by the parser."""
        reads = [r for r in self._tables.info.reads if r.sensor == "battery"]
        channels = [c for read in reads if read.parser == "number" for c in read.channels]
        return frozenset(
            c.name for c in channels if c.role in ("power_total", "battery_current") and c.scale > 0
        )

    def curve(self, channel: Channel) -> Curve:
        """The cumulative curve of a channel."""
        t_ns, value = self.raw(channel.name)
        spacing = float(np.median(np.diff(t_ns)))
        stretches = self._stretches(channel.name)
        max_gap_ns = round(GAP_PERIODS * spacing)
        if stretches is not None:
            return curve_across(channel, t_ns, value, stretches, max_gap_ns)
        return curve_of(channel, t_ns, value, max_gap_ns=max_gap_ns)

    def _stretches(self, name: str) -> Stretches | None:
        """What stands for samples that were thinned; None: none were."""
        stretches = self.stretches.get(name)
        if stretches is not None and name in self._of_either_sign:
            return stretches.magnitudes()
        return stretches

    def course(self, name: str, of: str = "mean") -> tuple[IntArray, FloatArray, IntArray]:
        """As `raw`, with one value for each stretch in which samples were thinned, and how many reads each is of.

        Args:
            name: Of the channel.
            of: What that value is: "mean", "least" or "most".
        """
        t_ns, value = self.raw(name)
        stretches = self._stretches(name)
        reads = np.ones(len(t_ns), np.int64)
        if stretches is None:
            return t_ns, value, reads
        known = stretches.known
        t_ns = np.concatenate([t_ns, stretches.middle_ns[known]])
        value = np.concatenate([value, getattr(stretches, of)[known]])
        reads = np.concatenate([reads, stretches.reads[known]])
        order = np.argsort(t_ns, kind="stable")
        return t_ns[order], value[order], reads[order]

    def totals(self, name: str, span_ns: tuple[int, int] | None = None) -> Totals | None:
        """All values of a channel together; None where it has none.

        Args:
            name: Of the channel.
            span_ns: From when to when; None: all of them.
        """
        t_ns, value = self.raw(name)
        inside = np.isfinite(value)
        if span_ns is not None:
            inside &= (t_ns >= span_ns[0]) & (t_ns <= span_ns[1])
        own = value[inside]
        parts = [(np.ones(len(own), np.int64), own, own, own)]
        if (stretches := self._stretches(name)) is not None:
            within, middle = stretches.known, stretches.middle_ns
            if span_ns is not None:
                within &= (middle >= span_ns[0]) & (middle <= span_ns[1])
            parts.append(
                (stretches.reads[within], stretches.total[within], stretches.least[within],
                 stretches.most[within])
            )  # fmt: skip
        return totals(parts)

    def one(self, role: str) -> Curve | None:
        """The curve of the only channel of a role."""
        for channel in self.with_role(role):
            return self.curve(channel)
        return None

    @cached_property
    def load_channels(self) -> dict[int, Channel]:
        """Channels of the load of each core: its busy time, else its utilization."""
        for role in ("busy_time", "core_utilization"):
            if channels := {c.core: c for c in self.with_role(role) if c.core is not None}:
                return channels
        return {}

    @cached_property
    def core_busy(self) -> dict[int, Curve]:
        """Busy time in s by core."""
        return {core: self.curve(channel) for core, channel in self.load_channels.items()}

    @cached_property
    def core_idle(self) -> dict[int, Curve]:
        """Idle residency in s by core."""
        return {
            c.core: self.curve(c) for c in self.with_role("idle_residency") if c.core is not None
        }

    @cached_property
    def process_cpu(self) -> tuple[Curve, str] | None:
        """CPU time in s of the training process and its children, and where it was read."""
        for channel in self.with_role("process_cpu_time"):
            return self.curve(channel), channel.source
        own, source = self._own_clock(), "the process's own CPU clock, read at steps"
        for channel in self.with_role("process_cpu_time_coarse"):
            if own is None:
                own, source = self.curve(channel), channel.source
        if own is None:
            return None
        # Perf counts children too; these clocks do not.
        children = self.one("children_cpu_time")
        if children is not None and children.total[-1] > 0:
            return add_curves([own, children]), f"{source}, and its children"
        return own, source

    def _own_clock(self) -> Curve | None:
        """CPU time that the training read of itself; children are not in it."""
        steps = self.steps
        begin, end = self._tables.cpu_ns()
        if not np.isfinite(begin).any():
            return None
        t_ns = np.stack([steps.start_ns, steps.end_ns], axis=1).ravel()
        cpu = np.stack([begin, end], axis=1).ravel() * 1e-9
        known = np.isfinite(cpu)
        t_ns, first = np.unique(t_ns[known], return_index=True)
        if len(t_ns) < 2:
            return None
        return curve_of_counter(t_ns, cpu[known][first], unit="s")

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

    def _stands_still(self, channel: Channel) -> bool:
        """True for a counter that never counted: its step is larger than all that there was, or it is dead."""
        value = self.raw(channel.name)[1]
        return channel.kind == "counter" and not np.ptp(value[np.isfinite(value)])

    def _does_not_count(self, channel: Channel) -> bool:
        """True for a counter that stands still, or in place of which power of the same supply counts."""
        if channel.kind != "counter" or self._stands_still(channel):
            return channel.kind == "counter"
        if not self.imported.is_import and channel.status != "replayed":
            return False  # what reads it here reads it as often as power
        gauges = [
            c
            for c in self.with_role("power_total", "power_part")
            if c.kind == "gauge" and self._thing(c) == self._thing(channel)
        ]
        value = self.raw(channel.name)[1]
        return any(not counter_counts(value, self.raw(c.name)[1]) for c in gauges)

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

    def _thing(self, channel: Channel) -> tuple[str, str]:
        return self.imported.file_of(channel.name), thing_of(channel.name, channel.unit)

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
        other = contradiction.other if contradiction else None
        return EnergySource(
            curve=self.curve(channel),
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
            beside=None if other is None else self.curve(other),
        )

    def _noted(self, *channels: Channel) -> str | None:
        """Notes on these channels, and on values that were left out."""
        left_out = [note for c in channels for note in (self._of_glitches(c), self._of_resets(c))]
        found = [self._contradictions.get(channel.name) for channel in channels]
        contradicting = [each.note for each in found if each]
        return NEXT.join(filter(None, [_notes(channels), *left_out, *contradicting])) or None

    def _of_glitches(self, channel: Channel) -> str | None:
        """That values were left out, where some were."""
        at = np.flatnonzero(self._glitches(channel.name))
        if not len(at):
            return None
        most = float(np.abs(self.samples[channel.name][1][at]).max())
        return LEFT_OUT.format(len(at), channel.name, most, channel.unit)

    def _of_resets(self, channel: Channel) -> str | None:
        """That a counter of energy went back, or further than any power takes it, where it did."""
        if channel.kind != "counter" or channel.unit != "J":
            return None
        t_ns, value = self.raw(channel.name)
        value = unwrapped(channel, value)
        known = np.isfinite(value)
        t_ns, steps = t_ns[known], np.diff(value[known])
        back, counted = steps < 0, countable(t_ns, steps, channel.unit)
        notes = [
            note.format(
                channel.name, int(which.sum()), spoken(float(np.diff(t_ns)[which].sum()) * 1e-9)
            )
            for note, which in ((RESETS, back), (LEAPS, ~counted & ~back))
            if which.any()
        ]
        return NEXT.join(notes) or None

    @property
    def doubtful(self) -> list[str]:
        """Notes on counters that stood still or went back, and on channels that contradict each other."""
        counters = [c for c in self.power_channels() if c.kind == "counter"]
        notes = [NEVER_COUNTED.format(c.name) for c in counters if self._stands_still(c)]
        notes += filter(None, map(self._of_resets, counters))
        return [*notes, *dict.fromkeys(each.note for each in self._contradictions.values())]

    @cached_property
    def _contradictions(self) -> dict[str, Contradiction]:
        """By channel, where an imported log says different things of the same."""
        if not self.imported.is_import:
            return {}
        sampled = [c for c in self.channels.values() if self._has_samples(c.name)]
        return contradictions(sampled, self)

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

    def silent_ns(self) -> list[tuple[int, int]]:
        """Begin and end in ns of times without any sample, as when the sampler was suspended.

        Of another tool's recording there are none: its reader says where the log pauses.
        """
        name = max(self.samples, key=lambda each: len(self.samples[each][0]), default=None)
        if self.imported.is_import or name is None or len(self.samples[name][0]) < 2:
            return []
        times = self.samples[name][0]
        steps = np.diff(times)
        silent = np.flatnonzero(steps > max(GAP_PERIODS * float(np.median(steps)), SILENT_NS))
        if (thinned := self.stretches.get(name)) is not None:
            seen = thinned.begin_ns[thinned.first_of_hole] + 1
            silent = silent[~np.isin(times[silent], seen)]
        return [(int(times[at]), int(times[at + 1])) for at in silent]

    def unread(self) -> list[str]:
        """Notes on what another tool's log does not tell of its power: failed reads, cells without a value, pauses."""
        if not self.imported.is_import:
            return []
        names: dict[tuple[int, int], list[str]] = {}
        for channel in self.power_channels():
            t_ns, value = self.raw(channel.name)
            longest_ns = GAP_PERIODS * float(np.median(np.diff(t_ns)))
            read_ns, whole_ns = _read_ns(
                t_ns, value, None if channel.kind == "counter" else longest_ns
            )
            if read_ns < SAMPLED * whole_ns:
                names.setdefault((whole_ns - read_ns, whole_ns), []).append(channel.name)
        return [
            UNREAD.format(
                f"{each[0]}{f' and {len(each) - 1} more' * (len(each) > 1)}", spoken(unread * 1e-9),
                spoken(whole * 1e-9), 100 * unread / whole,
            )
            for (unread, whole), each in names.items()
        ]  # fmt: skip

    def cut_short(self) -> list[str]:
        """Notes on logs of power of other tools that begin after the first step or end before the last."""
        clean = self.steps.clean
        if not self.imported.telemetry or not clean.any():
            return []
        start, end = self.steps.start_ns[clean], self.steps.end_ns[clean]
        what = "trace" if self.imported.trace_is_one_step else self.steps.figures_of
        notes = {}
        for channel in self.power_channels():
            file, curve = self.imported.file_of(channel.name), self.curve(channel)
            if file in notes or not len(curve.t_ns):
                continue
            late_s, early_s = (start[0] - curve.t_ns[0]) * -1e-9, (end[-1] - curve.t_ns[-1]) * 1e-9
            beyond = [
                f"begins {spoken(late_s)} after the {what}" if late_s > 0 else "",
                f"ends {spoken(early_s)} before the end of the {what}" if early_s > 0 else "",
            ]
            share = float(
                (curve.covered_ratio(start, end) * (end - start)).sum() / (end - start).sum()
            )
            if any(beyond) and share < MOST:
                words = " and ".join(filter(None, beyond))
                notes[file] = CUT_SHORT.format(file, words, 100 * share, what)
        return list(notes.values())

    def standing_still(self) -> list[str]:
        """Notes on gauges of power that always showed the same: nothing says that they look at this load."""
        channels = []
        for channel in self.channels.values():
            if channel.kind != "gauge" or channel.unit != "W" or channel.status == "modelled":
                continue
            if channel.name not in self.samples:
                continue
            value = self.raw(channel.name)[1]
            value = value[np.isfinite(value)]
            if len(value) >= MANY and not np.ptp(value):
                channels.append(
                    STANDS_STILL.format(channel.name, value[0], channel.unit, len(value))
                )
        return channels

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


def _read_ns(t_ns: IntArray, value: FloatArray, longest_ns: float | None) -> tuple[int, int]:
    """Time between reads that succeeded one after the other, and from the first row to the last."""
    known = np.flatnonzero(np.isfinite(value))
    length = np.diff(t_ns[known])
    between = np.diff(known) == 1
    if longest_ns is not None:
        between &= length <= longest_ns
    return int(length[between].sum()), int(t_ns[-1] - t_ns[0])


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
