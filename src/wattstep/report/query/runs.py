"""The runs below folders: which there are, what they are called, and which cannot be read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from wattstep.errors import DamagedRunError
from wattstep.recorded.reading import TABLE_ERRORS
from wattstep.report.query.tables import TABLES, Table
from wattstep.schema.failures import contained
from wattstep.schema.journal import JOURNAL, RUN
from wattstep.schema.run_info import RunInfo
from wattstep.schema.run_report import RunFacts, RunReport
from wattstep.store.budget import check_table
from wattstep.store.files import read_info
from wattstep.store.folder import open_plain
from wattstep.store.lock import is_recording

DEEPEST = 3  # a sweep or a daily training in a folder of runs holds runs two folders further down
MAY_LACK = frozenset(
    {"evaluations", "summaries", "thinned", "thinned_steps"}
)  # older runs, and ours, have none
FILES = tuple(table for table in TABLES if table.origin == "files")


@dataclass(frozen=True, kw_only=True, eq=False)
class QueriedRun:
    """A run that was found.

    Attributes:
        name: Name in queries.
        path: Its folder.
        info: Its description, or None where it cannot be read.
        problem: Why its tables are left out, or None.
        state: That of its description; "recording" while it is, "damaged" where it cannot be read.
        tables: Where its tables lie, which is elsewhere where nothing may be written into it.
        owner: Object that keeps them there.
        report: Of a run that was never recorded, what is told of it; it has no files.
    """

    name: str
    path: Path
    info: RunFacts | None
    problem: str | None
    state: str
    tables: Path
    owner: object = None
    report: RunReport | None = None

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Names of the tables whose file it has."""
        if self.report is not None:
            return ()
        return tuple(t.name for t in FILES if file_of(self.tables, t).exists())


def file_of(tables: Path, table: Table) -> Path:
    """The file of a table in the folder of all of them."""
    return tables / f"{table.name}.parquet"


def find_runs(folders: Sequence[Path]) -> list[QueriedRun]:
    """Every run in these folders, those of sweeps and daily trainings too, by name.

    Raises:
        DamagedRunError: A folder is not there.
    """
    named: dict[Path, tuple[str, str]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise DamagedRunError(f"{folder}: there is no such folder", id="no-such-store")
        for run in _runs_below(folder, 0):
            below = folder.name or str(folder) if run == folder else str(run.relative_to(folder))
            named.setdefault(run.resolve(), (below, str(run)))
    names = [below for below, _ in named.values()]
    runs = [
        _open(Path(given), spelled(below if names.count(below) == 1 else given))
        for below, given in named.values()
    ]
    return sorted(runs, key=lambda run: run.name)


def unrecorded_run(report: RunReport, name: str) -> QueriedRun:
    """A run that was never recorded, under this name."""
    path = Path(report.run or name)
    return QueriedRun(
        name=name, path=path, info=report, problem=None, state=report.state or "not recorded",
        tables=path, report=report,
    )  # fmt: skip


def why_unreadable(run: QueriedRun, tables: Sequence[Table]) -> str | None:
    """Reads these files of a run from end to end, and says which cannot be; None where all can."""
    for table in tables:
        if table.name in run.files:
            try:
                with (
                    open_plain(file_of(run.tables, table)) as plain,
                    pq.ParquetFile(plain) as file,
                ):
                    for batch in file.iter_batches():
                        batch.validate(full=True)
                        for column in table.columns:
                            if column.name in batch.schema.names:
                                batch[column.name].cast(column.arrow)
            except MemoryError:  # of the query, whose error says so
                return None
            except TABLE_ERRORS as error:
                return _unreadable(table, error)
    return None


def _runs_below(folder: Path, depth: int) -> Iterator[Path]:
    if (folder / RUN).exists():
        yield folder
        return
    try:
        inside = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir())
    except OSError:  # not ours to look into
        return
    for path in inside if depth < DEEPEST else ():
        if not Path(path).name.startswith("."):
            yield from _runs_below(Path(path), depth + 1)


def spelled(name: str) -> str:
    """A name that is text: bytes of a file system that are none become question marks."""
    return os.fsencode(name).decode("utf-8", "replace")


def _open(path: Path, name: str) -> QueriedRun:
    info: RunInfo | None = None
    problem: str | None = None
    state: str | None = None
    tables, folder = path, None
    try:
        if spelled(str(path)) != str(path):
            problem = "its path is not UTF-8: rename it"
        elif (path / JOURNAL).is_dir() and is_recording(path):
            state, problem = "recording", "it is still being recorded"
        else:
            if os.path.lexists(path / JOURNAL):  # it was never closed: it is recovered first
                from wattstep.run import load  # half a second of imports

                folder = load(path)
                tables = folder.tables.folder
            info = read_info(tables)
            problem = next((why for t in FILES if (why := _why_no_table(tables, t))), None)
    except DamagedRunError as error:
        problem = spelled(str(error))
    except OSError as error:
        problem = f"it cannot be read: {error.strerror or error}"
    except Exception as error:
        problem = spelled(f"it failed: {contained(error)}")
    state = state or ("damaged" if problem or info is None else info.state)
    return QueriedRun(
        name=name, path=path, info=info, problem=problem, state=state, tables=tables, owner=folder
    )


def _why_no_table(tables: Path, table: Table) -> str | None:
    """Reason why a run's file is not the table that it should be; None where it is, or need not be there."""
    path = file_of(tables, table)
    if not os.path.lexists(path):
        return None if table.name in MAY_LACK else f"it lacks {path.name}"
    try:
        with open_plain(path) as file, pq.ParquetFile(file) as parquet:
            schema = parquet.schema_arrow
            check_table(path.name, parquet.metadata, os.fstat(file.fileno()).st_size)
    except DamagedRunError as error:
        return str(error)
    except TABLE_ERRORS as error:
        return _unreadable(table, error)
    for column in table.columns:
        at = schema.get_field_index(column.name)
        if at >= 0 and not _alike(schema.field(at).type, column.arrow):
            return f"{path.name}: {column.name} is {schema.field(at).type}, not {column.arrow}"
    return None


def _alike(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """True if values of a file fit into a column: both are of the same kind."""
    kinds = [_kind(kind) for kind in (stored, wanted)]
    return kinds[0] == kinds[1]


def _kind(type_: pa.DataType) -> Literal["text", "number", "truth", "list", "other"]:
    if pa.types.is_dictionary(type_):
        return _kind(type_.value_type)
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return "text"
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return "number"
    if pa.types.is_boolean(type_):
        return "truth"
    return "list" if pa.types.is_list(type_) else "other"


def _unreadable(table: Table, error: Exception) -> str:
    return f"{table.name}.parquet cannot be read: {error}"
