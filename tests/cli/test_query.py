"""`wattstep query` as people and scripts use it: output, one line for what is wrong, Ctrl-C."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.command_line import Command
from tests.querying.made import made
from tests.refusals import id_in
from tests.wording import assert_says

from wattstep.report.query.tables import TABLES

pytest.importorskip("duckdb", reason="the extra query is not installed")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    made(folder / "a")
    return folder


@pytest.fixture
def query(runs: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Asks these runs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "120")
    return lambda *words: command("query", *words, "--runs", runs)


def test_a_table_says_how_many_rows_there_are(query: Command) -> None:
    code, out, err = query("SELECT range AS n FROM range(100)", "--rows", 3, "--quiet")
    assert code == 0
    *rows, counted = [line.strip() for line in out.splitlines()[2:]]
    assert rows == ["0", "1", "2"]
    assert_says(counted, "100 rows", 3, "--csv", "--json", "-o")
    assert err == ""


def test_a_row_wider_than_the_terminal_is_a_line_a_column_and_no_word_is_broken(
    query: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = [f"column_{n:02}" for n in range(12)]
    sql = "SELECT " + ", ".join(f"'value number {n}' AS {name}" for n, name in enumerate(names))
    _, out, _ = query(sql + ", NULL AS nothing")
    lines = out.splitlines()
    assert [line.split(maxsplit=1) for line in lines[:-2]] == [
        [name, f"value number {n}"] for n, name in enumerate(names)
    ]
    assert lines[-1] == "1 row"


def test_json_is_one_document_without_nan(query: Command) -> None:
    sql = "SELECT 'nan'::DOUBLE AS x, 1e999 AS y, sum(range) AS s, DATE '2026-11-20' AS d FROM range(4)"
    code, out, _ = query(sql, "--json")
    document = json.loads(out)
    assert code == 0
    assert document["rows"] == [[None, None, 6, "2026-11-20"]]
    assert document["columns"][2] == {"name": "s", "type": "HUGEINT"}
    assert document["left_out"] == []


def test_csv_keeps_what_a_cell_holds(query: Command) -> None:
    _, out, _ = query("""SELECT 'a,"b"' AS x, NULL AS y, [1, 2] AS z""", "--csv")
    assert list(csv.reader(io.StringIO(out))) == [["x", "y", "z"], ['a,"b"', "", "[1, 2]"]]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07a", "\ufffd]0;title\ufffda"),
        ("a\x9b31m", "a\ufffd31m"),
        ("\u202egnp.exe", "⟨U+202E⟩gnp.exe"),
        ('=HYPERLINK("x")', '\'=HYPERLINK("x")'),
        (" @SUM(1)", "' @SUM(1)"),
        ("aten::mm=", "aten::mm="),
    ],
)
def test_csv_steers_no_terminal_and_is_no_formula(
    query: Command, tmp_path: Path, text: str, shown: str
) -> None:
    sql = f"SELECT '{text}' AS x, -2 AS y"
    _, out, _ = query(sql, "--csv")
    assert list(csv.reader(io.StringIO(out))) == [["x", "y"], [shown, "-2"]]
    query(sql, "-o", tmp_path / "rows.csv")
    assert (tmp_path / "rows.csv").read_text(encoding="utf-8") == out


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_rows_go_into_a_file(query: Command, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"out.{kind}"
    code, out, _ = query("SELECT range AS n FROM range(250000)", "-o", path)
    assert (code, out) == (0, f"250,000 rows: {path}\n")
    if kind == "parquet":
        assert pq.read_table(path)["n"].to_pylist()[-1] == 249_999
    elif kind == "csv":
        assert path.read_text().splitlines()[-1] == "249999"
    else:
        assert json.loads(path.read_text())["rows"][-1] == [249_999]


def test_hostile_text_does_not_steer_the_terminal(query: Command) -> None:
    _, out, _ = query(
        "SELECT chr(27) || '[31m' || chr(8238) || '[bold]' AS x, repeat('y', 10000) AS z"
    )
    assert "\x1b[31m" not in out
    assert "\u202e" not in out
    assert "[bold]" in out
    assert out.count("y") < 300
    code, _, err = query("SELECT (chr(27) || '[31m')::INTEGER")
    assert code == 2
    assert "\x1b" not in err


@pytest.mark.parametrize(
    ("arguments", "id", "named"),
    [
        (["selec 1"], "query-failed", "syntax error"),
        (["SELECT los FROM steps"], "query-failed", '"loss"'),
        (["DROP TABLE runs"], "not-a-select", "SELECT"),
        (["SELECT 1", "--memory", "lots"], "malformed-size", "--memory lots"),
        (["SELECT 1", "-o", "x.txt"], "unknown-suffix", ".parquet, .csv, .json"),
        ([], "no-query", "--tables"),
        (["-f", "nowhere.sql"], "unreadable-file", "nowhere.sql"),
    ],
)
def test_what_is_wrong_is_one_line(
    query: Command, arguments: list[str], id: str, named: str
) -> None:
    code, out, err = query(*arguments, "--json", "--quiet")
    assert (code, id_in(out)) == (2, id)
    assert named in err
    assert len(err.splitlines()) == 1


def test_one_form_of_output_is_taken(query: Command) -> None:
    code, out, err = query("SELECT 1", "--json", "--csv")
    assert (code, id_in(out)) == (2, "two-forms")
    assert "--json" in err


def test_nothing_is_written_into_a_run(query: Command, runs: Path) -> None:
    code, _, err = query("SELECT 1", "-o", runs / "a" / "steps.parquet")
    assert code == 2
    assert "lies in a run" in err


def test_sql_comes_from_a_file_or_the_input(
    query: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "q.sql"
    path.write_text("SELECT 1 AS x\n-- and no more\n;")
    assert query("-f", path, "--csv")[1] == "x\n1\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 2 AS x"))
    assert query("-", "--csv")[1] == "x\n2\n"


def test_the_tables_are_listed_with_units(query: Command) -> None:
    document = json.loads(query("--tables", "--json")[1])
    assert [table["name"] for table in document["tables"]] == [table.name for table in TABLES]
    out = query("--tables")[1]
    assert all(f"\n{table.name}: " in out for table in TABLES)


def test_progress_goes_to_standard_error(query: Command) -> None:
    sql = "SELECT count(*) AS n FROM metrics"
    _, out, err = query(sql, "--json")
    assert json.loads(out)["rows"][0][0] > 10
    assert all(
        line.startswith("reading runs") for line in err.splitlines()
    )  # of two seconds or more


def test_ctrl_c_ends_a_long_query(runs: Path, tmp_path: Path) -> None:
    sql = "SELECT range FROM range(100000000000)"  # rows without end, so that it has surely begun
    child = subprocess.Popen(
        [sys.executable, "-m", "wattstep", "query", sql, "--csv", "--quiet", "--runs", str(runs)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == b"range\n"
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=600)
    assert child.returncode == 130
    assert err.startswith(b"wattstep: stopped")


def test_ctrl_c_ends_a_query_that_gives_no_row(runs: Path) -> None:
    # In a process of its own, which sends the signal to itself while DuckDB is at it.
    script = (
        "import os, signal, sys, threading\n"
        "from wattstep.cli import run_command_line\n"
        "import wattstep.report.query.database as database\n"
        "started = database.Database.waited\n"
        "def waited(self, work):\n"
        "    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "    return started(self, work)\n"
        "database.Database.waited = waited\n"
        "sys.exit(run_command_line())\n"
    )
    sql = "SELECT count(*) FROM range(10000000000) a, range(1000) b WHERE a.range * b.range % 7 = 3"
    done = subprocess.run(
        [sys.executable, "-c", script, "query", sql, "--runs", str(runs)],
        capture_output=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 130
