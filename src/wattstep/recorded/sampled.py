"""The samples of a run as curves by what they are for: busy time of cores, CPU time of the training."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from wattstep.recorded.curves import Curve, add_curves, curve_across, curve_of, curve_of_counter
from wattstep.recorded.imported import NO_TELEMETRY, Alignment, Imported
from wattstep.recorded.plausible import (
    BEYOND,
    USUAL,
    counts_energy,
    glitches,
    odd_reads,
    tells_power,
)
from wattstep.recorded.reading import Tables
from wattstep.recorded.refresh import Refresh, refresh, written_unit
from wattstep.recorded.steps import Steps
from wattstep.recorded.stretches import Stretches, Totals, totals, with_holes
from wattstep.recorded.which_gpu import own_channels
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.channel import Channel
from wattstep.schema.figure import Missing, Status, weakest

SILENT_NS = 1_000_000_000  # without samples is told; the sampler may be a little late at any time
GAP_PERIODS = 20  # periods without a sample are a gap


Samples = tuple[IntArray, FloatArray, NDArray[np.int16]]


class Sampled:
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
        self.samples = _in_place(tables.samples(), self.stretches, others)
        self._refresh: dict[str, Refresh] = {}
        self._glitch: dict[str, BoolArray] = {}
        self.channels |= {
            name: replace(channel, wrap=None)
            for name, channel in self.channels.items()
            if self._goes_beyond(channel)
        }

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
        """Mask of values that are no power, or that a counter of energy cannot have shown: they count as failed reads."""
        if name not in self._glitch:
            value = self.samples[name][1]
            channel = self.channels.get(name)
            thinned = self.stretches.get(name)
            mask = np.broadcast_to(np.False_, value.shape)
            if channel is not None and tells_power(channel):
                mask = glitches(value)
            elif channel is not None and counts_energy(channel) and thinned is None:
                mask = odd_reads(value, channel.wrap and channel.wrap * channel.scale)
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

    def _goes_beyond(self, channel: Channel) -> bool:
        """True if a counter shows more than where it is said to start again: it starts again elsewhere, or nowhere."""
        if channel.wrap is None or not self._has_samples(channel.name):
            return False
        # Of stretches that were thinned no value is more than those at their ends.
        most = float(np.fmax.reduce(self.raw(channel.name)[1]))
        return np.isfinite(most) and round(most / channel.scale) > channel.wrap

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


def _in_place(
    found: dict[str, Samples], stretches: Mapping[str, Stretches], others: Collection[str]
) -> dict[str, Samples]:
    """Samples by channel with their holes; times and errors that channels of one read share are there once.

    Args:
        found: By channel; taken out one by one, so that few are in memory twice.
        stretches: What stands for samples that were thinned.
        others: Channels that are left out.
    """
    samples: dict[str, Samples] = {}
    before: Samples | None = None
    for name in list(found):
        t_ns, value, errno = with_holes(found.pop(name), stretches.get(name))
        if name in others:
            continue
        if before is not None and np.array_equal(t_ns, before[0]):
            t_ns = before[0]
            errno = before[2] if np.array_equal(errno, before[2]) else errno
        before = samples[name] = t_ns, value, errno
    return samples
