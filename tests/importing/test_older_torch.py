"""A trace as torch 1.10 writes it tells as much as a later one's, by import and by the agent alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tests.importing.kineto_by_hand import table, trace_of

from wattstep.importing.importer import ImportSettings, import_run
from wattstep.importing.older_torch import mended
from wattstep.importing.operations import tables_of
from wattstep.remote.agent.traces import read_trace_window

ENGINE = "autograd::engine::evaluate_function: "
BEGIN_US = 1_700_000_000_000_000  # of the step, since 1970
AHEAD_NS = 7_000_000_000  # monotonic time of that
FORWARD, BACKWARD = 1, 2  # threads


def operation(name: str, start: int, end: int, thread: int = FORWARD, **arguments: Any) -> Any:
    """An event as torch 1.10 has it: whole µs, and all but kernels of one category."""
    return {
        "ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": thread,
        "ts": BEGIN_US + start, "dur": end - start, "args": arguments,
    }  # fmt: skip


def numbered(sequence: int) -> dict[str, int]:
    return {"Sequence number": sequence, "Fwd thread id": 1}


EVENTS = [
    operation("ProfilerStep#5", 0, 1000),
    operation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10, 90),
    operation("aten::stack", 20, 60),
    operation("wattstep.layer:body.0", 100, 300),
    operation("aten::linear", 110, 290, **{"Sequence number": 3}),
    operation("aten::addmm", 120, 280, **{"Sequence number": 3}),
    # The engine's own event has no number: the node inside has it.
    operation(f"{ENGINE}AddmmBackward0", 400, 600, BACKWARD),
    operation("AddmmBackward0", 410, 590, BACKWARD, **numbered(3)),
    operation("aten::mm", 420, 580, BACKWARD),
    operation(f"{ENGINE}torch::autograd::AccumulateGrad", 610, 640, BACKWARD),
    operation("torch::autograd::AccumulateGrad", 615, 635, BACKWARD),
    operation("Optimizer.step#SGD.step", 700, 900),
    operation("aten::add_", 710, 890),
]  # fmt: skip
# Marks of the agent's clock, before the step: told 10 µs apart.
MARKS = [
    operation(f"wattstep.clock#{AHEAD_NS - 50_000}", -45, -44),
    operation(f"wattstep.clock#{AHEAD_NS - 40_000}", -40, -39),
]


def written(path: Path, *events: Any) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": list(events)}))
    return path


TOLD = ("name", "kind", "layer", "phase", "step", "thread", "self_ns", "outermost", "parent")


def by_import(path: Path, out: Path) -> list[dict[str, Any]]:
    run = import_run(ImportSettings(trace=path), out)
    columns = [*TOLD, "start_ns", "end_ns"]
    rows: list[dict[str, Any]] = pq.read_table(
        run / "operations.parquet", columns=columns
    ).to_pylist()
    return rows


def test_a_trace_of_torch_1_10_gives_the_same_run_by_import_as_by_the_agent(
    tmp_path: Path,
) -> None:
    imported = by_import(written(tmp_path / "plain.json", *EVENTS), tmp_path / "run")
    window = read_trace_window(written(tmp_path / "marked.json", *MARKS, *EVENTS), 5, 0, ())
    (batch,) = window.batches
    recorded = [
        dict(zip(batch, values, strict=True))
        for values in zip(*(_plain(column) for column in batch.values()), strict=True)
    ]
    assert [{key: row[key] for key in TOLD} for row in imported] == [
        {key: row[key] for key in TOLD} for row in recorded
    ]
    # Only their clocks differ: the same distance for all.
    for end in ("start_ns", "end_ns"):
        away = {one[end] - other[end] for one, other in zip(imported, recorded, strict=True)}
        assert len(away) == 1


def _plain(column: Any) -> list[Any]:
    found: list[Any] = (
        column.tolist()
        if hasattr(column, "tolist")
        else column.to_pylist()
        if hasattr(column, "to_pylist")
        else column
    )
    return found


def test_layers_phases_and_kinds_are_known_there(tmp_path: Path) -> None:
    rows = by_import(written(tmp_path / "plain.json", *EVENTS), tmp_path / "run")
    found = {row["name"]: (row["layer"], row["phase"]) for row in rows}
    assert found["aten::addmm"] == ("body.0", "forward")
    assert found["aten::mm"] == ("body.0", "backward")  # by its number, through the engine's event
    assert found["aten::add_"] == (None, "optimizer")
    assert found["aten::stack"][1] == "data"
    kinds = {row["name"]: row["kind"] for row in rows}
    # Groups of operations are no operations.
    outermost = {row["name"] for row in rows if row["outermost"]}
    assert {"aten::stack", "aten::linear", "aten::add_"} <= outermost
    assert not outermost & {name for name in kinds if name.startswith(("Optimizer", "enumerate"))}


def test_a_later_torch_s_trace_stays_as_it_is() -> None:
    engine = {"thread": 2, "sequence": 3, "forward_thread": 1}
    rows = [
        {"name": "ProfilerStep#5", "category": "step", "start_ns": 0, "end_ns": 100},
        {"name": "aten::mm", "start_ns": 1, "end_ns": 5, "thread": 1, "sequence": 3},
        {"name": f"{ENGINE}MmBackward0", "start_ns": 10, "end_ns": 20, **engine},
        {"name": "MmBackward0", "start_ns": 11, "end_ns": 19, **engine},
        {"name": f"{ENGINE}Sum", "start_ns": 30, "end_ns": 40, "thread": 2},  # has none, nor inside
        {"name": "Sum", "start_ns": 31, "end_ns": 39, "thread": 2},
    ]
    trace = trace_of(rows)
    assert mended(trace) is trace


def test_numbers_are_taken_from_inside_the_same_thread_of_the_same_process_only() -> None:
    inside = {"start_ns": 11, "end_ns": 19, "sequence": 3, "forward_thread": 7}
    outer = {"name": f"{ENGINE}X", "start_ns": 10, "end_ns": 20}
    rows = [
        {**outer, "thread": 2, "process": 1},
        {**outer, "thread": 2, "process": 2},
        {**outer, "thread": 3, "process": 1},
        {"name": "X", "thread": 2, "process": 2, **inside},
        {"name": "X", "thread": 3, "process": 1, **inside, "start_ns": 25, "end_ns": 26},
    ]
    events = mended(trace_of(rows)).events
    assert events is not None
    assert events.sequence.tolist() == [-1, 3, -1, 3, 3]
    assert events.forward_thread.tolist() == [-1, 7, -1, 7, 7]


def test_an_optimizer_s_scope_is_no_operation() -> None:
    rows = [
        {"name": "ProfilerStep#5", "category": "step", "start_ns": 0, "end_ns": 100},
        {"name": "Optimizer.step#SGD.step", "start_ns": 10, "end_ns": 90},
        {"name": "aten::add_", "start_ns": 20, "end_ns": 40},
    ]
    busy = tables_of(trace_of(rows)).busy["all"].tolist()
    assert busy == [[20, 40]]  # a scope is no work
    assert {row["name"] for row in table(tables_of(trace_of(rows)))} >= {"aten::add_"}
