"""Runs in SQL: numbers counted another way, runs of all kinds, and what is documented."""

from __future__ import annotations

import json
import math
import re
import runpy
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.querying.made import WATTS, made
from tests.refusals import refused
from tests.run.made import MS

import wattstep
from wattstep.report.query import ask
from wattstep.report.query.tables import TABLES
from wattstep.schema.figure import Figure

pytest.importorskip("duckdb", reason="the extra query is not installed")
ROOT = Path(__file__).parents[2]
OLD = ROOT / "tests" / "fixtures" / "runs" / "schema-1"
HOSTILE = ("it's", '"; DROP VIEW steps; --', "a*[b]?", "run=3", "new\nline", "\x1b[31mred\u202e")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of our own at 5 W, one of them in a sweep's folder, and one of the first schema."""
    folder = tmp_path_factory.mktemp("runs")
    made(folder / "mine")
    (folder / "sweep").mkdir()
    shutil.copytree(folder / "mine", folder / "sweep" / "b4")
    shutil.copytree(OLD, folder / "old")
    return folder


def rows(sql: str, runs: Path) -> list[tuple[object, ...]]:
    table = wattstep.query(sql, runs=runs)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize("table", ["steps", "operations", "samples", "memory", "spans"])
def test_as_many_rows_as_the_files_have(store: Path, table: str) -> None:
    counted = {
        name: pq.read_metadata(store / name / f"{table}.parquet").num_rows
        for name in ("mine", "old", "sweep/b4")
    }
    found = dict(rows(f"SELECT run, count(*) FROM {table} GROUP BY run", store))
    assert found == {name: count for name, count in counted.items() if count}


def test_sums_over_groups_are_those_of_the_file(store: Path) -> None:
    file = pq.read_table(store / "old" / "samples.parquet").combine_chunks()
    file = file.set_column(1, "channel", file["channel"].cast(pa.string()))
    by = file.group_by("channel").aggregate([("value", "sum"), ("value", "count")])
    expected = dict(zip(by["channel"].to_pylist(), by["value_sum"].to_pylist(), strict=True))
    found = rows(
        "SELECT channel, sum(value), count(value) FROM samples WHERE run = 'old' GROUP BY ALL",
        store,
    )
    assert {name: pytest.approx(total) for name, total, _ in found} == expected
    assert sum(n for *_, n in found) == sum(by["value_count"].to_pylist())  # type: ignore[misc]


def test_metrics_are_those_of_the_run(store: Path) -> None:
    found = {
        (name, key): figure
        for name, key, *figure in rows(
            "SELECT metric, key, value, unit, low, high, n, status, reason FROM metrics "
            "WHERE run = 'mine'", store,
        )
    }  # fmt: skip
    metrics = wattstep.load(store / "mine").metrics()
    singles = {name: f for name, f in metrics.items() if isinstance(f, Figure)}
    lists = {
        (n, str(i)): f for n, p in metrics.items() if isinstance(p, list) for i, f in enumerate(p)
    }
    expected = {(name, None): figure for name, figure in singles.items()} | lists
    assert len(singles) > 10
    for at, f in expected.items():
        assert found[at] == [f.value, f.unit, f.low, f.high, f.n, f.status.value, f.reason]
    missing = found["gpu_utilization", None]
    assert missing[0] is None
    assert missing[6]


def test_operations_and_rests_make_the_step(store: Path) -> None:
    sql = """
        SELECT (SELECT sum(value) FROM operation_table WHERE run = 'mine' AND quantity = 'time')
          + (SELECT sum(value) FROM rests WHERE run = 'mine' AND quantity = 'time'),
          (SELECT value FROM metrics WHERE run = 'mine' AND metric = 'step_time')"""
    ((parts, whole),) = rows(sql, store)
    assert parts == pytest.approx(whole)


def test_the_second_query_for_figures_works_nothing_out(store: Path) -> None:
    for expected in (3, 0):
        warnings: list[str] = []
        with ask("SELECT count(*) FROM metrics", [store], warn=warnings.append) as answer:
            list(answer.batches)
        assert len(warnings) == expected


def test_figures_are_worked_out_again_where_a_file_changed(tmp_path: Path) -> None:
    made(tmp_path / "runs" / "a")
    sql = "SELECT value FROM metrics WHERE metric = 'step_time'"
    ((before,),) = rows(sql, tmp_path / "runs")
    path = tmp_path / "runs" / "a" / "steps.parquet"
    steps = pq.read_table(path)
    at = steps.schema.get_field_index("end_ns")
    slower = pc.add(steps["end_ns"], pa.scalar(MS))
    pq.write_table(steps.set_column(at, "end_ns", slower), path)
    ((after,),) = rows(sql, tmp_path / "runs")
    assert after == pytest.approx(before + 0.001)  # type: ignore[operator]


def test_a_run_of_the_first_schema_lacks_columns_and_is_there(store: Path) -> None:
    names = pq.read_schema(OLD / "operations.parquet").names
    lacking = [
        c.name
        for t in TABLES
        if t.name == "operations"
        for c in t.columns[1:]
        if c.name not in names
    ]
    counts = ", ".join(f'count("{name}")' for name in lacking) or "0"
    ((total, *known),) = rows(f"SELECT count(*), {counts} FROM operations WHERE run = 'old'", store)
    assert total == pq.read_metadata(OLD / "operations.parquet").num_rows
    assert set(known) == {0}
    assert rows("SELECT count(*) FROM evaluations WHERE run = 'old'", store) == [(0,)]


def test_an_empty_folder_has_tables_without_rows(tmp_path: Path) -> None:
    for table in TABLES:
        found = wattstep.query(f"SELECT * FROM {table.name}", runs=tmp_path)
        assert (found.num_rows, found.column_names) == (0, [c.name for c in table.columns])


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with refused("no-such-store", "nowhere"):
        wattstep.query("SELECT 1", runs=tmp_path / "nowhere")


def not_utf8(count: int) -> pa.Array:
    """Texts that are none, as a file may have them."""
    bad = pa.array([b"\xff\xfe"] * count, pa.binary())
    return pa.StringArray.from_buffers(count, *bad.buffers()[1:])


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("channel", not_utf8(3)),
        ("channel", not_utf8(3).dictionary_encode()),
        ("t_ns", pa.array([1, 2, 2**64 - 1], pa.uint64())),
        ("errno", pa.array([0, 0, 40_000], pa.int64())),
    ],
)
def test_a_value_that_is_none_of_its_column_costs_its_run(
    tmp_path: Path, column: str, values: pa.Array
) -> None:
    made(tmp_path / "good")
    shutil.copytree(tmp_path / "good", tmp_path / "bad")
    file = tmp_path / "bad" / "samples.parquet"
    table = pq.ParquetFile(file).read().slice(0, 3)
    at = table.column_names.index(column)
    pq.write_table(table.set_column(at, column, values), file)
    with pytest.warns(UserWarning, match=r"\bbad\b.*samples"):
        found = wattstep.query("SELECT run, channel, t_ns, errno FROM samples", runs=tmp_path)
    assert set(found["run"].to_pylist()) == {"good"}


def test_names_of_operations_that_are_no_text_are_damage(tmp_path: Path) -> None:
    shutil.copytree(OLD, tmp_path / "bad")
    file = tmp_path / "bad" / "operations.parquet"
    table = pq.ParquetFile(file).read()
    at = table.column_names.index("name")
    pq.write_table(table.set_column(at, "name", not_utf8(table.num_rows)), file)
    with pytest.warns(UserWarning, match=r"\bbad\b.*operations"):
        assert not rows("SELECT * FROM operation_table", tmp_path)
    with refused("damaged-table", "operations.parquet", "name", "UTF-8"):
        wattstep.load(tmp_path / "bad").tables.table("operations")


@pytest.mark.parametrize("harm", ["description", "cut", "middle", "gone", "kind"])
def test_a_damaged_run_is_left_out_and_the_rest_works(tmp_path: Path, harm: str) -> None:
    for name in ("good", "bad"):
        made(tmp_path / name)
    samples = tmp_path / "bad" / "samples.parquet"
    if harm == "description":
        (tmp_path / "bad" / "run.json").write_text("{")
    elif harm == "cut":
        samples.write_bytes(samples.read_bytes()[:500])
    elif harm == "middle":
        data = bytearray(samples.read_bytes())
        data[4:600] = b"\xff" * 596
        samples.write_bytes(data)
    elif harm == "gone":
        samples.unlink()
    else:
        pq.write_table(pa.table({"t_ns": ["x"], "value": [1.0]}), samples)
    sql = "SELECT run, count(*), sum(t_ns), sum(value) FROM samples GROUP BY run"
    with pytest.warns(UserWarning, match=r"\bbad\b"):
        found = wattstep.query(sql, runs=tmp_path).to_pydict()
    assert found["run"] == ["good"]
    if harm != "middle":  # which shows only where it is read
        with pytest.warns(UserWarning, match=r"\bbad\b"):
            (row,) = rows("SELECT run, reason FROM damaged", tmp_path)
        assert row[0] == "bad"
        with pytest.warns(UserWarning, match=r"\bbad\b"):
            states = dict(rows("SELECT run, state FROM runs", tmp_path))
        assert states == {"good": "closed", "bad": "damaged"}


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_runs_are_values_and_nothing_else(tmp_path: Path, name: str) -> None:
    made(tmp_path / "aXb")
    shutil.copytree(tmp_path / "aXb", tmp_path / name)
    expected = pq.read_metadata(tmp_path / "aXb" / "steps.parquet").num_rows
    found = rows("SELECT run, count(*) FROM steps GROUP BY run", tmp_path)
    assert dict(found) == {"aXb": expected, name: expected}


def test_runs_of_one_name_in_two_folders_are_told_apart(tmp_path: Path) -> None:
    made(tmp_path / "a" / "run")
    shutil.copytree(tmp_path / "a" / "run", tmp_path / "b" / "run")
    found = wattstep.query("SELECT run FROM runs", runs=[tmp_path / "a", tmp_path / "b"])
    assert found["run"].to_pylist() == [str(tmp_path / "a" / "run"), str(tmp_path / "b" / "run")]
    again = wattstep.query("SELECT run FROM runs", runs=[tmp_path / "a", tmp_path / "a" / "run"])
    assert again["run"].to_pylist() == ["run"]  # the same run is there once


def test_a_table_that_is_not_there_is_named_with_one_that_is(store: Path) -> None:
    with refused("query-failed", "stepps", '"steps"'):
        wattstep.query("SELECT * FROM stepps", runs=store)


# --- documents ----------------------------------------------------------------------------------


def examples() -> list[str]:
    text = (ROOT / "docs" / "query.md").read_text(encoding="utf-8")
    return re.findall(r"```sql\n(.+?)```", text, re.DOTALL)


def test_every_example_of_the_document_gives_rows(store: Path) -> None:
    assert len(examples()) == 5
    for sql in examples():
        assert wattstep.query(sql, runs=store).num_rows


def test_the_energy_of_a_stretch_is_power_by_time(store: Path) -> None:
    (sql,) = (sql for sql in examples() if "stretch" in sql)
    found = {run: (joules, seconds) for run, joules, seconds in rows(sql, store)}
    steps = pq.read_table(store / "mine" / "steps.parquet").slice(10, 10)
    seconds = (steps["end_ns"][-1].as_py() - steps["start_ns"][0].as_py()) * 1e-9
    assert found["mine"] == pytest.approx((WATTS * seconds, seconds))


def test_the_document_lists_the_tables_that_there_are() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "query_tables.py"))
    text = (ROOT / "docs" / "query.md").read_text(encoding="utf-8")
    assert text == script["document"](text)
    assert all(f"### `{table.name}`" in text for table in TABLES)


def test_the_tables_have_the_columns_that_are_listed(store: Path) -> None:
    for table in TABLES:
        found = rows(f"DESCRIBE SELECT * FROM {table.name}", store)
        assert [(name, kind) for name, kind, *_ in found] == [
            (c.name, c.type) for c in table.columns
        ]


def test_missing_is_null_and_never_nan(store: Path) -> None:
    values = wattstep.query("SELECT value FROM metrics", runs=store)["value"].to_pylist()
    assert None in values
    assert not any(value is not None and math.isnan(value) for value in values)
    assert json.dumps(values, allow_nan=False)
