"""A run as CSV, a file a table, in a folder or a zip archive.

UTF-8, commas, heads with units. A missing value is an empty cell. A text that a spreadsheet would
take for a formula gets an apostrophe in front: names come from models and scripts of others.
"""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from wattstep.report.export.columns import headed
from wattstep.report.export.tables import ExportTable, tables
from wattstep.report.export.written import Progress, Written, failed
from wattstep.run.run import Run
from wattstep.schema.run_report import RunReport
from wattstep.schema.sanitize import FORMULA

_OPTIONS: Final = csv.WriteOptions(include_header=False, batch_size=1 << 14)


def write_folder(run: Run | RunReport, folder: Path, on_progress: Progress) -> Written:
    """Writes the tables into a folder.

    Raises:
        DamagedRunError: A table of the run cannot be read.
        OSError: The disk is full.
    """
    return _write(run, lambda name: (folder / name).open("wb"), on_progress)


def write_zip(run: Run | RunReport, file: BinaryIO, on_progress: Progress) -> Written:
    """Writes the tables of a run as CSV files into a zip archive."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        return _write(
            run, lambda name: archive.open(_dated(name), "w", force_zip64=True), on_progress
        )


def _dated(name: str) -> zipfile.ZipInfo:
    """Entry of the archive with a fixed date, so that a run gives the same bytes each time."""
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


def _write(
    run: Run | RunReport,
    opened: Callable[[str], AbstractContextManager[IO[bytes]]],
    on_progress: Progress,
) -> Written:
    counts: Counter[str] = Counter()
    for table, share in shares(run):
        on_progress(table.name, share)
        with opened(f"{table.name}.csv") as file:
            names = table.schema.names
            heads = ",".join(f'"{headed(name, names)}"' for name in names)
            file.write(f"{heads}\n".encode())
            for piece in table.pieces():
                csv.write_csv(_inert(piece), file, _OPTIONS)
                counts[table.name] += len(piece)
        counts.setdefault(table.name, 0)
    return Written(counts=dict(counts), notes=failed(run))


def shares(run: Run | RunReport) -> Iterator[tuple[ExportTable, float]]:
    """The tables, each with the share of the rows before it, of those that make a run large."""
    long = ("operations", "samples", "steps")
    total = sum(run.tables.count(name) for name in long) if isinstance(run, Run) else 0
    done = 0
    for table in tables(run):
        yield table, min(done / max(total, 1), 1.0)
        done += table.rows


def _inert(table: pa.Table) -> pa.Table:
    """Texts as they are, but for those that are formulas; numbers that are none as empty cells."""
    columns: list[Any] = []
    for each, column in zip(table.schema, table.columns, strict=True):
        if pa.types.is_dictionary(each.type):
            whole = column.combine_chunks()
            chunks = whole.chunks if isinstance(whole, pa.ChunkedArray) else [whole]
            column = pa.chunked_array([_texts(chunk) for chunk in chunks], pa.string())
        elif pa.types.is_floating(each.type):
            column = pc.if_else(pc.is_finite(column), column, None)
        columns.append(column)
    return pa.table(columns, names=table.schema.names)


def _texts(column: pa.DictionaryArray) -> pa.Array:
    texts = pc.replace_substring_regex(column.dictionary, FORMULA, r"'\1")
    return texts.take(column.indices)
