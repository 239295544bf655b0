"""Logs of external power meters: CSV with a header that names a time and watts, or volts and amperes."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.formats.power_meter_columns import FORMAT, Column, columns_of
from wattstep.formats.recording import FormatError, Recording
from wattstep.formats.rows import (
    DAMAGED,
    NO_END,
    NO_VALUE,
    NO_ZONE,
    SAME_TIME,
    SECOND_NS,
    DecimalMarks,
    iso_ns,
    left_out,
    separator,
    spread,
    taken,
    unsaid_by_column,
    unsaid_ns,
    whole_lines,
)
from wattstep.schema.channel import Channel

CHANNEL: Final = Channel(
    name="meter.power",
    unit="W",
    kind="gauge",
    domain="system",
    role="meter_power",
    source="external power meter",
)
# Volts, amperes and joules of the same meter, kept beside the watts.
_VALUES: Final = {
    "power": CHANNEL,
    "voltage": replace(CHANNEL, name="meter.voltage", unit="V", role="unknown"),
    "current": replace(CHANNEL, name="meter.current", unit="A", role="unknown"),
    "energy": replace(CHANNEL, name="meter.energy", unit="J", role="meter_energy", kind="counter"),
}
_WALL_S: Final = 1e8  # later than March 1973: nothing counts that long from its start
_LEAST_ROWS: Final = 2
_NOT_AFTER: Final = "its time is not after that of the line before"
_MISSING: Final = "cell without a value"
_TOO_LARGE: Final = "volts and amperes whose product no number holds"
_BLOCK_BYTES: Final = 1 << 24  # of a log that are in memory as a table at once


def parse(data: bytes, units: Sequence[str] = ()) -> Recording:
    """The power of a meter's log, and its volts, amperes and joules where it has them.

    The header names a time (seconds from any beginning, seconds since 1970 or its thousandths,
    or ISO 8601) and watts, or volts and amperes; units stand behind the name: "power_mW",
    "Main Avg Current (mA)", "Voltage [V]", "elapsed (min)". Cells are separated by comma,
    semicolon or tab; where it is no comma, numbers may have a decimal comma. Lines that begin with
    # do not count. Cells of other columns are counted as ignored, as are a few damaged lines and a
    last line without its end; an empty cell is a value that is missing.

    Args:
        data: The log.
        units: Of columns whose heading says none: "mW" for all of them, "NAME=mW" for one. No
            unit is ever guessed.

    Raises:
        FormatError: Many lines are no rows of it, with the first one's number; the header does not
            tell which column is the power, in what unit, or the time; times go back.
        InvalidValueError: There is no such unit or column, or the headings say all units.
    """
    whole, cut = whole_lines(data)
    table = _read_at_once(whole, units)
    table = _read_by_line(whole, units) if table is None else table
    apart = float(np.median(np.diff(table.seconds)))
    notes = taken(table.unsaid_ns, table.wall, apart, FORMAT, 1)
    return _recording(replace(table, notes=(*table.notes, *notes)), cut)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Table:
    """Columns of all rows: seconds, and values by quantity in SI units; what a time without a unit counts (0: it says one); in which rows columns that are not read have a value."""

    seconds: np.ndarray
    values: dict[str, np.ndarray]
    wall: bool
    unsaid_ns: int
    aside: dict[str, np.ndarray]
    damaged: int = 0
    notes: tuple[str, ...] = ()


class _Cells:
    """Reads the cells of one file, and keeps what a reader of it must know.

    Args:
        mark: What separates them. Where it is no comma, a comma may be the decimal mark.
    """

    def __init__(self, mark: str) -> None:
        self._marks = DecimalMarks(mark)
        self._told: dict[str, None] = {}
        self.unsaid_ns = 0  # what the first time without a unit counts

    def time(self, cell: str, factor: float | None, line: int) -> tuple[float, bool]:
        """Seconds, and whether they count from 1970."""
        try:
            number = self._number(cell)
        except ValueError:
            return self._date(cell, line), True
        if not math.isfinite(number):
            raise FormatError(FORMAT, line, f"{cell[:40]!r} is no time", id="not-a-time")
        if factor is None:
            unit_ns = unsaid_ns(number, FORMAT, line)
            self.unsaid_ns = self.unsaid_ns or unit_ns
            factor = unit_ns / SECOND_NS
        seconds = number * factor
        return seconds, seconds >= _WALL_S

    def value(self, cell: str, column: Column, line: int) -> float:
        """In SI units; NaN where the cell says that there is none."""
        if cell.lower() in NO_VALUE:
            return math.nan
        try:
            number = self._number(cell)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            if column.quantity == "energy":  # stands beside what was asked for: power is enough
                return math.nan
            raise FormatError(
                FORMAT, line, f"{cell[:40]!r} is no {column.quantity}", id="not-a-number"
            )
        return number * (column.factor or 1.0)

    def notes(self, line: int) -> tuple[str, ...]:
        """Metadata of a meter's file that its reader needs.

        Raises:
            FormatError: Commas or points of its numbers part thousands, or may do so.
        """
        return (*self._marks.notes(FORMAT, line), *self._told)

    def _number(self, cell: str) -> float:
        if "_" in cell:
            raise ValueError(cell)
        return self._marks.number(cell, float)

    def _date(self, cell: str, line: int) -> float:
        time = iso_ns(cell)
        if time is None:
            raise FormatError(
                FORMAT,
                line,
                f"{cell[:40]!r} is no time: seconds, or 2026-10-09T08:53:20Z",
                id="not-a-time",
            )
        t_ns, zoned = time
        if not zoned:
            self._told[NO_ZONE] = None
        return t_ns * 1e-9


def _read_by_line(data: bytes, units: Sequence[str] = ()) -> _Table:
    """Any log, line by line: what is wrong is said with its line."""
    mark, rows = _rows(data)
    first, header = next(rows, (1, []))
    line, columns, cells = first, columns_of(header, first, units), _Cells(mark)
    table = _Lines(header, columns, cells)
    damage: list[FormatError] = []
    for line, row in rows:
        try:
            reading = table.read(row, line)
        except FormatError as error:
            damage.append(error)
            continue
        table.add(reading, line)
    notes = (*cells.notes(first), *left_out(damage, len(table.seconds)))
    table.check(line)
    return _Table(
        seconds=np.asarray(table.seconds),
        values={quantity: np.asarray(reading) for quantity, reading in table.values.items()},
        wall=table.wall,
        unsaid_ns=cells.unsaid_ns,
        aside={heading: np.asarray(each) for heading, each in table.aside.items()},
        damaged=len(damage),
        notes=notes,
    )


class _Lines:
    """Rows of a log that are read one by one.

    Args:
        header: Its headings.
        columns: Which of them are read, by quantity.
        cells: Reads one cell.

    Attributes:
        seconds: Times so far; they never go back.
        values: By quantity, in SI units.
        aside: By heading of a column that is not read: whether it has a value.
        wall: Whether the last time counts from 1970.
    """

    def __init__(self, header: Sequence[str], columns: Mapping[str, Column], cells: _Cells) -> None:
        self._width, self._time, self._cells = len(header), columns["time"], cells
        self._wanted = {quantity: columns[quantity] for quantity in _VALUES if quantity in columns}
        self._named = _aside(header, columns)
        self._again: int | None = None  # the first line whose time is that of the line before
        self.seconds: list[float] = []
        self.values: dict[str, list[float]] = {quantity: [] for quantity in self._wanted}
        self.aside: dict[str, list[bool]] = {heading: [] for heading in self._named.values()}
        self.wall = False

    def read(self, row: Sequence[str], line: int) -> tuple[float, list[float], dict[str, bool]]:
        """Time and values of a row, and which other cells have one."""
        if len(row) != self._width:
            raise FormatError(
                FORMAT,
                line,
                f"{len(row)} cells, the header has {self._width}",
                id="wrong-cell-count",
            )
        seconds, wall = self._cells.time(row[self._time.index], self._time.factor, line)
        values = [self._cells.value(row[one.index], one, line) for one in self._wanted.values()]
        self.wall = wall
        others = {heading: row[n].lower() not in NO_VALUE for n, heading in self._named.items()}
        return seconds, values, others

    def add(self, cells: tuple[float, list[float], dict[str, bool]], line: int) -> None:
        """Keeps what `read` returned."""
        seconds, values, others = cells
        if self.seconds and seconds < self.seconds[-1]:
            raise FormatError(FORMAT, line, _NOT_AFTER, id="time-not-after")
        if self._again is None and self.seconds and seconds == self.seconds[-1]:
            self._again = line
        self.seconds.append(seconds)
        for series, value in zip(self.values.values(), values, strict=True):
            series.append(value)
        for heading, has_value in others.items():
            self.aside[heading].append(has_value)

    def check(self, line: int) -> None:
        """Refuses a log of one row, or of one time; `line` is its last."""
        if len(self.seconds) < _LEAST_ROWS:
            raise FormatError(FORMAT, line, "it has fewer than two rows", id="too-few-rows")
        if self._again is not None and self.seconds[0] == self.seconds[-1]:
            raise FormatError(FORMAT, self._again, _NOT_AFTER, id="time-not-after")


def _read_at_once(data: bytes, units: Sequence[str] = ()) -> _Table | None:
    """A log of nothing but numbers below its header, all columns at once; None: it is not such."""
    end = data.find(b"\n") + 1
    first = data[:end]
    if not end or not first.strip() or b'"' in first or first.startswith((b"#", b"\xef\xbb\xbf")):
        return None
    if data.count(b"\r", end) != data.count(b"\r\n", end):
        return None
    mark, rows = _rows(first)
    try:
        line, header = next(rows)
    except StopIteration:
        return None
    columns = columns_of(header, line, units)
    for point in "." if mark == "," else ".,":
        table = _numbers(data, end, mark, point, len(header), columns)
        if table is not None and len(table[0]["time"]) >= _LEAST_ROWS:
            marks = DecimalMarks(mark)
            if point == ",":
                marks.see(data[end:].decode("ascii", errors="replace"))
            notes = marks.notes(FORMAT, line)
            numbers, others = table
            named = _aside(header, columns)
            aside = {heading: others[n] for n, heading in named.items()}
            return _whole_table(numbers, columns, aside, notes)
    return None


def _whole_table(
    table: dict[str, np.ndarray],
    columns: dict[str, Column],
    aside: dict[str, np.ndarray],
    notes: tuple[str, ...],
) -> _Table | None:
    """The table in SI units, or None where something in it must be said with its line."""
    numbers, factor, unsaid = table.pop("time"), columns["time"].factor, 0
    if factor is None:
        each_ns = unsaid_by_column(numbers)
        if each_ns is None:
            return None
        seconds, unsaid = numbers * (each_ns / SECOND_NS), int(each_ns[0])
    else:
        seconds = numbers * factor
    if not np.isfinite(seconds).all() or not (np.diff(seconds) >= 0).all():
        return None
    if seconds[0] == seconds[-1]:
        return None
    for quantity, values in table.items():
        np.multiply(values, columns[quantity].factor or 1.0, out=values)
    if any(np.isinf(values).any() for values in table.values()):
        return None
    wall = bool(seconds[-1] >= _WALL_S)
    return _Table(
        seconds=seconds, values=table, wall=wall, unsaid_ns=unsaid, aside=aside, notes=notes
    )


def _numbers(
    data: bytes, begin: int, mark: str, point: str, width: int, columns: dict[str, Column]
) -> tuple[dict[str, np.ndarray], dict[int, np.ndarray]] | None:
    """Columns by quantity as float64, NaN for empty cells, and in which rows each other has a value.

    None where one is no plain number.
    """
    import pyarrow as pa
    from pyarrow import csv as table_of

    names = [str(n) for n in range(width)]
    wanted = {q: str(columns[q].index) for q in ("time", *_VALUES) if q in columns}
    numbers: dict[str, list[np.ndarray]] = {quantity: [] for quantity in wanted}
    others: dict[int, list[np.ndarray]] = {
        n: [] for n, name in enumerate(names) if name not in wanted.values()
    }
    try:
        for block in _blocks(data, begin):
            # One block a call and no threads: a reader of a stream reads ahead in a thread, which
            # may still run when the process ends, and then aborts it.
            table = table_of.read_csv(
                pa.BufferReader(pa.py_buffer(block)),
                read_options=table_of.ReadOptions(
                    column_names=names, use_threads=False, block_size=len(block) + 1
                ),
                parse_options=table_of.ParseOptions(delimiter=mark, quote_char=False),
                convert_options=table_of.ConvertOptions(
                    column_types={name: pa.float64() for name in names},
                    null_values=[""],
                    decimal_point=point,
                ),
            )
            for quantity, name in wanted.items():
                numbers[quantity].append(table.column(name).to_numpy())
            for n, parts in others.items():
                parts.append(~np.isnan(table.column(n).to_numpy()))
    except (pa.ArrowException, OSError):
        return None
    if not numbers["time"]:
        return None
    return (
        {quantity: np.concatenate(parts) for quantity, parts in numbers.items()},
        {n: np.concatenate(parts) for n, parts in others.items()},
    )


def _blocks(data: bytes, begin: int) -> Iterator[memoryview]:
    """The data from there on, in parts of whole lines."""
    whole = memoryview(data)
    while begin < len(data):
        end = data.find(b"\n", begin + _BLOCK_BYTES) + 1 or len(data)
        yield whole[begin:end]
        begin = end


def _aside(header: Sequence[str], columns: Mapping[str, Column]) -> dict[int, str]:
    """What columns are called that are neither a time nor watts, volts or amperes, by their place."""
    used = {column.index for column in columns.values()}
    return {n: f"column {name[:40] or n + 1}" for n, name in enumerate(header) if n not in used}


def _rows(data: bytes) -> tuple[str, Iterator[tuple[int, list[str]]]]:
    """Delimiter of the cells, and number and cells of each line that counts."""
    text = data.decode("utf-8-sig", errors="replace").replace("\0", "\ufffd")
    lines = text.splitlines()
    mark = separator(next((one for one in lines if one.strip() and not one.startswith("#")), ""))
    return mark, _cells(lines, mark)


def _cells(lines: Sequence[str], mark: str) -> Iterator[tuple[int, list[str]]]:
    for number, one in enumerate(lines, start=1):
        if not one.strip() or one.startswith("#"):
            continue
        try:
            (cells,) = csv.reader([one], delimiter=mark)
        except (csv.Error, ValueError) as error:
            raise FormatError(FORMAT, number, str(error), id="malformed-csv") from error
        yield number, [cell.strip() for cell in cells]


# --- the recording -----------------------------------------------------------------------------


def _recording(table: _Table, cut: bool) -> Recording:
    t_ns, notes = _nanoseconds(table)
    missing = sum(int(np.isnan(column).sum()) for column in table.values.values())
    counts = {_MISSING: missing, NO_END: int(cut), DAMAGED: table.damaged}
    values = dict(table.values)
    if "power" not in values:
        with np.errstate(over="ignore"):
            product = values["voltage"] * values["current"]
        too_large = np.isinf(product)
        values["power"] = np.where(too_large, np.nan, product)
        counts[_TOO_LARGE] = int(too_large.sum())
    channels = tuple(_VALUES[quantity] for quantity in _VALUES if quantity in values)
    return Recording(
        format="power meter",
        channels=channels,
        t_ns={channel.name: t_ns for channel in channels},
        value={_VALUES[quantity].name: column for quantity, column in values.items()},
        clock="wall" if table.wall else "counted",
        notes=(*table.notes, *notes, *[NO_END] * cut),
        ignored={
            **{heading: len(t_ns) for heading in table.aside},
            **{reason: n for reason, n in counts.items() if n},
        },
        aside=table.aside,
    )


def _nanoseconds(table: _Table) -> tuple[np.ndarray, tuple[str, ...]]:
    """Times in ns, strictly increasing, and what was done to them."""
    seconds = table.seconds
    begin = 0.0 if table.wall else seconds[0]
    span = seconds[-1] - begin
    if not math.isfinite(span) or abs(span) > 9e9:  # of int64 in nanoseconds
        raise InvalidValueError("the times of the meter's log lie too far apart")
    # Nanoseconds since 1970 do not fit a float64: whole seconds apart from their fraction.
    whole = np.floor(seconds - begin)
    t_ns: np.ndarray = whole.astype(np.int64) * 10**9 + np.rint(
        (seconds - begin - whole) * 1e9
    ).astype(np.int64)
    if (np.diff(t_ns) > 0).all():
        return t_ns, ()
    if (np.diff(table.seconds) > 0).all():
        raise InvalidValueError("rows of the meter's log are less than a nanosecond apart")
    return np.array(spread(t_ns.tolist()), np.int64), (SAME_TIME,)
