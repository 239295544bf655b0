"""Totals of a profiler that keeps no times: operations of the whole recording."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.run.imported.made import POWER, TOTALS, ramp
from tests.run.made import import_made, watts
from tests.wording import assert_says

from wattstep.attribution.tables.totals import NOT_SAID
from wattstep.run import load


def test_totals_are_operations_of_the_whole_recording(tmp_path: Path) -> None:
    trace = {"file": "prof.csv", "format": "nvprof summary"}
    run = load(import_made(tmp_path / "r", {"trace": trace}, totals=TOTALS))
    found = list(run.operations())
    assert [row["name"] for row in found] == ["sgemm", "[CUDA memcpy HtoD]", "cudaLaunchKernel"]
    assert [row["time"].value for row in found] == [0.6, 0.2, 0.1]
    assert [row["share"].value for row in found] == pytest.approx([0.75, 0.25, 1.0])
    assert [row["calls"].value for row in found] == [10, 4, 14]
    assert [row["processor"] for row in found] == ["gpu0", "gpu0", "cpu"]
    assert found[0]["most_time"].value == 0.09
    assert found[1]["most_time"].reason == NOT_SAID
    assert found[0]["time"].method.startswith("total over")
    assert found[0]["time"].source == "nvprof summary, prof.csv"
    assert "totals only" in found[0]["energy"].reason
    document = run.document()
    assert document["operations_of"] == "recording"
    assert_says(document["metrics"]["step_time"]["reason"], "totals only", "no steps")
    assert "operations" not in [entry["what"] for entry in document["missing"]]
    assert run.operations().to_arrow().num_rows == 3
    json.dumps(document, allow_nan=False)


def test_totals_with_telemetry_have_figures_of_both(tmp_path: Path) -> None:
    found = {"trace": {"file": "prof.csv"}, "telemetry": [POWER]}
    samples = [(watts(), "power.csv", ramp(2, 4))]
    run = load(import_made(tmp_path / "r", found, totals=TOTALS, samples=samples))
    assert run.metrics()["recorded_energy"].value == pytest.approx(15)
    assert "aligned" not in run.metrics()["recorded_energy"].source
    assert len(run.operations()) == 3
