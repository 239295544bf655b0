"""A run as tables: those of its folder, made plain, and those of its figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wattstep.attribution.tables.figure_columns import figure_columns
from wattstep.report.export.columns import TABLES, meaning_of, unit_of
from wattstep.report.export.counters import own_unit
from wattstep.report.export.timeline import reason_of
from wattstep.run.run import Run
from wattstep.schema.journal import Mark
from wattstep.schema.report_rows import CostRow
from wattstep.schema.run_report import RunReport
from wattstep.schema.sanitize import harmless
from wattstep.schema.version import VERSION

_MARKS: Final = {
    int(Mark.PHASE): "phase", int(Mark.LAYER_START): "layer begin", int(Mark.LAYER_END): "layer end",
}  # fmt: skip
_NAME: Final = pa.dictionary(pa.int32(), pa.string())
_ROWS: Final = 1 << 16


@dataclass(frozen=True, kw_only=True, eq=False)
class ExportTable:
    """Table of an export.

    Attributes:
        name: Of its file.
        schema: Its columns, each with unit and meaning.
        pieces: Its rows, some at a time.
        rows: About how many there are, for progress.
    """

    name: str
    schema: pa.Schema
    pieces: Callable[[], Iterator[pa.Table]]
    rows: int


def tables(run: Run | RunReport) -> Iterator[ExportTable]:
    """Every table of a run, in the order of `columns.TABLES`; figures are computed when asked for.

    Of one that was never recorded those of its figures.

    Raises:
        DamagedRunError: A table of the run cannot be read.
    """
    if isinstance(run, RunReport):
        yield from figure_tables(run)
        return
    yield _whole("steps", _steps(run))
    yield _whole("marks", _marks(run))
    yield _whole("spans", run.tables.table("spans"))
    yield _streamed(run, "operations")
    yield _samples(run)
    if run.tables.has("thinned"):
        yield _whole("thinned", _thinned(run))
    if run.tables.has("thinned_steps"):
        yield _whole("thinned_steps", run.tables.table("thinned_steps"))
    yield _whole("memory", run.tables.table("memory"))
    evaluations = run.tables.evaluations()
    yield _whole(
        "evaluations",
        _rows([asdict(each) for each in evaluations], ("t_ns", "step", "measure", "value")),
    )
    if run.tables.summaries:
        yield _whole("summaries", run.tables.table("summaries"))
    yield _whole("channels", _channels(run))
    yield from figure_tables(run.report())


def figure_tables(report: RunReport) -> Iterator[ExportTable]:
    """The figures of a run, recorded or not: metrics, costs of a mean step, what is missing."""
    metrics = [
        {"metric": name, "part": key, **figure.to_dict()}
        for name, key, figure in report.metrics.each()
    ]
    yield _whole("metrics", _rows(metrics))
    for name, costs in (
        ("operation_table", report.operations),
        ("layer_table", report.layers),
        ("phase_table", report.phases),
        ("kind_table", report.kinds),
    ):
        yield _whole(name, _figures(costs))
    rests = [
        CostRow(labels={"rest": name}, figures=figures)
        for name, figures in report.unattributed.items()
    ]
    yield _whole("rest_table", _figures(rests, "rest"))
    yield _whole("missing", _rows(_missing(report), ("what", "reason")))


def _missing(report: RunReport) -> list[dict[str, Any]]:
    return [vars(one) for one in report.missing] + [
        {"what": name, "reason": figure.reason}
        for name, key, figure in report.metrics.each()
        if key is not None and figure.missing
    ]


# --- tables of the folder -----------------------------------------------------------------------


def _steps(run: Run) -> pa.Table:
    table = run.tables.table("steps")
    steps = table.select([each.name for each in table.schema if not pa.types.is_list(each.type)])
    conditions = run.conditions
    for name, unknown, values in (
        ("throttled", not conditions.watched, conditions.throttled),
        ("disturbed", bool(conditions.unseen), conditions.disturbed),
    ):
        there = len(values) == len(table) and not unknown
        column = pa.array(values) if there else pa.nulls(len(table), pa.bool_())
        steps = steps.append_column(name, column)
    return steps


def _marks(run: Run) -> pa.Table:
    marks, index = run.tables.marks, run.tables.step_table["index"].to_numpy()
    kinds = [_MARKS.get(kind, str(kind)) for kind in marks.kind.tolist()]
    return pa.table(
        {
            "t_ns": marks.t_ns,
            "step": index[marks.step],
            "kind": pa.array(kinds, pa.string()),
            "name": pa.array(marks.name.tolist(), pa.string()),
        }
    )


def _streamed(run: Run, name: str) -> ExportTable:
    first = next(run.tables.batches(name, rows=1), None)
    schema = run.tables.table(name).schema if first is None else first.schema

    def pieces() -> Iterator[pa.Table]:
        for batch in run.tables.batches(name, rows=_ROWS):
            yield _plain(pa.Table.from_batches([batch]), described)

    described = _described(name, schema)
    return ExportTable(
        name=name, schema=described, pieces=pieces, rows=run.tables.count(name)
    )  # fmt: skip


def _samples(run: Run) -> ExportTable:
    units = {name: channel.unit for name, channel in run.tables.channels().items()}
    schema = _described(
        "samples",
        pa.schema(
            [
                ("t_ns", pa.int64()), ("channel", _NAME), ("unit", _NAME), ("value", pa.float64()),
                ("errno", pa.int16()), ("reason", _NAME),
            ]
        ),
    )  # fmt: skip

    def pieces() -> Iterator[pa.Table]:
        for batch in run.tables.batches("samples", rows=_ROWS):
            yield _plain(_with_units(batch, units), schema)

    return ExportTable(
        name="samples", schema=schema, pieces=pieces, rows=run.tables.count("samples")
    )  # fmt: skip


def _thinned(run: Run) -> pa.Table:
    table = run.tables.table("thinned")
    units = {name: channel.unit for name, channel in run.tables.channels().items()}
    names = table["channel"].to_pylist()
    unit = pa.array([units.get(name) or own_unit(name) for name in names], pa.string())
    return table.add_column(table.schema.get_field_index("channel") + 1, "unit", unit)


def _with_units(batch: pa.RecordBatch, units: dict[str, str]) -> pa.Table:
    """Samples with the unit of each, and why there is no value where there is none."""
    channel = batch.column("channel")
    if not pa.types.is_dictionary(channel.type):
        channel = pc.dictionary_encode(channel)
    names = channel.dictionary.to_pylist()
    unit = pa.array([units.get(name) or own_unit(name) for name in names], pa.string())
    value = pc.if_else(pc.is_finite(batch.column("value")), batch.column("value"), None)
    errno = batch.column("errno")
    codes = pc.dictionary_encode(pc.if_else(pc.is_valid(value), None, errno))
    words = [reason_of(code) for code in codes.dictionary.to_pylist()]
    return pa.table(
        {
            "t_ns": batch.column("t_ns"),
            "channel": channel,
            "unit": pa.DictionaryArray.from_arrays(channel.indices, unit),
            "value": value,
            "errno": errno,
            "reason": pa.DictionaryArray.from_arrays(codes.indices, pa.array(words, pa.string())),
        }
    )


def _channels(run: Run) -> pa.Table:
    rows = []
    samples, stretches = run.tables.samples(), run.tables.stretches
    for name, channel in run.tables.channels().items():
        value = samples[name][1] if name in samples else np.zeros(0)
        row = {"name": name, "unit": channel.unit, "kind": channel.kind, "domain": channel.domain}
        known, failed = int(np.isfinite(value).sum()), int((~np.isfinite(value)).sum())
        if (thinned := stretches.get(name)) is not None:
            known += int(thinned.reads[thinned.known].sum())
            failed += int(thinned.reads[~thinned.known].sum())
        rows.append(
            row
            | {key: getattr(channel, key) for key in ("role", "source", "status", "core")}
            | {key: getattr(channel, key) for key in ("resolution", "window_s", "limit", "note")}
            | {"samples": known, "failed_reads": failed}
        )
    return _rows(rows, ("name",))


# --- made plain -----------------------------------------------------------------------------------


def _rows(rows: Sequence[dict[str, Any]], columns: Sequence[str] = ()) -> pa.Table:
    """Rows as a table; one of no rows has these columns, of texts."""
    if not rows:
        return pa.table({name: pa.array([], pa.string()) for name in columns or ("name",)})
    names = list(dict.fromkeys(key for row in rows for key in row))
    return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})


def _figures(rows: Sequence[CostRow], label: str = "name") -> pa.Table:
    """Rows of figures as a table; one of no rows has a column of labels."""
    return pa.table(figure_columns(rows) or {label: pa.array([], pa.string())})


def _whole(name: str, table: pa.Table) -> ExportTable:
    schema = _described(name, table.schema)
    return ExportTable(
        name=name, schema=schema, pieces=lambda: iter([_plain(table, schema)]), rows=len(table)
    )  # fmt: skip


def _described(name: str, schema: pa.Schema) -> pa.Schema:
    """The columns with unit and meaning; texts by number, each once."""
    fields = []
    for each in schema:
        kind = _NAME if _is_text(each.type) else each.type
        if pa.types.is_null(kind):
            kind = pa.float64()
        about = {
            "unit": unit_of(each.name, schema.names),
            "meaning": meaning_of(each.name, schema.names),
        }
        fields.append(pa.field(each.name, kind, metadata=about))
    return pa.schema(fields, {"wattstep": VERSION, "table": TABLES[name]})


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _plain(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table in this form, its texts without control characters."""
    columns = []
    for each in schema:
        column = table[each.name].combine_chunks()
        columns.append(_plain_texts(column) if each.type == _NAME else column.cast(each.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _plain_texts(column: Any) -> pa.DictionaryArray:
    if isinstance(column, pa.ChunkedArray):  # older pyarrow: of no chunk, or of several
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    texts = [None if text is None else harmless(text) for text in column.dictionary.to_pylist()]
    indices = column.indices.cast(pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))
