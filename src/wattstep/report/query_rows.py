"""Rows of a query as JSON, CSV and Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, TextIO
from uuid import UUID

import pyarrow.parquet as pq

from wattstep.report.json_document import dump
from wattstep.report.query import Answer
from wattstep.schema.sanitize import cell
from wattstep.store.folder import replacing


def rows(answer: Answer) -> Iterator[list[Any]]:
    """The rows, each a list of what JSON knows."""
    for batch in answer.batches:
        columns = [[jsonable(value) for value in column.to_pylist()] for column in batch.columns]
        yield from (list(row) for row in zip(*columns, strict=True))


def jsonable(value: Any) -> Any:
    """A value of a row as JSON has it: times in ISO 8601, spans of time in s, bytes in hex."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Decimal):  # sums of whole numbers
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(key): jsonable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(inner) for inner in value]
    return (
        str(value)
        if isinstance(value, UUID) or not hasattr(value, "isoformat")
        else value.isoformat()
    )


def document(answer: Answer) -> dict[str, Any]:
    """Columns with their types, rows, and the runs that were left out; JSON-ready."""
    return {
        "columns": [{"name": name, "type": kind} for name, kind in answer.columns],
        "rows": list(rows(answer)),
        "left_out": [{"run": run, "reason": reason} for run, reason in answer.left_out.items()],
    }


def write_csv(answer: Answer, stream: TextIO) -> int:
    """Writes a line of names and one for each row; NULL is empty. Returns the number of rows.

    Texts steer no terminal and are no formulas: names come from models and scripts of others.
    """
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([cell(name) for name, _ in answer.columns])
    count = 0
    for row in rows(answer):
        writer.writerow([cell(value) if isinstance(value, str) else value for value in row])
        count += 1
    return count


def write(answer: Answer, output: Path) -> int:
    """Writes the rows into a file of the kind that its name ends in.

    Returns:
        Number of rows.

    Raises:
        OSError: It cannot be written.
    """
    with replacing(output) as file:
        if output.suffix == ".parquet":
            return _write_parquet(answer, file)
        stream = io.TextIOWrapper(file, encoding="utf-8", newline="")
        try:
            if output.suffix == ".csv":
                return write_csv(answer, stream)
            rows = document(answer)
            dump(rows, stream, indented=False)
            return len(rows["rows"])
        finally:
            stream.detach()  # flushed; the file itself is closed where it was made


def _write_parquet(answer: Answer, file: BinaryIO) -> int:
    count = 0
    with pq.ParquetWriter(file, answer.schema) as writer:
        for batch in answer.batches:
            writer.write_batch(batch)
            count += batch.num_rows
    return count
