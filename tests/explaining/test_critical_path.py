"""Critical paths of whole runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.explaining.made import imported, ran_on_gpu, trained, worked

from wattstep.insight.explain.critical_path import critical_path
from wattstep.insight.explain.section import Section
from wattstep.run import load
from wattstep.schema.figure import Figure


def value(figure: Figure) -> float:
    assert figure.value is not None, figure.reason
    return figure.value


def on_path(section: Section) -> dict[tuple[str, str], float]:
    return {
        (row["name"], row["where"]): value(row["time"])
        for row in section.tables[0].rows
        if value(row["time"]) > 0
    }


def test_of_one_thread_the_path_is_the_step_and_that_is_said(tmp_path: Path) -> None:
    run = load(trained(tmp_path / "run"))
    found = critical_path(run)
    assert "the step itself" in found.sentences[0]
    step = value(run.metrics()["step_time"])
    assert value(found.figures["critical_path_time"]) == pytest.approx(step)
    assert value(found.figures["work_at_once"]) == pytest.approx(1.0)


def test_a_kernel_that_the_host_waits_for_is_on_the_path(tmp_path: Path) -> None:
    found = critical_path(load(ran_on_gpu(tmp_path / "run")))
    # Host 0-30 (20 of data, 10 of the operation until the launch), kernel 40-90, host 90-100.
    assert value(found.figures["critical_path_time"]) == pytest.approx(0.090)
    path = on_path(found)
    assert path["gemm", "gpu0"] == pytest.approx(0.050)
    assert path["aten::mm", "cpu"] == pytest.approx(0.010)
    assert path["data loading", "cpu"] == pytest.approx(0.020)
    # What the host does from the launch to the wait, 30 ms, has the 20 ms of the kernel beyond it.
    beside = next(row for row in found.tables[0].rows if row["name"] == "aten::mm")
    assert value(beside["slack"]) == pytest.approx(0.020)


def test_two_threads_at_once_make_more_than_the_path(tmp_path: Path) -> None:
    rows = [
        worked("a", 0, 0, 10), worked("b", 0, 10, 30), worked("c", 0, 10, 20, thread=2),
        worked("d", 0, 30, 40),
    ]  # fmt: skip
    path = imported(tmp_path / "run", rows, end=40)
    found = critical_path(load(path))
    assert value(found.figures["critical_path_time"]) == pytest.approx(0.040)
    assert value(found.figures["work_at_once"]) == pytest.approx(50 / 40)
    assert ("c", "cpu") not in on_path(found)


def test_work_beyond_the_end_of_a_step_does_not_lengthen_its_path(tmp_path: Path) -> None:
    rows = [worked("a", 0, 0, 10), worked("k", 0, 5, 60, processor="gpu0", thread=7)]
    path = imported(tmp_path / "run", rows, end=20)
    found = critical_path(load(path))
    assert value(found.figures["critical_path_share"]) <= 1.0


def test_operations_of_no_length_are_left_out(tmp_path: Path) -> None:
    rows = [worked("a", 0, 0, 10), worked("nothing", 0, 5, 5, thread=2)]
    path = imported(tmp_path / "run", rows, end=10)
    found = critical_path(load(path))
    assert [row["name"] for row in found.tables[0].rows] == ["a"]


def test_a_run_without_operations_says_why(tmp_path: Path) -> None:
    assert critical_path(load(trained(tmp_path / "run", trace="none"))).reason
