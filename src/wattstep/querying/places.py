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
from wattstep.querying.tables import TABLES, Table
from wattstep.records.failures import contained
from wattstep.records.journal import JOURNAL, RUN
from wattstep.records.run_info import RunInfo
from wattstep.store.files import read_info
from wattstep.store.folder import open_plain
from wattstep.store.lock import is_recording

TABLE_ERRORS = (OSError, pa.ArrowInvalid, pa.ArrowKeyError)
DEEPEST = 3  # a sweep or a daily training in a folder of runs holds runs two folders further down
MAY_LACK = frozenset({"evaluations", "summaries"})  # older runs, and ours, have none
FILES = tuple(table for table in TABLES if table.origin == "files")


@dataclass(frozen=True, kw_only=True, eq=False)
class Place:
    """A run that was found.

    Attributes:
        name: What queries call it.
        path: Its folder.
        info: Its description, or None where it cannot be read.
        problem: Why its tables are left out, or None.
        state: That of its description; "recording" while it is, "damaged" where it cannot be read.
        tables: Where its tables lie, which is elsewhere where nothing may be written into it.
        kept: What keeps them there.
    """

    name: str
    path: Path
    info: RunInfo | None
    problem: str | None
    state: str
    tables: Path
    kept: object = None

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Names of the tables whose file it has."""
        return tuple(t.name for t in FILES if file_of(self.tables, t).exists())


def file_of(tables: Path, table: Table) -> Path:
    """The file of a table in the folder of all of them."""
    return tables / f"{table.name}.parquet"


def places(folders: Sequence[Path]) -> list[Place]:
    """Every run in these folders, those of sweeps and daily trainings too, by name.

    Raises:
        DamagedRunError: A folder is not there.
    """
    named: dict[Path, tuple[str, str]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise DamagedRunError(f"{folder}: there is no such folder")
        for run in _runs_below(folder, 0):
            below = folder.name or str(folder) if run == folder else str(run.relative_to(folder))
            named.setdefault(run.resolve(), (below, str(run)))
    names = [below for below, _ in named.values()]
    found = [
        _open(Path(given), spelled(below if names.count(below) == 1 else given))
        for below, given in named.values()
    ]
    return sorted(found, key=lambda place: place.name)


def why_unreadable(place: Place, tables: Sequence[Table]) -> str | None:
    """Reads these files of a run from end to end, and says which cannot be; None where all can."""
    for table in tables:
        if table.name in place.files:
            try:
                with (
                    open_plain(file_of(place.tables, table)) as plain,
                    pq.ParquetFile(plain) as file,
                ):
                    for _ in file.iter_batches():
                        pass
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


def _open(path: Path, name: str) -> Place:
    info: RunInfo | None = None
    problem: str | None = None
    state: str | None = None
    tables, kept = path, None
    try:
        if spelled(str(path)) != str(path):
            problem = "its path is not UTF-8: rename it"
        elif (path / JOURNAL).is_dir() and is_recording(path):
            state, problem = "recording", "it is still being recorded"
        else:
            if os.path.lexists(path / JOURNAL):  # it was never closed: it is recovered first
                from wattstep.run import load  # half a second of imports

                kept = load(path)
                tables = kept.tables.folder
            info = read_info(tables)
            problem = next((why for t in FILES if (why := _why_no_table(tables, t))), None)
    except DamagedRunError as error:
        problem = spelled(str(error))
    except OSError as error:
        problem = f"it cannot be read: {error.strerror or error}"
    except Exception as error:
        problem = spelled(f"it failed: {contained(error)}")
    state = state or ("damaged" if problem or info is None else info.state)
    return Place(
        name=name, path=path, info=info, problem=problem, state=state, tables=tables, kept=kept
    )


def _why_no_table(tables: Path, table: Table) -> str | None:
    """Why a run's file is not the table that it should be; None where it is, or need not be there."""
    path = file_of(tables, table)
    if not os.path.lexists(path):
        return None if table.name in MAY_LACK else f"it lacks {path.name}"
    try:
        with open_plain(path) as file:
            schema = pq.read_schema(file)
    except TABLE_ERRORS as error:
        return _unreadable(table, error)
    for column in table.columns:
        at = schema.get_field_index(column.name)
        if at >= 0 and not _alike(schema.field(at).type, column.arrow):
            return f"{path.name}: {column.name} is {schema.field(at).type}, not {column.arrow}"
    return None


def _alike(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of a file fit into a column: the same kind of thing."""
    kinds = [_kind(kind) for kind in (found, wanted)]
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
