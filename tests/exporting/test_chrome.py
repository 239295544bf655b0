"""A Chrome trace is valid JSON whatever the names, and reads back as what the run holds."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.exporting.made import (
    AHEAD,
    BEGIN,
    FORMULA,
    HTML,
    LONG,
    MS,
    OPERATIONS,
    POWER,
    SAMPLES,
    write_made,
)  # fmt: skip

from wattstep.formats.kineto import read as import_trace
from wattstep.importing.importer import ImportSettings, import_run
from wattstep.report.export.export import export_run
from wattstep.run import load


def exported(run: Path, name: str = "out.json") -> dict[str, Any]:
    target = run.parent / name
    export_run(run, "chrome", target)
    data = target.read_bytes()
    text = gzip.decompress(data) if name.endswith(".gz") else data

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    document: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return document


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return exported(write_made(tmp_path_factory.mktemp("made") / "run"))


def events(trace: dict[str, Any], phase: str, **like: Any) -> list[dict[str, Any]]:
    return [
        event
        for event in trace["traceEvents"]
        if event["ph"] == phase and all(event.get(key) == value for key, value in like.items())
    ]


def test_every_operation_is_a_complete_event_with_three_decimals_of_a_microsecond(
    trace: dict[str, Any],
) -> None:
    (conv,) = events(trace, "X", name="aten::conv2d")
    assert (conv["ts"], conv["dur"], conv["cat"]) == (1000.123, 400.333, "cpu_op")
    assert conv["args"]["Input Dims"] == [[8, 3], [64]]
    assert conv["args"] | {"layer": "features.0", "phase": "forward", "step": 1} == conv["args"]
    found = {event["name"] for event in events(trace, "X")}
    assert {one.name for one in OPERATIONS} - {LONG} <= found
    assert len(events(trace, "X", cat="cpu_op")) == 6
    assert "flops" not in events(trace, "X", name=FORMULA)[0]["args"]


def test_work_on_a_gpu_is_of_its_process_and_an_arrow_leads_to_it(trace: dict[str, Any]) -> None:
    kernels = events(trace, "X", cat="kernel")
    assert [(kernel["pid"], kernel["tid"]) for kernel in kernels] == [(0, 7), (0, 7)]
    (launch,) = events(trace, "X", name="cudaLaunchKernel")
    starts, ends = events(trace, "s"), events(trace, "f")
    assert [event["ts"] for event in starts] == [launch["ts"]] * 2
    assert [event["ts"] for event in ends] == [kernel["ts"] for kernel in kernels]
    assert [event["id"] for event in starts] == [event["id"] for event in ends]


def test_steps_are_called_as_the_profiler_calls_them(trace: dict[str, Any]) -> None:
    steps = events(trace, "X", cat="user_annotation")
    assert [step["name"] for step in steps] == [f"ProfilerStep#{n}" for n in range(4)]
    assert "loss" not in steps[1]["args"]


def test_values_are_counters_with_their_unit_and_gaps_are_left_out(trace: dict[str, Any]) -> None:
    power = events(trace, "C", name="board.power")
    assert [(event["ts"], event["args"]) for event in power] == [
        (0.0, {"W": 5.0}), (1000.0, {"W": 5.5}), (4000.0, {"W": 6.25}), (5000.0, {"W": 7.0}),
    ]  # fmt: skip
    (gap,) = events(trace, "X", cat="gap")
    assert (gap["ts"], gap["dur"]) == (1000.0, 3000.0)
    assert events(trace, "C", name="gpu.temperature (modelled)")


def test_infinite_values_are_gaps(tmp_path: Path) -> None:
    samples = {POWER: [1.0, math.inf, -math.inf, 2.0]}
    trace = exported(write_made(tmp_path / "run", (), samples))
    assert [event["args"]["W"] for event in events(trace, "C", name="board.power")] == [1.0, 2.0]


def test_tracks_have_names_and_the_trace_says_what_wrote_it(trace: dict[str, Any]) -> None:
    found = {event["args"]["name"] for event in events(trace, "M")}
    assert {"steps", "phases", "thread 1", "gpu0 stream 7", f"training: {HTML}"} <= found
    assert trace["otherData"]["wattstep"] == "0.1.0"
    assert trace["baseTimeNanoseconds"] == BEGIN + AHEAD


def test_no_name_holds_a_control_character(trace: dict[str, Any]) -> None:
    text = json.dumps(trace, ensure_ascii=False)
    assert "\\u00" not in text
    assert "\u202e" not in text
    assert LONG not in text


def test_a_packed_trace_is_the_same(trace: dict[str, Any], tmp_path: Path) -> None:
    packed = exported(write_made(tmp_path / "run"), "out.json.gz")
    assert packed["traceEvents"] == trace["traceEvents"]


def test_our_importer_finds_times_categories_shapes_and_values_again(tmp_path: Path) -> None:
    export_run(write_made(tmp_path / "run"), "chrome", tmp_path / "out.json")
    found = import_trace(tmp_path / "out.json")
    events_found = found.events
    assert events_found is not None
    assert found.counters is not None
    assert found.clock == "wall"
    rows = {
        found.names[name]: (found.names[category], int(start), int(end))
        for name, category, start, end in zip(
            events_found.name, events_found.category, events_found.start_ns, events_found.end_ns,
            strict=True,
        )
    }  # fmt: skip
    first = BEGIN + AHEAD
    assert rows["aten::conv2d"] == ("operation", first + 1_000_123, first + 1_400_456)
    assert rows["ProfilerStep#3"][0] == "step"
    assert rows["gemm"][0] == "kernel"
    power = next(name for name in found.counters.value if "board.power" in name)
    assert found.counters.value[power].tolist() == [v for v in SAMPLES[POWER] if v is not None]


def test_a_run_of_it_has_the_operations_of_the_run(tmp_path: Path) -> None:
    export_run(write_made(tmp_path / "run"), "chrome", tmp_path / "out.json")
    settings = ImportSettings(trace=tmp_path / "out.json")
    import_run(settings, tmp_path / "again", lambda stage, share: None)
    rows = load(tmp_path / "again").tables.table("operations").to_pylist()
    conv = next(row for row in rows if row["name"] == "aten::conv2d")
    assert (conv["step"], conv["end_ns"] - conv["start_ns"]) == (1, 400_333)
    assert conv["flops"] == 10
    assert sorted(r["end_ns"] - r["start_ns"] for r in rows if r["name"] == "gemm") == [300_001, 350_000]  # fmt: skip
    assert {row["step"] for row in rows if row["name"] in ("gemm", HTML)} == {1}
    assert max(row["end_ns"] for row in rows) - min(row["start_ns"] for row in rows) < 5 * MS
