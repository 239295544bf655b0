"""Checks of the rows of a run's tables, made once when they are read, so that nobody after has to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wattstep.schema.arrays import IntArray
from wattstep.store.tables import FOREGROUND, NOT_TOLD, THINNED, THINNED_STEPS
from wattstep.store.writing import SCHEMAS

MOST_NS: Final = 1 << 62  # differences of times within it fit into 64 bits
MOST_VALUE: Final = (
    1e50  # of a sample: beyond any integer times any scale, and its square is a number
)
MOST_INDEX: Final = 1 << 53  # of a step: counts beyond it are no whole numbers of a float
DECLARED: Final[Mapping[str, pa.Schema]] = {
    **SCHEMAS,
    "foreground": FOREGROUND,
    "thinned": THINNED,
    "thinned_steps": THINNED_STEPS,
}
# Columns that always have a value.
FILLED: Final[Mapping[str, tuple[str, ...]]] = {
    "steps": ("index", "start_ns", "end_ns", "warmup", "traced", "mark_ns", "mark_kind", "mark_name"),
    "spans": ("start_ns", "end_ns", "kind", "name"),
    "memory": ("t_ns", "category", "bytes"),
    "evaluations": ("t_ns", "step", "measure"),
    "samples": ("t_ns", "channel", "errno"),
    "thinned": ("begin_ns", "end_ns", "channel", "reads", "errno"),
    "thinned_steps": (
        "begin_ns", "end_ns", "index", "steps", "marks", "sum_ns", "least_ns", "most_ns", "squares", "losses",
        "loss_sum",
    ),
    "operations": ("step", "thread", "start_ns", "end_ns", "self_ns", "outermost"),
}  # fmt: skip


def wrong_type(name: str, schema: pa.Schema) -> str:
    """Problem of a table's columns, in words: one is missing or of another type; "" if there is none.

    Args:
        name: Of the table.
        schema: Its columns as they are in the file.
    """
    for field in DECLARED.get(name, ()):
        at = schema.get_field_index(field.name)
        if at < 0:
            if field.name not in NOT_TOLD:
                return f"it has no column {field.name}"
        elif _sort(schema.field(at).type) != _sort(field.type):
            return f"its column {field.name} holds {_sort(schema.field(at).type)}"
    return ""


def _sort(kind: pa.DataType) -> str:
    """Kind of a type's values, whatever their number of bits."""
    if pa.types.is_dictionary(kind):
        inside = _sort(kind.value_type)
        return inside if inside == "texts" else f"coded {inside}"
    if pa.types.is_list(kind):
        return f"lists of {_sort(kind.value_type)}"
    sorts = {
        "whole numbers": pa.types.is_integer, "numbers": pa.types.is_floating,
        "yes or no": pa.types.is_boolean,
        "texts": lambda one: pa.types.is_string(one) or pa.types.is_large_string(one),
    }  # fmt: skip
    return next((name for name, fits in sorts.items() if fits(kind)), str(kind)[:60])


def texts_of(metadata: pq.FileMetaData) -> list[str]:
    """Paths of the columns of a file that hold texts."""
    columns = [metadata.schema.column(at) for at in range(metadata.num_columns)]
    return [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]


def text_bytes(column: pa.ChunkedArray) -> int:
    """Bytes that coded texts take where each row has its own; 0 for a column of something else.

    Args:
        column: Coded texts, or lists of them.
    """
    flat = pc.list_flatten(column) if pa.types.is_list(column.type) else column
    if not pa.types.is_dictionary(flat.type):
        return 0
    total = 0
    for chunk in flat.chunks:
        uses = np.bincount(chunk.indices.drop_null().to_numpy(), minlength=len(chunk.dictionary))
        lengths = pc.binary_length(chunk.dictionary).fill_null(0).to_numpy(zero_copy_only=False)
        total += int(uses @ lengths.astype(np.int64))
    return total + 1


def coded(column: pa.ChunkedArray) -> tuple[list[str], IntArray]:
    """Texts of a column, each once, and the position of each row's; no text is written out twice.

    Args:
        column: Coded texts, none of them missing.
    """
    whole = column.unify_dictionaries().combine_chunks()
    parts = [whole] if isinstance(whole, pa.DictionaryArray) else whole.chunks
    if not parts:
        return [], np.zeros(0, np.int64)
    (part,) = parts
    once = pc.dictionary_encode(part.dictionary)  # a file may have a text twice
    positions = once.indices.to_numpy().astype(np.int64)
    return once.dictionary.to_pylist(), positions[part.indices.to_numpy()]


def with_type(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A column in another type of the same sort.

    Raises:
        ArrowInvalid: A value does not fit.
    """
    if not pa.types.is_list(kind):
        return column.cast(kind)
    lists = column.combine_chunks()
    lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
    if lists.null_count:
        raise pa.ArrowInvalid("lists are missing")
    offsets = pa.array(lists.offsets.to_numpy() - lists.offsets[0].as_py(), pa.int32())
    return pa.chunked_array(
        [pa.ListArray.from_arrays(offsets, lists.flatten().cast(kind.value_type))]
    )


def wrong_values(name: str, table: pa.Table, *, whole: bool = True) -> str:
    """Problem of a table's values, in words; "" if there is none.

    Args:
        name: Of the table.
        table: Some or all of its columns, of the declared types.
        whole: True if these are all of its rows.
    """
    for field in table.schema:
        value = name in ("samples", "thinned") and pa.types.is_floating(field.type)
        most = MOST_VALUE if value else _most(field)
        if most and (wrong := _beyond(table[field.name], most)):
            return f"its column {field.name} has {wrong}"
    # Of operations on a device's clock such rows are left out, and counted, where they are shown.
    if {"start_ns", "end_ns"} <= {*table.column_names} and name == "spans":
        backwards = pc.any(pc.less(table["end_ns"], table["start_ns"])).as_py()
        if backwards:
            return "a row of it ends before it begins"
    if whole and name == "operations" and {"step", "parent"} <= {*table.column_names}:
        return _wrong_nesting(table)
    return ""


def not_text(table: pa.Table) -> str:
    """Column of a table whose texts are none, in words; "" if there is none."""
    for field in table.schema:
        kind = field.type.value_type if pa.types.is_list(field.type) else field.type
        if pa.types.is_dictionary(kind) or pa.types.is_string(kind):
            try:
                table[field.name].validate(full=True)
            except pa.ArrowInvalid:
                return f"its column {field.name} has text that is not UTF-8"
    return ""


def lacking(name: str, table: pa.Table) -> str:
    """Column of a table that lacks values which it has to have, in words; "" if there is none."""
    for column in FILLED.get(name, ()):
        if column in table.column_names and _nulls(table[column]):
            return f"its column {column} lacks values"
    return ""


def _nulls(column: pa.ChunkedArray) -> bool:
    if column.null_count:
        return True
    flat = pc.list_flatten(column) if pa.types.is_list(column.type) else column
    if pa.types.is_dictionary(flat.type) and any(c.dictionary.null_count for c in flat.chunks):
        return True
    return bool(flat.null_count)


def _most(field: pa.Field) -> int:
    """Bound of a column's whole numbers; 0: their type is bound enough."""
    kind = field.type.value_type if pa.types.is_list(field.type) else field.type
    if not pa.types.is_integer(kind):
        return 0
    return MOST_INDEX if field.name in ("index", "step") else MOST_NS


def _beyond(column: pa.ChunkedArray, most: float) -> str:
    flat = pc.list_flatten(column) if pa.types.is_list(column.type) else column
    if pa.types.is_floating(flat.type):
        flat = flat.filter(pc.is_finite(flat))  # what is infinite is a gap
    extremes = pc.min_max(flat).as_py()
    wrong = [x for x in extremes.values() if x is not None and abs(x) >= most]
    return f"{wrong[0]}, which nothing recorded can be" if wrong else ""


def _wrong_nesting(table: pa.Table) -> str:
    """Problem of what lies in what; parents are positions within their step."""
    if not len(table):
        return ""
    step = table["step"].to_numpy()
    first = np.flatnonzero(np.append(True, step[1:] != step[:-1]))
    lengths = np.diff(first, append=len(step))
    first, length = np.repeat(first, lengths), np.repeat(lengths, lengths)
    own = np.arange(len(step)) - first
    for column in ("parent", "launch"):
        if column not in table.column_names:
            continue
        above = table[column].fill_null(-1).to_numpy().astype(np.int64)
        if ((above < -1) | (above >= length)).any():
            return f"its column {column} names rows that are not there"
        if column == "parent" and (above >= own).any() and not _ends(above, first):
            return "a row of it lies within itself"
    return ""


def _ends(above: IntArray, first: IntArray) -> bool:
    """True if whoever goes from each row to the one around it comes to an end."""
    at = np.where(above >= 0, above + first, -1)
    for _ in range(len(at).bit_length() + 1):  # each time twice as far
        inside = np.flatnonzero(at >= 0)
        if not len(inside):
            return True
        at[inside] = at[at[inside]]
    return False
