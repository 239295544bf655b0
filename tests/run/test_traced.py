"""Columns of traced rows, the sums made of them, and what scopes leave of a real imported trace."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wattstep.attribution import breakdown, codes
from wattstep.attribution.codes import compact
from wattstep.attribution.tables.traced import NAMES, TracedColumns
from wattstep.importing.importer import ImportSettings, import_run
from wattstep.run import load

CUDA = Path(__file__).parent.parent / "fixtures/traces/kineto_gpu_sampled_rank0.json.gz"


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return import_run(ImportSettings(trace=CUDA), tmp_path_factory.mktemp("cuda") / "run")


def union_ns(intervals: list[tuple[int, int]]) -> int:
    """Length of what intervals cover together."""
    covered, reached = 0, 0
    for start, end in sorted(intervals):
        covered += max(end - max(start, reached), 0)
        reached = max(reached, end)
    return covered


def test_framework_and_data_are_the_time_in_which_nothing_runs(imported: Path) -> None:
    table = pq.read_table(imported / "operations.parquet", columns=["kind", "start_ns", "end_ns"])
    columns = table.to_pydict()
    working = [
        (start, end)
        for kind, start, end in zip(*(columns[name] for name in table.column_names), strict=True)
        if kind != "scope"
    ]
    assert "scope" in columns["kind"]
    steps = pq.read_table(imported / "steps.parquet", columns=["start_ns", "end_ns"]).to_pydict()
    free = 0
    for begin, end in zip(steps["start_ns"], steps["end_ns"], strict=True):
        inside = [(max(a, begin), min(b, end)) for a, b in working if a < end and b > begin]
        free += end - begin - union_ns(inside)
    document = load(imported).document()
    rests = sum(rest["time"]["value"] for rest in document["rests"].values())
    assert rests == pytest.approx(free * 1e-9 / len(steps["start_ns"]), rel=1e-6)
    operations = sum(row["time"]["value"] for row in document["operations"])
    assert operations + rests == pytest.approx(document["metrics"]["step_time"]["value"])


def test_times_of_operations_are_those_of_the_trace(imported: Path) -> None:
    """Nothing is scaled: all rows of a GPU together last as long as they do in the trace."""
    table = pq.read_table(imported / "operations.parquet")
    of_gpu = [
        end - start
        for start, end, processor in zip(
            *(table[name].to_pylist() for name in ("start_ns", "end_ns", "processor")), strict=True
        )
        if processor == "gpu0"
    ]
    steps = pq.read_table(imported / "steps.parquet").num_rows
    rows = [row for row in load(imported).operations() if row["processor"] == "gpu0"]
    assert sum(row["busy_time"].value for row in rows) == pytest.approx(
        sum(of_gpu) * 1e-9 / steps, rel=1e-9
    )


def test_few_sums_at_a_time_are_the_same_figures(imported: Path) -> None:
    whole = load(imported).document()
    with patch.object(breakdown, "MOST_CELLS", 100), patch.object(codes, "MOST_FLAGS", 1):
        parts = load(imported).document()
    for name in ("operations", "layers", "phases", "kinds"):
        assert len(whole[name]) == len(parts[name])
        for one, other in zip(whole[name], parts[name], strict=True):
            for part in ("time", "busy_time"):
                for value in ("value", "low", "high"):
                    assert other[part][value] == pytest.approx(one[part][value], rel=1e-9)


@pytest.mark.parametrize("most", [codes.MOST_FLAGS, 0])
def test_numbers_are_renumbered_in_their_order(most: int) -> None:
    with patch.object(codes, "MOST_FLAGS", most):
        used, found = compact(np.array([7, 3, 7, 200]))
        none, nothing = compact(np.zeros(0, np.int64))
    assert used.tolist() == [3, 7, 200]
    assert found.tolist() == [1, 0, 1, 2]
    assert none.tolist() == nothing.tolist() == []


def columns() -> TracedColumns:
    """Three steps of two rows each; the second row of each lies in the first."""
    texts = {name: pa.array([f"{name}{n}" for n in range(6)]) for name in NAMES}
    numbers = {
        "step": [4, 4, 7, 7, 9, 9],
        "start_ns": [0, 1, 20, 21, 40, 41],
        "end_ns": [9, 8, 29, 28, 49, 48],
        "self_ns": [2, 7, 2, 7, 2, 7],
        "thread": [10**12, 5, 10**12, 5, 5, 5],
        "parent": [None, 0, None, 0, None, 0],
        "allocated": [1, None, 3, 4, 5, 6],
        "flops": [None] * 6,
        "bytes": [1, 2, 3, 4, 5, 6],
    }
    plain = {name: pa.array(values, pa.int64()) for name, values in numbers.items()}
    plain["parent"] = plain["parent"].cast(pa.int32())
    return TracedColumns(pa.table({**texts, **plain, "outermost": [True, False] * 3}))


def test_rows_of_some_steps_keep_their_parents() -> None:
    found = columns().of_steps(np.array([4, 9]))
    assert found.steps.tolist() == [4, 9]
    rows = found.rows(np.array([4, 9]))
    assert rows.window.tolist() == [0, 0, 1, 1]
    assert rows.parent.tolist() == [-1, 0, -1, 2]
    assert rows.start_ns.tolist() == [0, 1, 40, 41]
    assert found.threads[rows.thread].tolist() == [10**12, 5, 5, 5]
    assert rows.layers[rows.layer].tolist() == ["layer0", "layer1", "layer4", "layer5"]
    assert found.outermost.tolist() == [True, False, True, False]
    assert found.allocated.tolist() == [1, 0, 5, 6]
    assert np.isnan(found.numbers("flops")).all()


def test_rows_of_all_steps_are_as_they_are() -> None:
    found = columns().of_steps(np.array([4, 7, 9, 11]))
    rows = found.rows(np.array([4, 7, 9, 11]))
    assert rows.window.tolist() == [0, 0, 1, 1, 2, 2]
    assert rows.parent.tolist() == [-1, 0, -1, 2, -1, 4]
