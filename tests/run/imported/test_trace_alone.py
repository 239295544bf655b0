"""What a trace alone tells: times of steps and operations, on each processor."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from tests.run.imported.made import TRACE, rows, step, whole
from tests.run.made import Worked, import_made

from wattstep.recorded.imported import NO_TELEMETRY
from wattstep.run import load

SAMPLED = (
    "energy_per_step", "energy_per_sample", "mean_power", "cpu_utilization", "gpu_utilization",
    "peak_memory", "system_peak_memory", "steal", "other_cpu",
)  # fmt: skip


def test_a_trace_alone_has_operations_and_no_sampled_figure(tmp_path: Path) -> None:
    path = import_made(tmp_path / "r", {"trace": TRACE}, steps=[(0, 100)], operations=step(0, 0))
    run = load(path)
    metrics = run.metrics()
    assert {name: metrics[name].reason for name in SAMPLED} == dict.fromkeys(
        SAMPLED, "no telemetry was imported"
    )
    for row in run.operations():
        assert row["energy"].reason == NO_TELEMETRY
        assert row["cpu_utilization"].reason == NO_TELEMETRY
    assert "recorded_energy" not in metrics
    json.dumps(run.document(), allow_nan=False)


def test_warm_up_does_not_count_among_traced_steps_either(tmp_path: Path) -> None:
    """Two steps of 300 ms first, then four of 100 ms."""
    begins = [0.0, 300.0, 600.0, 700.0, 800.0, 900.0, 1000.0]
    path = import_made(
        tmp_path / "r",
        {"trace": TRACE},
        steps=list(pairwise(begins)),
        operations=[row for n, begin in enumerate(begins[:-1]) for row in step(n, begin)],
        warmup=2,
    )
    run = load(path)
    assert run.metrics()["step_time"].value == pytest.approx(0.1)
    assert run.metrics()["step_time"].n == 4
    assert rows(run)["aten::conv2d"]["calls"].n == 4


def test_work_on_the_gpu_that_outlasts_its_step_takes_of_the_next_and_nothing_beyond_the_last(
    tmp_path: Path,
) -> None:
    """A kernel from 90 to 120 ms of each of three steps of 100 ms, and nothing else."""
    path = import_made(
        tmp_path / "r",
        {"trace": TRACE},
        steps=[(0, 100), (100, 200), (200, 300)],
        operations=[
            Worked(
                name="k", step=n, start=100 * n + 90, end=100 * n + 120, processor="gpu0", thread=9
            )
            for n in range(3)
        ],
    )
    run = load(path)
    kernel = rows(run)["k"]
    assert kernel["time"].value == pytest.approx((3 * 0.010 + 2 * 0.020) / 3)
    assert kernel["busy_time"].value == pytest.approx(0.030)
    assert run.metrics()["gpu_time"].value == pytest.approx(0.030)
    assert whole(run.document(), "time") == pytest.approx(0.1)


def test_gpu_time_counts_what_overlaps_once(tmp_path: Path) -> None:
    """Two streams: 10-40 and 30-60 ms, 20-25 inside; then 80-90: 60 ms in all."""
    spans = [(10, 40, 7), (20, 25, 8), (30, 60, 8), (80, 90, 7)]
    path = import_made(
        tmp_path / "r",
        {"trace": TRACE},
        steps=[(0, 100)],
        operations=[
            Worked(name="k", step=0, start=a, end=b, processor="gpu0", thread=stream)
            for a, b, stream in spans
        ],
    )
    run = load(path)
    assert run.metrics()["gpu_time"].value == pytest.approx(0.060)
    assert rows(run)["k"]["busy_time"].value == pytest.approx(0.030 + 0.005 + 0.030 + 0.010)
    assert rows(run)["k"]["time"].value == pytest.approx(0.060)


def test_streams_of_a_gpu_have_lines_of_their_own_in_the_timeline(tmp_path: Path) -> None:
    path = import_made(
        tmp_path / "r",
        {"trace": TRACE},
        steps=[(0, 100)],
        operations=[
            Worked(name="aten::mm", step=0, start=0, end=10, thread=3),
            Worked(name="a", step=0, start=10, end=20, processor="gpu0", thread=10**12 + 7),
            Worked(name="b", step=0, start=15, end=30, processor="gpu0", thread=10**12 + 8),
            Worked(name="c", step=0, start=15, end=30, processor="gpu1", thread=10**12 + 9),
        ],
    )
    shown = {row["name"]: row["thread"] for row in load(path).timeline().to_dict()["operations"]}
    assert shown == {"aten::mm": 3, "a": "gpu0", "b": "gpu0.1", "c": "gpu1"}


def test_operations_that_differ_in_nothing_but_their_processor_are_rows_of_their_own(
    tmp_path: Path,
) -> None:
    path = import_made(
        tmp_path / "r",
        {"trace": TRACE},
        steps=[(0, 100)],
        operations=[
            Worked(name="copy", step=0, start=0, end=10),
            Worked(name="copy", step=0, start=20, end=50, processor="gpu0", thread=7),
        ],
    )
    found = {row["processor"]: row["time"].value for row in load(path).operations()}
    assert found == pytest.approx({"gpu0": 0.030, "cpu": 0.010})


def test_a_step_without_an_operation_is_all_rest(tmp_path: Path) -> None:
    path = import_made(
        tmp_path / "r",
        {"trace": TRACE},
        steps=[(0, 100), (100, 200), (200, 300)],
        operations=[*step(0, 0), *step(2, 200)],
    )
    run = load(path)
    assert rows(run)["aten::mm"]["time"].value == pytest.approx(0.015 * 2 / 3)
    assert rows(run)["aten::mm"]["calls"].value == pytest.approx(2 / 3)
    assert whole(run.document(), "time") == pytest.approx(0.1)
    assert run.timeline().to_dict()["operations"]


def test_rows_without_a_processor_but_the_cpu_say_nothing_of_it(tmp_path: Path) -> None:
    path = import_made(
        tmp_path / "r",
        {"trace": TRACE},
        steps=[(0, 100)],
        operations=[row for row in step(0, 0) if row.processor == "cpu"],
    )
    run = load(path)
    assert all("processor" not in row for row in run.operations())
    assert "gpu_time" not in run.metrics()
