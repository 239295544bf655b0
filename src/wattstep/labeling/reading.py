"""Samples in files (CSV, NPY, Parquet), read in pieces: a file may be larger than memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.labeling.arrays import Floats

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES: Final = (".csv", ".npy", ".parquet")
MOST_LABELED: Final = 1_000_000  # rows of a labeled set, which is read whole
ENDS: Final = 1 << 20  # bytes at either end of a file that tell it from another
VALUES_READ: Final = 1 << 19  # at a time, of all features together
BUFFER: Final = 1 << 16  # bytes of a column of a Parquet file that are read at a time


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Samples that follow each other.

    Attributes:
        file: Index of their file.
        first: Row of the first of them in it.
        x: Shape (n, features); NaN where a value is missing or no number.
    """

    file: int
    first: int
    x: Floats


@dataclass(frozen=True, kw_only=True)
class Table:
    """A file of samples.

    Attributes:
        path: The file.
        columns: Names of its columns; `0`, `1` and so on of an array.
    """

    path: Path
    columns: tuple[str, ...]


def identity(path: Path) -> str:
    """Size and a hash of both ends of a file, by which a changed one is known."""
    with _read(path), path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        digest = hashlib.sha256()
        for begin in (0, max(size - ENDS, 0)):
            file.seek(begin)
            digest.update(file.read(ENDS))
    return f"{size} bytes, SHA-256 of both ends {digest.hexdigest()}"


def open_table(path: Path) -> Table:
    """A file of samples, whose columns are read.

    Raises:
        InvalidValueError: It cannot be read, is of another kind, or has a column twice.
    """
    table = _opened(path)
    twice = sorted({name for name in table.columns if table.columns.count(name) > 1})
    if twice:
        raise InvalidValueError(f"{path} has the column {twice[0]} twice", id="column-twice")
    return table


def _opened(path: Path) -> Table:
    with _read(path):
        if path.suffix == ".npy":
            array = np.load(path, mmap_mode="r", allow_pickle=False)
            if array.dtype.kind not in "biuf":
                raise InvalidValueError(
                    f"{path}: values of the type {array.dtype}: real numbers are needed",
                    id="not-numbers",
                )
            if array.ndim < 2:
                raise InvalidValueError(
                    f"{path}: an array of shape {array.shape}: (samples, features) is needed",
                    id="data-shape",
                )
            return Table(path=path, columns=tuple(map(str, range(int(np.prod(array.shape[1:]))))))
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            return Table(path=path, columns=tuple(pq.read_schema(path).names))
        if path.suffix == ".csv":
            from pyarrow import csv

            with csv.open_csv(path) as reader:
                return Table(path=path, columns=tuple(reader.schema.names))
    raise InvalidValueError(f"{path}: data come as {', '.join(SUFFIXES)}", id="unknown-data-format")


def pieces(
    tables: Sequence[Table],
    features: Sequence[str],
    size: int,
    *,
    first: int = 0,
    skip: int = 0,
) -> Iterator[Piece]:
    """The samples of all files, in their order.

    Args:
        tables: The files, each with all features.
        features: Columns to read, in the order in which they are wanted.
        size: Samples of a piece; the last one of a file may have fewer.
        first: Index of the file to begin with.
        skip: Samples at its beginning that are passed over.

    Raises:
        InvalidValueError: A file cannot be read, or a column holds no numbers.
    """
    for number, table in enumerate(tables[first:], first):
        at = 0
        with _read(table.path):
            for block in _blocks(table, features, size):
                if skip >= len(block):
                    skip -= len(block)
                    at += len(block)
                    continue
                yield Piece(file=number, first=at + skip, x=block[skip:])
                at += len(block)
                skip = 0


def check_columns(table: Table, features: Sequence[str], widths: Collection[int]) -> None:
    """Refuses a file that does not have the features.

    Args:
        table: The file.
        features: Columns that are wanted.
        widths: Columns that an array may have, whose features are known by their position alone; empty: any.
    """
    count = len(table.columns)
    if table.path.suffix == ".npy" and widths and count not in widths:
        raise InvalidValueError(
            f"{table.path} has {count} values a sample, the labeled samples have {len(features)} features: "
            "which of them is which cannot be told; if positions are the same, name them with --features",
            id="other-columns",
        )
    missing = [name for name in features if name not in table.columns]
    if missing:
        raise InvalidValueError(
            f"{table.path} has no column {missing[0]}; the labeled samples have "
            f"{len(features)} features",
            id="other-columns",
        )


def _blocks(table: Table, features: Sequence[str], size: int) -> Iterator[Floats]:
    """Arrays of `size` rows."""
    if table.path.suffix == ".npy":
        array = np.load(table.path, mmap_mode="r", allow_pickle=False)
        columns = [table.columns.index(name) for name in features]
        for begin in range(0, len(array), size):
            block = np.asarray(array[begin : begin + size], dtype=np.float64)
            yield block.reshape(len(block), -1)[:, columns]
        return
    rest: Floats = np.empty((0, len(features)))
    for batch in _batches(table.path, features):
        rest = np.concatenate([rest, _numbers(batch, features, table.path)])
        whole = len(rest) // size * size
        for begin in range(0, whole, size):
            yield rest[begin : begin + size]
        rest = rest[whole:]
    if len(rest):
        yield rest


def _batches(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Some columns, in parts that take about as much memory however large the file and its row groups are."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        # By default a row group is read whole, and all of them are held until the last one is read.
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER) as file:
            rows = max(VALUES_READ // len(columns), 1)
            yield from file.iter_batches(batch_size=rows, columns=list(columns))
        return
    import pyarrow as pa
    from pyarrow import csv

    # Whole numbers at the top of a column do not make it one of whole numbers; types are those of `_numbers`.
    options = csv.ConvertOptions(
        column_types={name: pa.string() for name in columns}, include_columns=list(columns)
    )
    with csv.open_csv(path, convert_options=options) as reader:
        yield from reader


def _numbers(batch: pa.RecordBatch, features: Sequence[str], path: Path) -> Floats:
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = []
    for name in features:
        column = batch.column(name)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            trimmed = pc.utf8_trim_whitespace(column)
            column = pc.if_else(pc.equal(trimmed, ""), None, trimmed)
        try:
            floats = column.cast(pa.float64())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidValueError(
                f"{path}: column {name} holds no numbers: {str(error).splitlines()[0]}; "
                "leave it out with --features",
                id="not-numbers",
            ) from error
        columns.append(floats.to_numpy(zero_copy_only=False))
    return np.stack(columns, axis=1)


def read_labeled(
    path: Path, column: str | None, labels: Path | None, features: Sequence[str] | None
) -> tuple[Floats, np.ndarray[Any, Any], tuple[str, ...]]:
    """A labeled set, whole: samples, labels, and names of the features.

    Args:
        path: The samples.
        column: Which of its columns has the labels.
        labels: A file of labels alone (NPY), one a sample, in place of a column.
        features: Columns to use; None: all but that of the labels.

    Raises:
        InvalidValueError: Something does not fit.
    """
    table = open_table(path)
    if column is not None and labels is not None:
        raise InvalidValueError(
            f"{path}: --column and --labels both name its labels", id="excluding-options"
        )
    if column is None and labels is None:
        raise InvalidValueError(
            f"{path}: name the column of its labels (--column) or a file of them (--labels)",
            id="needs-labels",
        )
    if column is not None and column not in table.columns:
        raise InvalidValueError(
            f"{path} has no column {column}: {', '.join(table.columns[:20])}", id="other-columns"
        )
    names = tuple(features or (name for name in table.columns if name != column))
    if not names:
        raise InvalidValueError(f"{path} has no features", id="other-columns")
    check_columns(table, names, ())
    x = np.concatenate([np.empty((0, len(names))), *(p.x for p in pieces([table], names, 65_536))])
    if len(x) > MOST_LABELED:
        raise InvalidValueError(
            f"{path}: {len(x)} labeled samples; {MOST_LABELED} at most", id="too-many-labeled"
        )
    y = _column(path, column, table) if labels is None else _label_array(labels)
    if len(y) != len(x):
        raise InvalidValueError(
            f"{labels or path}: {len(y)} labels for {len(x)} samples", id="label-count"
        )
    there = np.array([_is_label(label) for label in y.astype(object)], dtype=bool)
    if not there.any():
        raise InvalidValueError(f"{labels or path} has no label", id="needs-labels")
    if not np.isfinite(x[there]).all():
        row = int(np.flatnonzero(there & ~np.isfinite(x).all(axis=1))[0])
        raise InvalidValueError(
            f"{path}: labeled sample {row} has a value that is no finite number", id="labeled-nan"
        )
    return x[there], _plain(np.array(y[there].tolist())), names


def _is_label(value: Any) -> bool:
    """Whether a cell holds a label: it may be empty, and of numbers not a number."""
    return value is not None and str(value).strip() != "" and value == value


def has_labels(path: Path, column: str) -> bool:
    """Whether any cell of a column of labels is filled in."""
    table = open_table(path)
    return column in table.columns and any(map(_is_label, _column(path, column, table)))


def _column(path: Path, column: str | None, table: Table) -> np.ndarray[Any, Any]:
    if path.suffix == ".npy":
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        return _plain(
            np.asarray(array).reshape(len(array), -1)[:, table.columns.index(column or "")]
        )
    with _read(path):
        parts = [batch.column(column).to_pylist() for batch in _batches(path, [str(column)])]
    values = [value for part in parts for value in part]
    kinds = {type(value) for value in values if value is not None}
    if kinds - {str, int, bool, float} or len(kinds) > 1:
        raise InvalidValueError(
            f"{path}: column {column} has labels of several types: "
            f"{', '.join(sorted(kind.__name__ for kind in kinds))}",
            id="mixed-labels",
        )
    return np.array(values, dtype=object)


def _label_array(path: Path) -> np.ndarray[Any, Any]:
    if path.suffix != ".npy":
        raise InvalidValueError(f"{path}: labels alone come as .npy", id="unknown-data-format")
    with _read(path):
        array = np.load(path, allow_pickle=False)
    if array.dtype.kind not in "biufU":
        raise InvalidValueError(
            f"{path}: labels of the type {array.dtype}: texts or real numbers are needed",
            id="mixed-labels",
        )
    if array.ndim != 1:
        raise InvalidValueError(
            f"{path}: labels of shape {array.shape}: one a sample is needed", id="data-shape"
        )
    return _plain(array)


def _plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Whole numbers that came as floats, as whole numbers."""
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.round(array)).all():
        return array.astype(np.int64)
    return array


class _read:
    """Errors of reading a file as one line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, InvalidValueError):
            return
        if isinstance(error, OSError):
            raise InvalidValueError(
                f"{self.path} cannot be read: {error.strerror or error}", id="unreadable-file"
            ) from error
        if isinstance(error, (ValueError, EOFError)):  # pyarrow's ArrowInvalid is a ValueError
            line = next(iter(str(error).splitlines()), type(error).__name__)
            raise InvalidValueError(
                f"{self.path} cannot be read: {line}", id="damaged-data"
            ) from error
