"""The tables of a run as arrays, whether it is closed, was never closed, or still records."""

from __future__ import annotations

import contextlib
import os
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from wattstep.errors import DamagedRunError
from wattstep.recorded.imported import ATTACHED, Imported
from wattstep.recorded.instruments import instruments_of
from wattstep.recorded.marks import Marks
from wattstep.recorded.step_stretches import StepStretches, step_stretches_of
from wattstep.recorded.steps import Steps, exploring
from wattstep.recorded.stretches import Stretches, stretches_of
from wattstep.recorded.table_checks import (
    DECLARED,
    coded,
    lacking,
    not_text,
    text_bytes,
    texts_of,
    with_type,
    wrong_type,
    wrong_values,
)
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.channel import Channel
from wattstep.schema.checks import LEAST_NUMBER, shown
from wattstep.schema.journal import JOURNAL
from wattstep.schema.run_info import RunInfo
from wattstep.stats.change_points import find_changes, slow_beginning
from wattstep.store.budget import check_table, too_large
from wattstep.store.convert import convert, recover
from wattstep.store.files import no_run, read_info
from wattstep.store.folder import open_plain
from wattstep.store.held import HeldFolder
from wattstep.store.lock import is_recording
from wattstep.store.tables import BLOCK, HOST_MARKS, NOT_TOLD

# Columns of steps that are read by themselves.
MARK_COLUMNS = ("mark_ns", "mark_kind", "mark_name", HOST_MARKS)
CPU_CLOCK = ("cpu_start_ns", "cpu_end_ns")
UNNAMED = "(no name)"  # of a rest in a damaged run
SAMPLES = "samples"  # of a step: there in each run, and often not known
TABLE_ERRORS = (OSError, pa.ArrowInvalid, pa.ArrowKeyError)


@dataclass(frozen=True, kw_only=True)
class OperationTotal:
    """All calls of an operation together; None where the tool's file does not say.

    Attributes:
        name: Of the kernel, copy or function.
        kind: Of operation.
        processor: "cpu", "gpu0", ...
        calls: How many.
        total_s: Time of all calls in s.
        mean_s: Mean time of a call in s; likewise the others.
    """

    name: str | None
    kind: str | None
    processor: str | None
    calls: int | None
    total_s: float | None
    mean_s: float | None
    median_s: float | None
    least_s: float | None
    most_s: float | None
    deviation_s: float | None


@dataclass(frozen=True, kw_only=True)
class EvaluationRow:
    """A measure of the model at a time: when (ns), after how many steps, which, and its value."""

    t_ns: int
    step: int
    measure: str
    value: float


@dataclass(frozen=True, kw_only=True)
class _Opened:
    """A Parquet file of a run that is open.

    Attributes:
        file: Its names are coded.
        name: Of the table.
        place: File and run, for errors.
        budget: Bytes that it may take in memory.
    """

    file: pq.ParquetFile
    name: str
    place: str
    budget: int

    def columns(self, wanted: Sequence[str] | None) -> list[str]:
        """Those of the wanted columns that it has; of all it has those that are known."""
        known = DECLARED.get(self.name)
        there = self.file.schema_arrow.names
        if wanted is None:
            return there if known is None else [each for each in known.names if each in there]
        return [each for each in wanted if each in there]

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Some columns, all rows; those that an older file lacks are left out."""
        types = self.file.schema_arrow
        columns = [name for name in columns if name in types.names]
        apart = [name for name in columns if _coded_lists(types.field(name).type)]
        if not apart or len(self._groups) < 2:
            return self.file.read(columns)
        # Other columns come in one piece, which needs no copy to be an array.
        table = self.file.read([name for name in columns if name not in apart])
        groups = pa.concat_tables([self.file.read_row_group(n, apart) for n in self._groups])
        for name in apart:
            table = table.append_column(types.field(name), groups[name])
        return table.select(columns)

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Pieces of some columns in order, of so many rows at most."""
        for group in self._groups:
            yield from self.file.iter_batches(rows, row_groups=[group], columns=columns)

    @property
    def _groups(self) -> range:
        """Groups of rows: Arrow reads lists of coded texts in one group alone."""
        return range(self.file.metadata.num_row_groups)

    def untold(self, name: str) -> bool:
        """True for a column that may be left out and is, or has no value: it would take as much memory as one that has."""
        metadata = self.file.metadata
        if name not in (*NOT_TOLD, SAMPLES) or not metadata.num_row_groups:
            return False
        at = [metadata.schema.column(n).path.partition(".")[0] for n in range(metadata.num_columns)]
        if name not in at:
            return name in NOT_TOLD
        chunks = [
            metadata.row_group(n).column(at.index(name)) for n in range(metadata.num_row_groups)
        ]
        return all(
            chunk.is_stats_set and chunk.statistics.null_count == chunk.num_values
            for chunk in chunks
        )

    def decoded(self, table: pa.Table, *, whole: bool = True) -> pa.Table:
        """Columns of the table in the types that they are declared in.

        Args:
            table: Some of its rows.
            whole: True if these are all.

        Raises:
            DamagedRunError: Values are wrong, or its names take too much room.
        """
        if wrong := not_text(table) or lacking(self.name, table):
            raise DamagedRunError(f"{self.place}: {wrong}", id="damaged-table")
        room = self.budget
        declared = DECLARED.get(self.name)
        for at, field in enumerate(table.schema):
            column = table.column(at)
            kind = field.type if declared is None else declared.field(field.name).type
            size = text_bytes(column)
            if size and not pa.types.is_dictionary(kind):  # written out in each row
                room -= size
                if room < 0:
                    raise too_large(self.place, self.budget - room, self.budget)
            if column.type != kind and not (size and pa.types.is_dictionary(kind)):
                table = table.set_column(at, field.name, with_type(column, kind))
        if wrong := wrong_values(self.name, table, whole=whole):
            raise DamagedRunError(f"{self.place}: {wrong}", id="damaged-table")
        return table


def _coded_lists(kind: pa.DataType) -> bool:
    """True for lists of texts, which are read coded."""
    return bool(pa.types.is_list(kind) and pa.types.is_dictionary(kind.value_type))


class Tables:
    """The files of a run.

    Attributes:
        path: The run.
        folder: Where its tables lie: in it, or in a temporary folder that goes with this object.

    Raises:
        DamagedRunError: It is no run, or a file of it cannot be read.
    """

    def __init__(self, run: Path) -> None:
        self.path = run
        self.folder = run
        if not run.exists():
            raise no_run(run)
        if os.path.lexists(run / JOURNAL):
            self._open_journal(run)
        self.info: RunInfo = read_info(self.folder)
        self.imported = Imported(self.info)
        self.instruments = instruments_of(self.info)

    def _open_journal(self, run: Path) -> None:
        """A run that was never closed is closed now; one that records, or is not the user's own,
        is read beside itself."""
        try:
            recording = is_recording(run)
            if not recording and recover(run):
                return
            # Of a process that was killed, the next one removes it.
            held = HeldFolder(Path(tempfile.gettempdir()), "wattstep-run-")
            weakref.finalize(self, held.remove)
            self.folder = held.path
            convert(run, self.folder, state="recording" if recording else "recovered")
        except OSError as error:
            raise DamagedRunError(
                f"{run} was never closed, and its tables cannot be written: "
                f"{error.strerror or error}; make room, or copy it to another disk, then open it again",
                id="unwritable-tables",
            ) from error

    def has(self, name: str) -> bool:
        """True if there is such a Parquet file."""
        return os.path.lexists(self._file(name))

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.parquet"

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[_Opened]:
        """Opens a Parquet file of the run.

        Raises:
            DamagedRunError: It cannot be read, nor what was asked of it meanwhile.
        """
        place = f"{name}.parquet of {self.path}"
        try:
            with open_plain(self._file(name)) as plain, pq.ParquetFile(plain) as file:
                if wrong := wrong_type(name, file.schema_arrow):
                    raise DamagedRunError(f"{place}: {wrong}", id="damaged-table")
                size = os.fstat(plain.fileno()).st_size
                budget = check_table(place, file.metadata, size)
                # Coded, a name takes room once and not in each row; data sets' machinery takes a
                # quarter of a second.
                coded = pq.ParquetFile(
                    plain, metadata=file.metadata, read_dictionary=texts_of(file.metadata)
                )
                yield _Opened(file=coded, name=name, place=place, budget=budget)
            pa.default_memory_pool().release_unused()  # it keeps what reading took for the next
        except MemoryError as error:
            raise DamagedRunError(
                f"{place} cannot be read: there is not enough memory for it", id="unreadable-table"
            ) from error
        except FileNotFoundError as error:
            raise DamagedRunError(
                f"{self.path} lacks {name}.parquet", id="missing-table"
            ) from error
        except TABLE_ERRORS as error:
            raise DamagedRunError(
                f"{name}.parquet of {self.path} cannot be read: {error}", id="unreadable-table"
            ) from error

    def table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Table of a Parquet file of the run, or some of its columns."""
        with self._opened(name) as opened:
            chosen = opened.columns(None) if columns is None else list(columns)
            return opened.decoded(opened.read(chosen))

    def batches(
        self, name: str, columns: Sequence[str] | None = None, rows: int = 1 << 16
    ) -> Iterator[pa.RecordBatch]:
        """Pieces of a Parquet file in its order, as a trace may be large.

        Args:
            name: Of the table.
            columns: Which of its columns; those that an older file lacks are left out.
            rows: At most, of each piece.

        Raises:
            DamagedRunError: It cannot be read; pieces before the damage were given.
        """
        with self._opened(name) as opened:
            for batch in opened.batches(opened.columns(columns), rows):
                part = opened.decoded(pa.Table.from_batches([batch]), whole=False)
                yield from part.to_batches()

    def count(self, name: str) -> int:
        """Rows of one of the Parquet files; 0 where it is not there.

        Raises:
            DamagedRunError: It cannot be read.
        """
        if not self.has(name):
            return 0
        with self._opened(name) as opened:
            return int(opened.file.metadata.num_rows)

    # --- samples ----------------------------------------------------------------------------

    def channels(self) -> dict[str, Channel]:
        """Every channel by name."""
        return {channel.name: channel for read in self.info.reads for channel in read.channels}

    def samples(self) -> dict[str, tuple[IntArray, FloatArray, npt.NDArray[np.int16]]]:
        """Time, value (NaN: failed read) and error number of every channel, in order of time.

        Raises:
            DamagedRunError: One lies within a stretch that stands for samples.
        """
        series: dict[str, tuple[IntArray, FloatArray, npt.NDArray[np.int16]]] = {
            name: (np.empty(rows, np.int64), np.empty(rows), np.empty(rows, np.int16))
            for name, rows in self._rows_of_channels().items()
        }
        filled = dict.fromkeys(series, 0)
        for batch in self.batches("samples", rows=BLOCK):
            names, codes = coded(pa.chunked_array([batch["channel"]]))
            columns = [
                batch[name].to_numpy(zero_copy_only=False) for name in ("t_ns", "value", "errno")
            ]
            for code in np.unique(codes).tolist():
                name, own = names[code], codes == code
                first = filled[name]
                filled[name] += int(np.count_nonzero(own))
                targets: list[npt.NDArray[Any]] = [*series[name]]
                for to, column in zip(targets, columns, strict=True):
                    to[first : filled[name]] = column[own]
        for name, (t_ns, value, errno) in series.items():
            value[np.abs(value) < LEAST_NUMBER] = 0.0
            value[np.isinf(value)] = np.nan
            if not (np.diff(t_ns) > 0).all():
                # Two reads never share an instant; a clock that stands still would.
                once = np.unique(t_ns, return_index=True)[1]
                t_ns, value, errno = t_ns[once], value[once], errno[once]
            stretches = self.stretches.get(name)
            if stretches is not None and stretches.any_within(t_ns):
                wrong = f"a row of {shown(name)} lies within one of thinned.parquet"
                raise DamagedRunError(
                    f"samples.parquet of {self.path}: {wrong}", id="damaged-table"
                )
            series[name] = (t_ns, value, errno)
        return series

    def _rows_of_channels(self) -> Counter[str]:
        """How many samples each channel has."""
        rows: Counter[str] = Counter()
        for batch in self.batches("samples", ["channel"], BLOCK):
            names, codes = coded(pa.chunked_array([batch["channel"]]))
            counts = np.bincount(codes, minlength=len(names)).tolist()
            rows.update({name: n for name, n in zip(names, counts, strict=True) if n})
        return rows

    @cached_property
    def stretches(self) -> dict[str, Stretches]:
        """What stands for samples that were thinned, by channel; empty where none were.

        Raises:
            DamagedRunError: They overlap, stand for nothing, or are not there.
        """
        if not self.has("thinned") and not self.info.keep.get("thinned_reads"):
            return {}
        found, wrong = stretches_of(self.table("thinned"))
        if wrong:
            raise DamagedRunError(f"thinned.parquet of {self.path}: {wrong}", id="damaged-table")
        return found

    # --- steps ------------------------------------------------------------------------------

    def evaluations(self) -> list[EvaluationRow]:
        """Evaluations of the model, in order."""
        if not self.has("evaluations"):  # runs of before November 2026
            return []
        columns = [each.name for each in fields(EvaluationRow)]
        return [EvaluationRow(**row) for row in self.table("evaluations", columns).to_pylist()]

    @cached_property
    def summaries(self) -> tuple[OperationTotal, ...]:
        """Totals of operations from a tool that keeps no instances; empty where there are none."""
        if not self.has("summaries"):
            return ()
        columns = [each.name for each in fields(OperationTotal)]
        return tuple(OperationTotal(**row) for row in self.table("summaries", columns).to_pylist())

    def steps(self) -> Steps:
        """Steps, windows and rests.

        Raises:
            DamagedRunError: Steps do not go forward in time.
        """
        table = self.step_table
        if wrong := _not_forward(table, self.marks):
            raise DamagedRunError(f"steps.parquet of {self.path}: {wrong}", id="damaged-steps")
        traced = table["traced"].to_numpy(zero_copy_only=False)
        foreign = self.imported.is_import
        absent = "" if len(table) else self._without_steps()
        spans = self.table("spans").to_pydict()
        rest: dict[str, list[tuple[int, int]]] = {}
        windows: list[tuple[int, int]] = []
        for start, end, kind, name in zip(*(spans[key] for key in spans), strict=True):
            target = windows if kind == "window" else rest.setdefault(name or UNNAMED, [])
            target.append((start, end))

        def floats(name: str) -> FloatArray:
            if name not in table.column_names:
                return np.broadcast_to(np.nan, len(table))
            return np.asarray(table[name].to_numpy(zero_copy_only=False), dtype=np.float64)

        def pairs(values: list[tuple[int, int]]) -> IntArray:
            return np.array(values, dtype=np.int64).reshape(-1, 2)

        start_ns, end_ns = table["start_ns"].to_numpy(), table["end_ns"].to_numpy()
        warmup = table["warmup"].to_numpy(zero_copy_only=False)
        device = str(self.info.device_clock.get("device", ""))
        settled = _unsettled(end_ns - start_ns, warmup, traced) if device else warmup
        return Steps(
            index=table["index"].to_numpy(),
            start_ns=start_ns,
            end_ns=end_ns,
            samples=floats(SAMPLES),
            loss=floats("loss"),
            warmup=settled,
            settled=int((settled & ~warmup).sum()),
            device=device,
            looking=exploring(self.info.conditions.get("governor"), table["index"].to_numpy()),
            slowed=bool(self.info.device.get("slowed")),
            host_ns=np.stack([floats("host_start_ns"), floats("host_end_ns")], axis=1)
            if device
            else None,
            traced=traced,
            window_ns=pairs(windows),
            rest_ns={name: pairs(values) for name, values in rest.items()},
            only_traced=foreign and bool(len(table)) and bool(traced.all()),
            absent=absent,
            thinned=self.step_stretches,
            # runs of before December 2026 have none
            waited_s=floats("waited_ns") * 1e-9 if "waited_ns" in table.column_names else None,
        )

    @cached_property
    def step_stretches(self) -> StepStretches | None:
        """What stands for steps that were thinned; None where none were.

        Raises:
            DamagedRunError: They overlap, stand for nothing or for steps that are there, or are gone.
        """
        if not self.has("thinned_steps") and not self.info.keep.get("thinned_steps"):
            return None
        table = self.table("thinned_steps")
        steps = self.step_table
        found, wrong = step_stretches_of(
            table, steps["start_ns"].to_numpy(), steps["index"].to_numpy()
        )
        kept = self.info.keep.get("thinned_steps")
        if found is not None and kept not in (None, int(found.steps.sum())):
            wrong = f"it stands for {int(found.steps.sum()):,} steps, and run.json says {kept:,}"
        if wrong:
            raise DamagedRunError(
                f"thinned_steps.parquet of {self.path}: {wrong}", id="damaged-table"
            )
        return found

    def _without_steps(self) -> str:
        """Reason why there are no steps; "" where a recorder waited for some."""
        if self.imported.is_import:
            return self.imported.without_steps(bool(self.summaries))
        return ATTACHED if "attached" in self.info.options else ""

    def cpu_ns(self) -> tuple[FloatArray, FloatArray]:
        """The process's own CPU clock at begin and end of each step in ns; NaN where not read."""
        table = self.table("steps", CPU_CLOCK)
        start = np.asarray(table["cpu_start_ns"].to_numpy(zero_copy_only=False), np.float64)
        end = np.asarray(table["cpu_end_ns"].to_numpy(zero_copy_only=False), np.float64)
        return start, end

    @cached_property
    def marks(self) -> Marks:
        """Phase and layer marks of all steps."""
        with self._opened("steps") as opened:
            known = [name for name in MARK_COLUMNS if not opened.untold(name)]
            return Marks(opened.decoded(opened.read(known)))

    @cached_property
    def step_table(self) -> pa.Table:
        """The table of steps, read once, without marks and CPU clock; columns of which nothing is known are left out."""
        with self._opened("steps") as opened:
            apart = {*MARK_COLUMNS, *CPU_CLOCK}
            known = [n for n in opened.columns(None) if n not in apart and not opened.untold(n)]
            return opened.decoded(opened.read(known))


def _unsettled(
    lasting_ns: IntArray, warmup: npt.NDArray[np.bool_], traced: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Mask of the steps before a device's step time has settled, those asked for as warm-up among them.

    Kernels that are loaded and tried out on first use, an allocator that grows and graphs that are
    captured take as many steps as they do, whatever was asked for: change points tell.
    """
    after = np.append(False, traced[:-1])[: len(traced)]
    usable = np.flatnonzero(~traced & ~after)
    seconds: FloatArray = lasting_ns[usable].astype(np.float64) * 1e-9
    settled = max(find_changes(seconds, "s", "").settled or 0, slow_beginning(seconds))
    if not settled:  # nothing changes, or nothing lasts
        return warmup
    before: npt.NDArray[np.bool_] = np.arange(len(warmup)) < usable[settled]
    return warmup | before


def _not_forward(table: pa.Table, marks: Marks) -> str:
    """Problem of steps that do not go forward in time, in words; "" if there is none."""
    start_ns, end_ns = table["start_ns"].to_numpy(), table["end_ns"].to_numpy()
    if not len(marks.t_ns) == len(marks.kind) == len(marks.name):
        return "its marks do not belong together"
    outside = np.zeros(len(table), bool)
    outside[marks.step[(marks.t_ns < start_ns[marks.step]) | (marks.t_ns > end_ns[marks.step])]] = 1
    for what, wrong in (
        ("ends before it begins", end_ns < start_ns),
        ("begins before the one before it", np.diff(start_ns, prepend=start_ns[:1]) < 0),
        ("has marks outside of it", outside),
    ):
        if wrong.any():
            return f"step {int(np.argmax(wrong))} {what}"
    return ""
