"""Perfetto traces: power rails, batteries, clocks and load of cores, slices and counters.

Perfetto's `TracePacket` and its documentation ("Trace packet", "Track events", "Synchronization
of multiple clock domains") say what stands where. Times are those of the trace's own clock, on
phones that of boot; where a snapshot tells the wall clock, times are brought to that.
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from wattstep.formats.event_rows import MOST_NS, EventRows
from wattstep.formats.perfetto_clocks import BOOTTIME, FAR, Clocks, Longs, clock_key
from wattstep.formats.perfetto_ftrace import Ftrace
from wattstep.formats.perfetto_own import LABEL, SliceLabels, labels_of, own_of
from wattstep.formats.perfetto_packets import FORMAT, Packets, words
from wattstep.formats.perfetto_series import (
    BATTERY,
    MICRO,
    MILLION,
    Sampled,
    battery_channel,
    busy_channel,
    consumer_channel,
    counter_channel,
    counter_factor,
    frequency_channel,
    gpu_frequency_channel,
    rail_channel,
)
from wattstep.formats.perfetto_slices import BEGIN, END, ON_GPU, WHOLE, Slices
from wattstep.formats.trace import NONE, Trace
from wattstep.schema.channel import Channel

_CLEARED, _NEEDS_STATE = 1, 2  # bits of sequence_flags
_INSTANT, _COUNTER = 3, 4  # TrackEvent.Type
_PHASES: Final = {
    ord("B"): BEGIN,
    ord("E"): END,
    ord("X"): WHOLE,
    ord("I"): _INSTANT,
    ord("i"): _INSTANT,
}
MOST_GPUS: Final = 1023
_DEEP: Final = 32  # parents of a track that are followed


def read(path: Path, on_progress: Callable[[float], None] | None = None) -> Trace:
    """Parsed content of a file: binary or text, packed by gzip, packet by packet, or not.

    `Trace.counters` has the power rails and what else was sampled, `Trace.events` the slices of
    tracks and of atrace as annotations. Memory is bounded by what comes out, not by the file.

    Raises:
        InvalidValueError: It cannot be read, or is no Perfetto trace.
        MissingPartError: perfetto or protobuf is not installed.
    """
    packets = Packets(path, on_progress)
    reader = _Reader()
    for packet in packets:
        reader.take(packet)
    return reader.trace(packets)


def parse(data: bytes) -> Trace:
    """The same from bytes, which are laid into a file that is removed again."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace"
        path.write_bytes(data)
        return read(path)


@dataclass
class _Sequence:
    """Interned data of one writer, valid from one clearing to the next loss."""

    number: int
    valid: bool = False
    names: dict[int, str] = field(default_factory=dict)
    stages: dict[int, str] = field(default_factory=dict)
    beside: dict[str, dict[int, str]] = field(
        default_factory=lambda: {"categories": {}, "keys": {}, "strings": {}}
    )
    clock: int = 0
    track: int = 0
    extra_tracks: tuple[int, ...] = ()


@dataclass
class _Track:
    """Descriptor of a track."""

    name: str = ""
    parent: int = 0
    process: int = NONE
    thread: int | None = None
    counter: Any = None


class _Reader:
    """State of the reader within a trace."""

    def __init__(self) -> None:
        self.clocks = Clocks()
        self.sampled = Sampled()
        self.rows = EventRows()
        self.slices = Slices(self.rows)
        self.ignored: Counter[str] = Counter()
        self.ftrace = Ftrace(self.clocks, self.sampled, self.slices, self.ignored)
        self.sequences: dict[int, _Sequence] = {}
        self.tracks: defaultdict[int, _Track] = defaultdict(_Track)
        self.own = False  # an export of ours
        self.rails: dict[tuple[int, int], tuple[str, str]] = {}
        self.consumers: dict[int, tuple[str, str]] = {}
        self.stages: dict[tuple[int, int], str] = {}
        self.takers: dict[str, Callable[[Any, _Sequence], None]] = {
            "clock_snapshot": self._clock_snapshot,
            "power_rails": self._power_rails,
            "battery": self._battery,
            "android_energy_estimation_breakdown": self._breakdown,
            "ftrace_events": lambda packet, _: self.ftrace.take(packet.ftrace_events),
            "track_event": self._track_event,
            "gpu_render_stage_event": self._render_stage,
            "track_descriptor": self._track_descriptor,
        }

    def take(self, packet: Any) -> None:
        """Reads one packet."""
        number = packet.trusted_packet_sequence_id
        sequence = self.sequences.setdefault(number, _Sequence(number=number))
        self._state(packet, sequence)
        kind = packet.WhichOneof("data")
        if packet.sequence_flags & _NEEDS_STATE and not sequence.valid:
            self.ignored["packet whose names were lost"] += 1
        elif kind in self.takers:
            self.takers[kind](packet, sequence)
        elif kind:
            self.ignored[f"packet of kind {kind}"] += 1
        elif not (packet.HasField("interned_data") or packet.HasField("trace_packet_defaults")):
            self.ignored["packet without contents"] += 1

    def _state(self, packet: Any, sequence: _Sequence) -> None:
        if packet.sequence_flags & _CLEARED or packet.incremental_state_cleared:
            sequence.valid = True
            sequence.names.clear()
            sequence.stages.clear()
            for texts in sequence.beside.values():
                texts.clear()
            sequence.clock = sequence.track = 0
            sequence.extra_tracks = ()
        elif packet.previous_packet_dropped:
            sequence.valid = False
        if packet.HasField("trace_packet_defaults"):
            defaults = packet.trace_packet_defaults
            sequence.clock = defaults.timestamp_clock_id
            sequence.track = defaults.track_event_defaults.track_uuid
            sequence.extra_tracks = tuple(defaults.track_event_defaults.extra_counter_track_uuids)
        if packet.HasField("interned_data"):
            for each in packet.interned_data.event_names:
                sequence.names[each.iid] = words(each.name)
            for each in packet.interned_data.gpu_specifications:
                sequence.stages[each.iid] = words(each.name)
            if self.own:
                self._texts_beside(packet.interned_data, sequence)

    def _texts_beside(self, interned: Any, sequence: _Sequence) -> None:
        beside = sequence.beside
        for each in interned.event_categories:
            beside["categories"][each.iid] = words(each.name)
        for each in interned.debug_annotation_names:
            beside["keys"][each.iid] = words(each.name)
        for each in interned.debug_annotation_string_values:
            beside["strings"][each.iid] = words(each.str.decode("utf-8", "replace"))

    def _time(self, packet: Any, sequence: _Sequence) -> tuple[int, int] | None:
        """Clock and time of a packet; None: it has none that fits."""
        if not packet.HasField("timestamp"):
            self.ignored["packet without a time"] += 1
            return None
        clock = packet.timestamp_clock_id or sequence.clock
        key = clock_key(clock, sequence.number) if clock else NONE
        time = self.clocks.absolute(key, packet.timestamp)
        if time is None:
            self.ignored[FAR] += 1
            return None
        return key, time

    def _clock_snapshot(self, packet: Any, sequence: _Sequence) -> None:
        snapshot = packet.clock_snapshot
        if snapshot.primary_trace_clock:
            self.clocks.primary = snapshot.primary_trace_clock
        self.clocks.snapshot(
            [
                (
                    clock_key(each.clock_id, sequence.number),
                    each.timestamp,
                    each.unit_multiplier_ns,
                    each.is_incremental,
                )
                for each in snapshot.clocks
            ]
        )

    def _power_rails(self, packet: Any, sequence: _Sequence) -> None:
        rails = packet.power_rails
        for each in rails.rail_descriptor:
            self.rails[rails.session_uuid, each.index] = (
                words(each.rail_name),
                words(each.subsys_name),
            )
        for each in rails.energy_data:
            if each.HasField("timestamp_ms"):  # of the meter, since boot
                at = (BOOTTIME, each.timestamp_ms * MILLION)
            else:
                at = self._time(packet, sequence) or (NONE, MOST_NS)
            if at[1] < MOST_NS:
                self.sampled.add(("rail", rails.session_uuid, each.index), *at, each.energy)
            elif each.HasField("timestamp_ms"):
                self.ignored[FAR] += 1

    def _battery(self, packet: Any, sequence: _Sequence) -> None:
        at = self._time(packet, sequence)
        for word in BATTERY:
            if at and packet.battery.HasField(word):
                value = getattr(packet.battery, word)
                self.sampled.add(("battery", words(packet.battery.name), word), *at, value)

    def _breakdown(self, packet: Any, sequence: _Sequence) -> None:
        breakdown = packet.android_energy_estimation_breakdown
        for each in breakdown.energy_consumer_descriptor.energy_consumers:
            self.consumers[each.energy_consumer_id] = words(each.name), words(each.type)
        if breakdown.per_uid_breakdown:
            self.ignored["energy by user id"] += len(breakdown.per_uid_breakdown)
        if breakdown.HasField("energy_uws") and (at := self._time(packet, sequence)):
            key = ("consumer", breakdown.energy_consumer_id)
            self.sampled.add(key, *at, breakdown.energy_uws)

    def _render_stage(self, packet: Any, sequence: _Sequence) -> None:
        """Work on a GPU, on one of its queues."""
        event = packet.gpu_render_stage_event
        for queue, each in enumerate(event.specifications.stage):  # as older drivers describe them
            self.stages[sequence.number, queue] = words(each.name)
        if not event.HasField("duration"):
            return
        if (at := self._time(packet, sequence)) is None:
            return
        if event.duration >= MOST_NS:
            self.ignored[FAR] += 1
            return
        if event.HasField("stage_iid"):
            name = sequence.stages.get(event.stage_iid, "")
        else:
            name = self.stages.get((sequence.number, event.stage_id), "")
        name = name or words(getattr(event, "name", ""))  # of newer writers
        queue = event.hw_queue_iid or event.hw_queue_id
        track = (ON_GPU, min(max(event.gpu_id, 0), MOST_GPUS), queue)
        self.slices.add(WHOLE, name or "unnamed stage", track, *at, event.duration)

    def _track_descriptor(self, packet: Any, sequence: _Sequence) -> None:
        descriptor = packet.track_descriptor
        track = self.tracks[descriptor.uuid]
        name = words(descriptor.name or descriptor.static_name or descriptor.atrace_name)
        track.name, track.parent = name or track.name, descriptor.parent_uuid
        if descriptor.HasField("thread"):
            track.thread, track.process = descriptor.thread.tid, descriptor.thread.pid
            track.name = track.name or words(descriptor.thread.thread_name)
        elif descriptor.HasField("process"):
            track.process = descriptor.process.pid
            self.own |= any(each.startswith(LABEL) for each in descriptor.process.process_labels)
        if descriptor.HasField("counter"):
            track.counter = descriptor.counter

    def _track_event(self, packet: Any, sequence: _Sequence) -> None:
        event = packet.track_event
        if not packet.HasField("timestamp"):
            self.ignored["track event with times of an old form"] += 1
            return
        at = self._time(packet, sequence)
        if at is None:
            return
        track = event.track_uuid if event.HasField("track_uuid") else sequence.track
        key = ("track", track) if track else ("sequence", sequence.number)
        extra = tuple(event.extra_counter_track_uuids) or sequence.extra_tracks
        for uuid, value in zip(extra, event.extra_counter_values, strict=False):
            self.sampled.add(("track", uuid), *at, value)
        kind, length = _kind(event)
        if kind == _COUNTER:
            self._count(event, key, at)
        elif kind in (BEGIN, END, WHOLE):
            name = words(event.name) or sequence.names.get(event.name_iid, "")
            name = name or (f"name {event.name_iid}" if event.name_iid else "unnamed")
            labels = labels_of(event, sequence.beside) if self.own and kind == BEGIN else None
            self.slices.add(kind, name, key, *at, length, labels)
        else:
            self.ignored[
                "instant of a track" if kind == _INSTANT else "track event of its own"
            ] += 1

    def _count(self, event: Any, key: tuple[Any, ...], at: tuple[int, int]) -> None:
        for word in ("counter_value", "double_counter_value"):
            if event.HasField(word):
                self.sampled.add(key, *at, getattr(event, word))
                return
        self.ignored["counter without a value"] += 1

    def trace(self, packets: Packets) -> Trace:
        """Result at the end of the file."""
        self.ignored.update(packets.ignored)
        wall = self.clocks.wall_offset()
        clock = "wall" if wall else "monotonic"
        self.ftrace.busy()
        recording = self.sampled.recording(self._on_primary, self._channel, self.ignored, clock)
        self.slices.pair(self._on_primary, self._place, self.ignored)
        events, own = self.rows.events(), None
        if events is not None and (labels := self._labels()):
            events, own = own_of(events, self.rows.names, labels, self.rows.code)
        notes = [*packets.notes, *self._notes(wall), *(recording.notes if recording else ())]
        if events is None and recording is None:
            notes.append("no slices, counters, power rails or switches of threads stand in it")
        return Trace(
            format=FORMAT,
            names=tuple(self.rows.names),
            events=events,
            counters=recording,
            clock=clock,
            notes=tuple(notes),
            ignored=dict(self.ignored),
            own=own,
        )

    def _labels(self) -> list[tuple[str, SliceLabels]]:
        """Name of the track of each slice of an export of ours, and what stands beside it."""
        labels = self.slices.row_labels
        if len(labels) != len(self.rows) or not all(each for _, each in labels):
            return []
        return [(self.tracks[key[1]].name, each) for key, each in labels]

    def _notes(self, wall: tuple[int, int] | None) -> Iterable[str]:
        if wall and abs(wall[1]) >= MILLION:
            yield (
                f"its wall clock moved by {wall[1] / MILLION:.3g} ms against the clock of the trace: "
                "times are on the wall clock as it was at the beginning"
            )
        if self.ftrace.lost:
            yield f"ftrace lost events {self.ftrace.lost} times: load and slices there are uncertain"

    def _on_primary(self, clocks: Any, times: Any) -> tuple[Longs, Any]:
        """Times on the trace's clock, or the wall clock where that is told; which are known."""
        mapped = np.zeros(len(times), np.int64)
        known = np.zeros(len(times), bool)
        wall = self.clocks.wall_offset()
        for key in np.unique(clocks):
            rows = clocks == key
            primary = self.clocks.primary if key == NONE else int(key)
            there = self.clocks.to_primary(primary, times[rows])
            if there is None:
                self.ignored["time on a clock that no snapshot ties to the others"] += int(
                    rows.sum()
                )
                continue
            mapped[rows] = there + (wall[0] if wall else 0)
            known[rows] = np.abs(mapped[rows]) < MOST_NS
            if far := int((~known[rows]).sum()):
                self.ignored[FAR] += far
        return mapped, known

    def _channel(self, key: tuple[Any, ...]) -> tuple[Channel, float, bool]:
        """The channel of a series, its factor, and whether its values are steps."""
        kind = key[0]
        if kind == "rail":
            name, subsystem = self.rails.get((key[1], key[2]), (f"rail{key[2]}", ""))
            return rail_channel(name or f"rail{key[2]}", subsystem), MICRO, False
        if kind == "battery":
            return *battery_channel(key[1], key[2]), False
        if kind == "consumer":
            return consumer_channel(key[1], *self.consumers.get(key[1], ("", ""))), MICRO, False
        if kind == "frequency":
            return frequency_channel(key[1]), 1e3, False
        if kind == "gpu frequency":
            return gpu_frequency_channel(key[1]), 1e3, False
        if kind == "busy":
            return busy_channel(key[1]), 1.0, False
        if kind == "atrace":
            return counter_channel(key[2], f"Perfetto atrace, process {key[1]}"), 1.0, False
        return self._counter_channel(key)

    def _counter_channel(self, key: tuple[Any, ...]) -> tuple[Channel, float, bool]:
        track = self.tracks[key[1]] if key[0] == "track" else _Track()
        name = track.name or f"{key[0]} {key[1]}"
        if track.counter is None:
            return counter_channel(name, "Perfetto track event"), 1.0, False
        counter = track.counter
        channel = counter_channel(
            name, "Perfetto track event", counter.unit, words(counter.unit_name)
        )
        return (
            channel,
            counter_factor(counter.unit, counter.unit_multiplier),
            counter.is_incremental,
        )

    def _place(self, key: tuple[Any, ...]) -> tuple[int | None, int]:
        """Thread and process of a track; None: it is no thread's."""
        if key[0] == ON_GPU:
            return int(key[2]), NONE
        if key[0] == "atrace":
            return key[1], self.ftrace.processes.get(key[1], NONE)
        process, at = NONE, key[1] if key[0] == "track" else 0
        for _ in range(_DEEP):
            if at not in self.tracks:
                break
            track = self.tracks[at]
            process = track.process if process == NONE else process
            if track.thread is not None:
                return track.thread, process
            at = track.parent
        return None, process


def _kind(event: Any) -> tuple[int, int]:
    """Begin, end, whole, instant, counter, or -1; and the length in ns of a whole one."""
    if event.type:
        return event.type, 0
    if event.HasField("legacy_event"):
        length = event.legacy_event.duration_us * 1000
        kind = _PHASES.get(event.legacy_event.phase, -1)
        return (kind if 0 <= length < MOST_NS else -1), max(0, min(length, MOST_NS - 1))
    return -1, 0
