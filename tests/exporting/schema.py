"""A Perfetto trace read by its own schema, with everything checked that a reader relies on."""

from __future__ import annotations

import gzip
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos


@dataclass
class Slice:
    """A slice, with its arguments and the flows that leave and end in it."""

    track: str
    name: str
    categories: list[str]
    start: int
    arguments: dict[str, Any]
    leaving: list[int]
    ending: list[int]
    end: int = -1

    @property
    def length(self) -> int:
        return self.end - self.start


@dataclass
class Read:
    """What a trace holds; descriptors by uuid."""

    tracks: dict[int, Any] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    values: dict[str, list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))
    instants: dict[str, dict[str, Any]] = field(default_factory=dict)
    snapshots: list[dict[int, int]] = field(default_factory=list)
    primary: set[int] = field(default_factory=set)

    def of(self, track: str) -> list[Slice]:
        return [one for one in self.slices if one.track == track]

    def uuid(self, name: str) -> int:
        (found,) = (uuid for uuid, track in self.tracks.items() if track.name == name)
        return found


@dataclass
class _Sequence:
    clock: int = 0
    track: int = 0
    last: int = 0
    texts: dict[str, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))
    open: list[Slice] = field(default_factory=list)


def read(path: Path) -> Read:
    """Asserts that names are numbered before use, tracks described, times rising, slices closed."""
    data = path.read_bytes()
    trace = protos.Trace()
    trace.ParseFromString(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    found = Read()
    sequences: dict[int, _Sequence] = {}
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id
        if packet.HasField("clock_snapshot"):
            clocks = packet.clock_snapshot.clocks
            found.snapshots.append({each.clock_id: each.timestamp for each in clocks})
            found.primary.add(packet.clock_snapshot.primary_trace_clock)
            continue
        if packet.sequence_flags & 1:
            sequences[packet.trusted_packet_sequence_id] = _Sequence()
        sequence = sequences[packet.trusted_packet_sequence_id]
        _take(packet, sequence, found)
    assert not any(sequence.open for sequence in sequences.values())
    return found


def _take(packet: Any, sequence: _Sequence, found: Read) -> None:
    if packet.HasField("trace_packet_defaults"):
        sequence.clock = packet.trace_packet_defaults.timestamp_clock_id
        sequence.track = packet.trace_packet_defaults.track_event_defaults.track_uuid
    if packet.HasField("track_descriptor"):
        told = packet.track_descriptor
        assert told.uuid not in found.tracks
        assert not told.parent_uuid or told.parent_uuid in found.tracks
        found.tracks[told.uuid] = told
    for kind in ("event_names", "event_categories", "debug_annotation_names"):
        for each in getattr(packet.interned_data, kind):
            assert each.iid not in sequence.texts[kind]
            sequence.texts[kind][each.iid] = each.name
    for each in packet.interned_data.debug_annotation_string_values:
        sequence.texts["strings"][each.iid] = each.str.decode()
    if packet.HasField("track_event"):
        assert packet.sequence_flags & 2
        assert sequence.track in found.tracks
        assert sequence.clock == 3
        assert packet.timestamp >= sequence.last
        sequence.last = packet.timestamp
        _event(packet.timestamp, packet.track_event, sequence, found)


def _event(time: int, event: Any, sequence: _Sequence, found: Read) -> None:
    track = found.tracks[sequence.track]
    if event.type == event.TYPE_COUNTER:
        assert track.HasField("counter")
        found.values[track.name].append((time, event.double_counter_value))
        return
    if event.type == event.TYPE_SLICE_END:
        sequence.open.pop().end = time
        return
    name = sequence.texts["event_names"][event.name_iid] if event.name_iid else event.name
    arguments = {_key(each, sequence): _value(each, sequence) for each in event.debug_annotations}
    if event.type == event.TYPE_INSTANT:
        found.instants[name] = arguments
        return
    assert event.type == event.TYPE_SLICE_BEGIN
    categories = [sequence.texts["event_categories"][iid] for iid in event.category_iids]
    begun = Slice(
        track.name, name, categories, time, arguments, list(event.flow_ids),
        list(event.terminating_flow_ids),
    )  # fmt: skip
    sequence.open.append(begun)
    found.slices.append(begun)


def _key(each: Any, sequence: _Sequence) -> str:
    return sequence.texts["debug_annotation_names"][each.name_iid] if each.name_iid else each.name


def _value(each: Any, sequence: _Sequence) -> Any:
    kind = each.WhichOneof("value")
    value = getattr(each, kind)
    return sequence.texts["strings"][value] if kind == "string_value_iid" else value
