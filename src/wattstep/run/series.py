"""Samples by what they are for: busy time of cores, CPU time of the training, energy, memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from wattstep.analysis.curves import Curve, add_curves, curve_of_counter, curve_of_gauge
from wattstep.analysis.power import EnergySource, modelled, summed
from wattstep.analysis.steps import FloatArray, IntArray, Steps
from wattstep.records.channel import Channel
from wattstep.records.figure import Status
from wattstep.run.reading import Tables, curve_of

NO_SENSOR = (
    "no power sensor was found (see what could not be measured); ask for a power model with "
    "--power-model to get a modelled figure"
)
ONLY_PARTS = "only parts of the machine are measured ({}), and no total: see energy by rail"
GAP_PERIODS = 20  # periods without a sample are a gap


class Series:
    """The samples of a run."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.channels = tables.channels()
        self.samples = tables.samples()

    @cached_property
    def steps(self) -> Steps:
        """The steps of the run."""
        return self._tables.steps()

    def with_role(self, *roles: str) -> Iterator[Channel]:
        """Channels of these roles that have samples."""
        for channel in self.channels.values():
            if channel.role not in roles or channel.name not in self.samples:
                continue
            if np.isfinite(self.samples[channel.name][1]).sum() > 1:
                yield channel

    def raw(self, name: str) -> tuple[IntArray, FloatArray]:
        """Times in ns and values of a channel."""
        t_ns, value, _ = self.samples[name]
        channel = self.channels.get(name)
        if channel is not None and channel.domain == "battery" and channel.kind == "gauge":
            value = np.abs(value)  # some drivers count what leaves a battery as negative
        return t_ns, value

    def curve(self, channel: Channel) -> Curve:
        """The cumulative curve of a channel."""
        t_ns, value = self.raw(channel.name)
        spacing = float(np.median(np.diff(t_ns)))
        return curve_of(channel, t_ns, value, max_gap_ns=round(GAP_PERIODS * spacing))

    def one(self, role: str) -> Curve | None:
        """The curve of the only channel of a role."""
        for channel in self.with_role(role):
            return self.curve(channel)
        return None

    @cached_property
    def core_busy(self) -> dict[int, Curve]:
        """Busy time in s by core, from /proc/stat."""
        return {c.core: self.curve(c) for c in self.with_role("busy_time") if c.core is not None}

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
        own, source = self._own_clock(), "the process's own CPU clock, read at every step"
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
        t_ns = np.stack([steps.start_ns, steps.end_ns], axis=1).ravel()
        cpu = np.stack([begin, end], axis=1).ravel() * 1e-9
        known = np.isfinite(cpu)
        t_ns, first = np.unique(t_ns[known], return_index=True)
        if len(t_ns) < 2:
            return None
        return curve_of_counter(t_ns, cpu[known][first], unit="s")

    @cached_property
    def energy(self) -> EnergySource | str:
        """Energy of the machine as far as sensors see it, or modelled, or why there is none."""
        totals = self._totals()
        if totals:
            return summed(totals)
        model = self._tables.info.power_model
        if model is None:
            parts = [c.name for c in self.with_role("energy_part", "power_part")]
            return ONLY_PARTS.format(", ".join(parts)) if parts else NO_SENSOR
        if not self.core_busy:
            return "the power model needs the busy time of the cores, which was not sampled"
        return modelled(list(self.core_busy.values()), model)

    def _totals(self) -> list[EnergySource]:
        """What together is the machine: counters of energy, else meters, else the battery."""
        counters = list(self.with_role("energy_total"))
        if counters:
            return [self._energy_of(channel) for channel in counters]
        meters = list(self.with_role("power_total"))
        outside = [channel for channel in meters if channel.domain != "battery"]
        if outside or meters:
            return [self._energy_of(channel) for channel in outside or meters]
        return self._battery()

    def _battery(self) -> list[EnergySource]:
        """Power of batteries that give current and voltage only."""
        found = []
        voltages = {c.name.rpartition(".")[0]: c for c in self.with_role("battery_voltage")}
        for channel in self.with_role("battery_current"):
            voltage = voltages.get(channel.name.rpartition(".")[0])
            if voltage is None:
                continue
            t_ns, current = self.raw(channel.name)
            v_ns, volts = self.raw(voltage.name)
            power = np.abs(current) * np.interp(t_ns - t_ns[0], v_ns - t_ns[0], volts)
            gap_ns = round(GAP_PERIODS * float(np.median(np.diff(t_ns))))
            found.append(
                EnergySource(
                    curve=curve_of_gauge(t_ns, power, gap_ns),
                    status=Status.MEASURED,
                    source=f"{channel.source} times its voltage",
                    gauge=(t_ns, power),
                )
            )
        return found

    @cached_property
    def rails(self) -> dict[str, EnergySource]:
        """Energy by rail, where sensors tell them apart."""
        names = ("energy_total", "power_total", "energy_part", "power_part")
        rails = {c.name: self._energy_of(c) for c in self.with_role(*names)}
        return rails if len(rails) > 1 else {}

    def _energy_of(self, channel: Channel) -> EnergySource:
        gauge = self.raw(channel.name) if channel.kind == "gauge" else None
        return EnergySource(
            curve=self.curve(channel),
            status=Status.MEASURED,
            source=f"{channel.source} ({channel.name})",
            gauge=gauge,
        )

    def update_interval_s(self, name: str) -> float | None:
        """Median time between two reads that gave different values; None where none differed."""
        t_ns, value = self.raw(name)
        changed = np.flatnonzero(np.diff(value) != 0) + 1
        if len(changed) < 2:
            return None
        return float(np.median(np.diff(t_ns[changed]))) * 1e-9
