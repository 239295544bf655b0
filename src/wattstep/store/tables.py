"""The tables of a run: their columns, and how each is written, a block at a time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wattstep.store.folder import Folder

TABLE = ".parquet"
HOST_MARKS = "mark_host_ns"
BLOCK = 1 << 18  # rows that are written at once
_NAME = pa.dictionary(pa.int32(), pa.string())
STEPS = pa.schema(
    [
        ("index", pa.int64()),
        ("start_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("cpu_start_ns", pa.int64()),
        ("cpu_end_ns", pa.int64()),
        ("samples", pa.float64()),
        ("loss", pa.float64()),
        ("warmup", pa.bool_()),
        ("traced", pa.bool_()),
        ("mark_ns", pa.list_(pa.int64())),
        ("mark_kind", pa.list_(pa.int8())),
        ("mark_name", pa.list_(pa.string())),
        ("waited_ns", pa.int64()),  # of traced steps: how long a thread was kept from running
        ("host_start_ns", pa.int64()),  # of steps on a device's timeline: when the host began,
        ("host_end_ns", pa.int64()),  # and when it had asked for all of it,
        (HOST_MARKS, pa.list_(pa.int64())),  # and when it came to each mark
    ]
)
SPANS = pa.schema(
    [("start_ns", pa.int64()), ("end_ns", pa.int64()), ("kind", pa.string()), ("name", pa.string())]
)
MEMORY = pa.schema([("t_ns", pa.int64()), ("category", pa.string()), ("bytes", pa.int64())])
EVALUATIONS = pa.schema(
    [("t_ns", pa.int64()), ("step", pa.int64()), ("measure", pa.string()), ("value", pa.float64())]
)
SAMPLES = pa.schema(
    [("t_ns", pa.int64()), ("channel", _NAME), ("value", pa.float64()), ("errno", pa.int16())]
)
# Each row stands for the samples of a channel from one to another, where single ones were not kept.
THINNED = pa.schema(
    [
        ("begin_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("channel", _NAME),
        ("reads", pa.int64()),  # those at its edges count once: here, or as samples
        ("errno", pa.int16()),
        ("first", pa.float64()),
        ("last", pa.float64()),
        ("least", pa.float64()),
        ("most", pa.float64()),
        ("sum", pa.float64()),
        ("integral", pa.float64()),  # over its time in s
    ]
)
# Each row stands for steps that followed each other, where single ones were not kept; only those that
# would count: no warm-up, none traced.
THINNED_STEPS = pa.schema(
    [
        ("begin_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("index", pa.int64()),  # of the first
        ("steps", pa.int64()),
        ("marks", pa.int64()),  # within them: of phases, layers
        ("sum_ns", pa.int64()),  # of their times
        ("least_ns", pa.int64()),
        ("most_ns", pa.int64()),
        ("squares", pa.float64()),  # sum of the squares of their times in s
        ("samples", pa.float64()),  # of all of them; null: not known
        ("samples_least", pa.float64()),
        ("samples_most", pa.float64()),
        ("losses", pa.int64()),  # how many of them have one
        ("loss_sum", pa.float64()),
        ("loss_last", pa.float64()),
    ]
)
OPERATIONS_SCHEMA = pa.schema(
    [
        ("name", _NAME),
        ("kind", _NAME),
        ("layer", _NAME),
        ("phase", _NAME),
        ("step", pa.int64()),
        ("window", pa.int32()),
        ("thread", pa.int64()),
        ("processor", _NAME),
        ("start_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("self_ns", pa.int64()),
        ("shapes", _NAME),
        ("flops", pa.int64()),
        ("bytes", pa.int64()),
        ("allocated", pa.int64()),
        ("outermost", pa.bool_()),
        ("parent", pa.int32()),
        ("launch", pa.int32()),  # of work on a GPU: what asked for it, as `parent`
    ]
)
# Frames and steps of a training beside a foreground job, alone and together, in turns.
FOREGROUND = pa.schema(
    [
        ("round", pa.int32()),
        ("where", pa.string()),
        ("kind", pa.string()),
        ("begin_ns", pa.int64()),
        ("woken_ns", pa.int64()),
        ("done_ns", pa.int64()),
    ]
)
NOT_TOLD = frozenset(
    {"launch", "waited_ns", "host_start_ns", "host_end_ns", HOST_MARKS}
)  # columns that may be left out: nothing is known of them
# What a tool that keeps no instances says of all calls of an operation together.
SUMMARIES = pa.schema(
    [
        ("name", pa.string()),
        ("kind", pa.string()),
        ("processor", pa.string()),
        ("calls", pa.int64()),
        ("total_s", pa.float64()),
        ("mean_s", pa.float64()),
        ("median_s", pa.float64()),
        ("least_s", pa.float64()),
        ("most_s", pa.float64()),
        ("deviation_s", pa.float64()),
    ]
)


def write_table(
    folder: Folder, name: str, schema: pa.Schema, batches: Iterator[dict[str, Any]]
) -> None:
    """Streams record batches into a new file, to the disk itself.

    Args:
        folder: Where it goes.
        name: Of the file, which counts as whole only when this returns.
        schema: Its columns.
        batches: Columns by name, each an Arrow array or what becomes one.
    """
    with written_table(folder, name, schema) as add:
        for batch in batches:
            add(batch)


@contextlib.contextmanager
def written_table(
    folder: Folder, name: str, schema: pa.Schema
) -> Iterator[Callable[[dict[str, Any]], None]]:
    """As `write_table`: gives what adds a batch; the file is whole after the `with`."""
    with folder.make(name) as file:
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            # Each small table that is written alone costs half a kilobyte a channel.
            waiting: list[pa.Table] = []
            rows = 0

            def add(columns: dict[str, Any]) -> None:
                nonlocal rows
                waiting.append(_table(schema, columns))
                rows += len(waiting[-1])
                if rows >= BLOCK:
                    write()

            def write() -> None:
                nonlocal rows
                writer.write_table(pa.concat_tables(waiting).unify_dictionaries())
                waiting.clear()
                rows = 0

            yield add
            if waiting:
                write()
        file.flush()
        os.fsync(file.fileno())


def _table(schema: pa.Schema, columns: dict[str, Any]) -> pa.Table:
    rows = len(next(iter(columns.values())))
    for name in NOT_TOLD.intersection(schema.names).difference(columns):
        columns = {**columns, name: pa.nulls(rows, schema.field(name).type)}
    arrays = [_column(columns[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _column(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array):
        return values.cast(kind)
    return pa.array(values, type=kind)
