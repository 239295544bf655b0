"""Files of samples, read in pieces."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.labeling.filed import asked, run
from tests.labeling.made import blobs
from tests.refusals import refused

from wattstep.labeling import reading
from wattstep.labeling.source import Asked, open_source


def test_pieces_are_read_one_after_the_other_and_can_begin_within(files: Path) -> None:
    for name in ("data.csv", "data.parquet"):
        opened = reading.open_table(files / name)
        pieces = list(reading.pieces([opened], ("c", "a"), 100, skip=130))
        assert [(piece.first, len(piece.x)) for piece in pieces] == [(130, 70), (200, 40)]
        x, _ = blobs(240, (0, 1, 2, 3), seed=2)
        np.testing.assert_allclose(np.concatenate([piece.x for piece in pieces]), x[130:, [2, 0]])


def test_a_cell_that_is_empty_is_no_number(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a,b\n1,2\n,3\n4, \n", encoding="utf-8")
    (piece,) = reading.pieces([reading.open_table(tmp_path / "data.csv")], ("a", "b"), 10)
    np.testing.assert_array_equal(piece.x, [[1, 2], [np.nan, 3], [4, np.nan]])


def test_complex_numbers_are_refused(files: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "data.npy", np.zeros((4, 4), dtype=complex))
    with refused("not-numbers", "data.npy", "complex128"):
        reading.open_table(tmp_path / "data.npy")
    np.save(tmp_path / "y.npy", np.zeros(4, dtype=complex))
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))
    with refused("mixed-labels", "complex128"):
        reading.read_labeled(tmp_path / "x.npy", None, tmp_path / "y.npy", None)


def test_labels_apart_from_their_samples_must_be_as_many(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))
    np.save(tmp_path / "y.npy", np.zeros(3))
    with refused("label-count", 3, 4):
        reading.read_labeled(tmp_path / "x.npy", None, tmp_path / "y.npy", None)


def test_rows_without_a_label_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("a,kind\n1,x\n2,\n3,y\n", encoding="utf-8")
    x, y, names = reading.read_labeled(tmp_path / "l.csv", "kind", None, None)
    assert (x.tolist(), list(y), names) == ([[1.0], [3.0]], ["x", "y"], ("a",))


def test_a_labeled_sample_without_a_number_is_refused(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("a,kind\n1,x\n,y\n", encoding="utf-8")
    with refused("labeled-nan", 1):
        reading.read_labeled(tmp_path / "l.csv", "kind", None, None)


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        ([1, None, 2], [1, 2]),
        ([True, None, False], [True, False]),
        ([1.0, float("nan"), 2.0], [1, 2]),
    ],
)
def test_labels_of_a_table_may_be_numbers(
    tmp_path: Path, kinds: list[Any], told: list[Any]
) -> None:
    pq.write_table(pa.table({"a": [1.0, 2.0, 3.0], "kind": kinds}), tmp_path / "l.parquet")
    x, y, _ = reading.read_labeled(tmp_path / "l.parquet", "kind", None, None)
    assert x[:, 0].tolist() == [1.0, 3.0]
    assert y.tolist() == told
    assert y.dtype.kind in "ib"  # as scikit-learn takes classes


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,a,kind\n1,2,x\n")
    with refused("column-twice", "d.csv", "a"):
        reading.open_table(tmp_path / "d.csv")


@pytest.mark.parametrize(
    ("name", "content", "id"),
    [
        ("data.csv", b"a,b,c,d\n1,2,3,x\n", "not-numbers"),
        ("data.csv", b"a,b,c\n1,2,3\n", "other-columns"),
        ("data.csv", b"", "damaged-data"),
        ("data.parquet", b"PAR1", "damaged-data"),
        ("data.npy", b"\x93NUMPY", "damaged-data"),
        ("data.txt", b"1", "unknown-data-format"),
    ],
)
def test_data_that_do_not_fit_are_refused(
    files: Path, tmp_path: Path, name: str, content: bytes, id: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with refused(id, name):
        run(tmp_path / "out", asked(files, str(tmp_path / name)))


def test_all_three_formats_give_the_same_labels(files: Path, tmp_path: Path) -> None:
    parquet = run(tmp_path / "parquet", asked(files, "data.parquet"))
    from_csv = run(tmp_path / "csv", asked(files, "data.csv"))
    assert parquet["label"].equals(from_csv["label"])
    np.testing.assert_allclose(parquet["p_value"], from_csv["p_value"], rtol=1e-6)


READS = """
import sys
from pathlib import Path
from wattstep.labeling import reading

def anonymous():  # MiB of this process that are no part of a file
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024

for name in sys.argv[1:]:
    table = reading.open_table(Path(name))
    pieces = reading.pieces([table], table.columns, 500)
    print(max(anonymous() for _ in pieces))
"""


@pytest.mark.parametrize("kind", ["row-groups.parquet", "one-group.parquet", "csv", "npy"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, kind: str) -> None:
    peaks, sizes = [], []
    for rows in (150_000, 750_000):  # 9 and 46 MiB of float64
        x = np.random.default_rng(0).normal(size=(rows, 8))
        path = tmp_path / f"{rows}.{kind}"
        columns: dict[str, Any] = {str(n): x[:, n] for n in range(8)}
        if kind == "npy":
            np.save(path, x)
        elif kind == "csv":
            # Wide cells, since pyarrow reads 32 MiB of text ahead.
            lines = [",".join(f"{value:032.6f}" for value in row) for row in x[:1000]]
            path.write_text("a,b,c,d,e,f,g,h\n" + ("\n".join(lines) + "\n") * (rows // 1000))
        else:
            groups = rows if kind.startswith("one") else 25_000
            pq.write_table(pa.table(columns), path, row_group_size=groups)
        child = subprocess.run(
            [sys.executable, "-c", READS, path], capture_output=True, text=True, check=True,
            env=os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"},
        )  # fmt: skip
        peaks.append(float(child.stdout))
        sizes.append(path.stat().st_size / 2**20)
    assert peaks[1] - peaks[0] < (sizes[1] - sizes[0]) / 2, (peaks, sizes)


def test_columns_with_dots_in_their_names(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a.b": [1.0, 2.0], "a": [3, 4]}), tmp_path / "d.parquet")
    (piece,) = reading.pieces([reading.open_table(tmp_path / "d.parquet")], ("a", "a.b"), 10)
    assert piece.x.tolist() == [[3, 1], [4, 2]]


def arrays(folder: Path, labeled: tuple[int, ...], *data: tuple[int, ...], **others: Any) -> Asked:
    """Arrays of these shapes; the first has labels apart unless a column is named."""
    np.save(folder / "labeled.npy", np.ones(labeled))
    np.save(folder / "y.npy", np.arange(labeled[0]) % 2)
    names = []
    for n, shape in enumerate(data):
        names.append(str(folder / f"data-{n}.npy"))
        np.save(names[-1], np.ones(shape))
    labels = None if "column" in others else str(folder / "y.npy")
    return Asked(data=tuple(names), labeled=str(folder / "labeled.npy"), labels=labels, **others)


def test_arrays_with_another_number_of_values_are_refused(tmp_path: Path) -> None:
    for shape in ((10, 8), (10, 4, 2), (10, 3)):
        width = int(np.prod(shape[1:]))
        with refused("other-columns", "data-1.npy", f"{width} values", "4 features"):
            open_source(arrays(tmp_path, (6, 4), (10, 4), shape))
    # Samples of another shape and as many values fit; so do positions that are named.
    assert open_source(arrays(tmp_path, (6, 4), (10, 2, 2))).features == ("0", "1", "2", "3")
    named = arrays(tmp_path, (6, 4), (10, 8), features=("0", "3"))
    assert open_source(named).features == ("0", "3")


def test_an_array_with_its_labels_and_arrays_with_that_column_or_without(tmp_path: Path) -> None:
    settings = arrays(tmp_path, (6, 5), (10, 4), (10, 5), column="4")
    assert open_source(settings).features == ("0", "1", "2", "3")
    with refused("other-columns", "data-0.npy", "6 values", "4 features"):
        open_source(arrays(tmp_path, (6, 5), (10, 6), column="4"))
    with refused("other-columns", "data-0.npy", "no column 4"):
        open_source(arrays(tmp_path, (6, 5), (10, 4), column="0"))
