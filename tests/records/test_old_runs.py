"""Runs recorded by earlier versions stay readable for ever; one folder for each schema."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import wattstep
from wattstep.schema.figure import Status
from wattstep.schema.run_info import SCHEMA_VERSION, RunInfo

RUNS = Path(__file__).parent.parent / "fixtures" / "runs"
SCHEMA_1 = RUNS / "schema-1"


def test_every_schema_has_a_run_that_is_kept() -> None:
    assert {path.name for path in RUNS.iterdir()} >= {
        f"schema-{n}" for n in range(1, SCHEMA_VERSION + 1)
    }


def test_the_run_of_schema_1_survives_a_round_trip() -> None:
    document = json.loads((SCHEMA_1 / "run.json").read_text())
    again = json.loads(json.dumps(RunInfo.from_dict(document).to_dict()))
    assert without_later(again, document) == document  # later fields have their defaults


def without_later(new: Any, old: Any) -> Any:
    """What of a newer document an old one knows."""
    if isinstance(old, dict):
        return {key: without_later(new[key], old[key]) for key in old}
    if isinstance(old, list):
        assert len(new) == len(old)
        return [without_later(*pair) for pair in zip(new, old, strict=True)]
    return new


def test_the_run_of_schema_1_still_gives_its_metrics() -> None:
    run = wattstep.load(SCHEMA_1)
    assert (run.info.workload, run.info.batch_size, run.info.state) == ("tiny", 8, "closed")
    metrics = run.metrics()
    # 16 steps with a sleep of 10 ms, the first 3 to warm up, 2 traced; from the table itself:
    rows = pq.read_table(SCHEMA_1 / "steps.parquet").to_pylist()
    assert len(rows) == 16
    assert [row["index"] for row in rows if row["traced"]] == [6, 12]
    clean = [
        (row["end_ns"] - row["start_ns"]) * 1e-9
        for row in rows
        if not row["warmup"] and not row["traced"]
    ]
    assert metrics["step_time"].value == pytest.approx(statistics.median(clean), rel=0.05)
    assert metrics["step_time"].status is Status.MEASURED
    assert metrics["throughput"].value == pytest.approx(8 / statistics.mean(clean), rel=0.05)
    assert metrics["energy_per_step"].status is Status.MODELLED
    assert metrics["gpu_utilization"].missing
    parameters = metrics["memory_breakdown"]["parameters"]
    assert parameters.value == 4 * (64 * 64 + 64 + 64 * 10 + 10)


def test_the_run_of_schema_1_still_gives_its_operations() -> None:
    found = {
        (row["name"], row["layer"], row["phase"])
        for row in wattstep.load(SCHEMA_1).operations().rows
    }
    assert {("aten::linear", "0", "forward"), ("aten::linear", "2", "forward")} <= found
    assert ("AddmmBackward0", "2", "backward") in found
    assert {layer for _, layer, phase in found if phase == "optimizer"} >= {"0", "2"} or {
        layer for _, layer, phase in found if phase == "optimizer"
    } == {None}


def test_the_kept_run_holds_no_name_of_where_it_was_made() -> None:
    text = (SCHEMA_1 / "run.json").read_text()
    assert not re.search(r"/proc/\d|/home|/root|/tmp|/work|/Users", text)
    size = sum(path.stat().st_size for path in SCHEMA_1.iterdir())
    assert size < 60_000
