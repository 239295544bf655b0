"""The trace of `benchmarks/export.py` by perfetto's own builder, a packet at a time: RUN TARGET."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow.parquet as pq
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

TEXTS = ("layer", "phase", "shapes")
NUMBERS = ("step", "flops", "bytes", "allocated", "self_ns")
AT_ONCE = 1 << 15
EVENT = protos.TrackEvent


class Peer:
    """Writes packets; each track is a sequence that numbers its own names, as ours has it."""

    def __init__(self, file: BinaryIO) -> None:
        self._builder = StreamingTraceProtoBuilder(file)
        self._interned: dict[tuple[int, str, str], int] = {}
        self._tracks: dict[str, int] = {}
        self._open: dict[int, list[int]] = {}

    def _packet(self, sequence: int, t_ns: int | None) -> Any:
        made = self._builder.create_packet()
        made.trusted_packet_sequence_id = sequence
        if t_ns is not None:
            made.timestamp = t_ns
        made.sequence_flags = 2
        return made

    def _number(self, sequence: int, kind: str, text: str) -> int:
        key = (sequence, kind, text)
        if key not in self._interned:
            self._interned[key] = len(self._interned) + 1
            made = self._packet(sequence, None)
            entry = getattr(made.interned_data, kind).add()
            entry.iid = self._interned[key]
            if kind == "debug_annotation_string_values":
                entry.str = text.encode()
            else:
                entry.name = text
            self._builder.write_packet(made)
        return self._interned[key]

    def _track(self, name: str, unit: str = "") -> int:
        if name not in self._tracks:
            number = self._tracks[name] = len(self._tracks) + 1
            made = self._packet(number, None)
            made.sequence_flags = 1
            made.track_descriptor.uuid = number
            made.track_descriptor.name = name
            if unit:
                made.track_descriptor.counter.unit_name = unit
            made.trace_packet_defaults.timestamp_clock_id = 3
            made.trace_packet_defaults.track_event_defaults.track_uuid = number
            self._builder.write_packet(made)
        return self._tracks[name]

    def close(self, until: int, sequence: int | None = None) -> None:
        """Ends what ended by a time, on one track or on all."""
        for each in list(self._open) if sequence is None else [sequence]:
            stack = self._open.setdefault(each, [])
            while stack and stack[-1] <= until:
                made = self._packet(each, stack.pop())
                made.track_event.type = EVENT.TYPE_SLICE_END
                self._builder.write_packet(made)

    def operation(self, row: dict[str, Any], number: int, first: int) -> None:
        """One row: what ended before it, its names, its begin."""
        sequence = self._track(f"{row['processor']} {row['thread']}")
        self.close(row["start_ns"], sequence)
        keys = {k: self._number(sequence, "debug_annotation_names", k) for k in (*TEXTS, *NUMBERS)}
        texts = {
            key: self._number(sequence, "debug_annotation_string_values", row[key]) for key in TEXTS
        }
        name = self._number(sequence, "event_names", row["name"])
        category = self._number(sequence, "event_categories", row["kind"])
        made = self._packet(sequence, row["start_ns"])
        event = made.track_event
        event.type = EVENT.TYPE_SLICE_BEGIN
        event.name_iid = name
        event.category_iids.append(category)
        for key, at in keys.items():
            argument = event.debug_annotations.add()
            argument.name_iid = at
            if key in texts:
                argument.string_value_iid = texts[key]
            else:
                argument.int_value = row[key]
        if row["launch"] is not None:
            event.terminating_flow_ids.append(first + row["launch"] + 1)
        elif number % 4 == 2:
            event.flow_ids.append(number + 1)
        self._builder.write_packet(made)
        self._open[sequence].append(row["end_ns"])

    def value(self, row: dict[str, Any]) -> None:
        """One sample."""
        made = self._packet(self._track(row["channel"], "W"), row["t_ns"])
        made.track_event.type = EVENT.TYPE_COUNTER
        made.track_event.double_counter_value = row["value"]
        self._builder.write_packet(made)


def write(run: Path, target: Path) -> None:
    with target.open("wb") as file:
        peer = Peer(file)
        window, first, number = -1, 0, 0
        with pq.ParquetFile(run / "operations.parquet") as table:
            for batch in table.iter_batches(batch_size=AT_ONCE):
                for row in batch.to_pylist():
                    if row["window"] != window:
                        window, first = row["window"], number
                    peer.operation(row, number, first)
                    number += 1
        peer.close(1 << 62)
        with pq.ParquetFile(run / "samples.parquet") as table:
            for batch in table.iter_batches(batch_size=AT_ONCE):
                for row in batch.to_pylist():
                    if row["value"] is not None:
                        peer.value(row)


def peak() -> int:
    """Of this program alone, in B: ru_maxrss is handed down by who started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def main() -> None:
    before = peak()
    begun, used = time.perf_counter(), time.process_time()
    write(Path(sys.argv[1]), Path(sys.argv[2]))
    found = {
        "s": time.perf_counter() - begun,
        "cpu_s": time.process_time() - used,
        "size": Path(sys.argv[2]).stat().st_size,
        "before": before,
        "peak": peak(),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
