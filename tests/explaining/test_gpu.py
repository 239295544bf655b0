"""What the section "gpu" says of runs, with times laid out by hand."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.run.imported.made import TRACE
from tests.run.made import MS, Worked, import_made, make_run
from tests.wording import assert_says

from wattstep.importing.gpu_work import gpu_breakdown_of_trace
from wattstep.importing.importer import ImportSettings, import_run
from wattstep.insight.explain import explain
from wattstep.insight.explain.gpu import short_name
from wattstep.insight.explain.section import Section
from wattstep.run import Run, load

TRACES = Path(__file__).parent.parent / "fixtures/traces"


def section(run: Run) -> Section:
    """The only one asked for."""
    (found,) = explain(run, ["gpu"])
    json.dumps(found.document(), default=lambda figure: figure.to_dict(), allow_nan=False)
    return found


def rows(found: Section, table: str) -> list[dict[str, Any]]:
    """Rows of a table, with plain numbers for figures."""
    (wanted,) = [one for one in found.tables if one.name == table]
    return [
        {key: getattr(value, "value", value) for key, value in row.items()} for row in wanted.rows
    ]


def worked(
    name: str, start: float, end: float, step: int = 0, gpu: int = 0, thread: int = 7
) -> Worked:
    """A kernel of these times in ms."""
    return Worked(
        name=name, step=step, start=start, end=end, processor=f"gpu{gpu}", thread=thread,
        kind="matrix product",
    )  # fmt: skip


def imported(path: Path, operations: list[Worked], steps: int = 1, warmup: int = 0) -> Run:
    """Steps of 100 ms, one after the other."""
    edges = list(pairwise(100.0 * n for n in range(steps + 1)))
    return load(
        import_made(path, {"trace": TRACE}, steps=edges, operations=operations, warmup=warmup)
    )


def test_idle_compute_and_other_time_of_each_gpu(tmp_path: Path) -> None:
    """gpu0: 10-40 computes, 30-50 sends, 70-80 copies; gpu1: 20-30."""
    run = imported(
        tmp_path / "r",
        [
            worked("gemm", 10, 40),
            worked("ncclDevKernel_AllReduce", 30, 50, thread=8),
            worked("Memcpy HtoD (Pinned -> Device)", 70, 80),
            worked("gemm", 20, 30, gpu=1),
        ],
    )
    found = section(run)
    first, second = rows(found, "time")
    assert (first["processor"], second["processor"]) == ("gpu0", "gpu1")
    assert [first[key] for key in ("total", "idle", "compute", "other")] == pytest.approx(
        [0.07, 0.02, 0.03, 0.02]
    )
    assert first["idle_share"] == pytest.approx(2 / 7)
    assert second["idle"] == 0
    kinds = [row for row in rows(found, "kinds") if row["processor"] == "gpu0"]
    assert {row["kinds"]: row["time"] for row in kinds} == pytest.approx(
        {
            "computation": 0.02,
            "computation and communication": 0.01,
            "communication": 0.01,
            "memory": 0.01,
        }
    )
    assert "gpu0 was idle for 28.6 %" in found.sentences[0]


def test_kernels_have_their_calls_and_an_interval_of_their_mean(tmp_path: Path) -> None:
    run = imported(tmp_path / "r", [worked("gemm", 10 * n, 10 * n + 1 + n % 3) for n in range(9)])
    (row,) = rows(section(run), "kernels")
    assert (row["name"], row["kind"], row["calls"]) == ("gemm", "computation", 9)
    assert row["total"] == pytest.approx(0.018)
    assert (row["mean"], row["least"], row["most"]) == pytest.approx((0.002, 0.001, 0.003))
    assert row["deviation"] == pytest.approx(0.000866, rel=1e-3)
    (table,) = [one for one in section(run).tables if one.name == "kernels"]
    mean = table.rows[0]["mean"]
    assert mean.low is not None
    assert mean.low < 0.002 < mean.high


def test_more_kernels_than_are_shown_are_one_row_with_their_own_statistics(tmp_path: Path) -> None:
    run = imported(
        tmp_path / "r", [worked(f"k{n:02d}", 5 * n, 5 * n + 4 - 0.1 * n) for n in range(14)]
    )
    found = rows(section(run), "kernels")
    assert len(found) == 11
    assert (found[-1]["name"], found[-1]["calls"]) == ("others", 4)
    assert found[-1]["mean"] == pytest.approx(1e-3 * (3.0 + 2.9 + 2.8 + 2.7) / 4)


def test_warm_up_does_not_count(tmp_path: Path) -> None:
    kernels = [worked("gemm", 100 * n + 10, 100 * n + 20 + 30 * (n == 0), step=n) for n in range(3)]
    (row,) = rows(section(imported(tmp_path / "r", kernels, steps=3, warmup=1)), "time")
    assert (row["pieces"], row["total"], row["idle"]) == pytest.approx((2, 0.11, 0.09))


def test_an_imported_trace_has_the_answers_of_the_trace_itself(tmp_path: Path) -> None:
    trace = TRACES / "kineto_gpu_sampled_rank0.json.gz"
    run = load(import_run(ImportSettings(trace=trace), tmp_path / "r"))
    (one,) = gpu_breakdown_of_trace(trace).occupancies
    (row,) = rows(section(run), "time")
    assert (row["total"], row["idle"], row["compute"], row["other"]) == pytest.approx(
        tuple(ns * 1e-9 for ns in (one.total_ns, one.idle_ns, one.compute_ns, one.other_ns))
    )


def test_without_a_gpu_the_threads_of_the_cpu_are_told_of_and_it_is_said(tmp_path: Path) -> None:
    """Thread 1: 0-30 and 60-70, of which the inner 5-10 does not count; thread 2: 10-20."""
    run = imported(
        tmp_path / "r",
        [
            Worked(name="aten::mm", step=0, start=0, end=30),
            Worked(name="aten::copy_", step=0, start=5, end=10, inside=0, kind="data movement"),
            Worked(name="aten::copy_", step=0, start=60, end=70, kind="data movement"),
            Worked(name="aten::mm", step=0, start=10, end=20, thread=2),
        ],
    )
    found = section(run)
    assert_says(found.sentences[0], "Nothing", "a GPU")
    assert [table.name for table in found.tables] == ["time", "kinds"]
    first, second = rows(found, "time")
    assert (first["processor"], second["processor"]) == ("thread 1", "thread 2")
    assert [first[key] for key in ("total", "idle", "compute", "other")] == pytest.approx(
        [0.07, 0.03, 0.03, 0.01]
    )
    assert second["idle"] == 0


def test_steps_traced_one_by_one_are_stretches_of_their_own(tmp_path: Path) -> None:
    """Ten traced steps, each with three operations of 2, 8 and 10 ms, half a ms before each."""
    run = load(make_run(tmp_path / "r", []).path)
    (row,) = rows(section(run), "time")
    windows = row["pieces"] / 3
    assert windows > 1
    assert row["total"] == pytest.approx(windows * 21 * MS * 1e-9)
    assert row["idle"] == pytest.approx(windows * 1 * MS * 1e-9)


def test_kernels_that_take_no_time_have_no_shares(tmp_path: Path) -> None:
    found = section(imported(tmp_path / "r", [worked("gemm", 10, 10)]))
    (row,) = rows(found, "time")
    assert (row["total"], row["idle_share"]) == (0, None)
    (sentence,) = found.sentences
    assert_says(sentence, "gpu0", "1 piece of work", "no time")
    assert_says(found.tables[0].rows[0]["idle_share"].reason, "no work")


def test_kernels_that_end_before_they_begin_are_left_out_and_counted(tmp_path: Path) -> None:
    run = imported(tmp_path / "r", [worked("gemm", 10, 20), worked("gemm", 30, 25)])
    found = section(run)
    (row,) = rows(found, "time")
    assert row["pieces"] == 1
    assert_says(found.sentences[-1], "Left out", "1 piece of work")


def test_a_run_without_operations_says_why(tmp_path: Path) -> None:
    run = load(make_run(tmp_path / "r", [], trace="none").path)
    assert_says(section(run).reason, "--trace none")


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void at::native::reduce_kernel<512, 1, at::R<int> >(at::R<int>)", "at::native::reduce_kernel"),
        ("ampere_sgemm_32x32_sliced1x4_tn", "ampere_sgemm_32x32_sliced1x4_tn"),
        ("void (anonymous namespace)::softmax<float>(float*)", "{anonymous}::softmax"),
        ("<<<>>>", "<<<>>>"),
        ("x" * 50, "x" * 31 + "…"),
    ],
)  # fmt: skip
def test_names_of_kernels_are_short_on_a_terminal(name: str, short: str) -> None:
    assert short_name(name) == short
