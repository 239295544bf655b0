"""What queries cannot do: every attack is made for real, against a file that must stay as it is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.querying.made import made

import wattstep
from wattstep.errors import InvalidValueError
from wattstep.report.query import ask

pytest.importorskip("duckdb", reason="the extra query is not installed")
WRITES = "one SELECT is wanted"
REACHES = "(?i)disabled|cannot access|not allowed|does not exist|no table|cannot change|not in the catalog"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("store")
    made(root / "runs" / "a")
    (root / "secret.csv").write_text("word\nswordfish\n")
    return root


@pytest.fixture(autouse=True)
def unharmed(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = _state(folder)
    yield
    assert _state(folder) == before


def _state(folder: Path) -> dict[Path, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO '{root}/out.csv'",
        "COPY (SELECT 1) TO '{root}/runs/a/steps.parquet' (USE_TMP_FILE false)",
        "ATTACH '{root}/x.db'",
        "ATTACH ':memory:' AS other",
        "INSTALL httpfs",
        "LOAD httpfs",
        "LOAD '{root}/secret.csv'",
        "PRAGMA threads=8",
        "PRAGMA enable_profiling",
        "SET memory_limit = '100GB'",
        "SET GLOBAL enable_external_access = true",
        "RESET lock_configuration",
        "CREATE TABLE t AS SELECT 1",
        "CREATE OR REPLACE VIEW steps AS SELECT 1",
        "CREATE PERSISTENT SECRET s (TYPE s3)",
        "DROP VIEW IF EXISTS steps",
        "INSERT INTO runs VALUES (1)",
        "UPDATE runs SET run = 'x'",
        "DELETE FROM runs",
        "EXPORT DATABASE '{root}/out'",
        "IMPORT DATABASE '{root}'",
        "CALL enable_logging(storage = 'file', storage_path = '{root}/log')",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{root}/out.csv'",
        "SELECT 1; DROP TABLE runs",
        "SELECT 1; COPY (SELECT 1) TO '{root}/out.csv'",
        "WITH x AS (COPY (SELECT 5) TO '{root}/runs/a/steps.parquet' (USE_TMP_FILE false)) FROM x",
        "WITH x AS ( /* here */ INSERT INTO runs SELECT * FROM runs RETURNING *) FROM x",
        "WITH x AS MATERIALIZED (\n-- (\nDELETE FROM runs RETURNING *) FROM x",
        "BEGIN",
        "CHECKPOINT",
        "",
        "-- nothing",
    ],
)
def test_what_is_not_one_select_is_refused(folder: Path, sql: str) -> None:
    with pytest.raises(InvalidValueError, match=f"{WRITES}|CTE needs|disabled by"):
        wattstep.query(sql.format(root=folder), runs=folder / "runs")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{root}/secret.csv')",
        "SELECT * FROM '{root}/secret.csv'",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_blob('{root}/secret.csv')",
        "SELECT * FROM read_json('/proc/self/environ')",
        "SELECT * FROM read_parquet('{root}/runs/a/steps.parquet')",
        "SELECT * FROM parquet_metadata('{root}/runs/a/steps.parquet')",
        "SELECT * FROM sniff_csv('{root}/secret.csv')",
        "SELECT * FROM glob('{root}/*')",
        "SELECT * FROM query('SELECT * FROM read_text(''{root}/secret.csv'')')",
        "SELECT * FROM 'https://example.org/x.csv'",
        "SELECT getenv('HOME')",
        "SELECT * FROM folder",  # a variable of the caller's
        "SELECT * FROM sqlite_scan('{root}/secret.csv', 't')",
        "SELECT run FROM steps WHERE run IN (SELECT content FROM read_text('{root}/secret.csv'))",
    ],
)
def test_no_file_and_no_network_can_be_reached(folder: Path, sql: str) -> None:
    with pytest.raises(InvalidValueError, match=REACHES) as refused:
        wattstep.query(sql.format(root=folder), runs=folder / "runs")
    assert "swordfish" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_settings_are_those_that_were_made(folder: Path) -> None:
    sql = (
        "SELECT name, value FROM duckdb_settings() WHERE name IN ('enable_external_access', "
        "'lock_configuration', 'autoload_known_extensions', 'allowed_paths', 'memory_limit')"
    )
    found = wattstep.query(sql, runs=folder / "runs", memory=200_000_000).to_pydict()
    settings = dict(zip(found["name"], found["value"], strict=True))
    assert settings["enable_external_access"] == settings["autoload_known_extensions"] == "false"
    assert settings["lock_configuration"] == "true"
    assert settings["allowed_paths"] == "[]"
    assert settings["memory_limit"].startswith("190.7")  # MiB


def test_what_only_looks_like_writing_is_a_query(folder: Path) -> None:
    sql = "SELECT 'WITH x AS (DELETE FROM runs)' AS \"copy\", replace('a', 'a', 'b') -- (insert"
    assert wattstep.query(sql, runs=folder / "runs")["copy"].to_pylist() == [
        "WITH x AS (DELETE FROM runs)"
    ]


def test_what_spills_is_removed_and_stays_within_the_memory(folder: Path) -> None:
    sql = "SELECT count(DISTINCT range::VARCHAR) FROM range(2000000)"
    with ask(sql, [folder / "runs"], memory=100_000_000) as answer:
        assert next(answer.batches).column(0)[0].as_py() == 2_000_000
