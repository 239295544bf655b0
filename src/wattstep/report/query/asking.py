"""Asks runs in SQL: the main path from folders and a query to rows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from wattstep.errors import DamagedRunError, InvalidValueError
from wattstep.report.query.database import MOST_THREADS, Database, named, spoken
from wattstep.report.query.runs import FILES, QueriedRun, find_runs, unrecorded_run, why_unreadable
from wattstep.schema.extras import require
from wattstep.schema.run_report import RunReport

BATCH: Final = 100_000  # rows that are in memory at once
MOST_S: Final = 600.0  # that a query may work


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """Result of a query.

    Attributes:
        columns: Names and SQL types.
        schema: Columns in Arrow.
        batches: The rows, as they are made; can be gone through once.
        runs: Number of runs asked.
        left_out: Runs that could not be read, by name, each with the reason.
    """

    columns: tuple[tuple[str, str], ...]
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    runs: int
    left_out: dict[str, str]


def query(
    sql: str,
    runs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = "runs",
    memory: int | None = None,
    *,
    timeout_s: float = MOST_S,
    reports: Mapping[str, RunReport] = MappingProxyType({}),
) -> pa.Table:
    """Asks recorded runs in SQL (DuckDB's); the tables are those of `wattstep query --tables`.

    Runs that cannot be read are left out with a warning, and are rows of the table `damaged`.

    Args:
        sql: One SELECT.
        runs: A run, or a folder of runs, or several of these.
        memory: Most bytes that the query may take; None: half of what the machine has.
        timeout_s: Most seconds that it may work, figures of runs left out.
        reports: Runs that were never recorded (predicted, simulated), by the name that they have
            in the tables.

    Returns:
        The rows, as an Arrow table.

    Raises:
        InvalidValueError: The query is none, or fails.
        DamagedRunError: A folder is not there.
        MissingPartError: DuckDB is not installed.
    """
    folders = [runs] if isinstance(runs, (str, os.PathLike)) else list(runs)
    with ask(
        sql, list(map(Path, folders)), memory=memory, timeout_s=timeout_s, reports=reports
    ) as answer:
        table = pa.Table.from_batches(answer.batches, answer.schema)
    for name, reason in answer.left_out.items():
        warnings.warn(f"left out {name}: {reason}", stacklevel=2)
    return table


@contextmanager
def ask(
    sql: str,
    folders: Sequence[Path],
    *,
    memory: int | None = None,
    timeout_s: float = MOST_S,
    warn: Callable[[str], None] = lambda line: None,
    reports: Mapping[str, RunReport] = MappingProxyType({}),
) -> Iterator[Answer]:
    """Yields the answer to a query while rows are read, so that it need not fit into memory.

    Where the first rows fail because a file is damaged in its middle, its run is left out and the
    query begins again; later it is an error.

    Args:
        sql: One SELECT.
        folders: Runs, or folders of runs.
        memory: Most bytes that the query may take; None: half of what the machine has.
        timeout_s: Most seconds that it may work.
        warn: Called with lines of progress.
        reports: Runs that were never recorded, by name.

    Raises:
        InvalidValueError: The query is none, or fails.
        DamagedRunError: A folder is not there, or a file is damaged further on.
        MissingPartError: DuckDB is not installed.
    """
    runs: list[QueriedRun] | None = None
    while True:
        with _database(memory, timeout_s) as database:
            database.check(sql)
            if runs is None:
                runs = [
                    *find_runs(folders),
                    *(unrecorded_run(reports[name], name) for name in reports),
                ]
            try:
                answer = _begun(database, sql, runs, warn)
            except (InvalidValueError, DamagedRunError):
                damaged = _damaged(sql, runs)
                if not damaged:
                    raise
                runs = [
                    replace(run, problem=damaged[run.name], state="damaged")
                    if run.name in damaged
                    else run
                    for run in runs
                ]
                continue
            try:
                yield answer
            except MemoryError as error:  # of whoever makes text of the rows
                raise _needs_more() from error
            return


def half_of_memory() -> int:
    """Half of the machine's memory in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _database(memory: int | None, seconds: float) -> Database:
    threads = min(MOST_THREADS, os.cpu_count() or 1)
    return Database(half_of_memory() if memory is None else memory, threads, seconds)


def _begun(
    database: Database, sql: str, runs: Sequence[QueriedRun], warn: Callable[[str], None]
) -> Answer:
    """An answer whose first rows are there: most errors show before anything was printed."""
    runs = database.fill(sql, runs, warn)
    with translated():
        relation = database.connection.sql(sql)
        columns = tuple(zip(relation.columns, map(str, relation.types), strict=True))
        reader = database.waited(lambda: relation.to_arrow_reader(BATCH))
        first = _next(database, reader)
    return Answer(
        columns=columns,
        schema=reader.schema,
        batches=_rest(database, first, reader),
        runs=sum(run.problem is None for run in runs),
        left_out={run.name: run.problem for run in runs if run.problem is not None},
    )


def _rest(
    database: Database, first: pa.RecordBatch | None, reader: pa.RecordBatchReader
) -> Iterator[pa.RecordBatch]:
    while first is not None:
        yield first
        with translated():
            first = _next(database, reader)


def _next(database: Database, reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    batch = database.waited(lambda: next(reader, None))
    if batch is not None:
        batch.validate(full=True)  # DuckDB passes text on that is not UTF-8
    return batch


def _needs_more() -> InvalidValueError:
    return InvalidValueError(
        "the query needs more memory than it may take: ask for less, or allow more (--memory 4GiB)",
        id="query-failed",
    )


@contextmanager
def translated() -> Iterator[None]:
    """Errors of DuckDB, and of the files that it reads, as lines for the user.

    Raises:
        InvalidValueError: The query fails.
        KeyboardInterrupt: It was interrupted.
    """
    duckdb: Any = require("duckdb")
    try:
        yield
    except InvalidValueError:
        raise
    except MemoryError as error:
        raise _needs_more() from error
    except (duckdb.Error, pa.ArrowException, OSError, RuntimeError) as error:
        if "interrupt" in str(error).lower() and not isinstance(error, duckdb.BinderException):
            raise KeyboardInterrupt from error
        raise InvalidValueError(spoken(error), id="query-failed") from error


def _damaged(sql: str, runs: Sequence[QueriedRun]) -> dict[str, str]:
    """Reasons why files of runs that a query names cannot be read, by run."""
    tables = named(sql, FILES)
    readable = (run for run in runs if run.problem is None)
    reasons = ((run.name, why_unreadable(run, tables)) for run in readable)
    return {name: reason for name, reason in reasons if reason is not None}
