"""CSV of nsys stats: traces and summaries of the GPU, of calls of CUDA and of NVTX ranges.

What stands in it: the guide of Nsight Systems ("Statistical Reports") and the output of versions
2021 to 2026 in public repositories. Units stand behind the headings, "Duration (ns)". Sizes are
decimal there: 29.360 MB are 7 copies of 4194304 B. Several reports may follow one another.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from wattstep.formats.event_rows import EventRows
from wattstep.formats.profiler_csv import (
    TIME_UNITS,
    Devices,
    cells,
    count,
    integer,
    is_number,
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

FORMAT: Final = "nsys CSV"
_LIKE_HEADINGS: Final = re.compile(r"(?i)\(\s*[mnuµ]?s(?:ec)?\s*\)|total|start")
_HEADING: Final = re.compile(r"(.*?)\s*\(([^()]*)\)")
_SIZES: Final[Mapping[str, int]] = {"b": 0, "byte": 0, "bytes": 0, "kb": 3, "mb": 6, "gb": 9}
_OTHER_LINE: Final = "line that is no row of a report"
_MESSAGES: Final = re.compile(
    r"\s*(?:Processing \[|Generating |Exporting |Using |SKIPPED|NOTICE|WARNING|Existing |"
    r"\[\d+/\d+\]|\*\* |It is assumed|Consider using)"
)
_CALLS: Final = ("num calls", "instances", "range instances", "count", "operations", "calls")
_WORK: Final = ("name", "operation", "range", "kernel name")
_TIMED: Final = {"start", "duration"}
# Headings without a unit, as versions before 2021 write them, are of ns.
_TIMES: Final = _TIMED | {
    "total time", "average", "avg", "minimum", "min", "maximum", "max", "stddev", "med", "median",
}  # fmt: skip
_LEAST_COLUMNS: Final = 3
_TOTALS: Final = ("total time", "total proj time", "time")


@dataclass(frozen=True, kw_only=True)
class _Table:
    """Headings of the rows that follow: lower case, without units; and their units."""

    header: tuple[str, ...]
    units: tuple[str, ...]
    kind: str
    known: dict[tuple[str, ...], int | None] = field(default_factory=dict)  # positions asked for

    def cell(self, row: Sequence[str], *names: str) -> str:
        """Cell of a row under the first of these headings that it has; "" where it has none."""
        at = self.position(*names)
        return "" if at is None else row[at].strip()

    def position(self, *names: str) -> int | None:
        """Of the first of these headings that is there; of two alike, the one with a time."""
        if names not in self.known:
            self.known[names] = self._position(names)
        return self.known[names]

    def _position(self, names: Sequence[str]) -> int | None:
        for name in names:
            positions = [at for at, each in enumerate(self.header) if each == name]
            if positions:
                return max(positions, key=lambda at: self.units[at] in TIME_UNITS)
        return None

    def unit(self, *names: str) -> str:
        at = self.position(*names)
        return "" if at is None else self.units[at]

    def nanoseconds(self, row: Sequence[str], *names: str) -> int | None:
        """A time of a row; None where its cell is empty."""
        cell = self.cell(row, *names)
        return nanoseconds(cell, self.unit(*names)) if cell else None


def read(path: Path, on_progress: Callable[[float], None] | None = None) -> Trace:
    """Parsed content of a file; see `parse`.

    Raises:
        InvalidValueError: It cannot be read, or is no CSV of nsys stats.
    """
    return read_whole(path, parse, on_progress)


def parse(data: bytes) -> Trace:
    """Operations and summaries of one or more reports.

    Read are cuda_gpu_trace, cuda_api_trace, cuda_kern_exec_trace, nvtx_pushpop_trace,
    nvtx_gpu_proj_trace (events), and cuda_gpu_kern_sum, cuda_gpu_mem_time_sum, cuda_api_sum,
    cuda_gpu_sum, cuda_api_gpu_sum, osrt_sum, nvtx_sum and its relatives (summaries), under their
    older names, too. Rows of other reports are counted in `ignored`.

    Raises:
        FormatError: It is no CSV of nsys stats, or a row of it holds something else than its
            headings say, with its line.
    """
    reports = _Reports(of_system=b"osrt_sum" in data or b"osrtsum" in data)
    for at, text in lines(data):
        reports.take(at, text)
    return reports.trace(data)


def _table(row: Sequence[str]) -> _Table | None:
    """The table whose headings these are; None: they are none."""
    header, units = [], []
    for cell in row:
        match = _HEADING.fullmatch(cell.strip())
        header.append((match[1] if match else cell.strip()).lower())
        units.append(match[2].strip().lower() if match else "")
    names = set(header)
    if len(row) < _LEAST_COLUMNS or any(is_number(cell) for cell in row):
        return None
    if not set(units) & set(TIME_UNITS) and ("total time" in names or names >= _TIMED):
        units = ["ns" if name in _TIMES else unit for name, unit in zip(header, units, strict=True)]
    timed = [name for name, unit in zip(header, units, strict=True) if unit in TIME_UNITS]
    kind = _kind(names, timed)
    return _Table(header=tuple(header), units=tuple(units), kind=kind) if kind else None


def _kind(names: set[str], timed: Sequence[str]) -> str:
    if {"api start", "kernel start", "kernel dur"} <= set(timed):
        return "executions"
    if {"projected start", "projected duration"} <= set(timed):
        return "projections"
    if {"start", "duration"} <= set(timed) and "name" in names:
        if {"rangeid", "numchild"} & names:
            return "ranges"
        if "corrid" in names:
            return "calls" if {"result", "pid", "tid"} & names else "work"
        return "work" if {"device", "strm"} <= names else "other"
    if names & set(_WORK) and names & set(_CALLS):
        if set(_TOTALS) & set(timed):
            return "summary"
        if "total" in names:
            return "sizes"
    return "other" if timed else ""


class _Reports:
    """State of the reader within a file."""

    def __init__(self, *, of_system: bool) -> None:
        self.of_system = of_system  # a table of the operating system's functions is among them
        self.rows = EventRows()
        self.summaries: list[Summary] = []
        self.ignored: Counter[str] = Counter()
        self.devices = Devices()
        self.table: _Table | None = None
        self.tables: set[str] = set()
        self.has_work = False
        self.launches = 0
        self.rounded = False
        self.odd: list[int] = []

    def take(self, at: int, text: str) -> None:
        """Reads one line."""
        if not text.strip():
            self.table = None
            return
        row = cells(text)
        # Most lines are rows that begin with a number, as no line of headings does.
        heading = row is not None and not text[0].isdigit() and _LIKE_HEADINGS.search(text)
        table = _table(row) if row is not None and heading else None
        if table is not None:
            self.table = table
            self.tables.add(table.kind)
            return
        if self.table is None or row is None or (row := self._fitted(self.table, row)) is None:
            self.ignored[_OTHER_LINE] += 1
            if self.table is not None and not _MESSAGES.match(text):
                self.odd.append(at)
            return
        try:
            self._row(self.table, row)
        except ValueError as error:
            raise FormatError(FORMAT, at, str(error), id="malformed-cell") from error

    @staticmethod
    def _fitted(table: _Table, row: list[str]) -> list[str] | None:
        """A row of the table's width: some exporters leave commas of a name without quotes."""
        wide = len(table.header)
        if len(row) > wide and table.header[-1] in _WORK:
            return [*row[: wide - 1], ",".join(row[wide - 1 :])]
        return row if len(row) == wide else None

    def _row(self, table: _Table, row: Sequence[str]) -> None:
        makers = {
            "work": self._work,
            "calls": self._call,
            "ranges": self._range,
            "projections": self._projection,
            "executions": self._execution,
            "summary": self._summary,
        }
        if table.kind in makers:
            makers[table.kind](table, row)
        elif table.kind == "sizes":
            self.ignored["row of sizes, which are no times"] += 1
        else:
            self.ignored[f"row of a report that is not read ({', '.join(table.header[:3])})"] += 1

    def _add(
        self,
        name: str,
        category: str,
        processor: str,
        start_ns: int | None,
        length_ns: int | None,
        *,
        thread: int = 0,
        process: int | None = None,
        correlation: int | None = None,
        bytes_moved: int = NONE,
    ) -> bool:
        """Takes in one event, or counts why not."""
        if start_ns is None or length_ns is None:
            self.ignored["row without a time"] += 1
        elif length_ns < 0:
            self.ignored["operation that ends before it begins"] += 1
        else:
            self.rows.add(
                name, category, processor, start_ns, start_ns + length_ns, thread=thread,
                process=NONE if process is None else process,
                correlation=NONE if correlation is None else correlation, bytes_moved=bytes_moved,
            )  # fmt: skip
            return True
        return False

    def _work(self, table: _Table, row: Sequence[str]) -> None:
        name = table.cell(row, "name")
        self.has_work = True
        self._add(
            name,
            work_category(name),
            self.devices.processor(device) if (device := table.cell(row, "device")) else "gpu0",
            table.nanoseconds(row, "start"),
            table.nanoseconds(row, "duration"),
            thread=integer(table.cell(row, "strm")) or 0,
            correlation=integer(table.cell(row, "corrid")),
            bytes_moved=self._bytes(table, row),
        )

    def _bytes(self, table: _Table, row: Sequence[str]) -> int:
        cell = table.cell(row, "bytes", "size")
        power = _SIZES.get(table.unit("bytes", "size"), None)
        if not cell or power is None:
            return NONE
        self.rounded |= power > 0
        return int(number(cell).scaleb(power).to_integral_value())

    def _call(self, table: _Table, row: Sequence[str]) -> None:
        self._add(
            table.cell(row, "name"),
            "runtime",
            "cpu",
            table.nanoseconds(row, "start"),
            table.nanoseconds(row, "duration"),
            thread=integer(table.cell(row, "tid")) or 0,
            process=integer(table.cell(row, "pid")),
            correlation=integer(table.cell(row, "corrid")),
        )

    def _range(self, table: _Table, row: Sequence[str]) -> None:
        self._add(
            table.cell(row, "name"),
            "annotation",
            "cpu",
            table.nanoseconds(row, "start"),
            table.nanoseconds(row, "duration"),
            thread=integer(table.cell(row, "tid")) or 0,
            process=integer(table.cell(row, "pid")),
        )

    def _projection(self, table: _Table, row: Sequence[str]) -> None:
        """A range where the CPU was in it, and where its work ran on the GPU."""
        name = table.cell(row, "name")
        if not name:
            self.ignored["projection of the whole recording"] += 1
            return
        thread = integer(table.cell(row, "tid")) or 0
        process = integer(table.cell(row, "pid"))
        times = {
            category: (
                table.nanoseconds(row, f"{word} start"), table.nanoseconds(row, f"{word} duration")
            )
            for category, word in (("annotation", "orig"), ("gpu_annotation", "projected"))
        }  # fmt: skip
        complete = {category: pair for category, pair in times.items() if None not in pair}
        if not complete:
            self.ignored["row without a time"] += 1
        for category, (start_ns, length_ns) in complete.items():
            processor = "cpu" if category == "annotation" else "gpu0"
            self._add(
                name, category, processor, start_ns, length_ns, thread=thread, process=process
            )

    def _execution(self, table: _Table, row: Sequence[str]) -> None:
        """A call and the kernel that it launched; the report has no id that ties them."""
        if self.has_work:
            self.ignored["kernel that the trace of the GPU has as well"] += 1
            return
        self.launches += 1
        process = integer(table.cell(row, "pid"))
        made = self._add(
            table.cell(row, "api function"), "runtime", "cpu",
            table.nanoseconds(row, "api start"), table.nanoseconds(row, "api dur"),
            thread=integer(table.cell(row, "tid")) or 0, process=process,
            correlation=self.launches,
        )  # fmt: skip
        if made:
            name = table.cell(row, "kernel name", "name")
            self._add(
                name, work_category(name), f"gpu{integer(table.cell(row, 'devid')) or 0}",
                table.nanoseconds(row, "kernel start"), table.nanoseconds(row, "kernel dur"),
                process=process, correlation=self.launches,
            )  # fmt: skip

    def _summary(self, table: _Table, row: Sequence[str]) -> None:
        name = table.cell(row, *_WORK)
        category = self._category(table, row, name)
        total = next(each for each in _TOTALS if table.unit(each) in TIME_UNITS)
        total_s = seconds(table.cell(row, total), table.unit(total))
        if total_s is None:
            self.ignored["row without a time"] += 1
            return

        def time_of(*names: str) -> float | None:
            unit = table.unit(*names)
            return seconds(table.cell(row, *names), unit) if unit in TIME_UNITS else None

        self.summaries.append(
            Summary(
                name=name,
                category=category,
                processor="gpu0" if category in _ON_GPU else "cpu",
                calls=count(table.cell(row, *_CALLS)),
                total_s=total_s,
                mean_s=time_of("avg", "average", "proj avg"),
                median_s=time_of("med", "median", "proj med"),
                least_s=time_of("min", "minimum", "proj min"),
                most_s=time_of("max", "maximum", "proj max"),
                deviation_s=time_of("stddev", "std dev", "proj stddev"),
            )
        )

    def _category(self, table: _Table, row: Sequence[str], name: str) -> str:
        """Kind of a summary's row, by its headings, in the end by its name."""
        category = table.cell(row, "category").lower()
        if "range" in table.header:
            return "gpu_annotation" if "total proj time" in table.header else "annotation"
        if "api" in category or "num calls" in table.header:
            return "runtime" if is_runtime_call(name) or not self.of_system else "operating system"
        return work_category(name)

    def trace(self, data: bytes) -> Trace:
        """Result at the end of the file."""
        if not self.tables:
            raise FormatError(
                FORMAT,
                1,
                f"no report of nsys stands in it; it looks like {looks_like(data)} "
                "(wanted: nsys stats --format csv --report cuda_gpu_trace)",
                id="no-table",
            )
        return Trace(
            format=FORMAT,
            names=tuple(self.rows.names),
            events=self.rows.events(),
            summaries=tuple(self.summaries),
            clock="unknown",
            device=self.devices.document(),
            notes=tuple(self._notes()),
            ignored=dict(self.ignored),
        )

    def _notes(self) -> list[str]:
        notes = []
        if not len(self.rows) and not self.summaries:
            notes.append("no report with times: nsys stats --report cuda_gpu_trace has them")
        if self.rounded:
            notes.append("bytes of copies are rounded, as the report shows them with few decimals")
        if self.launches:
            notes.append("kernels are tied to their calls by row, under numbers given on import")
        if "projections" in self.tables:
            notes.append("ranges on the GPU have no device number: taken for gpu0")
        if any(summary.processor == "gpu0" for summary in self.summaries):
            notes.append("the summary does not say which GPU its rows are of: taken for gpu0")
        if self.odd:
            first = ", ".join(map(str, self.odd[:8])) + ", ..." * (len(self.odd) > 8)
            notes.append(f"{len(self.odd)} lines within reports are no rows: left out ({first})")
        return notes


_ON_GPU: Final = frozenset({"kernel", "copy", "set", "gpu_annotation"})
