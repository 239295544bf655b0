"""Folders of runs that were made to hurt: each is refused by name, before it takes memory or time."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.faults.foreign import unclosed_run
from tests.records.kept_runs import KEPT
from tests.refusals import refused

import wattstep
from wattstep.recorded.reading import UNNAMED, Tables
from wattstep.report.html.report import Reported, read_run, render_report
from wattstep.store.budget import VARIABLE


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with traced steps."""
    shutil.unpack_archive(KEPT / "lenet.zip", tmp_path)
    return tmp_path / "lenet"


def rewrite(run: Path, name: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """One table becomes another."""
    path = run / f"{name}.parquet"
    pq.write_table(change(pq.ParquetFile(path).read()), path, compression="zstd")


def with_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    at = table.column_names.index(name)
    return table.set_column(at, name, pa.array(values, table.schema.field(at).type))


def describe(run: Path, **fields: str) -> None:
    """Puts raw JSON into `run.json`."""
    document = json.loads((run / "run.json").read_text())
    parts = {key: json.dumps(value) for key, value in document.items()} | fields
    text = ",".join(f"{json.dumps(key)}: {value}" for key, value in parts.items())
    (run / "run.json").write_text(f"{{{text}}}")


@pytest.mark.parametrize(
    ("id", "field", "text"),
    [
        ("damaged-field", "environment", '{"a": ' * 900 + "0" + "}" * 900),
        ("unreadable-run-file", "environment", "[" * 200_000 + "]" * 200_000),
        ("unreadable-run-file", "seed", "9" * 5000),
        ("damaged-field", "seed", "9" * 4000),
        ("damaged-field", "clocks", "[[0, 9223372036854775808]]"),
        ("damaged-field", "gaps", "[[-9223372036854775809, 0]]"),
        ("other-schema", "schema_version", "9" * 4000),
        ("other-schema", "schema_version", "[1]"),
    ],
)
def test_values_that_no_recorder_writes_are_refused_in_a_short_line(
    run: Path, id: str, field: str, text: str
) -> None:
    describe(run, **{field: text})
    with refused(id) as caught:
        wattstep.load(run)
    assert len(str(caught.value)) < 400 + len(str(run))


def test_reads_that_share_a_journal_are_refused(run: Path) -> None:
    reads = json.loads((run / "run.json").read_text())["reads"]
    describe(run, reads=json.dumps([reads[0]] * 2))
    with refused("damaged-field", "reads"):
        wattstep.load(run)


def test_a_description_without_end_is_refused(run: Path) -> None:
    describe(run, notes=json.dumps(["n" * 1000] * 17_000))
    with refused("unreadable-run-file", "run.json"):
        wattstep.load(run)


@pytest.mark.parametrize(
    "name", ["steps", "spans", "memory", "samples", "operations", "evaluations"]
)
def test_a_column_that_is_gone_is_named(run: Path, name: str) -> None:
    for column in ("start_ns", "t_ns"):
        if column in pq.read_schema(run / f"{name}.parquet").names:
            rewrite(run, name, lambda table, gone=column: table.drop_columns([gone]))
            with refused("damaged-table", f"{name}.parquet", column):
                Tables(run).table(name)


@pytest.mark.parametrize("kind", [pa.uint64(), pa.string(), pa.float64(), pa.list_(pa.int64())])
def test_a_column_of_another_type_is_converted_or_named(run: Path, kind: pa.DataType) -> None:
    def change(table: pa.Table) -> pa.Table:
        fits = not pa.types.is_list(kind)
        column = table["end_ns"].cast(kind) if fits else pa.nulls(len(table), kind)
        return table.set_column(table.column_names.index("end_ns"), "end_ns", column)

    before = Tables(run).table("steps")["end_ns"]
    rewrite(run, "steps", change)
    if kind == pa.uint64():
        assert Tables(run).table("steps")["end_ns"].equals(before)
        return
    with refused("damaged-table", "end_ns"):
        Tables(run).table("steps")


@pytest.mark.parametrize("time", [2**63 - 1, -(2**63), 2**62])
@pytest.mark.parametrize(
    ("name", "column"), [("steps", "end_ns"), ("samples", "t_ns"), ("operations", "start_ns")]
)
def test_times_whose_differences_no_integer_holds_are_refused(
    run: Path, name: str, column: str, time: int
) -> None:
    def change(table: pa.Table) -> pa.Table:
        return with_column(table, column, [*table[column].to_pylist()[:-1], time])

    rewrite(run, name, change)
    with refused("damaged-table", column, time):
        Tables(run).table(name)


@pytest.mark.parametrize("value", [1e308, -1e60, math.inf, math.nan, 5e-324])
def test_samples_whose_squares_no_number_holds_are_refused_or_0_or_gaps(
    run: Path, value: float
) -> None:
    def change(table: pa.Table) -> pa.Table:
        return with_column(table, "value", [value] * len(table))

    rewrite(run, "samples", change)
    if 1 < abs(value) < math.inf:
        with refused("damaged-table", "samples.parquet", "value"):
            Tables(run).table("samples")
        return
    assert not any(np.nan_to_num(values).any() for _, values, _ in Tables(run).samples().values())


def test_values_that_must_be_there_are(run: Path) -> None:
    rewrite(run, "steps", lambda table: with_column(table, "start_ns", [None] * len(table)))
    with refused("damaged-table", "start_ns"):
        Tables(run).table("steps")


@pytest.mark.parametrize("circle", ["itself", "each other", "a ring", "beyond"])
def test_operations_that_lie_within_themselves_are_refused(run: Path, circle: str) -> None:
    def change(table: pa.Table) -> pa.Table:
        step = table["step"].to_numpy()
        own = np.arange(len(step)) - np.searchsorted(step, step)
        length = np.searchsorted(step, step, side="right") - np.searchsorted(step, step)
        parents = {
            "itself": own, "each other": np.where(own < 2, 1 - own, -1), "a ring": (own + 1) % length,
            "beyond": own + length,
        }  # fmt: skip
        return with_column(table, "parent", parents[circle])

    rewrite(run, "operations", change)
    with refused("damaged-table", "operations.parquet"):
        wattstep.load(run).report()


def test_parents_that_come_later_are_read_where_each_ends(run: Path) -> None:
    def change(table: pa.Table) -> pa.Table:
        step = table["step"].to_numpy()
        last = np.searchsorted(step, step, side="right") - np.searchsorted(step, step) - 1
        own = np.arange(len(step)) - np.searchsorted(step, step)
        return with_column(table, "parent", np.where(own == last, -1, last))

    rewrite(run, "operations", change)
    assert len(Tables(run).table("operations"))


def test_a_channel_that_no_row_has_is_none(run: Path) -> None:
    def change(table: pa.Table) -> pa.Table:
        column = table["channel"].unify_dictionaries().combine_chunks()
        names = pa.array([*column.dictionary.to_pylist(), "nobody's"])
        coded = pa.DictionaryArray.from_arrays(column.indices, names)
        return table.set_column(table.column_names.index("channel"), "channel", coded)

    before = set(Tables(run).samples())
    rewrite(run, "samples", change)
    assert set(Tables(run).samples()) == before


# --- more than the file is worth -----------------------------------------------------------------


def many_steps(table: pa.Table) -> pa.Table:
    """Two million steps, one like the other, in a few kilobytes."""
    rows = 2_000_000
    return pa.Table.from_arrays(
        [pa.array([None] * rows, field.type) for field in table.schema], schema=table.schema
    )


def test_more_rows_than_the_file_is_worth_are_refused_and_the_line_says_how_to_allow_them(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewrite(run, "steps", many_steps)
    assert (run / "steps.parquet").stat().st_size < 100_000
    with refused("over-budget", "steps.parquet", f"{VARIABLE}=") as caught:
        wattstep.load(run).report()
    monkeypatch.setenv(VARIABLE, str(caught.value).rpartition("=")[2])
    with refused("damaged-table", "lacks values"):  # what else is wrong with them
        wattstep.load(run).report()


@pytest.mark.parametrize(("name", "column"), [("operations", "name"), ("operations", "layer")])
def test_names_without_end_are_refused(run: Path, name: str, column: str) -> None:
    def change(table: pa.Table) -> pa.Table:
        names = pa.array([f"{n}" + "n" * 100_000 for n in range(300)])
        codes = pa.array((np.arange(len(table)) % 300).astype(np.int32))
        coded = pa.DictionaryArray.from_arrays(codes, names)
        return table.set_column(table.column_names.index(column), column, coded)

    rewrite(run, name, change)
    assert (run / f"{name}.parquet").stat().st_size < 1_000_000
    with refused("over-budget", f"{name}.parquet"):
        wattstep.load(run).report()


def test_a_long_name_in_every_row_is_refused_before_it_is_written_out(run: Path) -> None:
    def change(table: pa.Table) -> pa.Table:
        rows = 100_000
        names = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["n" * 10_000])
        columns = {"start_ns": [1] * rows, "end_ns": [2] * rows, "kind": ["rest"] * rows}
        return pa.table({**columns, "name": names})

    rewrite(run, "spans", change)
    with refused("over-budget", "spans.parquet"):
        wattstep.load(run).report()


def test_a_rest_without_a_name_is_shown(run: Path) -> None:
    def change(table: pa.Table) -> pa.Table:
        begin = wattstep.load(run).series.steps.start_ns[0] - 10**7
        columns = {"start_ns": [begin], "end_ns": [begin + 10**6], "kind": ["rest"]}
        return pa.table({**columns, "name": [""]})

    rewrite(run, "spans", change)
    reported = read_run(run)
    assert isinstance(reported, Reported)
    assert [*reported.report.outside_steps] == [UNNAMED]
    assert UNNAMED in render_report([reported])


@pytest.mark.parametrize("name", ["marks.bin", "operations.bin", "samples-00.bin"])
def test_a_journal_that_nobody_wrote_is_refused_at_once(tmp_path: Path, name: str) -> None:
    made = unclosed_run(tmp_path / "run")
    os.truncate(made / "journal" / name, 40 << 30)
    with refused("over-budget", name):
        wattstep.load(made)
    assert {path.name for path in made.iterdir()} == {"run.json", "journal"}


def test_names_of_a_journal_have_their_budget(tmp_path: Path) -> None:
    made = unclosed_run(tmp_path / "run")
    with (made / "journal" / "names.jsonl").open("w") as file:
        file.writelines(json.dumps(["layer", n, "n" * 1_000_000]) + "\n" for n in range(20))
    with refused("over-budget", "names.jsonl"):
        wattstep.load(made)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "much", "1e9"])
def test_a_budget_that_is_none_is_refused(
    run: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with refused("malformed-run-budget", VARIABLE, text):
        wattstep.load(run)


def test_budgets_of_honest_runs_are_far_from_used(run: Path) -> None:
    """Also of runs whose values hardly change, which pack best: a log of one value each second."""
    from wattstep.store.budget import TIMES, check_table

    for path in run.glob("*.parquet"):
        with pq.ParquetFile(path) as file:
            check_table(path.name, file.metadata, path.stat().st_size)
    rows = 1_000_000
    times = 10**18 + np.arange(rows) * 10**9 + np.random.default_rng(0).integers(0, 10**5, rows)
    channel = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), ["power"])
    table = pa.table(
        {
            "t_ns": times,
            "channel": channel,
            "value": np.full(rows, 5.0),
            "errno": np.zeros(rows, np.int16),
        }
    )
    pq.write_table(table, run / "samples.parquet", compression="zstd")
    assert table.nbytes < TIMES / 2 * (run / "samples.parquet").stat().st_size
