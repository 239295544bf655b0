"""A run as Parquet, a file a table, with units and meanings of the columns in the files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from wattstep.report.export.csv_tables import shares
from wattstep.report.export.written import Progress, Written, about_run, failed
from wattstep.run.run import Run
from wattstep.schema.run_report import RunReport


def write_folder(run: Run | RunReport, folder: Path, on_progress: Progress) -> Written:
    """Writes the tables into a folder.

    Raises:
        DamagedRunError: A table of the run cannot be read.
        OSError: The disk is full.
    """
    counts: Counter[str] = Counter()
    facts = {f"wattstep.{name}": text for name, text in about_run(run).facts.items()}
    for table, share in shares(run):
        on_progress(table.name, share)
        schema = table.schema.with_metadata({**(table.schema.metadata or {}), **facts})
        with (
            (folder / f"{table.name}.parquet").open("wb") as file,
            pq.ParquetWriter(file, schema, compression="zstd") as out,
        ):
            for piece in table.pieces():
                out.write_table(piece.replace_schema_metadata(schema.metadata))
                counts[table.name] += len(piece)
        counts.setdefault(table.name, 0)
    return Written(counts=dict(counts), notes=failed(run))
