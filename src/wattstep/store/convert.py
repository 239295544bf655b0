"""Turns the journals of a run into its Parquet tables, in bounded memory and all or nothing."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from wattstep.errors import DamagedRunError
from wattstep.schema.journal import (
    COSTS,
    DEVICE_OPERATION_FIELDS,
    DEVICE_OPERATIONS,
    JOURNAL,
    MARK_FIELDS,
    MARKS,
    MISSING,
    NAMES,
    NO_WORK,
    OPERATION_FIELDS,
    OPERATIONS,
    RUN,
    SAMPLE_HEADER,
    TICKS,
    Mark,
    samples_name,
)
from wattstep.schema.run_info import RunInfo
from wattstep.store.device_clock import DeviceTimes
from wattstep.store.files import read_info, write_info
from wattstep.store.folder import Folder
from wattstep.store.lock import RunLock

TABLE = ".parquet"
WRITING = ".tmp"  # a table that is not whole yet
BLOCK = 1 << 18  # rows that are in memory at once
WITHIN_STEPS = (Mark.PHASE, Mark.LAYER_START, Mark.LAYER_END, Mark.UPDATE)
LOST_NAME = "(name lost)"
Ints = npt.NDArray[np.int64]
_MARK = np.dtype([(name, f"<{letter}") for name, letter in MARK_FIELDS])
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
        ("host_end_ns", pa.int64()),  # and when it had asked for all of it
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
NOT_TOLD = frozenset(
    {"launch", "waited_ns", "host_start_ns", "host_end_ns"}
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


def convert(run: Path, target: Path | None = None, state: str = "closed") -> None:
    """Writes the tables of a run from its journals.

    In place (no `target`), the tables are complete on disk before `run.json` says so, and the
    journals go last; whatever happens before leaves the journals. With a `target` the run itself
    is left alone: that is how a run is read while it records.

    Raises:
        DamagedRunError: There is no journal, or `run.json` or the journal cannot be read.
        OSError: The disk is full; the journals are untouched.
    """
    with Folder(run) as folder:
        if JOURNAL not in folder.names():
            raise DamagedRunError(f"{run} has neither tables nor a journal")
        if target is None:
            _convert_in_place(folder, state)
        else:
            with Folder(target) as beside:
                _convert_beside(folder, beside, state)


def recover(run: Path) -> bool:
    """Closes a run that was never closed, where all of its folder is the user's own.

    Returns:
        Whether it is: nothing is written into what came from elsewhere (`Folder.foreign`), which
        is converted beside itself instead.

    Raises:
        DamagedRunError: `run.json` or the journal cannot be read.
        OSError: The disk is full; the journals are untouched.
    """
    with Folder(run) as folder:
        if run.is_symlink() or folder.foreign():
            return False
        _convert_in_place(folder, "recovered")
        return True


def _convert_in_place(run: Folder, state: str) -> None:
    """Under the run's lock: one process writes the tables, others wait and find them written."""
    if _unfinished(run):
        try:
            lock = RunLock(run, wait=True)
        except FileNotFoundError:
            return  # somebody else has just finished it
        try:
            if _unfinished(run):
                _write_tables(run, run, state)
        finally:
            lock.release()
    # What cannot be removed now goes when the run is next opened.
    run.remove_folder(JOURNAL)


def _convert_beside(run: Folder, target: Folder, state: str) -> None:
    try:
        _write_tables(run, target, state)
    except FileNotFoundError:
        if _unfinished(run):
            raise
    if not _unfinished(run):  # it was closed meanwhile, and took the journals away under us
        for name in run.names():
            if name == RUN or name.endswith(TABLE):
                with run.open(name) as file, target.make(name) as copy:
                    shutil.copyfileobj(file, copy)


def _unfinished(run: Folder) -> bool:
    """True if the tables are yet to be written; journals may be left behind them all the same."""
    return read_info(run).state == "recording"


def _write_tables(run: Folder, folder: Folder, state: str) -> None:
    """All or nothing."""
    info = read_info(run)
    with run.inside(JOURNAL) as journal:
        names = _read_names(journal)
        device = _device_times(journal)
        tables = {
            "samples": (SAMPLES, _samples(journal, info)),
            "steps": (STEPS, _steps(journal, info, names, device)),
            "spans": (SPANS, _spans(journal, names, device)),
            "memory": (MEMORY, _memory(journal, names)),
            "evaluations": (EVALUATIONS, _evaluations(journal, names)),
            "operations": (OPERATIONS_SCHEMA, _operations(journal, names)),
        }
        try:
            for name, (schema, batches) in tables.items():
                write_table(folder, name + TABLE + WRITING, schema, batches)
            for name in tables:
                folder.rename(name + TABLE + WRITING, name + TABLE)
        except BaseException as error:
            for name in tables:
                folder.remove(name + TABLE + WRITING)
            if isinstance(
                error, (ValueError, LookupError, OverflowError)
            ):  # Arrow's are among them
                raise DamagedRunError(f"the journal of {run.path} is garbled: {error}") from error
            raise
    folder.sync()
    write_info(folder, _told(replace(info, state=state), device, names))


def _told(info: RunInfo, device: DeviceTimes | None, names: list[str]) -> RunInfo:
    """The description, with what is known of the device's clock."""
    if device is None or not device.clocks:
        return info
    clocks, notes = device.clocks, info.notes
    if device.lost and info.state != "recording":
        notes = (
            *notes,
            f"{device.lost} steps are left out: the device had not said when it came to them when "
            "the recording ended",
        )
    most = max(clocks, key=lambda code: len(clocks[code].events_ns))
    return replace(
        info,
        notes=notes,
        device_clock={
            "device": names[min(most, len(names) - 1)],
            "uncertainty_ns": max(clock.uncertainty_ns for clock in clocks.values()),
            "rate": clocks[most].rate,
            "anchors": sum(clock.anchors for clock in clocks.values()),
        },
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
    with folder.make(name) as file:
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for table in _gathered(_tables(schema, batches)):
                writer.write_table(table)
        file.flush()
        os.fsync(file.fileno())


def _tables(schema: pa.Schema, batches: Iterator[dict[str, Any]]) -> Iterator[pa.Table]:
    for columns in batches:
        rows = len(next(iter(columns.values())))
        for name in NOT_TOLD.intersection(schema.names).difference(columns):
            columns = {**columns, name: pa.nulls(rows, schema.field(name).type)}
        arrays = [_column(columns[field.name], field.type) for field in schema]
        yield pa.Table.from_arrays(arrays, schema=schema)


def _gathered(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Small tables together: each one that is written alone costs half a kilobyte a channel."""
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += len(table)
        if rows >= BLOCK:
            yield pa.concat_tables(waiting).unify_dictionaries()
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_tables(waiting).unify_dictionaries()


def _column(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array):
        return values.cast(kind)
    return pa.array(values, type=kind)


# --- samples -----------------------------------------------------------------------------------


def _whole_rows(journal: Folder, name: str, row: np.dtype[Any]) -> Iterator[npt.NDArray[Any]]:
    """Blocks of the rows of a file, which need not be there; a cut last row is left out."""
    try:
        file = journal.open(name)
    except FileNotFoundError:
        return
    with file:
        rows = os.fstat(file.fileno()).st_size // row.itemsize  # what comes meanwhile is left
        while rows > 0:
            block = np.fromfile(file, row, min(BLOCK, rows))
            if not len(block):  # cut off meanwhile
                return
            rows -= len(block)
            yield block


def _rows(journal: Folder, name: str, width: int) -> Iterator[Ints]:
    """Blocks of whole rows of so many int64."""
    for block in _whole_rows(journal, name, np.dtype(("V", 8 * width))):
        yield block.view("<i8").reshape(len(block), width)


def _samples(journal: Folder, info: RunInfo) -> Iterator[dict[str, Any]]:
    for read in info.reads:
        width = SAMPLE_HEADER + len(read.channels)
        for block in _rows(journal, samples_name(read.number), width):
            for column, channel in enumerate(read.channels, SAMPLE_HEADER):
                raw = block[:, column]
                value: npt.NDArray[np.float64] = raw.astype(np.float64) * channel.scale
                value[raw == MISSING] = np.nan
                yield _sample_columns(block[:, 0], channel.name, value, block[:, 1])
    for block in _rows(journal, TICKS, 4):
        for column, name, scale in (
            (1, "sampler.lateness", 1e-9),
            (2, "sampler.busy_time", 1e-9),
            (3, "sampler.lost_ticks", 1.0),
        ):
            yield _sample_columns(block[:, 0], name, block[:, column].astype(np.float64) * scale)
    for block in _rows(journal, COSTS, 4):
        for read in info.reads:
            mine = block[block[:, 1] == read.number]
            if len(mine):
                name = read.channels[0].name
                yield _sample_columns(
                    mine[:, 0], f"cost:{name}", mine[:, 2].astype(np.float64) * 1e-9
                )
                yield _sample_columns(mine[:, 0], f"every:{name}", mine[:, 3].astype(np.float64))


def _sample_columns(
    t_ns: Ints, name: str, value: npt.NDArray[np.float64], errno: Ints | None = None
) -> dict[str, Any]:
    codes = pa.array(np.zeros(len(t_ns), np.int32))
    channel = pa.DictionaryArray.from_arrays(codes, pa.array([name]))
    return {
        "t_ns": t_ns,
        "channel": channel,
        "value": pa.array(value, from_pandas=True),  # NaN becomes null: a gap is a gap
        "errno": np.zeros(len(t_ns), np.int16) if errno is None else errno.astype(np.int16),
    }


# --- marks -------------------------------------------------------------------------------------


def _read_names(journal: Folder) -> list[str]:
    """Names by code, and last the one for codes whose name was cut off."""
    names: list[str] = []
    try:
        lines = journal.read(NAMES).splitlines()
    except FileNotFoundError:
        lines = []
    for line in lines:
        try:
            _, code, text = json.loads(line)
        except (TypeError, ValueError):
            break
        if code != len(names) or not isinstance(text, str):
            break
        names.append(text)
    return [*names, LOST_NAME]


def _known(codes: npt.NDArray[Any], names: list[str]) -> Ints:
    """Codes as positions in `names`."""
    return np.minimum(codes.astype(np.int64), len(names) - 1)


def _mark_blocks(journal: Folder) -> Iterator[npt.NDArray[Any]]:
    """Marks in blocks that no step lies across: each ends with a step's end, or before a start."""
    carry = np.empty(0, _MARK)
    for block in _whole_rows(journal, MARKS, _MARK):
        block = np.concatenate([carry, block[block["kind"] != 0]])
        ends = np.flatnonzero(block["kind"] == Mark.STEP_END)
        starts = np.flatnonzero(block["kind"] == Mark.STEP_START)
        cut = len(block)
        if len(ends):
            cut = int(ends[-1]) + 1
        elif len(starts):
            cut = int(starts[-1])
        carry = block[cut:]
        yield block[:cut]
    yield carry


def _device_times(journal: Folder) -> DeviceTimes | None:
    """When a device came to the marks; None where the host did all the work."""
    rows = [
        marks[np.isin(marks["kind"], [Mark.DEVICE, Mark.DEVICE_END])]
        for marks in _mark_blocks(journal)
    ]
    found = np.concatenate(rows)
    return DeviceTimes(found, found["kind"] == Mark.DEVICE_END) if len(found) else None


def _steps(
    journal: Folder, info: RunInfo, names: list[str], device: DeviceTimes | None
) -> Iterator[dict[str, Any]]:
    texts = np.array(names, dtype=object)
    for marks in _mark_blocks(journal):
        kind = marks["kind"]
        ends = np.flatnonzero(kind == Mark.STEP_END)
        starts = np.flatnonzero(kind == Mark.STEP_START)
        # The start that belongs to an end is the last one before it; a step that was started
        # anew (evaluation came between) or never ended has no end of its own.
        at = np.searchsorted(starts, ends) - 1
        ends, starts = ends[at >= 0], starts[at[at >= 0]]
        if device is not None:
            kept = _reached(device, marks["t"][starts], marks["t"][ends])
            starts, ends = starts[kept], ends[kept]
        if not len(ends):
            continue
        inner = np.isin(kind, WITHIN_STEPS)
        positions = np.flatnonzero(inner)
        low, high = np.searchsorted(positions, starts), np.searchsorted(positions, ends)
        chosen = np.concatenate([positions[a:b] for a, b in zip(low, high, strict=True)])
        inside = marks[chosen.astype(np.int64)]
        within = np.repeat(np.arange(len(starts)), high - low)
        first, last = marks[starts], marks[ends]
        start_ns, end_ns, mark_ns = first["t"], last["t"], inside["t"]
        on_device = np.zeros(len(starts), bool)
        if device is not None:
            start_ns, on_device = device.of(start_ns)
            end_ns, _ = device.of(end_ns)
            start_ns = np.maximum.accumulate(start_ns)  # streams may overtake each other
            end_ns = np.maximum(end_ns, start_ns)
            mark_ns, known = device.of(mark_ns)
            known |= ~on_device[within]  # a mark without an event would lie on another timeline
            mark_ns = np.clip(mark_ns, start_ns[within], end_ns[within])[known]
            inside, within = inside[known], within[known]
        counts = np.bincount(within, minlength=len(starts))
        offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
        samples = _late_samples(marks, starts, ends, first["value"])

        def listed(values: Any, kind: pa.DataType, offsets: pa.Array = offsets) -> pa.Array:
            return pa.ListArray.from_arrays(offsets, pa.array(values, type=kind))

        yield {
            "index": first["index"].astype(np.int64),
            "start_ns": start_ns,
            "end_ns": end_ns,
            "cpu_start_ns": pa.array(first["cpu"], mask=first["cpu"] == 0),
            "cpu_end_ns": pa.array(last["cpu"], mask=last["cpu"] == 0),
            "samples": pa.array(samples, from_pandas=True),
            "loss": pa.array(last["value"], from_pandas=True),
            "warmup": first["index"] < info.first_step + info.warmup,
            "traced": first["code"] == 1,
            "mark_ns": listed(mark_ns, pa.int64()),
            "mark_kind": listed(inside["kind"].astype(np.int8), pa.int8()),
            "mark_name": listed(texts[_known(inside["code"], names)], pa.string()),
            "waited_ns": _waited(marks, starts, ends),
            "host_start_ns": pa.array(first["t"], mask=~on_device),
            "host_end_ns": pa.array(last["t"], mask=~on_device),
        }


def _reached(device: DeviceTimes, start_ns: Ints, end_ns: Ints) -> npt.NDArray[np.bool_]:
    """Mask of the steps that the device is known to have come to, or that need none."""
    known = device.of(start_ns)[1] & device.of(end_ns)[1]
    kept: npt.NDArray[np.bool_] = known | ~device.expects(start_ns)
    device.lost += int((~kept).sum())
    return kept


def _waited(marks: npt.NDArray[Any], starts: Ints, ends: Ints) -> pa.Array:
    """Waiting time of a thread in each step, where that was marked."""
    at = np.flatnonzero(marks["kind"] == Mark.WAITED)
    last = np.searchsorted(at, ends) - 1
    there = (last >= 0) & (at[last] > starts) if len(at) else np.zeros(len(ends), bool)
    value = marks["value"][at[last]] if len(at) else np.zeros(len(ends))
    known = there & np.isfinite(value)
    return pa.array(np.where(known, value, 0.0).astype(np.int64), mask=~known)


def _late_samples(
    marks: npt.NDArray[Any], starts: Ints, ends: Ints, given: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Samples of the steps: as given at their beginning, else as marked within them."""
    at = np.flatnonzero(marks["kind"] == Mark.SAMPLES)
    total = np.concatenate([[0.0], np.cumsum(marks["value"][at])])
    low, high = np.searchsorted(at, starts), np.searchsorted(at, ends)
    return np.where(high > low, total[high] - total[low], given)


def _spans(
    journal: Folder, names: list[str], device: DeviceTimes | None
) -> Iterator[dict[str, Any]]:
    """Tracing windows and named rests; one that never ended is closed by the last mark.

    Where steps lie on a device's timeline, a span begins when the device has done what came before.
    """
    opened: dict[str, tuple[int, str]] = {}
    rows: list[tuple[int, int, str, str]] = []
    begin = {int(Mark.WINDOW_START): "window", int(Mark.REST_START): "rest"}
    end = {int(Mark.WINDOW_END): "window", int(Mark.REST_END): "rest"}
    t_last = 0
    for marks in _mark_blocks(journal):
        t_last = int(marks["t"][-1]) if len(marks) else t_last
        chosen = marks[np.isin(marks["kind"], [*begin, *end])]
        for mark, code in zip(chosen, _known(chosen["code"], names), strict=True):
            kind = int(mark["kind"])
            if kind in begin:
                name = names[code] if kind == Mark.REST_START else "tracing"
                opened[begin[kind]] = (int(mark["t"]), name)
            elif end[kind] in opened:
                start, name = opened.pop(end[kind])
                rows.append((start, int(mark["t"]), end[kind], name))
    rows += [(start, t_last, kind, name) for kind, (start, name) in opened.items()]
    if device is not None:
        begins = [device.after(row[0]) for row in rows]
        rows = [
            (begin, max(begin, end), kind, name)
            for begin, (_, end, kind, name) in zip(begins, rows, strict=True)
        ]
    if rows:
        columns = zip(*rows, strict=True)
        yield dict(zip(("start_ns", "end_ns", "kind", "name"), map(list, columns), strict=True))


def _memory(journal: Folder, names: list[str]) -> Iterator[dict[str, Any]]:
    fixed = {
        (int(Mark.PEAK), 0): "peak_resident",
        (int(Mark.PEAK), 1): "peak_resident_with_tracing",
        (int(Mark.PEAK), 2): "peak_resident_apart",
        (int(Mark.RESIDENT), 0): "resident_before_tracing",
        (int(Mark.RESIDENT), 1): "resident_after_tracing",
    }
    for marks in _mark_blocks(journal):
        rows = marks[np.isin(marks["kind"], [Mark.MEMORY, Mark.PEAK, Mark.RESIDENT])]
        if len(rows):
            yield {
                "t_ns": rows["t"],
                "category": [
                    names[code]
                    if row["kind"] == Mark.MEMORY
                    else fixed[int(row["kind"]), int(row["code"])]
                    for row, code in zip(rows, _known(rows["code"], names), strict=True)
                ],
                "bytes": rows["value"].astype(np.int64),
            }


def _evaluations(journal: Folder, names: list[str]) -> Iterator[dict[str, Any]]:
    for marks in _mark_blocks(journal):
        rows = marks[marks["kind"] == Mark.EVALUATION]
        if len(rows):
            yield {
                "t_ns": rows["t"],
                "step": rows["index"].astype(np.int64),
                "measure": [names[code] for code in _known(rows["code"], names)],
                "value": rows["value"],
            }


# --- operations --------------------------------------------------------------------------------


# Columns of operations; rows of the CPU lack the last ones.
_AT = {name: column for column, name in enumerate(DEVICE_OPERATION_FIELDS)}
_WINDOW = _AT["window"]


def _operations(journal: Folder, names: list[str]) -> Iterator[dict[str, Any]]:
    width = len(OPERATION_FIELDS)
    devices = _DeviceRows(journal)
    for block in _whole_windows(_rows(journal, OPERATIONS, width), width):
        rows = devices.beside(block)
        if len(rows):
            yield _operation_columns(rows, names)


def _operation_columns(rows: Ints, names: list[str]) -> dict[str, Any]:
    columns: dict[str, Any] = {name: rows[:, column] for name, column in _AT.items()}
    on_device = columns["processor"] >= 0
    duration = columns["end_ns"] - columns["start_ns"]
    columns["self_ns"] = duration - _children_ns(columns, duration)
    columns["launch"] = _launches(columns, on_device)
    codes = {
        name: (_known(columns[name], names).astype(np.int32), columns[name] < 0)
        for name in ("name", "kind", "layer", "phase", "shapes", "processor")
    }
    codes["processor"] = (np.where(on_device, codes["processor"][0], np.int32(len(names))), None)
    dictionary = pa.array([*names, "cpu"])
    for name, (known, unknown) in codes.items():
        column = pa.array(known, mask=unknown)
        columns[name] = pa.DictionaryArray.from_arrays(column, dictionary)
    for name in ("flops", "bytes"):
        columns[name] = pa.array(columns[name], mask=columns[name] < 0)
    columns["allocated"] = pa.array(columns["allocated"], mask=on_device)
    columns["parent"] = pa.array(columns["parent"].astype(np.int32), mask=columns["parent"] < 0)
    columns["outermost"] = columns["outermost"] == 1
    return columns


def _launches(columns: dict[str, Ints], on_device: npt.NDArray[np.bool_]) -> pa.Array:
    """Positions of what launched work on devices; a window that was cut by a kill may lack it."""
    _, of_window = np.unique(columns["window"], return_inverse=True)
    on_cpu = np.bincount(of_window[~on_device], minlength=int(of_window.max()) + 1)
    known = on_device & (columns["launch"] >= 0) & (columns["launch"] < on_cpu[of_window])
    return pa.array(np.where(known, columns["launch"], 0).astype(np.int32), mask=~known)


class _DeviceRows:
    """Work on devices, window by window, put beside the rows of the CPU.

    Args:
        journal: Its journal need not be there, as in runs of before.
    """

    def __init__(self, journal: Folder) -> None:
        self._width = len(DEVICE_OPERATION_FIELDS)
        self._blocks = _whole_windows(_rows(journal, DEVICE_OPERATIONS, self._width), self._width)
        self._waiting = np.empty((0, self._width), np.int64)
        self._first: int | None = None  # window in which devices were traced

    def beside(self, block: Ints) -> Ints:
        """The rows of some windows with those of devices behind them, window by window.

        From the first window on in which devices were traced, one that lacks rows of theirs was cut:
        all of it is left out, for a step without its kernels would be another step.

        Args:
            block: Rows of the CPU, of whole windows.
        """
        rows = np.full((len(block), self._width), -1)
        rows[:, : block.shape[1]] = block
        found = self._until(int(block[:, _WINDOW].max()))
        if self._first is None:
            return rows
        _, of_row, counts = np.unique(found[:, _WINDOW], return_inverse=True, return_counts=True)
        whole = counts[of_row] == found[:, _AT["rows"]]
        kept = np.isin(rows[:, _WINDOW], np.unique(found[whole, _WINDOW]))
        rows = rows[kept | (rows[:, _WINDOW] < self._first)]
        work = found[whole & (found[:, _AT["name"]] != NO_WORK)]
        work = work[np.isin(work[:, _WINDOW], rows[:, _WINDOW])]
        both = np.concatenate([rows, work])
        return both[np.argsort(both[:, _WINDOW], kind="stable")]

    def _until(self, window: int) -> Ints:
        """Rows of devices up to a window that were not yet given."""
        parts = [self._waiting]
        while not len(parts[-1]) or parts[-1][-1, _WINDOW] <= window:
            block = next(self._blocks, None)
            if block is None:
                break
            if self._first is None:
                self._first = int(block[0, _WINDOW])
            parts.append(block)
        rows = np.concatenate(parts)
        given = rows[:, _WINDOW] <= window
        self._waiting = rows[~given]
        return rows[given]


def _whole_windows(blocks: Iterator[Ints], width: int) -> Iterator[Ints]:
    carry = np.empty((0, width), np.int64)
    for block in blocks:
        block = np.concatenate([carry, block])
        cut = int(np.searchsorted(block[:, _WINDOW], block[-1, _WINDOW]))
        carry = block[cut:]
        if cut:
            yield block[:cut]
    if len(carry):
        yield carry


def _children_ns(columns: dict[str, Ints], duration: Ints) -> Ints:
    """Time of the direct children; parents are positions within their window."""
    _, first, inverse = np.unique(columns["window"], return_index=True, return_inverse=True)
    has = columns["parent"] >= 0
    parent = columns["parent"][has] + first[inverse[has]]
    inside = parent < len(duration)  # a window that was cut by a kill may lack its end
    sums = np.bincount(parent[inside], weights=duration[has][inside], minlength=len(duration))
    return sums.astype(np.int64)


def main() -> None:
    """Entry of the child process that a recorder starts: RUN STATE."""
    try:
        convert(Path(sys.argv[1]), state=sys.argv[2])
    except (OSError, DamagedRunError) as error:
        print(getattr(error, "strerror", None) or error, file=sys.stderr)
        raise SystemExit(3) from None
