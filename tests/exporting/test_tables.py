"""Tables for spreadsheets and data frames say what the run and its figures say."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.exporting.made import (
    BEGIN,
    BUSY,
    FORMULA,
    HTML,
    LONG,
    MS,
    OPERATIONS,
    TERMINAL,
    Did,
    write_made,
)  # fmt: skip

from wattstep.attribution.tables.figure_columns import FIGURE
from wattstep.report.export.columns import COLUMNS, FIGURES, TABLES
from wattstep.report.export.export import export_run
from wattstep.run import load
from wattstep.schema.channel import Channel
from wattstep.schema.figure import Figure
from wattstep.schema.sanitize import harmless

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests/fixtures/runs/schema-1"  # by an earlier version, on a real machine


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_made(tmp_path_factory.mktemp("made") / "run")


@pytest.fixture(scope="module")
def folder(run: Path) -> Path:
    export_run(run, "csv", run.parent / "csv")
    return run.parent / "csv"


@pytest.fixture(scope="module")
def parquet(run: Path) -> Path:
    export_run(run, "parquet", run.parent / "parquet")
    return run.parent / "parquet"


def test_there_is_a_file_for_each_table(folder: Path, parquet: Path) -> None:
    always = set(TABLES) - {
        "summaries",
        "thinned",
        "thinned_steps",
    }  # of imported totals, and with --keep only
    assert {path.name for path in folder.iterdir()} == {f"{name}.csv" for name in always}
    assert {path.name for path in parquet.iterdir()} == {f"{name}.parquet" for name in always}


def test_instances_have_their_times_in_ns_and_heads_have_units(folder: Path) -> None:
    found = rows(folder / "operations.csv")
    conv = next(row for row in found if row["name"] == "aten::conv2d")
    assert int(conv["end_ns"]) - int(conv["start_ns"]) == 400_333
    assert conv["flops [FLOP]"] == "10"
    assert conv["bytes [B]"] == ""  # not told is empty, not 0
    assert conv["allocated [B]"] == "0"
    assert len(found) == len(OPERATIONS)


def test_a_failed_read_is_an_empty_cell_with_its_reason(folder: Path) -> None:
    power = [row for row in rows(folder / "samples.csv") if row["channel"] == "board.power"]
    assert [row["value"] for row in power] == ["5", "5.5", "", "", "6.25", "7"]
    assert [row["reason"] for row in power][1:3] == ["", "Input/output error"]
    assert {row["unit"] for row in power} == {"W"}
    assert [int(row["t_ns"]) - BEGIN for row in power] == [n * MS for n in range(6)]


def test_steps_say_what_sets_them_apart(folder: Path) -> None:
    found = rows(folder / "steps.csv")
    assert [row["traced"] for row in found] == ["false", "true", "true", "false"]
    assert [row["loss"] for row in found] == ["2", "", "0", "-1"]
    assert {row["disturbed"] for row in found} == {""}  # nothing was sampled that could tell
    assert [row["kind"] for row in rows(folder / "marks.csv")][:3] == [
        "phase", "layer begin", "layer end",
    ]  # fmt: skip


def test_a_text_that_is_a_formula_is_made_inert(folder: Path, tmp_path: Path) -> None:
    names = {row["name"] for row in rows(folder / "operations.csv")}
    assert f"'{FORMULA}" in names
    for name in ("+1", "-1", "@SUM(1)", "\t=1", " =1", "＝1", "|calc"):
        one = write_made(
            tmp_path / f"run{ord(name[0])}{len(name)}", [Did(name=name, start=0, end=1)]
        )
        export_run(one, "csv", tmp_path / f"csv{ord(name[0])}{len(name)}")
        (row,) = rows(tmp_path / f"csv{ord(name[0])}{len(name)}" / "operations.csv")
        assert row["name"] == f"'{harmless(name)}"


def test_names_are_whole_but_without_control_characters(folder: Path, parquet: Path) -> None:
    for found in (
        rows(folder / "operations.csv"),
        pq.read_table(parquet / "operations.parquet").to_pylist(),
    ):
        assert {HTML, LONG} <= {row["name"] for row in found}
        assert harmless(TERMINAL) in {row["layer"] for row in found}
    for path in folder.iterdir():
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", path.read_text(encoding="utf-8"))


def figures_of(run: Path) -> list[tuple[dict[str, Any], dict[str, Figure]]]:
    return [
        ({k: v for k, v in row.items() if not isinstance(v, Figure)},
         {k: v for k, v in row.items() if isinstance(v, Figure)})
        for row in load(run).operations()
    ]  # fmt: skip


def test_figures_are_those_of_the_run_with_unit_interval_status_source_and_reason(
    tmp_path: Path,
) -> None:
    export_run(RECORDED, "csv", tmp_path / "csv")
    export_run(RECORDED, "parquet", tmp_path / "parquet")
    in_parquet = pq.read_table(tmp_path / "parquet/operation_table.parquet").to_pylist()
    in_csv = rows(tmp_path / "csv/operation_table.csv")
    expected = figures_of(RECORDED)
    assert len(in_csv) == len(in_parquet) == len(expected) > 10
    for of_csv, of_parquet, (labels, figures) in zip(in_csv, in_parquet, expected, strict=True):
        assert of_parquet["name"] == of_csv["name"] == labels["name"]
        for name, figure in figures.items():
            parts = (figure.value, figure.unit, figure.low, figure.high, figure.status.value,
                     figure.source, figure.reason)  # fmt: skip
            columns = [f"{name}{suffix}" for suffix in FIGURE]
            assert tuple(of_parquet[column] for column in columns) == parts
            words = [of_csv[column] for column in columns]
            assert [float(w) if w and n in (0, 2, 3) else w or None for n, w in enumerate(words)] == list(parts)  # fmt: skip


def test_metrics_are_those_of_json_and_what_is_missing_says_why(tmp_path: Path) -> None:
    export_run(RECORDED, "csv", tmp_path / "csv")
    found = {(row["metric"], row["part"]): row for row in rows(tmp_path / "csv/metrics.csv")}
    metrics = load(RECORDED).metrics()
    assert float(found["step_time", ""]["value"]) == metrics["step_time"].value
    assert float(found["cpu_core_utilization", "1"]["value"]) == metrics["cpu_core_utilization"][1].value  # fmt: skip
    assert found["gpu_utilization", ""]["status"] == "missing"
    assert found["gpu_utilization", ""]["value"] == ""
    assert found["gpu_utilization", ""]["reason"] == metrics["gpu_utilization"].reason
    assert "gpu_utilization" in {row["what"] for row in rows(tmp_path / "csv/missing.csv")}


def test_channels_say_whether_they_were_measured(folder: Path) -> None:
    found = {row["name"]: row for row in rows(folder / "channels.csv")}
    assert found["board.power"]["status"] == "measured"
    assert found["gpu.temperature"]["status"] == "modelled"
    assert (found["board.power"]["samples"], found["board.power"]["failed_reads"]) == ("4", "2")


def test_a_zip_archive_holds_the_same_files_and_is_the_same_each_time(
    run: Path, folder: Path, tmp_path: Path
) -> None:
    for name in ("a.zip", "b.zip"):
        export_run(run, "csv", tmp_path / name)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {
            path.name: path.read_bytes() for path in folder.iterdir()
        }


def test_parquet_says_units_meanings_and_version_and_numbers_its_texts(parquet: Path) -> None:
    for path in sorted(parquet.iterdir()):
        schema = pq.read_schema(path)
        assert schema.metadata[b"wattstep"] == b"0.1.0"
        assert schema.metadata[b"wattstep.workload"] == HTML.encode()
        assert all(each.metadata[b"meaning"] for each in schema), path.name
        assert all(str(each.type) != "string" for each in schema)
    schema = pq.read_schema(parquet / "operations.parquet")
    assert schema.field("start_ns").metadata[b"unit"] == b"ns"


def test_parquet_has_the_columns_of_the_runs_own_tables(run: Path, parquet: Path) -> None:
    for name in ("operations", "spans", "memory", "evaluations"):
        own = pq.read_schema(run / f"{name}.parquet").names
        assert pq.read_schema(parquet / f"{name}.parquet").names == own


def test_pandas_reads_both(folder: Path, parquet: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    of_csv, of_parquet = (
        pandas.read_csv(folder / "operations.csv"),
        pandas.read_parquet(parquet / "operations.parquet"),
    )
    assert of_csv["start_ns"].tolist() == of_parquet["start_ns"].tolist()
    samples = pandas.read_parquet(parquet / "samples.parquet")
    assert samples[samples["channel"] == "board.power"]["value"].isna().sum() == 2


@pytest.mark.parametrize("library", ["polars", "duckdb"])
def test_other_libraries_read_parquet(library: str, parquet: Path) -> None:
    module = pytest.importorskip(library, reason=f"{library} is not installed")
    path = str(parquet / "samples.parquet")
    if library == "polars":
        assert module.read_parquet(path).height == 18
    else:
        assert module.sql(f"select count(*) from '{path}'").fetchall() == [(18,)]


def test_a_run_without_operations_has_empty_tables_and_says_why(tmp_path: Path) -> None:
    run = write_made(tmp_path / "run", (), {BUSY: [1.0, 2.0]}, trace="none")
    found = export_run(run, "csv", tmp_path / "csv")
    assert found.written.counts["operations"] == found.written.counts["operation_table"] == 0
    reasons = {row["what"]: row["reason"] for row in rows(tmp_path / "csv/missing.csv")}
    assert reasons["operations"]


def test_a_channel_without_a_declaration_and_one_without_samples_do_no_harm(tmp_path: Path) -> None:
    silent = Channel(
        name="silent", unit="W", kind="gauge", domain="soc", role="power_part", source="made"
    )
    run = write_made(tmp_path / "run", (), {silent: []})
    for form in ("csv", "parquet", "perfetto", "chrome"):
        export_run(run, form, tmp_path / form)
    (row,) = rows(tmp_path / "csv/channels.csv")
    assert row["samples"] == "0"


def test_every_table_and_column_is_documented(folder: Path) -> None:
    text = (ROOT / "docs/exporting.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", text))
    assert set(TABLES) <= named
    assert set(COLUMNS) <= named
    assert set(FIGURES) <= named


def test_a_large_table_is_written_whole(tmp_path: Path) -> None:
    many = [Did(name=f"n{n % 7}", start=n, end=n + 1, step=1 + n // 40_000) for n in range(90_000)]
    run = write_made(tmp_path / "run", many, {})
    export_run(run, "csv", tmp_path / "run.zip")
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        table = pyarrow.csv.read_csv(io.BytesIO(archive.read("operations.csv")))
    assert len(table) == 90_000
    assert table["start_ns"].to_pylist() == [BEGIN + n for n in range(90_000)]
