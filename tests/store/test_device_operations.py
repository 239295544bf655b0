"""Work on devices in journals written by hand becomes rows beside those of the CPU, or the window is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.store.conftest import Journals, table

from wattstep.schema.journal import DEVICE_OPERATION, NO_WORK, OPERATION
from wattstep.store.convert import convert

GPU = "gpu0"


def on_cpu(window: int, start: int, end: int, parent: int = -1, name: int = 0) -> dict[str, int]:
    return {
        "step": 10 + window, "window": window, "name": name, "kind": 0, "thread": 5,
        "start_ns": start, "end_ns": end, "parent": parent, "allocated": 3, "outermost": 1,
    }  # fmt: skip


def on_gpu(
    window: int, start: int, end: int, rows: int, launch: int = -1, name: int = 1
) -> dict[str, int]:
    return {
        "step": 10 + window, "window": window, "name": name, "kind": 0, "thread": 99, "bytes": 8,
        "start_ns": start, "end_ns": end, "outermost": 1, "processor": 2, "launch": launch, "rows": rows,
    }  # fmt: skip


def journals_of(path: Path, cpu: list[dict[str, int]], gpu: list[dict[str, int]]) -> Journals:
    journals = Journals(path)
    assert [
        journals.marks.code(*text)
        for text in (("operation", "aten::mm"), ("operation", "gemm"), ("processor", GPU))
    ] == [0, 1, 2]
    journals.marks.close()
    journals.operations(cpu)
    journals.device_operations(gpu)
    return journals


def three_windows(path: Path) -> Journals:
    cpu = [row for w in range(3) for row in (on_cpu(w, 100, 200), on_cpu(w, 110, 150, 0))]
    gpu = [row for w in range(3) for row in (on_gpu(w, 160, 400, 2, 1), on_gpu(w, 400, 410, 2))]
    return journals_of(path, cpu, gpu)


def told(run: Path) -> list[Any]:
    return [(r["window"], r["processor"], r["name"], r["launch"]) for r in table(run, "operations")]


def test_rows_of_a_window_stand_together_those_of_the_cpu_first(tmp_path: Path) -> None:
    journals = three_windows(tmp_path / "run")
    convert(journals.path)
    assert told(journals.path) == [
        row
        for window in range(3)
        for row in (
            (window, "cpu", "aten::mm", None),
            (window, "cpu", "aten::mm", None),
            (window, GPU, "gemm", 1),
            (window, GPU, "gemm", None),
        )
    ]
    outer, inner, kernel, _ = table(journals.path, "operations")[:4]
    assert (outer["self_ns"], inner["self_ns"], kernel["self_ns"]) == (60, 40, 240)
    assert (inner["parent"], kernel["parent"], kernel["step"], kernel["thread"]) == (
        0,
        None,
        10,
        99,
    )
    assert (outer["allocated"], kernel["allocated"], kernel["bytes"]) == (3, None, 8)


@pytest.mark.parametrize("block", [1, 2, 3, 5])
def test_they_do_not_depend_on_the_size_of_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    one, other = three_windows(tmp_path / "one"), three_windows(tmp_path / "other")
    convert(one.path)
    monkeypatch.setattr("wattstep.store.journal_rows.BLOCK", block)
    convert(other.path)
    assert table(one.path, "operations") == table(other.path, "operations")


def test_a_run_of_before_has_no_such_journal(tmp_path: Path) -> None:
    journals = three_windows(tmp_path / "run")
    (journals.folder / "device_operations.bin").unlink()
    convert(journals.path)
    assert told(journals.path) == [(w, "cpu", "aten::mm", None) for w in (0, 0, 1, 1, 2, 2)]


def test_windows_of_before_the_gpu_was_used_are_the_cpus_alone(tmp_path: Path) -> None:
    cpu = [on_cpu(window, 100, 200) for window in range(3)]
    nothing = {"step": 12, "window": 2, "rows": 1, "name": NO_WORK}
    journals = journals_of(tmp_path / "run", cpu, [on_gpu(1, 120, 130, 1, 0), nothing])
    convert(journals.path)
    assert told(journals.path) == [
        (0, "cpu", "aten::mm", None),
        (1, "cpu", "aten::mm", None),
        (1, GPU, "gemm", 0),
        (2, "cpu", "aten::mm", None),
    ]


def test_a_kill_between_both_files_leaves_no_half_of_a_step(tmp_path: Path) -> None:
    journals = three_windows(tmp_path / "run")
    path = journals.folder / "operations.bin"
    path.write_bytes(path.read_bytes()[: 4 * OPERATION.size])
    convert(journals.path)
    assert {window for window, *_ in told(journals.path)} == {0, 1}


def test_a_window_whose_work_was_cut_is_left_out_as_a_whole(tmp_path: Path) -> None:
    for rows in range(7):
        for more in (0, 8, DEVICE_OPERATION.size - 1):
            journals = three_windows(tmp_path / f"{rows} {more}")
            path = journals.folder / "device_operations.bin"
            path.write_bytes(path.read_bytes()[: rows * DEVICE_OPERATION.size + more])
            convert(journals.path)
            found = told(journals.path)
            if rows == 0:  # nothing says that devices were traced
                assert {processor for _, processor, *_ in found} == {"cpu"}
            else:
                assert [w for w, *_ in found] == [
                    w for w in range(min(rows // 2, 3)) for _ in range(4)
                ]


def test_work_whose_launch_was_cut_off_has_none(tmp_path: Path) -> None:
    journals = three_windows(tmp_path / "run")
    path = journals.folder / "operations.bin"
    path.write_bytes(path.read_bytes()[: -OPERATION.size])
    convert(journals.path)
    assert told(journals.path)[-3:] == [
        (2, "cpu", "aten::mm", None),
        (2, GPU, "gemm", None),
        (2, GPU, "gemm", None),
    ]
