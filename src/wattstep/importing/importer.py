"""Makes a run from what other tools recorded: reads, brings the clocks together, writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from wattstep.boards import find
from wattstep.errors import InvalidValueError
from wattstep.formats.trace import Trace
from wattstep.importing.aligning import Aligned, align, parse_alignment
from wattstep.importing.operations import TraceTables, tables_of
from wattstep.importing.steps_of_power import PowerSteps, steps_of_power
from wattstep.importing.telemetry import Telemetry, merged, read_telemetry
from wattstep.importing.traces import is_trace, read_trace
from wattstep.schema.channel import Channel, Origin
from wattstep.schema.run_documents import DeviceFacts, ImportedFiles
from wattstep.schema.run_info import PlannedRead, RunInfo
from wattstep.schema.settings import parse_duration
from wattstep.store.writing import write_run

BATCH: Final = 1 << 18  # samples that are in memory as Arrow at once
LEAST_INTERVAL_S: Final = 1e-5
Show = Callable[[str, float], None]


@dataclass(frozen=True, kw_only=True)
class ImportSettings:
    """Request of an import; see the options of `wattstep import`.

    Attributes:
        trace: A file of operations, or None.
        telemetry: Files of samples.
        align: How clocks are brought together, as `parse_alignment` takes it.
        interval: Of the lines of logs without a clock, e.g. "1s"; None: not stated.
        board: Whose rails they are, a name of `wattstep boards`; None: as the files tell.
        step_name: Regular expression of the annotations that are steps; None: the profiler's.
        process: Number of the only process of the trace that counts; None: all.
        batch_size: Samples of a step, or None where nobody knows.
        warmup: First steps that do not count.
        workload: What was trained; None: the first file's name.
        units: Of columns of CSV whose heading says none: "mW" for all, "NAME=mW" for one.
        find_steps: Whether steps are looked for in the power of a log without a trace.
        replayed: Whether the logs stand in for a training of one's own, as a demonstration does:
            their figures are `replayed`.
        credit: Whose recording it is, and under which licence; reports show it.
    """

    trace: Path | None = None
    telemetry: tuple[Path, ...] = ()
    align: str = "auto"
    interval: str | None = None
    board: str | None = None
    step_name: str | None = None
    process: int | None = None
    batch_size: int | None = None
    warmup: int = 0
    workload: str | None = None
    units: tuple[str, ...] = ()
    find_steps: bool = True
    replayed: bool = False
    credit: str = ""

    def __post_init__(self) -> None:
        if self.trace is None and not self.telemetry:
            raise InvalidValueError(
                "what is to be imported? --trace FILE, --telemetry FILE or both (or --agent FOLDER)"
            )
        if self.batch_size is not None and self.batch_size < 1:
            raise InvalidValueError(f"--batch {self.batch_size}: it must be at least 1")
        if self.warmup < 0:
            raise InvalidValueError(f"--warmup {self.warmup}: it cannot be negative")
        if self.trace is None and (self.step_name or self.process is not None):
            raise InvalidValueError("--step-name and --process are about a trace: give --trace")
        if self.trace is None and not self.find_steps and (self.warmup or self.batch_size):
            raise InvalidValueError("--warmup and --batch are about steps: let them be found")
        parse_alignment(self.align)
        if self.interval is not None:
            parse_duration(self.interval)
        if self.board is not None:
            find(self.board)

    @property
    def called(self) -> str:
        """File that the run is named after."""
        if self.workload is not None:
            return "".join(c if c.isalnum() or c in "-_." else "-" for c in self.workload)[:60]
        first = self.trace or self.telemetry[0]
        return first.name.removesuffix(".gz").rpartition(".")[0] or first.name


def import_run(settings: ImportSettings, out: Path, show: Show = lambda stage, share: None) -> Path:
    """Writes the run that the files tell of.

    Args:
        settings: Which files, and how.
        out: Folder of the new run.
        show: Told what is done, and how far it is (0 to 1).

    Returns:
        The run.

    Raises:
        InvalidValueError: A file cannot be read, or the clocks cannot be brought together; with
            what to do. Nothing is written.
        RunExistsError: The folder is taken.
        RecordingError: The run cannot be written; nothing is left behind.
    """
    trace, tables = None, None
    if settings.trace is not None:
        trace = read_trace(settings.trace, lambda share: show("reading the trace", 0.5 * share))
        show("finding steps and layers", 0.5)
        tables = tables_of(
            trace,
            warmup=settings.warmup,
            step_name=settings.step_name,
            process=settings.process,
        )
        trace = replace(trace, events=None)  # its arrays are freed before the tables are written
    show("reading telemetry", 0.6)
    logs = _logs(settings)
    show("bringing the clocks together", 0.7)
    aligned = align(parse_alignment(settings.align), trace, tables, logs)
    show("writing the run", 0.8)
    _write(settings, trace, tables, aligned, out)
    show("done", 1.0)
    return out


def _logs(settings: ImportSettings) -> tuple[Telemetry, ...]:
    try:
        return read_telemetry(
            settings.telemetry,
            interval_s=None if settings.interval is None else parse_duration(settings.interval),
            board=settings.board,
            units=settings.units,
        )
    except InvalidValueError:
        for path in settings.telemetry:
            if is_trace(path):
                raise InvalidValueError(
                    f"--telemetry {path.name}: it is a trace of operations: give it with --trace",
                    id="trace-as-telemetry",
                ) from None
        raise


def _write(
    settings: ImportSettings,
    trace: Trace | None,
    tables: TraceTables | None,
    aligned: Aligned,
    out: Path,
) -> None:
    every = aligned.logs
    if tables is not None and tables.counters is not None:
        counters = Telemetry(file=_name(settings.trace), recording=tables.counters)
        every = (counters, *every)
    logs, notes = merged(every)
    notes = tuple(note for note in notes if note not in aligned.notes)
    info = _describe(settings, trace, tables, aligned, logs)
    power_steps = (
        steps_of_power(logs, settings.warmup) if tables is None and settings.find_steps else None
    )
    if power_steps is not None:
        info = replace(info, imported={**info.imported, "steps": power_steps.document})
        notes = (*notes, *power_steps.notes)
    info = replace(info, notes=(*info.notes, *notes))
    written: dict[str, Any] = {"samples": _samples(logs)}
    if power_steps is not None:
        written |= _steps_written(power_steps, settings)
    if tables is not None:
        written["steps"] = [_with_samples(tables.steps, settings.batch_size)]
        written["spans"] = [tables.spans]
        written["operations"] = tables.operations()
        if len(tables.summaries["name"]):
            written["summaries"] = [tables.summaries]
    write_run(out, info, written)


def _steps_written(power_steps: PowerSteps, settings: ImportSettings) -> dict[str, Any]:
    if not power_steps.document["found"] and (settings.warmup or settings.batch_size):
        raise InvalidValueError(
            f"--warmup and --batch are about steps, and {power_steps.document['reason']}"
        )
    return {
        "steps": [_with_samples(power_steps.steps, settings.batch_size)],
        "spans": [power_steps.spans],
    }


# --- the description ---------------------------------------------------------------------------


def _describe(
    settings: ImportSettings,
    trace: Trace | None,
    tables: TraceTables | None,
    aligned: Aligned,
    logs: Sequence[Telemetry],
) -> RunInfo:
    imported: ImportedFiles = {}
    if trace is not None and tables is not None:
        imported["trace"] = {
            "file": _name(settings.trace),
            "format": trace.format,
            "steps": "whole" if tables.whole else "marked",
            "events": tables.events,
            "rows": tables.rows,
            "left_out": {
                reason: {"events": one.events, "total_s": one.total_s}
                for reason, one in tables.left_out.items()
            },
            "ignored": dict(trace.ignored),
        }
    imported["telemetry"] = [
        {
            "file": log.file,
            "format": log.recording.format,
            "values": log.recording.values,
            "ignored": dict(log.recording.ignored),
        }
        for log in aligned.logs
    ]
    if settings.credit:
        imported["credit"] = settings.credit
    imported["alignment"] = list(aligned.documents)
    status: Origin = "replayed" if settings.replayed else "measured"
    reads = tuple(_read(number, log, status) for number, log in enumerate(logs))
    notes = [*(trace.notes if trace else ()), *(tables.notes if tables else ())]
    notes += [f"{log.file}: {note}" for log in aligned.logs for note in log.recording.notes]
    gpus = bool(tables is not None and tables.workload.get("gpus"))
    return RunInfo(
        state="closed",
        created=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        workload=settings.called,
        title=settings.workload or settings.called,
        engine="not known" if trace is None else trace.format,
        batch_size=settings.batch_size,
        threads=None,
        precision=None,
        processor="gpu" if gpus else None,
        seed=None,
        interval_s=_interval_s(logs),
        warmup=settings.warmup,
        trace="none" if trace is None else "imported",
        device=_device(settings, trace, logs),
        target="imported",
        model={} if tables is None else tables.workload,
        imported=imported,
        reads=reads,
        notes=(*notes, *aligned.notes),
    )


def _device(
    settings: ImportSettings, trace: Trace | None, logs: Sequence[Telemetry]
) -> DeviceFacts:
    """Device as the files describe it."""
    device: DeviceFacts = {} if trace is None else {**trace.device}
    boards = [log.recording.board for log in logs if log.recording.board]
    if name := settings.board or next(iter(boards), None):
        device |= {"model": find(name).title, "board": name}
    return device


def _read(number: int, log: Telemetry, status: Origin) -> PlannedRead:
    return PlannedRead(
        number=number,
        sensor=log.recording.format,
        path=log.file,
        parser="imported",
        every=1,
        channels=tuple(_named(channel, log.file, status) for channel in log.recording.channels),
    )


def _named(channel: Channel, file: str, status: Origin) -> Channel:
    """The channel, with where it comes from; its values are in its unit already."""
    source = f"{channel.source}, from {file}"
    return replace(channel, scale=1.0, wrap=None, source=source, status=status)


def _interval_s(logs: Sequence[Telemetry]) -> float:
    """The usual distance of samples of the most frequent channel in s; 1 where there are none."""
    spacings = [
        float(np.median(np.diff(times)))
        for log in logs
        for times in log.recording.t_ns.values()
        if len(times) > 1
    ]
    return max(min(spacings) * 1e-9, LEAST_INTERVAL_S) if spacings else 1.0


def _name(path: Path | None) -> str:
    return "" if path is None else path.name


# --- tables ------------------------------------------------------------------------------------


def _with_samples(steps: Mapping[str, Any], batch_size: int | None) -> dict[str, Any]:
    if batch_size is None:
        return dict(steps)
    return {**steps, "samples": np.full(len(steps["index"]), float(batch_size))}


def _samples(logs: Sequence[Telemetry]) -> Iterator[dict[str, Any]]:
    """Rows of the table of samples, channel by channel."""
    for log in logs:
        for channel in log.recording.channels:
            times, values = log.recording.t_ns[channel.name], log.recording.value[channel.name]
            for first in range(0, len(times), BATCH):
                part = slice(first, first + BATCH)
                yield _columns(times[part], channel.name, values[part])


def _columns(t_ns: Any, name: str, value: Any) -> dict[str, Any]:
    codes = pa.array(np.zeros(len(t_ns), np.int32))
    return {
        "t_ns": t_ns,
        "channel": pa.DictionaryArray.from_arrays(codes, pa.array([name])),
        "value": pa.array(value, from_pandas=True),  # NaN becomes null: a gap is a gap
        "errno": np.zeros(len(t_ns), np.int16),
    }
