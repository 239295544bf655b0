"""A DuckDB that knows the tables of runs and nothing else: it reaches no file, and no setting can be changed."""

from __future__ import annotations

import concurrent.futures
import math
import re
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timezone
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from wattstep.errors import InvalidValueError
from wattstep.report.query.figures import figures
from wattstep.report.query.memory_limit import MemoryLimit
from wattstep.report.query.runs import QueriedRun, file_of, spelled
from wattstep.report.query.tables import BY_NAME, TABLES, Table
from wattstep.schema.extras import require
from wattstep.schema.run_info import RunInfo
from wattstep.schema.run_report import RunReport
from wattstep.store.held import HeldFolder

if TYPE_CHECKING:
    import duckdb
    from pyarrow import dataset

Result = TypeVar("Result")
MOST_THREADS: Final = 4
READS: Final = "samples_as_read"  # what the view `samples` joins with `channels`
SAMPLES: Final = f"""
CREATE VIEW samples AS
SELECT s.*, c.unit, c.kind, c.domain, c.role, c.core, c.status
FROM {READS} s LEFT JOIN channels c ON c.run = s.run AND c.channel = s.channel
"""
# Runs are handed over as Arrow data sets, so that no file has to be allowed: a file that is allowed
# can be written, too (COPY ... TO). Locked from the start: parsing alone may open a file (IMPORT).
LOCKS: Final = (
    # A data set tells it no number of rows, so that it would take samples for the smaller side of
    # a join with channels, and keep all of them, each with its text, in memory.
    "SET disabled_optimizers = 'build_side_probe_side'",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
# DuckDB 2 takes statements that write for a part of a SELECT: WITH x AS (INSERT ...).
WRITING: Final = ("copy", "delete", "insert", "merge", "update")


class Database:
    """A database in memory with the tables of some runs that a query names.

    Args:
        memory: Most bytes that it may take before it goes to disk.
        threads: Most threads.
        seconds: Most that it may work.

    Raises:
        MissingPartError: DuckDB is not installed.
    """

    def __init__(self, memory: int, threads: int, seconds: float = math.inf) -> None:
        self._duckdb: Any = require("duckdb")
        # Of a query that was killed, the next one removes it.
        self._spill = HeldFolder(Path(tempfile.gettempdir()), "wattstep-query-")
        self._until = time.monotonic() + seconds
        self._seconds = seconds
        self._limit = MemoryLimit(memory)
        try:
            self.connection = self._connected(memory, threads)
        except BaseException:  # SIGTERM, too
            self._spill.remove()
            raise

    def _connected(self, memory: int, threads: int) -> duckdb.DuckDBPyConnection:
        connection: duckdb.DuckDBPyConnection = self._duckdb.connect(
            ":memory:",
            config={
                "memory_limit": f"{max(memory // 1_000_000, 1)}MB",
                "threads": str(threads),
                "temp_directory": str(self._spill.path),
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "allow_community_extensions": "false",
                "allow_persistent_secrets": "false",
                "python_enable_replacements": "false",
            },
        )
        for setting in LOCKS:
            connection.execute(setting)
        return connection

    def __enter__(self) -> Database:
        self._limit.set()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.connection.close()
        finally:
            self._limit.lift()
            self._spill.remove()

    def check(self, sql: str) -> None:
        """Refuses what is not one SELECT.

        Raises:
            InvalidValueError: It is something else, or several, or cannot be parsed.
        """
        try:
            statements = self.connection.extract_statements(sql)
        except (self._duckdb.Error, ValueError) as error:
            raise InvalidValueError(spoken(error), id="query-failed") from error
        if len(statements) != 1:
            raise InvalidValueError(
                f"one SELECT is wanted, not {len(statements)} statements", id="not-a-select"
            )
        kind = statements[0].type
        if kind != self._duckdb.StatementType.SELECT or self._writes(sql):
            raise InvalidValueError(
                "one SELECT is wanted: queries read, and change nothing", id="not-a-select"
            )

    def _writes(self, sql: str) -> bool:
        """True if a parenthesis begins with a statement that writes."""
        text = sql.encode()
        starts = [start for start, _ in self._duckdb.tokenize(sql)]
        words = [
            text[start:end].decode(errors="replace").strip().lower()
            for start, end in zip(starts, [*starts[1:], len(text)], strict=True)
        ]
        words = [word for word in words if not word.startswith(("--", "/*"))]
        return any(
            word.endswith("(") and following.split("(")[0].split()[:1] == [each]
            for word, following in pairwise(words)
            for each in WRITING
        )

    def fill(
        self, sql: str, runs: Sequence[QueriedRun], warn: Callable[[str], None]
    ) -> list[QueriedRun]:
        """Makes the tables whose names stand in a query.

        Args:
            sql: The query.
            runs: All runs, those that cannot be read as well.
            warn: Called with lines of progress.

        Returns:
            The runs, those whose figures could not be worked out now with their problem.
        """
        wanted = named(sql, TABLES)
        names = {table.name for table in wanted}
        if any(table.origin == "figures" for table in wanted):
            runs = self._fill_figures(wanted, runs, warn)
        if "samples" in names:
            names.add("channels")
        readable = [run for run in runs if run.problem is None]
        for name, rows in (
            ("runs", [_run_row(run) for run in runs]),
            ("channels", [row for run in readable for row in _channel_rows(run)]),
            ("damaged", [{"run": p.name, "reason": p.problem} for p in runs if p.problem]),
        ):
            if name in names:
                self._keep(BY_NAME[name], rows)
        for table in wanted:
            if table.origin == "files":
                self._show(table, readable)
        return list(runs)

    def waited(self, work: Callable[[], Result]) -> Result:
        """Result of some work of the database; Ctrl-C ends it, which DuckDB by itself does not heed.

        Raises:
            KeyboardInterrupt: It was ended.
            InvalidValueError: The query takes longer than it may.
        """
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(work)
            try:
                left_s = min(max(self._until - time.monotonic(), 0.0), threading.TIMEOUT_MAX)
                return future.result(left_s)
            except concurrent.futures.TimeoutError as error:
                self.connection.interrupt()
                raise InvalidValueError(
                    f"the query takes longer than {self._seconds:g} s: ask for less, or allow more "
                    "(--timeout 1h; timeout_s in Python)",
                    id="query-timeout",
                ) from error
            except (KeyboardInterrupt, SystemExit):
                self.connection.interrupt()
                raise

    def _fill_figures(
        self, wanted: Sequence[Table], runs: Sequence[QueriedRun], warn: Callable[[str], None]
    ) -> Sequence[QueriedRun]:
        rows, unreadable = figures([run for run in runs if run.problem is None], warn)
        problems = {run.name: reason for run, reason in unreadable}
        for table in wanted:
            if table.origin == "figures":
                self._keep(table, rows.get(table.name, []))
        return [
            replace(run, problem=problems[run.name], state="damaged")
            if run.name in problems
            else run
            for run in runs
        ]

    def _keep(self, table: Table, rows: Sequence[dict[str, Any]]) -> None:
        """A table of rows that are at hand."""
        self.connection.register("rows", pa.Table.from_pylist(list(rows), schema=table.schema))
        self.connection.execute(f"CREATE TABLE {table.name} AS SELECT * FROM rows")
        self.connection.unregister("rows")

    def _show(self, table: Table, runs: Sequence[QueriedRun]) -> None:
        """A table that is read from the files of runs while a query wants it."""
        name = READS if table.name == "samples" else table.name
        self.connection.register(name, _dataset(table, runs))
        if table.name == "samples":
            self.connection.execute(SAMPLES)


def named(sql: str, tables: Sequence[Table]) -> list[Table]:
    """The tables whose names stand anywhere in a query: one too many costs time and nothing else."""
    return [table for table in tables if re.search(rf"(?i)\b{table.name}\b", sql)]


def _dataset(table: Table, runs: Sequence[QueriedRun]) -> dataset.FileSystemDataset:
    """The files of a table in all runs, with the run as a column; columns that one lacks are NULL.

    The name of a run is a value here, not a part of a query or of a pattern of files.
    """
    from pyarrow import dataset, fs

    texts = [column.name for column in table.columns if column.coded]
    options = dataset.ParquetReadOptions(dictionary_columns=texts)
    form, local = dataset.ParquetFileFormat(read_options=options), fs.LocalFileSystem()
    fragments = [
        form.make_fragment(
            str(file_of(run.tables, table).absolute()),
            filesystem=local,
            partition_expression=dataset.field("run") == run.name,
        )
        for run in runs
        if table.name in run.files
    ]
    inside = {column.name for column in BY_NAME["channels"].columns} - {"run", "channel"}
    fields = [
        field for field in table.schema if table.name != "samples" or field.name not in inside
    ]
    return dataset.FileSystemDataset(fragments, pa.schema(fields), form, local)


def spoken(error: BaseException) -> str:
    """An error of DuckDB as one line: what is wrong and its hint, without the picture of the query."""
    unknown = re.search(r"Table with name (\S+) does not exist", str(error))
    if unknown is not None:
        near = get_close_matches(unknown[1].lower(), [*BY_NAME], 1)
        hint = f'Did you mean "{near[0]}"? ' if near else ""
        return f"there is no table {unknown[1]}: {hint}wattstep query --tables lists them"
    text = re.sub(r"\n+LINE \d+:.*?\n\s*\^+\s*", "\n", str(error), flags=re.DOTALL)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # What is wrong and a hint; never how to switch on what is off (extensions).
    return "; ".join(line for line in lines[:2] if not line.startswith("Please try installing"))


def _run_row(run: QueriedRun) -> dict[str, Any]:
    row: dict[str, Any] = {
        "run": run.name, "path": spelled(str(run.path)), "state": run.state, "problem": run.problem,
    }  # fmt: skip
    info = run.info
    if info is None:
        return row
    given = {name: getattr(info, name) for name in ("workload", "title", "engine", "precision")}
    numbers = {name: getattr(info, name) for name in ("batch_size", "threads", "seed")}
    numbers["warmup"] = info.steps.warmup if isinstance(info, RunReport) else info.warmup
    return {
        **row, **{name: None if value is None else str(value) for name, value in given.items()},
        **{name: _whole(value) for name, value in numbers.items()},
        "created": _moment(info.created), "processor": _text(info.processor),
        "device": _text(info.device.get("model")), "cpu": _text(info.device.get("cpu")),
        "cores": _whole(info.device.get("cores")), "memory": _whole(info.device.get("memory")),
        "target": info.target, "parameters": _whole(info.model.get("parameters")),
        "data": None if info.data is None else _text(info.data.name),
        "stand_in": None if info.data is None else bool(info.data.stand_in),
        "interval": info.interval_s or None,
        "power_model": None if not info.power_model else _text(info.power_model.get("name")),
        "imported": bool(info.imported),
    }  # fmt: skip


def _channel_rows(run: QueriedRun) -> list[dict[str, Any]]:
    info, rows = run.info, {}
    for read in info.reads if isinstance(info, RunInfo) else ():
        for channel in read.channels:
            rows[channel.name] = {
                "run": run.name, "channel": channel.name, "unit": channel.unit,
                "kind": channel.kind, "domain": channel.domain, "role": channel.role,
                "core": _whole(channel.core), "status": channel.status, "source": channel.source,
                "sensor": read.sensor, "resolution": channel.resolution,
                "window": channel.window_s, "most": channel.limit, "note": channel.note,
            }  # fmt: skip
    return list(rows.values())


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _whole(value: object) -> int | None:
    """A number that fits its column; what is none, in a file of others, is not told."""
    fits = isinstance(value, (int, float)) and abs(value) < 2**63 and value == int(value)
    return int(value) if fits and isinstance(value, (int, float)) else None


def _moment(text: str) -> datetime | None:
    """When a run began, in UTC; None where that is garbled."""
    try:
        return (
            datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z")
            .astimezone(timezone.utc)
            .replace(tzinfo=None)
        )
    except (TypeError, ValueError):
        return None
