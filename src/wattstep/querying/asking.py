"""Asks runs in SQL: the main path from folders and a query to rows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from wattstep.errors import DamagedRunError, InvalidValueError
from wattstep.parts import load_part
from wattstep.querying.database import MOST_THREADS, Database, named, spoken
from wattstep.querying.places import FILES, Place, places, why_unreadable

BATCH: Final = 100_000  # rows that are in memory at once


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """What a query gave.

    Attributes:
        columns: Names and SQL types.
        schema: The same in Arrow.
        batches: The rows, as they are made; can be gone through once.
        runs: How many runs were asked.
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
) -> pa.Table:
    """Asks recorded runs in SQL (DuckDB's); the tables are those of `wattstep query --tables`.

    Runs that cannot be read are left out with a warning, and are rows of the table `damaged`.

    Args:
        sql: One SELECT.
        runs: A run, or a folder of runs, or several of these.
        memory: Most bytes that the query may take; None: half of what the machine has.

    Returns:
        The rows, as an Arrow table.

    Raises:
        InvalidValueError: The query is none, or fails.
        DamagedRunError: A folder is not there.
        MissingPartError: DuckDB is not installed.
    """
    folders = [runs] if isinstance(runs, (str, os.PathLike)) else list(runs)
    with ask(sql, [Path(folder) for folder in folders], memory=memory) as answer:
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
    told: Callable[[str], None] = lambda line: None,
) -> Iterator[Answer]:
    """The same while rows are read, so that an answer need not fit into memory.

    Where the first rows fail because a file is damaged in its middle, its run is left out and the
    query begins again; later it is an error.

    Args:
        sql: One SELECT.
        folders: Runs, or folders of runs.
        memory: Most bytes that the query may take; None: half of what the machine has.
        told: Called with lines of progress.

    Raises:
        InvalidValueError: The query is none, or fails.
        DamagedRunError: A folder is not there, or a file is damaged further on.
        MissingPartError: DuckDB is not installed.
    """
    found: list[Place] | None = None
    while True:
        with _database(memory) as database:
            database.check(sql)
            found = places(folders) if found is None else found
            try:
                answer = _begun(database, sql, found, told)
            except (InvalidValueError, DamagedRunError):
                damaged = _damaged(sql, found)
                if not damaged:
                    raise
                found = [
                    replace(place, problem=damaged[place.name], state="damaged")
                    if place.name in damaged
                    else place
                    for place in found
                ]
                continue
            yield answer
            return


def half_of_memory() -> int:
    """Half of the machine's memory in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _database(memory: int | None) -> Database:
    threads = min(MOST_THREADS, os.cpu_count() or 1)
    return Database(half_of_memory() if memory is None else memory, threads)


def _begun(
    database: Database, sql: str, found: Sequence[Place], told: Callable[[str], None]
) -> Answer:
    """An answer whose first rows are there: most errors show before anything was printed."""
    found = database.fill(sql, found, told)
    with translated():
        relation = database.connection.sql(sql)
        columns = tuple(zip(relation.columns, map(str, relation.types), strict=True))
        reader = database.waited(lambda: relation.to_arrow_reader(BATCH))
        first = database.waited(lambda: next(reader, None))
    return Answer(
        columns=columns,
        schema=reader.schema,
        batches=_rest(database, first, reader),
        runs=sum(place.problem is None for place in found),
        left_out={place.name: place.problem for place in found if place.problem is not None},
    )


def _rest(
    database: Database, first: pa.RecordBatch | None, reader: pa.RecordBatchReader
) -> Iterator[pa.RecordBatch]:
    while first is not None:
        yield first
        with translated():
            first = database.waited(lambda: next(reader, None))


@contextmanager
def translated() -> Iterator[None]:
    """Errors of DuckDB, and of the files that it reads, as lines for the user.

    Raises:
        InvalidValueError: The query fails.
        KeyboardInterrupt: It was interrupted.
    """
    duckdb: Any = load_part("duckdb")
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError, RuntimeError) as error:
        if "interrupt" in str(error).lower() and not isinstance(error, duckdb.BinderException):
            raise KeyboardInterrupt from error
        raise InvalidValueError(spoken(error)) from error


def _damaged(sql: str, found: Sequence[Place]) -> dict[str, str]:
    """Which runs have damaged files among those that a query names."""
    tables = named(sql, FILES)
    readable = (place for place in found if place.problem is None)
    reasons = ((place.name, why_unreadable(place, tables)) for place in readable)
    return {name: reason for name, reason in reasons if reason is not None}
