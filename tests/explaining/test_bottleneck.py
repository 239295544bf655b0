"""What the section "bottleneck" says of runs whose times are laid out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.explaining.made import imported, ran_on_gpu
from tests.run.imported.made import TRACE
from tests.run.made import Worked, import_made, make_run
from tests.wording import assert_says, saying

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
    assert saying(found.sentences, "forward on gpu0", "by compute (60 %")


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


def described(path: Path, flops: list[int | None], size: list[int | None], **info: Any) -> Path:
    """The run with FLOPs and bytes of its rows, and fields of `run.json`."""
    file = path / "operations.parquet"
    table = pq.read_table(file)
    for name, values in (("flops", flops), ("bytes", size)):
        column = pa.array(values, pa.int64())
        table = table.set_column(table.schema.get_field_index(name), name, column)
    pq.write_table(table, file)
    document = path / "run.json"
    document.write_text(json.dumps({**json.loads(document.read_text()), **info}))
    return path


def test_where_flops_and_bytes_are_known_the_roofline_decides_else_the_kind(tmp_path: Path) -> None:
    """On a TX2 (some 6.6e11 FLOP/s, 4e10 B/s): 1e10 FLOP of 1e6 B, 1e6 of 1e9 B, and one that is not counted."""
    rows = [
        host("aten::conv2d", 0, 4, "forward"),
        host("aten::mm", 4, 8, "forward"),
        host("aten::bmm", 8, 10, "forward"),
        kernel("conv", 0, 20, "forward", "convolution"),
        kernel("gemm", 20, 60, "forward", "matrix product"),
        kernel("other gemm", 60, 100, "forward", "matrix product"),
    ]
    path = imported(tmp_path / "run", rows, end=100, launch={3: 0, 4: 1, 5: 2})
    found = section(load(path))
    assert by_phase(found)["forward"]["compute"] == 100
    assert "no device's table" in found.sentences[-1]
    flops = [10**10, 10**6, None, None, None, None]
    size = [10**6, 10**9, 10**3, None, None, None]
    on_board = described(path, flops, size, precision="fp32", device={"board": "jetson-tx2"})
    found = section(load(on_board))
    row = by_phase(found)["forward"]
    assert (row["compute"], row["memory traffic"]) == (60, 40)
    assert_says(found.sentences[-1], "the roofline", "60 %")
    assert "jetson-tx2" in found.sentences[-1]


def test_copies_and_synchronisation_have_names_of_their_own(tmp_path: Path) -> None:
    """A copy from 0 to 30 ms; the host waits for it to 50, and asks for a kernel that runs from 60 on."""
    rows = [
        host("cudaMemcpyAsync", 0, 1, "data"),
        host("cudaStreamSynchronize", 1, 50, "data"),
        host("cudaLaunchKernel", 55, 56, "forward"),
        kernel("Memcpy HtoD (Pinned -> Device)", 0, 30, "data", "data movement"),
        kernel("conv", 60, 100, "forward", "convolution"),
    ]
    path = imported(tmp_path / "run", rows, end=100, launch={3: 0, 4: 2})
    row = by_phase(section(load(path)))["forward"]
    assert [row[part] for part in ("compute", "copies", "synchronisation", "host", "other waits")] == [
        40, 30, 20, 5, 5,
    ]  # fmt: skip
