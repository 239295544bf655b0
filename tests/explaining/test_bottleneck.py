"""What the section "bottleneck" says of runs whose times are laid out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.explaining.made import ran_on_gpu
from tests.run.imported.made import TRACE
from tests.run.made import Worked, import_made, make_run

from wattstep.insight.explain import explain
from wattstep.insight.explain.section import Section
from wattstep.run import Run, load


def section(run: Run) -> Section:
    (found,) = explain(run, ["bottleneck"])
    return found


def by_phase(found: Section) -> dict[str, dict[str, Any]]:
    """Rows of the only table, with plain numbers in ms for figures of time."""
    (table,) = found.tables
    return {
        row["phase"]: {
            key: round(value.value * 1e3, 6) if getattr(value, "unit", "") == "s" else value
            for key, value in row.items()
        }
        for row in table.rows
    }


def kernel(name: str, start: float, end: float, phase: str, kind: str) -> Worked:
    return Worked(
        name=name, step=0, start=start, end=end, processor="gpu0", thread=7, phase=phase, kind=kind
    )


def host(name: str, start: float, end: float, phase: str) -> Worked:
    return Worked(name=name, step=0, start=start, end=end, phase=phase)


def test_each_phase_has_what_holds_it_back_and_all_adds_up_to_the_step(tmp_path: Path) -> None:
    """A step of 100 ms: 8 ms of asking and 2 of nothing, 30 dense, 10 not; 10 of nothing, 30, 10."""
    path = import_made(
        tmp_path / "run",
        {"trace": TRACE},
        steps=[(0.0, 100.0)],
        operations=[
            host("aten::conv2d", 0, 8, "forward"),
            kernel("conv", 10, 40, "forward", "convolution"),
            kernel("relu", 40, 50, "forward", "activation"),
            kernel("grad", 60, 90, "backward", "matrix product"),
        ],
    )
    found = section(load(path))
    rows = by_phase(found)
    parts = ("compute", "memory traffic", "launches", "host", "data")
    assert [rows["forward"][part] for part in parts] == [30, 10, 8, 2, 0]
    assert [rows["backward"][part] for part in parts] == [30, 0, 0, 20, 0]
    assert rows["forward"]["bound"] == "compute"
    assert sum(row[part] for row in rows.values() for part in parts) == pytest.approx(100)
    assert "forward on gpu0 is bound by compute (60% of its time)." in found.sentences


def test_many_small_kernels_are_bound_by_their_launches(tmp_path: Path) -> None:
    work = []
    for n in range(10):
        work.append(host("aten::add", 10.0 * n, 10.0 * n + 8, "optimizer"))
        work.append(kernel("add", 10.0 * n + 8, 10.0 * n + 10, "optimizer", "elementwise"))
    path = import_made(tmp_path / "run", {"trace": TRACE}, steps=[(0.0, 100.0)], operations=work)
    row = by_phase(section(load(path)))["optimizer"]
    assert (row["bound"], row["launches"], row["memory traffic"]) == ("launches", 80, 20)


def test_what_is_held_back_long_after_its_launch_is_not_bound_by_launches(tmp_path: Path) -> None:
    """Nothing to do 0-40 and 90-100 ms; the kernel was launched at 30 and begins at 40."""
    (row,) = by_phase(section(load(ran_on_gpu(tmp_path / "run")))).values()
    assert (row["launches"], row["other waits"]) == (10, 10)


def test_work_that_overlaps_counts_once(tmp_path: Path) -> None:
    path = import_made(
        tmp_path / "run",
        {"trace": TRACE},
        steps=[(0.0, 40.0)],
        operations=[
            kernel("conv", 0, 30, "forward", "convolution"),
            kernel("copy", 10, 40, "forward", "data movement"),
        ],
    )
    row = by_phase(section(load(path)))["forward"]
    assert (row["compute"], row["memory traffic"], row["host"]) == (30, 10, 0)


def test_a_run_without_a_gpu_says_so(tmp_path: Path) -> None:
    made = make_run(tmp_path / "run", [])
    found = section(load(made.path))
    assert not found.tables
    assert found.reason
