"""Turns the journals of a run into its Parquet tables, in bounded memory and all or nothing."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from wattstep.errors import DamagedRunError
from wattstep.schema.journal import JOURNAL, RUN
from wattstep.schema.run_info import RunInfo
from wattstep.store.convert_marks import (
    device_times,
    evaluation_columns,
    memory_columns,
    span_columns,
    step_columns,
)
from wattstep.store.convert_operations import operation_columns
from wattstep.store.convert_samples import sample_columns
from wattstep.store.device_clock import DeviceTimes
from wattstep.store.files import read_info, write_info
from wattstep.store.folder import Folder
from wattstep.store.journal_rows import cut_segments, read_names
from wattstep.store.lock import RunLock
from wattstep.store.pieces import row_words
from wattstep.store.tables import (
    EVALUATIONS,
    MEMORY,
    OPERATIONS_SCHEMA,
    SAMPLES,
    SPANS,
    STEPS,
    TABLE,
    THINNED,
    THINNED_STEPS,
    write_table,
    written_table,
)
from wattstep.store.without_pandas import without_pandas

WRITING = ".tmp"  # a table that is not whole yet


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
            raise DamagedRunError(f"{run} has neither tables nor a journal", id="no-journal")
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
    except (FileNotFoundError, DamagedRunError):
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
        cut = [
            f"{name} was cut within a row: what it held from there on is lost"
            for name in cut_segments(journal, row_words(info))
        ]
        names = read_names(journal)
        device = device_times(journal)
        thinned_steps: list[dict[str, Any]] = []
        tables = {
            "steps": (STEPS, step_columns(journal, info, names, device, thinned_steps.append)),
            "spans": (SPANS, span_columns(journal, names, device)),
            "memory": (MEMORY, memory_columns(journal, names)),
            "evaluations": (EVALUATIONS, evaluation_columns(journal, names)),
            "operations": (OPERATIONS_SCHEMA, operation_columns(journal, names)),
        }
        try:
            reads = _write_samples(folder, journal, info)
            for name, (schema, batches) in tables.items():
                write_table(folder, name + TABLE + WRITING, schema, batches)
            if not reads:
                folder.remove("thinned" + TABLE + WRITING)
            if thinned_steps:
                name = "thinned_steps" + TABLE + WRITING
                write_table(folder, name, THINNED_STEPS, iter(thinned_steps))
            thinned = ["thinned"] * bool(reads) + ["thinned_steps"] * bool(thinned_steps)
            for name in ("samples", *thinned, *tables):
                folder.rename(name + TABLE + WRITING, name + TABLE)
        except BaseException as error:
            for name in ("samples", "thinned", "thinned_steps", *tables):
                folder.remove(name + TABLE + WRITING)
            if isinstance(
                error, (ValueError, LookupError, OverflowError)
            ):  # Arrow's are among them
                raise DamagedRunError(
                    f"the journal of {run.path} is garbled: {error}", id="damaged-journal"
                ) from error
            raise
    folder.sync()
    notes = (*info.notes, *cut)
    if "raw_s" in info.keep:
        info = replace(info, keep={**info.keep, "thinned_reads": reads})
    if "steps_s" in info.keep:
        steps = sum(int(columns["steps"].sum()) for columns in thinned_steps)
        info = replace(info, keep={**info.keep, "thinned_steps": steps})
    info = replace(info, state=state, notes=notes)
    write_info(folder, _with_device_clock(info, device, names))


def _write_samples(folder: Folder, journal: Folder, info: RunInfo) -> int:
    """Writes samples, and stretches in place of others; returns how many values these stand for."""
    reads = 0
    with written_table(folder, "thinned" + TABLE + WRITING, THINNED) as add:

        def thinned(columns: dict[str, Any]) -> None:
            nonlocal reads
            reads += int(columns["reads"].sum())
            add(columns)

        batches = sample_columns(journal, info, thinned)
        write_table(folder, "samples" + TABLE + WRITING, SAMPLES, batches)
    return reads


def _with_device_clock(info: RunInfo, device: DeviceTimes | None, names: list[str]) -> RunInfo:
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
    most = max(clocks, key=lambda code: clocks[code].count)
    return replace(
        info,
        notes=notes,
        device_clock={
            "device": names[min(most, len(names) - 1)],
            "uncertainty_ns": max(clock.uncertainty_ns for clock in clocks.values()),
            "rate": clocks[most].rate,
            "anchors": sum(clock.anchors for clock in clocks.values()),
            "piece_ns": max(median(device.costs_ns), 0.0) if device.costs_ns else None,
        },
    )


def main() -> None:
    """Entry of the child process that a recorder starts: RUN STATE."""
    without_pandas()
    try:
        convert(Path(sys.argv[1]), state=sys.argv[2])
    except (OSError, DamagedRunError) as error:
        print(getattr(error, "strerror", None) or error, file=sys.stderr)
        raise SystemExit(3) from None
