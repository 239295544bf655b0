"""A Perfetto trace holds what the run holds: read by Perfetto's own schema, and by our importer."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.exporting.made import (
    AHEAD,
    BEGIN,
    BUSY,
    FORMULA,
    HTML,
    LONG,
    MS,
    OPERATIONS,
    Did,
    write_made,
)  # fmt: skip
from tests.exporting.schema import Read, read
from tests.wording import assert_says

from wattstep.formats.perfetto_trace import read as import_trace
from wattstep.report.export.export import export_run
from wattstep.schema.channel import Channel
from wattstep.schema.sanitize import harmless

BESIDE = ("steps", "phases", "layers", "between steps", "conditions")


def exported(run: Path, name: str = "out.perfetto-trace") -> Read:
    target = run.parent / name
    export_run(run, "perfetto", target)
    return read(target)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Read:
    return exported(write_made(tmp_path_factory.mktemp("made") / "run"))


def operations(trace: Read) -> list[tuple[str, int, int]]:
    return sorted(
        (one.name, one.start, one.end)
        for one in trace.slices
        if one.track not in BESIDE and "gaps" not in one.track
    )


def test_every_operation_is_a_slice_with_its_times_to_the_nanosecond(trace: Read) -> None:
    expected = [(one.name, BEGIN + one.start, BEGIN + one.end) for one in OPERATIONS]
    short = [(name if name != LONG else None, start, end) for name, start, end in expected]
    found = [(n if not n.startswith("xxx") else None, s, e) for n, s, e in operations(trace)]
    assert sorted(short, key=str) == sorted(found, key=str)


def test_operations_nest_as_they_did(trace: Read) -> None:
    conv, pad = (
        next(o for o in trace.slices if o.name == n) for n in ("aten::conv2d", "aten::pad")
    )
    names = [one.name for one in trace.of("thread 1")]
    assert names[:3] == ["aten::conv2d", "aten::pad", "cudaLaunchKernel"]  # the outer one first
    assert conv.start == pad.start < pad.end < conv.end


def test_what_only_overlaps_stands_on_a_track_beside(trace: Read) -> None:
    assert [one.name for one in trace.of("thread 1, beside")] == [FORMULA]
    beside = trace.tracks[trace.uuid("thread 1, beside")]
    assert beside.parent_uuid == trace.uuid("thread 1")


def test_an_operation_tells_kind_layer_phase_shapes_step_and_what_it_counted(trace: Read) -> None:
    conv = next(one for one in trace.slices if one.name == "aten::conv2d")
    assert conv.categories == ["convolution"]
    assert conv.arguments == {
        "layer": "features.0", "phase": "forward", "shapes": "8x3;64", "step": 1, "flops": 10,
        "allocated": 0, "self_ns": 400_333,
    }  # fmt: skip
    without = next(one for one in trace.slices if one.name == FORMULA)
    assert "flops" not in without.arguments  # not counted is not 0


def test_an_arrow_leads_from_the_launch_to_each_kernel(trace: Read) -> None:
    launch = next(one for one in trace.slices if one.name == "cudaLaunchKernel")
    kernels = trace.of("gpu0 stream 7")
    assert len(launch.leaving) == 2
    assert sorted(launch.leaving) == sorted(flow for one in kernels for flow in one.ending)


def test_steps_say_samples_loss_and_what_sets_them_apart(trace: Read) -> None:
    steps = trace.of("steps")
    assert [one.name for one in steps] == ["step 0", "step 1", "step 2", "step 3"]
    assert [one.categories for one in steps] == [["warmup"], ["traced"], ["traced"], ["clean"]]
    assert steps[0].arguments["loss"] == 2.0
    assert "loss" not in steps[1].arguments
    assert all(one.arguments["samples"] == 4.0 for one in steps)


def test_phases_reach_to_the_next_mark_and_layers_to_their_end(trace: Read) -> None:
    lengths = [(one.name, one.length) for one in trace.of("phases")[:2]]
    assert lengths == [("forward", 500_000), ("backward", 499_990)]
    assert [one.length for one in trace.of("layers")] == [399_990] * 4
    assert [one.name for one in trace.of("between steps")] == ["tracing", "evaluation"]


def test_values_of_gauges_are_those_recorded_and_a_failed_read_is_a_gap(trace: Read) -> None:
    assert trace.values["board.power"] == [
        (BEGIN, 5.0), (BEGIN + MS, 5.5), (BEGIN + 4 * MS, 6.25), (BEGIN + 5 * MS, 7.0),
    ]  # fmt: skip
    (gap,) = trace.of("board.power: gaps")
    assert gap.name == "gap: Input/output error"
    assert (gap.start, gap.end) == (BEGIN + MS, BEGIN + 4 * MS)
    assert gap.arguments == {"failed_reads": 2}


def test_a_counter_is_a_rate_from_the_earlier_read_on_and_says_so(trace: Read) -> None:
    values = trace.values["cpu0.busy_time, rate"]
    assert [t for t, _ in values] == [BEGIN + n * MS for n in range(5)]
    assert [v for _, v in values] == pytest.approx([0.5, 1.0, 0.0, 0.5, 1.0], abs=1e-6)
    told = trace.tracks[trace.uuid("cpu0.busy_time, rate")]
    assert told.counter.unit_name == "ratio"
    assert told.description.startswith("rate of")


def test_every_channel_has_its_unit_and_its_status(trace: Read) -> None:
    assert trace.tracks[trace.uuid("board.power")].counter.unit_name == "W"
    assert trace.tracks[trace.uuid("board.power")].description.startswith("measured: ina3221")
    assert trace.tracks[trace.uuid("gpu.temperature (modelled)")].counter.unit_name == "°C"


def test_the_trace_says_what_wrote_it_what_ran_and_what_is_missing(trace: Read) -> None:
    (told,) = trace.instants.values()
    assert told["wattstep"] == "0.1.0"
    assert_says(told["channels"], "2 channels measured", "1 channels modelled")
    assert "CLOCK_MONOTONIC" in told["clock"]
    assert told["missing: rapl"].startswith("hidden by")


def test_its_clock_is_monotonic_and_tied_to_the_wall_where_that_is_known(
    trace: Read, tmp_path: Path
) -> None:
    assert trace.primary == {3}
    assert trace.snapshots[0] == {3: BEGIN, 1: BEGIN + AHEAD}
    without = exported(write_made(tmp_path / "run", clocks=()))
    assert without.snapshots == [{3: BEGIN}]


def test_hostile_names_are_without_control_characters_and_of_bounded_length(trace: Read) -> None:
    texts = [one.name for one in trace.slices] + [t.name for t in trace.tracks.values()]
    texts += [str(v) for one in trace.slices for v in one.arguments.values()]
    assert HTML in texts  # text that no reader of a trace takes for more
    assert all(harmless(text) == text and len(text) < 1100 for text in texts)
    (long,) = (text for text in texts if text.startswith("xxx"))
    assert long.endswith("(10,000 characters, " + long[-9:])


def test_times_below_zero_are_moved_all_together_and_that_is_said(tmp_path: Path) -> None:
    run = write_made(tmp_path / "run", begin=-2 * MS, clocks=())
    found = export_run(run, "perfetto", tmp_path / "out")
    (note,) = found.written.notes
    assert_says(note, "2000000 ns")
    assert [one.start for one in read(tmp_path / "out").of("steps")] == [0, MS, 2 * MS, 3 * MS]


def test_a_packed_trace_is_the_same(trace: Read, tmp_path: Path) -> None:
    packed = exported(write_made(tmp_path / "run"), "out.perfetto-trace.gz")
    assert operations(packed) == operations(trace)


def test_our_importer_finds_the_operations_the_steps_and_the_values_again(tmp_path: Path) -> None:
    run = write_made(tmp_path / "run")
    export_run(run, "perfetto", tmp_path / "out")
    found = import_trace(tmp_path / "out")
    assert found.clock == "wall"
    assert found.events is not None
    assert found.counters is not None
    events = {
        (found.names[name], start - AHEAD, end - AHEAD)
        for name, start, end in zip(
            found.events.name, found.events.start_ns, found.events.end_ns, strict=True
        )
    }
    expected = {(o.name, BEGIN + o.start, BEGIN + o.end) for o in OPERATIONS if o.name != LONG}
    assert expected <= events
    assert ("step 3", BEGIN + 3 * MS, BEGIN + 4 * MS - 10) in events
    power = "trace.board.power"
    assert (found.counters.t_ns[power] - AHEAD - BEGIN).tolist() == [0, MS, 4 * MS, 5 * MS]
    assert found.counters.value[power].tolist() == [5.0, 5.5, 6.25, 7.0]


names = st.text(max_size=8)


@st.composite
def did(draw: st.DrawFn) -> Did:
    start = draw(st.integers(0, 60))
    processor = draw(st.sampled_from(["cpu", "gpu0", "npu"]))
    return Did(
        name=draw(names), start=start, end=start + draw(st.integers(0, 30)),
        step=draw(st.integers(1, 3)), thread=draw(st.sampled_from([0, 1, 2, 1 << 40])),
        processor=processor, kind=draw(names), layer=draw(names), phase=draw(names),
        flops=draw(st.none() | st.integers(-1, (1 << 62) - 1)),
        launch=draw(st.none() | st.integers(-2, 40)),
    )  # fmt: skip


# What is closer to 0 than 1e-30 counts as 0, and what is beyond 1e50 was not recorded.
floats = st.floats(-1e49, 1e49).map(lambda value: value if abs(value) >= 1e-30 else 0.0)
infinite = st.sampled_from([math.inf, -math.inf])
values = st.lists(st.none() | floats | infinite, max_size=12)


@settings(max_examples=40)
@given(st.lists(did(), max_size=40), values)
def test_whatever_ran_and_was_sampled_each_row_is_a_slice_and_each_value_a_value(
    operations_made: list[Did], sampled: list[float | None]
) -> None:
    gauge = Channel(name="g", unit="V", kind="gauge", domain="soc", role="unknown", source="made")
    with tempfile.TemporaryDirectory() as folder:
        run = write_made(Path(folder) / "run", operations_made, {gauge: sampled})
        trace = exported(run)
        rows = pq.read_table(run / "operations.parquet").to_pylist()
    expected = Counter((harmless(r["name"] or ""), r["start_ns"], r["end_ns"]) for r in rows)
    assert Counter(operations(trace)) == expected
    total: Counter[str] = Counter()
    for name, start, end in operations(trace):
        total[name] += end - start
    table: Counter[str] = Counter()
    for row in rows:
        table[harmless(row["name"] or "")] += row["end_ns"] - row["start_ns"]
    assert total == table
    finite = [
        (BEGIN + n * MS, v) for n, v in enumerate(sampled) if v is not None and abs(v) < 1e999
    ]
    assert trace.values.get("g", []) == finite
    leaving = Counter(flow for one in trace.slices for flow in one.leaving)
    assert leaving == Counter(flow for one in trace.slices for flow in one.ending)
    assert set(leaving.values()) <= {1}


def test_power_that_a_run_was_asked_to_model_is_named_so(tmp_path: Path) -> None:
    model = {
        "name": "linear",
        "source": "asked",
        "idle_watts_a_core": 1.0,
        "busy_watts_a_core": 3.0,
    }
    own = replace(
        BUSY, name="process.cpu_time", role="process_cpu_time", domain="process", core=None
    )
    # The core is busy for half of the time, a fifth of it with the training.
    half_busy = {BUSY: [n * 0.0005 for n in range(6)], own: [n * 0.0001 for n in range(6)]}
    trace = exported(write_made(tmp_path / "run", (), half_busy, power_model=model))
    assert "power" not in trace.values
    assert [v for _, v in trace.values["power (modelled)"]] == pytest.approx([0.3] * 5)
    assert [v for _, v in trace.values["machine power (modelled)"]] == pytest.approx([2.0] * 5)
