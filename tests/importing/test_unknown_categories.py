"""What a trace holds of categories that nobody here knows takes no time from known work, and is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused
from tests.wording import saying

from wattstep.importing.importer import ImportSettings, import_run
from wattstep.importing.operations import UNKNOWN
from wattstep.run import Run, load

STEPS = 6


def written(folder: Path, *beside: dict[str, Any]) -> Path:
    """Steps of 100 ms with a convolution of 80 ms each, and further events beside it."""
    events = []
    for number in range(STEPS):
        at = {"ph": "X", "pid": 1, "tid": 1, "ts": number * 1e5, "dur": 99_000}
        work = {**at, "ts": number * 1e5 + 1000, "dur": 80_000}
        events.append({**at, "cat": "user_annotation", "name": f"ProfilerStep#{number}"})
        events.append({**work, "cat": "cpu_op", "name": "aten::conv2d"})
        events += [{**work, "tid": 7, "name": "beside", **each} for each in beside]
    path = folder / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def imported(folder: Path, *beside: dict[str, Any]) -> Run:
    settings = ImportSettings(trace=written(folder, *beside))
    return load(import_run(settings, folder / "run"))


@pytest.mark.parametrize(
    "category",
    [
        "cuda_profiler_range", "mtia_insight", "mtia_counters", "xpu_scope_profiler",
        "collective_comm", "phase", "layer", "rest", "condition", "gap", "of another program", "",
    ],
)  # fmt: skip
def test_an_event_of_an_unknown_category_takes_no_time_from_an_operation(
    tmp_path: Path, category: str
) -> None:
    run = imported(tmp_path, {"cat": category})
    (row,) = run.operations()
    assert row["name"] == "aten::conv2d"
    assert row["time"].value == pytest.approx(0.080)
    assert run.info.imported["trace"]["left_out"][UNKNOWN] == {
        "events": STEPS,
        "total_s": pytest.approx(STEPS * 0.080),
    }


def test_a_note_counts_unknown_events_by_category(tmp_path: Path) -> None:
    run = imported(tmp_path, {"cat": "odd"}, {"cat": "cuda_profiler_range"}, {"cat": "odd"})
    assert saying(run.info.notes, "18 events", "odd (12), cuda_profiler_range (6)")


@pytest.mark.parametrize(
    ("category", "processor"), [("mtia_ccp_events", "mtia3"), ("hpu_op", "hpu3")]
)
def test_work_on_an_accelerator_is_no_operation_of_the_cpu(
    tmp_path: Path, category: str, processor: str
) -> None:
    """It runs after the convolution here: both have their whole time."""
    run = imported(
        tmp_path, {"cat": category, "pid": 3, "ts": 5e5 + 81_000, "dur": 10_000, "name": "gemm"}
    )
    rows = {row["name"]: row for row in run.operations()}
    assert rows["gemm"]["processor"] == processor
    assert rows["aten::conv2d"]["processor"] == "cpu"
    assert rows["aten::conv2d"]["time"].value == pytest.approx(0.080)


def test_a_trace_of_nothing_known_is_refused_with_its_categories(tmp_path: Path) -> None:
    path = tmp_path / "browser.json"
    event = {"ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 2, "cat": "blink", "name": "paint"}
    path.write_text(json.dumps({"traceEvents": [event]}))
    with refused("no-known-events", "blink (1)"):
        import_run(ImportSettings(trace=path), tmp_path / "run")
    assert not (tmp_path / "run").exists()
