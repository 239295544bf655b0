"""What is made of other people's traces, beside sums over their JSON by plain Python."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.importing.kineto_by_hand import rows_of, table, trace_of

from wattstep.importing.operations import SHADOW, WAIT, TraceTables, tables_of

TRACES = Path(__file__).parents[1] / "fixtures" / "traces"
AMD = "kineto_amd_mi250_minitoy_train_rocm62.json.gz"
CUDA = "kineto_gpu_sampled_rank0.json.gz"
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
Row = dict[str, Any]


def events_of(name: str) -> list[Row]:
    """The intervals as the file has them, with begin and end in whole ns."""
    document = json.loads(gzip.decompress((TRACES / name).read_bytes()), parse_float=Decimal)
    found = []
    for event in document["traceEvents"]:
        if event.get("ph") == "X" and event["cat"] != "Trace":
            start = int(Decimal(event["ts"]) * 1000)
            found.append(
                {**event, "start": start, "end": start + int(Decimal(event["dur"]) * 1000)}
            )
    return found


def tables(name: str) -> TraceTables:
    return tables_of(trace_of(rows_of(TRACES / name)))


def launches(events: list[Row]) -> dict[int, Row]:
    """Calls of the runtime by correlation."""
    return {
        event["args"]["correlation"]: event
        for event in events
        if event["cat"] in ("cuda_runtime", "cuda_driver")
    }


@pytest.mark.parametrize("path", sorted(TRACES.glob("kineto_*.json.gz")), ids=lambda p: p.name[:-8])
def test_no_event_is_lost_and_times_add_up(path: Path) -> None:
    events = events_of(path.name)
    made = tables(path.name)
    rows = table(made)
    left = sum(one.events for one in made.left_out.values())
    assert made.events == len(events) == len(rows) + made.marks + left
    lasted = sum(row["end_ns"] - row["start_ns"] for row in rows)
    gone = sum(one.total_s for one in made.left_out.values())
    marks = int((made.steps["end_ns"] - made.steps["start_ns"]).sum()) * (not made.whole)
    total = sum(event["end"] - event["start"] for event in events)
    assert lasted + marks + gone * 1e9 == pytest.approx(total, abs=10)


@pytest.mark.parametrize("path", sorted(TRACES.glob("kineto_*.json.gz")), ids=lambda p: p.name[:-8])
def test_own_times_of_a_thread_are_the_time_that_anything_ran_on_it(path: Path) -> None:
    threads: dict[int, list[Row]] = defaultdict(list)
    for row in table(tables(path.name)):
        if row["processor"] == "cpu":
            threads[row["thread"]].append(row)
    assert threads
    for rows in threads.values():
        covered, reach = 0, 0
        for row in sorted(rows, key=lambda one: one["start_ns"]):
            covered += max(0, row["end_ns"] - max(reach, row["start_ns"]))
            reach = max(reach, row["end_ns"])
        assert sum(row["self_ns"] for row in rows) == covered


@pytest.mark.parametrize("path", sorted(TRACES.glob("kineto_*.json.gz")), ids=lambda p: p.name[:-8])
def test_time_of_every_kernel_is_that_of_the_file(path: Path) -> None:
    expected: dict[str, list[int]] = defaultdict(list)
    for event in events_of(path.name):
        if event["cat"] in ON_GPU:
            expected[event["name"]].append(event["end"] - event["start"])
    found: dict[str, list[int]] = defaultdict(list)
    for row in table(tables(path.name)):
        if row["processor"] != "cpu":
            found[row["name"]].append(row["self_ns"])
    assert {name: sorted(times) for name, times in found.items()} == {
        name: sorted(times) for name, times in expected.items()
    }


def test_the_amd_training_is_one_step_whose_gpu_time_splits_by_phase() -> None:
    # Its second mark is opened when the recording ends: 49 µs without an operation.
    events = events_of(AMD)
    calls = launches(events)
    (optimizer,) = (
        event
        for event in events
        if event["name"].startswith("Optimizer.step") and event["cat"] == "user_annotation"
    )
    expected: dict[str, int] = defaultdict(int)
    for event in events:
        if event["cat"] not in ON_GPU:
            continue
        call = calls[event["args"]["correlation"]]
        if call["tid"] != call["pid"]:  # the engine of the backward pass has a thread of its own
            phase = "backward"
        elif optimizer["start"] <= call["start"] < optimizer["end"]:
            phase = "optimizer"
        else:
            phase = "forward"
        expected[phase] += event["end"] - event["start"]
    made = tables(AMD)
    found: dict[str, int] = defaultdict(int)
    for row in table(made):
        if row["processor"] != "cpu":
            found[row["phase"]] += row["end_ns"] - row["start_ns"]
    assert found == expected == {"forward": 92_081, "backward": 48_480, "optimizer": 8_481}
    assert made.steps["index"].tolist() == [1]
    assert made.steps["mark_name"].to_pylist() == [["forward", "backward", "optimizer"]]
    assert made.left_out[SHADOW].events == 2
    assert int((made.busy["gpu2"][:, 1] - made.busy["gpu2"][:, 0]).sum()) == 149_042


def test_gpu_time_of_the_cuda_training_by_step_is_that_of_what_each_step_launched() -> None:
    events = events_of(CUDA)
    calls = launches(events)
    steps = sorted(
        (event for event in events if event["name"].startswith("ProfilerStep#")),
        key=lambda event: event["start"],
    )
    expected: dict[int, int] = defaultdict(int)
    for event in events:
        if event["cat"] in ON_GPU:
            launched = calls[event["args"]["correlation"]]["start"]
            (step,) = (one for one in steps if one["start"] <= launched < one["end"])
            expected[int(step["name"].partition("#")[2])] += event["end"] - event["start"]
    found: dict[int, int] = defaultdict(int)
    for row in table(tables(CUDA)):
        if row["processor"] != "cpu":
            found[row["step"]] += row["end_ns"] - row["start_ns"]
    assert found == expected
    assert set(found) == {551, 552}


def test_operations_under_the_annotations_of_the_cuda_training_have_their_phase() -> None:
    events = events_of(CUDA)
    spans = {
        event["start"]: (event["end"], event["tid"], event["name"].strip("# "))
        for event in events
        if event["name"]
        in ("## forward ##", "## backward ##", "## optimizer ##", "## data_load ##")
    }
    assert len(spans) == 8
    seen = 0
    for row in table(tables(CUDA)):
        for start, (end, thread, name) in spans.items():
            if row["thread"] == thread and start <= row["start_ns"] and row["end_ns"] <= end:
                assert row["phase"] == name.replace("data_load", "data")
                seen += 1
    assert seen > 1000


def test_waits_of_the_driver_are_counted_beside_the_work() -> None:
    made = tables("kineto_gpu_simple_add.json.gz")
    waits = [
        event for event in events_of("kineto_gpu_simple_add.json.gz") if event["cat"] == "cuda_sync"
    ]
    assert made.left_out[WAIT].events == len(waits) == 41
    assert made.left_out[WAIT].total_s * 1e9 == pytest.approx(
        sum(event["end"] - event["start"] for event in waits)
    )
