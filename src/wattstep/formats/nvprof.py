"""CSV of nvprof: traces of the GPU and of calls of CUDA, and summaries.

What stands in it: the profiler's own documentation (CUDA Toolkit, Profiler User's Guide, "nvprof")
and files in public repositories: a line of headings, a line of units, rows; lines that begin with
==PID== or ======== are messages. Sizes count 1024 to the KB (0.125000KB is a copy of 128 B).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from wattstep.formats.event_rows import EventRows
from wattstep.formats.profiler_csv import (
    TIME_UNITS,
    Devices,
    cells,
    count,
    integer,
    is_runtime_call,
    lines,
    nanoseconds,
    number,
    seconds,
    work_category,
)
from wattstep.formats.recording import FormatError
from wattstep.formats.sniff import looks_like, read_whole
from wattstep.formats.trace import NONE, Summary, Trace

FORMAT: Final = "nvprof CSV"
_MESSAGE: Final = re.compile(r"==+\s?(\d{0,10})\s?==+ ?(.*)")
_SIZES: Final = {"B": 0, "KB": 1, "MB": 2, "GB": 3, "TB": 4}
_COUNTERS: Final = {"Metric Name", "Event Name", "Metric Result"}
_OWN_OUTPUT: Final = "line that is no row of a profile (the program's own output)"
_TYPES: Final = {"GPU activities": "", "API calls": "runtime", "NVTX": "annotation"}


@dataclass(frozen=True, kw_only=True)
class _Table:
    """Headings and units of the rows that follow; no units yet: they are the next line."""

    header: Sequence[str]
    units: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def places(self) -> dict[str, int]:
        """Position of each heading."""
        return {name: at for at, name in reversed(list(enumerate(self.header)))}

    @cached_property
    def of_counters(self) -> bool:
        return bool(_COUNTERS & set(self.header))

    def cell(self, row: Sequence[str], name: str) -> str:
        """Cell of a row under a heading; "" where it has none."""
        at = self.places.get(name)
        return "" if at is None else row[at].strip()

    def unit(self, name: str) -> str:
        return self.units.get(name, "")


def read(path: Path, on_progress: Callable[[float], None] | None = None) -> Trace:
    """Parsed content of a file; see `parse`.

    Raises:
        InvalidValueError: It cannot be read, or is no CSV of nvprof.
    """
    return read_whole(path, parse, on_progress)


def parse(data: bytes) -> Trace:
    """Operations of a GPU trace or an API trace, and the rows of summaries.

    Rows of counters (--metrics, --events) hold no times; they, messages and the program's own
    output between are counted in `ignored`.

    Raises:
        FormatError: It is no CSV of nvprof, or a row of it holds something else than its headings
            say, with its line.
    """
    profile = _Profile()
    for at, text in lines(data):
        profile.take(at, text)
    return profile.trace(data)


class _Profile:
    """State of the reader within a file."""

    def __init__(self) -> None:
        self.rows = EventRows()
        self.summaries: list[Summary] = []
        self.ignored: Counter[str] = Counter()
        self.devices = Devices()
        self.table: _Table | None = None
        self.tables = 0
        self.of_calls = False  # of the section: calls of the API, not work on a GPU
        self.process = NONE
        self.processes: set[int] = set()
        self.warnings: list[str] = []
        self.coarse: set[str] = set()

    def take(self, at: int, text: str) -> None:
        """Reads one line."""
        message = _MESSAGE.fullmatch(text)
        if message:
            self._message(message[1], message[2])
        elif not text.strip():
            self.table = None
        elif (row := cells(text)) is None:
            self.ignored[_OWN_OUTPUT] += 1
        elif "Name" in text and self._is_header(row):
            self.table = _Table(header=row)
            self.tables += 1
        elif self.table is None or len(row) != len(self.table.header):
            self.ignored[_OWN_OUTPUT] += 1
        elif self.table.of_counters:
            self.ignored["value of a hardware counter, which is no time"] += 1
        elif not self.table.units:
            self._units(at, self.table, row)
        else:
            self._row(at, self.table, row)

    def _message(self, process: str, text: str) -> None:
        self.table = None
        self.process = int(process) if process else NONE
        self.of_calls = text.startswith("API calls")
        self.ignored["message of nvprof"] += 1
        if text.startswith("Warning"):
            self.warnings.append(f"nvprof: {text}")

    @staticmethod
    def _is_header(row: Sequence[str]) -> bool:
        names = set(row)
        return bool(_COUNTERS & names) or (
            "Name" in names
            and ({"Start", "Duration"} <= names or {"Time(%)", "Time", "Calls"} <= names)
        )

    def _units(self, at: int, table: _Table, row: Sequence[str]) -> None:
        units = {name: row[at].strip() for name, at in table.places.items()}
        self.table = _Table(header=table.header, units=units)
        wanted = {"Start", "Duration", "Time", "Avg", "Min", "Max"} & set(table.header)
        for name in sorted(wanted):
            if self.table.unit(name) not in TIME_UNITS:
                raise FormatError(
                    FORMAT,
                    at,
                    f"{self.table.unit(name)[:20]!r} is no unit of {name}: s, ms, us, ns",
                    id="not-a-unit",
                )

    def _row(self, at: int, table: _Table, row: Sequence[str]) -> None:
        try:
            if "Start" in table.header:
                self._event(table, row)
            else:
                self._summary(table, row)
        except ValueError as error:
            raise FormatError(FORMAT, at, str(error), id="malformed-cell") from error

    def _event(self, table: _Table, row: Sequence[str]) -> None:
        name, start = table.cell(row, "Name"), table.cell(row, "Start")
        duration = table.cell(row, "Duration")
        if not start or not duration:
            marks = name.startswith(("[Marker", "[Range"))
            self.ignored["mark of NVTX, without a duration" if marks else "row without a time"] += 1
            return
        begin_ns = nanoseconds(start, table.unit("Start"))
        length_ns = nanoseconds(duration, table.unit("Duration"))
        if length_ns < 0:
            self.ignored["operation that ends before it begins"] += 1
            return
        self._note_resolution(start, table.unit("Start"))
        device = table.cell(row, "Device")
        correlation = integer(table.cell(row, "Correlation_ID"))
        self.processes.add(self.process)
        self.rows.add(
            name,
            work_category(name) if device else "runtime",
            self.devices.processor(device) if device else "cpu",
            begin_ns,
            begin_ns + length_ns,
            thread=(integer(table.cell(row, "Stream")) or 0) if device else 0,
            process=self.process,
            correlation=NONE if correlation is None else correlation,
            bytes_moved=self._bytes(table, row),
        )

    @staticmethod
    def _bytes(table: _Table, row: Sequence[str]) -> int:
        size = table.cell(row, "Size")
        power = _SIZES.get(table.unit("Size")) if size else None
        return NONE if power is None else round(number(size) * 1024**power)

    def _note_resolution(self, cell: str, unit: str) -> None:
        decimals = len(cell.partition(".")[2])
        if TIME_UNITS[unit] > decimals:
            self.coarse.add(f"{unit} with {decimals} decimals")

    def _summary(self, table: _Table, row: Sequence[str]) -> None:
        name, kind = table.cell(row, "Name"), table.cell(row, "Type")
        category = _TYPES.get(kind, kind)
        if not kind and (self.of_calls or is_runtime_call(name)):
            category = "runtime"
        times = {
            key: seconds(table.cell(row, key), table.unit(key)) for key in ("Avg", "Min", "Max")
        }
        total_s = seconds(table.cell(row, "Time"), table.unit("Time"))
        if total_s is None:
            self.ignored["row without a time"] += 1
            return
        self.summaries.append(
            Summary(
                name=name,
                category=category or work_category(name),
                processor="cpu" if category else "gpu0",
                calls=count(table.cell(row, "Calls")),
                total_s=total_s,
                mean_s=times["Avg"],
                least_s=times["Min"],
                most_s=times["Max"],
            )
        )

    def trace(self, data: bytes) -> Trace:
        """Result at the end of the file."""
        if not self.tables:
            raise FormatError(
                FORMAT,
                1,
                f"no table of nvprof stands in it; it looks like {looks_like(data)} "
                "(wanted: nvprof --csv with --print-gpu-trace, --print-api-trace or a summary)",
                id="no-table",
            )
        if not len(self.rows) and not self.summaries:
            self.warnings.append(
                "it holds no times: record with nvprof --csv --print-gpu-trace, without --metrics"
            )
        return Trace(
            format=FORMAT,
            names=tuple(self.rows.names),
            events=self.rows.events(),
            summaries=tuple(self.summaries),
            clock="unknown",
            device=self.devices.document(),
            notes=(*self._notes(), *dict.fromkeys(self.warnings)),
            ignored=dict(self.ignored),
        )

    def _notes(self) -> list[str]:
        notes = []
        if self.coarse:
            notes.append(f"times are given in {' and '.join(sorted(self.coarse))}, not to the ns")
        if len(self.processes) > 1:
            notes.append(
                f"{len(self.processes)} processes, each with times from a beginning of its own: "
                "times of different processes must not be compared"
            )
        if any(summary.processor == "gpu0" for summary in self.summaries):
            notes.append("the summary does not say which GPU its rows are of: taken for gpu0")
        if self.ignored[_OWN_OUTPUT]:
            notes.append(f"{self.ignored[_OWN_OUTPUT]} lines are no rows of a profile: left out")
        return notes
