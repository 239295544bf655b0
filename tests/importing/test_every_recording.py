"""Every trace and log of the collection becomes a run; sums over its tables are worked out another way."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

from wattstep.importing.importer import ImportSettings, import_run
from wattstep.run import load
from wattstep.run.run import Run

FIXTURES = Path(__file__).parents[1] / "fixtures"
TRACES = sorted((FIXTURES / "traces").glob("kineto_*.json.gz"))
LOGS = sorted(
    [
        *(FIXTURES / "jetson").glob("*.tegrastats"),
        *(FIXTURES / "nvidia").glob("*.xml"),
        FIXTURES / "nvidia" / "v100.csv",
        *(FIXTURES / "phone").glob("perfetto_*.textproto"),
    ]
)
GPU = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"}


def imported(tmp_path: Path, **settings: Any) -> Run:
    return load(import_run(ImportSettings(**settings), tmp_path / "run"))


def intervals(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path) as file:
        events = json.load(file, parse_float=Decimal)["traceEvents"]
    return [event for event in events if event.get("ph") == "X"]


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name.partition(".")[0])
def test_every_interval_of_a_kineto_trace_is_in_the_run_or_counted(
    path: Path, tmp_path: Path
) -> None:
    run = imported(tmp_path, trace=path)
    told = run.info.imported["trace"]
    left = sum(one["events"] for one in told["left_out"].values())
    spans = told["ignored"].get("span of the profiler itself", 0)
    steps = 0 if told["steps"] == "whole" else run.tables.step_table.num_rows
    rows = run.tables.table("operations").num_rows
    assert rows + steps + left + spans == len(intervals(path))


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name.partition(".")[0])
def test_the_time_of_each_kernel_is_that_of_the_file(path: Path, tmp_path: Path) -> None:
    run = imported(tmp_path, trace=path)
    expected: dict[str, int] = defaultdict(int)
    for event in intervals(path):
        if event.get("cat") in GPU:
            # Begin and end are each rounded to a nanosecond.
            begin = round(Decimal(event["ts"]) * 1000)
            expected[event["name"]] += round((event["ts"] + event["dur"]) * 1000) - begin
    table = run.tables.table("operations")
    on_gpu = table.filter(pc.not_equal(table["processor"].cast("string"), "cpu"))
    found: dict[str, int] = defaultdict(int)
    for name, start, end in zip(
        on_gpu["name"].cast("string").to_pylist(),
        on_gpu["start_ns"].to_pylist(),
        on_gpu["end_ns"].to_pylist(),
        strict=True,
    ):
        found[name] += end - start
    assert found == pytest.approx(expected, abs=1)
    assert sum(found.values()) == pytest.approx(sum(expected.values()), abs=len(on_gpu))


def test_an_etdump_s_operators_are_rows_of_the_run(tmp_path: Path) -> None:
    path = FIXTURES / "traces" / "executorch_tutorial_etdump.etdp"
    table = imported(tmp_path, trace=path).tables.table("operations")
    names = table["name"].cast("string").to_pylist()
    native = [name.startswith("native_call") for name in names]
    ns = np.array(table["end_ns"]) - np.array(table["start_ns"])
    assert int(ns[native].sum()) == 1_889_086  # executorch 1.5.1's Inspector, see test_etdump.py


# https://docs.nvidia.com/nsight-systems: nsys stats --report cuda_gpu_kern_sum --format csv
NSYS = """Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
62.7,1802181977,26265,68615.3,68768.0,67200,72672,594.8,"void at::native::vectorized_elementwise_kernel<(int)4, ...>"
13.1,377211583,33117,11390.3,6688.0,1920,134208,19091.4,_layer_norm_fwd_1pass_kernel
"""


def test_a_summary_becomes_operations_of_the_whole_recording(tmp_path: Path) -> None:
    path = tmp_path / "kernels.csv"
    path.write_text(NSYS)
    rows = imported(tmp_path, trace=path).document()["operations"]
    assert {row["calls"]["value"] for row in rows} == {26265, 33117}
    assert sum(row["time"]["value"] for row in rows) == pytest.approx(1.802181977 + 0.377211583)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_every_value_of_a_log_is_a_sample_of_the_run(path: Path, tmp_path: Path) -> None:
    run = imported(tmp_path, telemetry=(path,))
    (told,) = run.info.imported["telemetry"]
    table = run.tables.table("samples")
    assert table.num_rows - table["value"].null_count == told["values"] > 0
    document = run.document()
    assert document["metrics"]["step_time"]["status"] == "missing"
    assert document["metrics"]["step_time"]["reason"]


def test_the_energy_of_a_tegrastats_log_is_the_sum_over_its_lines(tmp_path: Path) -> None:
    """By trapezia over the rails that the board's table calls the machine, from the text itself."""
    path = FIXTURES / "jetson" / "xavieragx_16gb__all.tegrastats"
    rails = ("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V")
    times, watts = [], []
    for line in path.read_text().splitlines():
        stamp, _, rest = line.partition("::")
        found = dict(re.findall(r"\b(\w+) (\d+)/\d+(?= |$)", rest))  # now/mean, in mW
        if found.keys() >= set(rails):
            times.append(float(stamp))
            watts.append(sum(int(found[rail]) for rail in rails) * 1e-3)
    assert len(times) > 10
    expected = float(np.trapezoid(watts, times))
    run = imported(tmp_path, telemetry=(path,), board="jetson-agx-xavier")
    energy = run.metrics()["recorded_energy"]
    assert energy.value == pytest.approx(expected, rel=1e-3)
