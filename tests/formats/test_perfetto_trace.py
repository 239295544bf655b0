"""Perfetto traces: rails, batteries, cores and slices come out at the right time, or are counted."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos
from tests.refusals import refused
from tests.wording import assert_says, saying

from wattstep.errors import InvalidValueError
from wattstep.formats.perfetto_trace import parse, read
from wattstep.formats.recording import FormatError
from wattstep.formats.trace import Trace

EXAMPLES = 100_000 if settings.default.max_examples > 1000 else 150
PHONE = Path(__file__).parents[1] / "fixtures" / "phone"
RECORDED = sorted(PHONE.glob("perfetto_*.textproto"))
SECOND_VALUE = "another value of a channel for a time that it has one for"


def binary(text: str) -> bytes:
    """A trace in text form as Perfetto's own library writes it."""
    return bytes(text_format.Parse(text, protos.Trace()).SerializeToString())


def made(text: str) -> Trace:
    return parse(binary(text))


def series(trace: Trace) -> dict[str, list[tuple[int, float]]]:
    """Time and value of every channel."""
    found = trace.counters
    if found is None:
        return {}
    return {
        c.name: list(zip(found.t_ns[c.name].tolist(), found.value[c.name].tolist(), strict=True))
        for c in found.channels
    }


def channel(trace: Trace, name: str) -> Any:
    assert trace.counters is not None
    return next(each for each in trace.counters.channels if each.name == name)


def slices(trace: Trace) -> list[tuple[str, int, int, int, int]]:
    """Name, begin, length, thread and process of each event."""
    events = trace.events
    if events is None:
        return []
    assert {trace.names[code] for code in events.category} == {"slice"}
    return [
        (trace.names[name], int(start), int(end - start), int(thread), int(process))
        for name, start, end, thread, process in zip(
            events.name, events.start_ns, events.end_ns, events.thread, events.process, strict=True
        )
    ]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_every_value_of_a_recorded_trace_comes_out_or_is_counted(path: Path) -> None:
    lines = [line.strip() for line in path.read_text().splitlines()]
    stated = sum(line.startswith(("energy: ", "energy_uws: ", "buf: ")) for line in lines)
    trace = read(path)
    assert trace.counters is not None
    assert trace.counters.values + sum(trace.ignored.values()) == stated
    assert all((np.diff(t_ns) > 0).all() for t_ns in trace.counters.t_ns.values())


def test_the_rails_are_at_the_times_that_perfetto_s_own_tests_expect() -> None:
    # google/perfetto, diff_tests/parser/power/tests_power_rails.py, power_rails_timestamp_sort:
    # 3000000 333 and 0, 3000004 1000 (the printed counter), 3000005 999, 5000000 666; in uWs.
    trace = read(PHONE / "perfetto_power_rails.textproto")
    assert series(trace) == {
        "phone.test_rail.energy": [(3_000_000, 333e-6), (5_000_000, 666e-6)],
        "phone.test_rail2.energy": [(3_000_005, 999e-6)],
        "trace.Testing": [(3_000_004, 1000.0)],
    }
    assert dict(trace.ignored) == {SECOND_VALUE: 1}  # the 0 at 3000000
    assert trace.clock == "monotonic"


def test_a_clock_of_its_own_is_mapped_as_perfetto_s_own_tests_expect() -> None:
    # As above, power_rails_event_power_rails_custom_clock: 104000000 333, 106000000 666,
    # 106000000 999, 109000000 0.
    trace = read(PHONE / "perfetto_power_rails_custom_clock.textproto")
    assert series(trace) == {
        "phone.test_rail.energy": [(104_000_000, 333e-6), (106_000_000, 666e-6), (109_000_000, 0.0)]
    }
    assert dict(trace.ignored) == {SECOND_VALUE: 1}
    (note,) = trace.notes
    assert_says(note, "phone.test_rail.energy", "1 times")


def test_the_estimate_for_a_consumer_is_marked_as_modelled() -> None:
    trace = read(PHONE / "perfetto_energy_breakdown.textproto")
    assert series(trace) == {"phone.consumer.CPUCL0.energy": [(1_030_255_882_785, 98.567522)]}
    found = channel(trace, "phone.consumer.CPUCL0.energy")
    assert (found.unit, found.kind, found.domain, found.status) == (
        "J",
        "counter",
        "cpu",
        "modelled",
    )


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_text_binary_and_packed_forms_say_the_same(path: Path, tmp_path: Path) -> None:
    plain = binary(path.read_text())
    whole = read(path)
    packed = protos.Trace(
        packet=[protos.TracePacket(compressed_packets=zlib.compress(plain))]
    ).SerializeToString()
    (tmp_path / "trace.gz").write_bytes(gzip.compress(plain))
    for found in (parse(plain), parse(packed), read(tmp_path / "trace.gz")):
        assert series(found) == series(whole)
        assert (found.ignored, found.notes) == (whole.ignored, whole.notes)


def test_a_rail_means_what_it_means_for_the_live_sensor() -> None:
    trace = made(
        """packet { timestamp: 5 power_rails {
          rail_descriptor { index: 1 rail_name: "S2S_VDD_G3D" subsys_name: "GPU" }
          energy_data { index: 1 energy: 2500000 } energy_data { index: 2 energy: 7 } } }"""
    )
    found = channel(trace, "phone.S2S_VDD_G3D.energy")
    assert (found.domain, found.role, found.note) == ("gpu", "energy_part", "feeds the GPU")
    assert series(trace) == {
        "phone.S2S_VDD_G3D.energy": [(5, 2.5)],
        "phone.rail2.energy": [(5, 7e-6)],
    }


def test_a_battery_comes_in_si_units() -> None:
    trace = made(
        """packet { timestamp: 1000 battery { charge_counter_uah: 2000000 capacity_percent: 51
          current_ua: -350000 voltage_uv: 3850000 } }"""
    )
    assert {name: values[0][1] for name, values in series(trace).items()} == pytest.approx(
        {
            "phone.battery.charge": 7200.0,  # 2 Ah
            "phone.battery.level": 0.51,
            "phone.battery.current": -0.35,
            "phone.battery.voltage": 3.85,
        },
        rel=1e-12,
    )


def test_times_are_on_the_wall_clock_where_a_snapshot_tells_it() -> None:
    trace = made(
        """packet { clock_snapshot { clocks { clock_id: 6 timestamp: 1000 }
                                     clocks { clock_id: 3 timestamp: 400 }
                                     clocks { clock_id: 1 timestamp: 1700000000000001000 } } }
           packet { clock_snapshot { clocks { clock_id: 6 timestamp: 9000 }
                                     clocks { clock_id: 3 timestamp: 8400 }
                                     clocks { clock_id: 1 timestamp: 1700000000500009000 } } }
           packet { timestamp: 1500 timestamp_clock_id: 3 battery { voltage_uv: 4000000 } }"""
    )
    assert trace.clock == "wall"
    # 1500 on clock 3 is 2100 on clock 6, 1100 after the first snapshot.
    assert series(trace) == {"phone.battery.voltage": [(1_700_000_000_000_002_100, 4.0)]}
    assert any("moved by 500 ms" in note for note in trace.notes)


def test_times_that_count_from_packet_to_packet_are_added_up() -> None:
    trace = made(
        """packet { trusted_packet_sequence_id: 7 sequence_flags: 1
             trace_packet_defaults { timestamp_clock_id: 64 }
             clock_snapshot { clocks { clock_id: 6 timestamp: 5000000 }
               clocks { clock_id: 64 timestamp: 2000 is_incremental: true unit_multiplier_ns: 1000 } } }
           packet { trusted_packet_sequence_id: 7 timestamp: 3 battery { voltage_uv: 1000000 } }
           packet { trusted_packet_sequence_id: 7 timestamp: 4 battery { voltage_uv: 2000000 } }
           packet { trusted_packet_sequence_id: 8 timestamp: 4 timestamp_clock_id: 64
                    battery { voltage_uv: 3000000 } }"""
    )
    assert series(trace) == {"phone.battery.voltage": [(5_003_000, 1.0), (5_007_000, 2.0)]}
    assert dict(trace.ignored) == {"time on a clock that no snapshot ties to the others": 1}


def test_slices_have_names_threads_and_lengths() -> None:
    trace = made(
        """packet { trusted_packet_sequence_id: 1 sequence_flags: 1
             trace_packet_defaults { track_event_defaults { track_uuid: 11 } }
             interned_data { event_names { iid: 1 name: "forward" } }
             track_descriptor { uuid: 11 parent_uuid: 10 thread { pid: 5 tid: 6 } } }
           packet { track_descriptor { uuid: 10 process { pid: 5 } } }
           packet { track_descriptor { uuid: 12 parent_uuid: 10 name: "async" } }
           packet { trusted_packet_sequence_id: 1 timestamp: 100 sequence_flags: 2
                    track_event { type: TYPE_SLICE_BEGIN name: "step" } }
           packet { trusted_packet_sequence_id: 1 timestamp: 150 sequence_flags: 2
                    track_event { type: TYPE_SLICE_BEGIN name_iid: 1 } }
           packet { trusted_packet_sequence_id: 1 timestamp: 190 sequence_flags: 2
                    track_event { type: TYPE_SLICE_END } }
           packet { trusted_packet_sequence_id: 1 timestamp: 160 sequence_flags: 2
                    track_event { track_uuid: 12 type: TYPE_SLICE_BEGIN name: "load" } }
           packet { trusted_packet_sequence_id: 1 timestamp: 170 track_event { type: TYPE_INSTANT } }
           packet { trusted_packet_sequence_id: 1 timestamp: 400 track_event { type: TYPE_SLICE_END } }
           packet { trusted_packet_sequence_id: 1 timestamp: 500 track_event { track_uuid: 12
                    type: TYPE_SLICE_END } }
           packet { trusted_packet_sequence_id: 1 timestamp: 600 track_event { type: TYPE_SLICE_END } }
           packet { trusted_packet_sequence_id: 1 timestamp: 700 track_event {
                    type: TYPE_SLICE_BEGIN name: "open" } }"""
    )
    found = slices(trace)
    assert found[:2] == [("step", 100, 300, 6, 5), ("forward", 150, 40, 6, 5)]
    assert (found[2][:3], found[2][4]) == (("load", 160, 340), 5)
    assert found[2][3] >= 1 << 32  # no thread's: a number of its own
    assert dict(trace.ignored) == {
        "instant of a track": 1,
        "end of a slice that began before the trace": 1,
        "begin of a slice that did not end within the trace": 1,
    }


def test_packets_behind_a_loss_are_left_out_until_the_names_are_told_again() -> None:
    event = (
        "packet { trusted_packet_sequence_id: 3 timestamp: %d sequence_flags: 2 track_event {"
        " name_iid: 1 legacy_event { phase: 88 duration_us: 2 } } }"
    )
    names = (
        "packet { trusted_packet_sequence_id: 3 sequence_flags: 1 %s"
        ' interned_data { event_names { iid: 1 name: "%s" } } }'
    )
    lost = "packet { trusted_packet_sequence_id: 3 previous_packet_dropped: 1 }"
    trace = made(
        "\n".join(
            [event % 1, names % ("", "a"), event % 2, lost, event % 3,
             names % ("previous_packet_dropped: 1", "b"), event % 4]
        )
    )  # fmt: skip
    assert [(name, start, length) for name, start, length, _, _ in slices(trace)] == [
        ("a", 2, 2000), ("b", 4, 2000),
    ]  # fmt: skip
    assert trace.ignored["packet whose names were lost"] == 2


def test_counters_of_tracks_have_their_unit() -> None:
    trace = made(
        """packet { track_descriptor { uuid: 1 name: "heap" counter { unit: UNIT_SIZE_BYTES
                      unit_multiplier: 1024 } } }
           packet { track_descriptor { uuid: 2 name: "frames" counter { unit: UNIT_COUNT
                      is_incremental: true } } }
           packet { timestamp: 1 track_event { track_uuid: 1 type: TYPE_COUNTER counter_value: 3 } }
           packet { timestamp: 2 track_event { track_uuid: 2 type: TYPE_COUNTER counter_value: 5 } }
           packet { timestamp: 3 track_event { track_uuid: 2 type: TYPE_COUNTER
                      double_counter_value: 1.5 extra_counter_track_uuids: 1
                      extra_counter_values: 4 } }
           packet { timestamp: 4 track_event { track_uuid: 1 type: TYPE_COUNTER } }"""
    )
    assert series(trace) == {
        "trace.heap": [(1, 3072.0), (3, 4096.0)], "trace.frames": [(2, 5.0), (3, 6.5)]
    }  # fmt: skip
    assert (channel(trace, "trace.heap").unit, channel(trace, "trace.frames").unit) == (
        "B",
        "events",
    )
    assert dict(trace.ignored) == {"counter without a value": 1}


def test_switches_of_threads_are_the_busy_time_of_each_core() -> None:
    switch = "event { timestamp: %d pid: 1 sched_switch { next_pid: %d } }"
    # Core 0 runs thread 9 from 100 to 400, nothing to 1000, thread 8 to 1500.
    events = " ".join(switch % pair for pair in ((100, 9), (400, 0), (1000, 8), (1500, 0)))
    trace = made(
        f"""packet {{ ftrace_events {{ cpu: 0 {events} event {{ timestamp: 1 pid: 2
              cpu_idle {{ state: 1 }} }} }} }}
            packet {{ ftrace_events {{ cpu: 3 lost_events: true compact_sched {{
              switch_timestamp: 50 switch_timestamp: 25 switch_next_pid: 7 switch_next_pid: 0
              switch_next_prio: 1 switch_next_prio: 1 waking_timestamp: 1 waking_pid: 7 }} }} }}
            packet {{ ftrace_events {{ cpu: 3 event {{ timestamp: 60 cpu_frequency {{
              state: 1800000 cpu_id: 2 }} }} }} }}"""
    )
    found = series(trace)
    times, busy_s = zip(*found["cpu0.busy_time"], strict=True)
    assert times == (100, 400, 1000, 1500)
    assert busy_s == pytest.approx([0.0, 300e-9, 300e-9, 800e-9])
    assert found["cpu3.busy_time"] == [(50, 0.0), (75, pytest.approx(25e-9))]
    assert found["cpu2.frequency"] == [(60, 1.8e9)]
    assert channel(trace, "cpu2.frequency").core == 2
    assert dict(trace.ignored) == {
        "event of ftrace: cpu_idle": 1,
        "event of ftrace: sched_waking": 1,
    }
    assert any("lost events 1 times" in note for note in trace.notes)


def test_the_clock_of_a_gpu_is_told_at_its_changes() -> None:
    trace = made(
        """
        packet { trusted_packet_sequence_id: 1 ftrace_events { cpu: 0
          event { timestamp: 1000 gpu_frequency { gpu_id: 0 state: 585000 } }
          event { timestamp: 3000 gpu_frequency { gpu_id: 0 state: 250000 } }
        } }
        """
    )
    assert series(trace) == {"gpu0.frequency": [(1000, 585e6), (3000, 250e6)]}
    assert channel(trace, "gpu0.frequency").unit == "Hz"


@pytest.mark.parametrize("interned", [True, False])
def test_stages_of_a_gpu_are_work_on_its_queues(interned: bool) -> None:
    names = (
        """interned_data {
             gpu_specifications { iid: 7 name: "conv" } gpu_specifications { iid: 8 name: "gemm" } }"""
        if interned
        else ""
    )
    described = """gpu_render_stage_event { specifications {
             stage { name: "conv" } stage { name: "gemm" } } }"""
    first, second = ("stage_iid: 7", "stage_iid: 8") if interned else ("stage_id: 0", "stage_id: 1")
    trace = made(
        f"""
        packet {{ trusted_packet_sequence_id: 1 sequence_flags: 1 timestamp: 1 {names or described} }}
        packet {{ trusted_packet_sequence_id: 1 sequence_flags: 2 timestamp: 1000
          gpu_render_stage_event {{ event_id: 1 duration: 500 {first} hw_queue_id: 3 }} }}
        packet {{ trusted_packet_sequence_id: 1 sequence_flags: 2 timestamp: 2000
          gpu_render_stage_event {{ event_id: 2 duration: 250 {second} hw_queue_id: 3 gpu_id: 1 }} }}
        """
    )
    events = trace.events
    assert events is not None
    told = [
        (trace.names[name], trace.names[category], trace.names[processor], int(thread), int(end - start))
        for name, category, processor, thread, start, end in zip(
            events.name, events.category, events.processor, events.thread, events.start_ns,
            events.end_ns, strict=True,
        )
    ]  # fmt: skip
    assert told == [("conv", "kernel", "gpu0", 3, 500), ("gemm", "kernel", "gpu1", 3, 250)]


def test_slices_that_programs_print_are_paired_by_thread() -> None:
    prints = (
        (10, 6, "B|5|draw"),
        (20, 7, "B|5|load"),
        (30, 6, "E"),
        (50, 7, "E|5"),
        (60, 6, "hello"),
    )
    events = " ".join(
        f'event {{ timestamp: {at} pid: {thread} print {{ buf: "{text}\\n" }} }}'
        for at, thread, text in prints
    )
    trace = made(f"packet {{ ftrace_events {{ cpu: 0 {events} }} }}")
    assert slices(trace) == [("draw", 10, 20, 6, 5), ("load", 20, 30, 7, 5)]
    assert dict(trace.ignored) == {"event of ftrace: print": 1}


def test_events_on_another_clock_of_ftrace_are_brought_to_that_of_boot() -> None:
    trace = made(
        """packet { ftrace_events { cpu: 1 ftrace_clock: FTRACE_CLOCK_GLOBAL ftrace_timestamp: 1000
             boot_timestamp: 6000 event { timestamp: 1200 cpu_frequency { state: 1 cpu_id: 1 } } } }"""
    )
    assert series(trace) == {"cpu1.frequency": [(6200, 1000.0)]}


def test_names_that_are_no_utf_8_are_kept_as_far_as_they_can_be_read() -> None:
    data = binary(
        """packet { timestamp: 1 power_rails { rail_descriptor { index: 1 rail_name: "CPU_xy" }
                    energy_data { index: 1 energy: 4 } } }"""
    )
    assert list(series(parse(data.replace(b"xy", b"x\xff")))) == ["phone.CPU_x\ufffd.energy"]


def test_packets_of_other_kinds_are_counted_by_kind() -> None:
    trace = made(
        """packet { timestamp: 1 sys_stats { num_forks: 3 } } packet { timestamp: 2 sys_stats { } }
           packet { trusted_uid: 1 } packet { timestamp: 3 process_tree { } }
           packet { zstd_compressed_packets: "x" } packet { compressed_packets: "no deflate" }"""
    )
    assert dict(trace.ignored) == {
        "packet of kind sys_stats": 2,
        "packet of kind process_tree": 1,
        "packet without contents": 1,
        "packets packed by zstd: record with compression_type DEFLATE": 1,
        "packed packets that cannot be unpacked": 1,
    }
    assert any("no slices, counters" in note for note in trace.notes)


def test_half_a_trace_is_read_up_to_where_it_is_cut(tmp_path: Path) -> None:
    packets = "".join(
        f"packet {{ timestamp: {at} battery {{ voltage_uv: {at}000000 }} }}"
        for at in range(1, 2001)
    )
    data = binary(packets)
    cut = tmp_path / "cut.gz"
    # Packed, a cut file loses what its last block holds, too.
    cut.write_bytes(gzip.compress(data)[:-2000])
    for found in (parse(data[:-3]), read(cut)):
        values = series(found)["phone.battery.voltage"]
        assert values == [(at, float(at)) for at in range(1, len(values) + 1)]
        assert found.ignored == {"packet that is cut": 1}
        assert saying(found.notes, "cut behind byte")
    assert len(series(parse(data[:-3]))["phone.battery.voltage"]) == 1999


def test_what_follows_damage_is_left_out_with_a_note() -> None:
    good = binary("packet { timestamp: 1 battery { voltage_uv: 5 } }")
    found = parse(good + b"\x0a\x02\xff\xff" + good + b"\x07\x07" + good)
    assert found.ignored == {
        "packet that cannot be read": 1, "rest of a damaged file": 1, SECOND_VALUE: 1
    }  # fmt: skip
    assert any(note.startswith("damaged: byte") for note in found.notes)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "an empty file"),
        (b'{"traceEvents": []}', "JSON"),
        (b"<html><body>", "a page of HTML"),
        (b"\nNOTICE: Existing SQLite export found\nStart (ns),Duration (ns)\n", "CSV of nsys"),
        (b"\x0a\x05abc", "5 bytes were"),
        (b"packet { timestamp: one }", "line 1 is no Perfetto"),
        (b"packet {\n no_such_field: 1 }", "line 2 is no Perfetto"),
        (b"\x1f\x8b\x08" + bytes(3), "cut or damaged"),
    ],
)
def test_what_is_wrong_is_said(data: bytes, said: str) -> None:
    with pytest.raises(InvalidValueError, match=said):
        parse(data)


def test_a_packet_that_would_unpack_without_end_is_refused() -> None:
    with pytest.raises(FormatError, match=r"a packet of \d+ B"):
        parse(b"\x0a\xff\xff\xff\xff\x7f")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with refused("unreadable-file", "trace.pftrace"):
        read(tmp_path / "trace.pftrace")


@settings(max_examples=EXAMPLES)
@given(
    st.sampled_from(range(len(RECORDED))),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), st.binary(max_size=5)), max_size=5),
    st.binary(max_size=30),
)
def test_any_damage_gives_a_trace_or_a_clear_error(
    which: int, damage: list[tuple[int, int, bytes]], tail: bytes
) -> None:
    data = bytearray(SERIALIZED[which])
    for at, length, put in damage:
        data[at : at + length] = put
    try:
        trace = parse(bytes(data) + tail)
    except InvalidValueError:
        return
    if trace.counters is not None:
        assert all((np.diff(t_ns) > 0).all() for t_ns in trace.counters.t_ns.values())
    if trace.events is not None:
        assert (trace.events.start_ns <= trace.events.end_ns).all()


NUMBER = st.one_of(st.integers(0, 50), st.sampled_from([2**31 - 1, 2**62 - 1, 2**62, 2**64 - 1]))


@settings(max_examples=EXAMPLES)
@given(
    st.lists(st.tuples(st.sampled_from(range(6)), NUMBER, NUMBER, st.integers(0, 130)), max_size=12)
)
def test_any_packets_give_series_in_order_and_whole_events(
    parts: list[tuple[int, int, int, int]],
) -> None:
    trace = protos.Trace()
    for kind, time, value, clock in parts:
        packet = trace.packet.add(timestamp=time, trusted_packet_sequence_id=value % 2**32)
        packet.timestamp_clock_id = clock
        if kind == 0:
            packet.power_rails.energy_data.add(index=clock, energy=value, timestamp_ms=time)
        elif kind == 1:
            packet.battery.voltage_uv = value % 2**63
        elif kind == 2:
            for number in (clock, 6, 64):
                packet.clock_snapshot.clocks.add(
                    clock_id=number, timestamp=time, is_incremental=number == 64,
                    unit_multiplier_ns=value,
                )  # fmt: skip
        elif kind == 3:
            packet.track_event.type = 1 + value % 2
            packet.track_event.name = "a"
        elif kind == 4:
            packet.track_event.legacy_event.phase = 88
            packet.track_event.legacy_event.duration_us = value % 2**63
        else:
            event = packet.ftrace_events.event.add(timestamp=time, pid=1)
            event.sched_switch.next_pid = value % 2**31
    if not parts:
        return
    found = parse(trace.SerializeToString())
    if found.counters is not None:
        assert all((np.diff(t_ns) > 0).all() for t_ns in found.counters.t_ns.values())
    if found.events is not None:
        assert (found.events.start_ns <= found.events.end_ns).all()


SERIALIZED = tuple(binary(path.read_text()) for path in RECORDED)
