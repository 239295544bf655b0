"""Plain CSV of sensor values: a column of times, and columns called "name [unit]"."""

from __future__ import annotations

import csv
import io
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from types import MappingProxyType
from typing import Final

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.formats.recording import FormatError, Recording
from wattstep.formats.rows import (
    DAMAGED,
    NO_END,
    NO_VALUE,
    NO_ZONE,
    SAME_TIME,
    SECOND_NS,
    TIME_UNITS_NS,
    DecimalMarks,
    iso_ns,
    left_out,
    separator,
    spread,
    taken,
    unsaid_ns,
    whole_lines,
)
from wattstep.schema.channel import Channel, Domain, Kind

FORMAT = "plain CSV"
TIMES = ("t_s", "t", "time_s", "time", "seconds", "timestamp")
_SECONDS: Final = ("t_s", "time_s", "seconds")  # names that say the unit
_HEADER = re.compile(r"([^\[\]]+?)\s*(?:\[([^\[\]]*)\])?")
_BEHIND = re.compile(r"(.+?)(?:\s*\(([^()]+)\)|[ _]([^\W_]+))")  # "Current (mA)", "cpu_power_mW"
SUM: Final = "the last line is the sum of the others, no sample, and was left out"
LEAST_SUMMED, SUMMED = 10, 0.05  # lines; how far from their sum, or integral, it may lie
_NOT_AFTER: Final = "its time is not after the line before"
_WALL_NS = 10**17  # later than March 1973: nothing counts that long from its start
_MOST_NS = 4 * 10**18
# Unit as written: SI unit, factor.
UNITS: Final[Mapping[str, tuple[str, float]]] = MappingProxyType(
    {
        "W": ("W", 1.0), "mW": ("W", 1e-3), "uW": ("W", 1e-6), "µW": ("W", 1e-6), "kW": ("W", 1e3),
        "J": ("J", 1.0), "mJ": ("J", 1e-3), "uJ": ("J", 1e-6), "µJ": ("J", 1e-6), "kJ": ("J", 1e3),
        "Wh": ("J", 3600.0), "mWh": ("J", 3.6), "kWh": ("J", 3.6e6),
        "°C": ("°C", 1.0), "C": ("°C", 1.0), "degC": ("°C", 1.0), "m°C": ("°C", 1e-3),
        "Hz": ("Hz", 1.0), "kHz": ("Hz", 1e3), "MHz": ("Hz", 1e6), "GHz": ("Hz", 1e9),
        "%": ("ratio", 1e-2), "ratio": ("ratio", 1.0),
        "V": ("V", 1.0), "mV": ("V", 1e-3), "uV": ("V", 1e-6), "µV": ("V", 1e-6),
        "A": ("A", 1.0), "mA": ("A", 1e-3), "uA": ("A", 1e-6), "µA": ("A", 1e-6),
        "B": ("B", 1.0), "kB": ("B", 1e3), "MB": ("B", 1e6), "GB": ("B", 1e9),
        "KiB": ("B", 1024.0), "MiB": ("B", 1024.0**2), "GiB": ("B", 1024.0**3),
    }
)  # fmt: skip
# A unit without brackets, as in "cpu_power_mW", whatever the size of its letters. One letter says too
# little by itself, and bits are no bytes: those need brackets, or the quantity in the name.
_LETTERS: Final = MappingProxyType({"A": "current", "V": "volt", "C": "temp"})
_WRITTEN: Final[Mapping[str, str]] = MappingProxyType(
    {unit.lower(): unit for unit, (si, _) in UNITS.items() if si not in ("B", "ratio")}
)
# Power of these is none that flowed.
_NO_POWER: Final = frozenset(
    {
        "limit",
        "cap",
        "max",
        "min",
        "peak",
        "rated",
        "target",
        "budget",
        "tdp",
        "setpoint",
        "threshold",
    }
)
_PARTS: Mapping[str, Domain] = MappingProxyType(
    {"cpu": "cpu", "gpu": "gpu", "memory": "memory", "ddr": "memory", "soc": "soc"}
)


@dataclass(frozen=True, kw_only=True)
class _Column:
    position: int
    channel: Channel
    factor: float


def parse(data: bytes, units: Sequence[str] = ()) -> Recording:
    """A recording from CSV text.

    Columns `power [W]` and `energy [J]` (a counter) are the whole machine; other columns in W and J
    are parts of it, but for limits. Units may also stand in round brackets or behind the name
    ("Current (mA)", "cpu_power_W"). Cells are separated by comma, semicolon or tab; where it is no
    comma, numbers may have a decimal comma. An empty cell is a value that is missing. A last line without its end may have
    lost digits, and is left out, as are a few damaged lines, and a last one that is the sum of the
    others, with a note.

    Args:
        data: UTF-8 with a header line; lines that begin with "#" are comments.
        units: Of columns whose heading says none: "mW" for all of them, "NAME=mW" for one.

    Raises:
        FormatError: It is no such text, many of its lines are damaged, or its times go back.
        InvalidValueError: There is no such unit, or no such column.
    """
    text, cut = _text(data)
    mark, rows = _rows(text)
    line, header = next(rows, (1, []))
    time_at, unit_ns, columns = _columns(header, line, stated_units(units, header))
    reader = _Reader(mark)
    t_ns: list[int] = []
    values: list[list[float]] = []
    damage: list[FormatError] = []
    last: list[str] = []
    again, back = None, None
    for number, last in rows:
        if back is not None:
            raise back
        try:
            if len(last) != len(header):
                problem = f"{len(last)} cells under {len(header)} headings"
                raise FormatError(FORMAT, number, problem, id="wrong-cell-count")
            time = reader.time(last[time_at], unit_ns, number)
            row = [reader.number(last[c.position], c.factor, number) for c in columns]
        except FormatError as error:
            damage.append(error)
            continue
        if t_ns and time < t_ns[-1]:
            back = FormatError(FORMAT, number, _NOT_AFTER, id="time-not-after")
            continue
        if t_ns and time == t_ns[-1] and again is None:
            again = number
        t_ns.append(time)
        values.append(row)
    if again is not None and t_ns[0] == t_ns[-1]:
        raise FormatError(FORMAT, again, _NOT_AFTER, id="time-not-after")
    steps = [after - before for before, after in pairwise(t_ns)]
    apart_s = statistics.median(steps or [0]) / SECOND_NS
    wall = bool(t_ns) and t_ns[0] >= _WALL_NS
    notes = [
        *reader.marks.notes(FORMAT, line),
        *reader.notes,
        *taken(reader.unsaid_ns, wall, apart_s, FORMAT, line),
    ]
    odd = back or (damage[-1] if damage and damage[-1].line == number else None)
    summed = _is_sum(reader, last, columns, t_ns if odd else t_ns[:-1], values)
    if summed:
        notes.append(SUM)
        if odd is None:
            del t_ns[-1], values[-1]
        elif back is None:
            damage.pop()
    elif back is not None:
        raise back
    if again is not None:
        t_ns = spread(t_ns)
        notes.append(SAME_TIME)
    return _recording(columns, t_ns, values, damage, cut, notes, int(summed))


def stated_units(units: Sequence[str], header: Sequence[str]) -> Mapping[str, str]:
    """Units by the name of a column, "" for all others.

    Raises:
        InvalidValueError: One is not known, or there is no such column.
    """
    names = {name_of(heading): heading for heading in header}
    stated = {}
    for each in units:
        name, _, unit = each.rpartition("=")
        if unit not in UNITS:
            raise InvalidValueError(
                f"--unit {each}: one of {', '.join(UNITS)} is wanted", id="unknown-unit"
            )
        if name and name_of(name) not in names:
            raise InvalidValueError(
                f"--unit {each}: there are columns {', '.join(names.values())}", id="no-such-column"
            )
        stated[name_of(name)] = unit
    return stated


def _is_sum(
    reader: _Reader,
    cells: Sequence[str],
    columns: Sequence[_Column],
    t_ns: Sequence[int],
    values: Sequence[Sequence[float]],
) -> bool:
    """True if a last row holds the sums of the columns, or their integrals over time."""
    if len(t_ns) < LEAST_SUMMED or len(cells) <= max(c.position for c in columns):
        return False
    try:
        row = np.array([reader.number(cells[c.position], c.factor, 0) for c in columns])
    except FormatError:
        return False
    table = np.array(values[: len(t_ns)])
    seconds = np.gradient(np.array(t_ns) * 1e-9)
    for each in (np.nansum(table, axis=0), np.nansum(table * seconds[:, None], axis=0)):
        large = np.abs(each) > np.nanmax(np.abs(table), initial=0.0)
        if large.any() and (np.abs(row - each)[large] <= SUMMED * np.abs(each)[large]).all():
            return True
    return False


def _recording(
    columns: Sequence[_Column],
    t_ns: Sequence[int],
    values: Sequence[Sequence[float]],
    damage: Sequence[FormatError],
    cut: bool,
    notes: Sequence[str],
    summed: int,
) -> Recording:
    times = np.array(t_ns, np.int64)
    table = np.array(values, np.float64).reshape(len(times), len(columns))
    wall = bool(t_ns) and t_ns[0] >= _WALL_NS
    counts = {NO_END: int(cut), DAMAGED: len(damage), SUM: summed}
    return Recording(
        format=FORMAT,
        channels=tuple(column.channel for column in columns),
        t_ns={column.channel.name: times for column in columns},
        value={column.channel.name: table[:, n].copy() for n, column in enumerate(columns)},
        clock="wall" if wall else "monotonic",
        notes=(*notes, *[NO_END] * cut, *left_out(damage, len(t_ns))),
        ignored={reason: count for reason, count in counts.items() if count},
    )


def _text(data: bytes) -> tuple[str, bool]:
    """The text up to its last line's end, and whether something stood behind it."""
    whole, cut = whole_lines(data)
    try:
        return whole.decode("utf-8-sig"), cut
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FormatError(FORMAT, line, "it is not UTF-8", id="bytes-not-text") from error


def _rows(text: str) -> tuple[str, Iterator[tuple[int, list[str]]]]:
    """Delimiter of the cells, and the rows with their line numbers."""
    lines = text.splitlines()
    mark = separator(next((one for one in lines if one.strip() and not one.startswith("#")), ""))
    return mark, _cells(text, mark)


def _cells(text: str, mark: str) -> Iterator[tuple[int, list[str]]]:
    """Rows with their line numbers, without comments and empty lines."""
    lines = io.StringIO(text, newline="")
    reader = csv.reader(lines, strict=True, skipinitialspace=True, delimiter=mark)
    while True:
        try:
            cells = [cell.strip() for cell in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            raise FormatError(
                FORMAT, max(reader.line_num, 1), str(error), id="malformed-csv"
            ) from error
        if any(cells) and not cells[0].startswith("#"):
            yield reader.line_num, cells


def _columns(
    header: Sequence[str], line: int, stated: Mapping[str, str]
) -> tuple[int, int, list[_Column]]:
    """Column of the time, its unit in ns (0: not said), and the other columns."""
    time_at, unit_ns, columns = -1, 0, []
    for position, heading in enumerate(header):
        match = _HEADER.fullmatch(heading)
        if match is None:
            raise FormatError(
                FORMAT,
                line,
                f"{heading[:40]!r} is no heading: write name [unit]",
                id="malformed-heading",
            )
        name, unit = _named(match[1], (match[2] or "").strip())
        if time_at < 0 and name in TIMES:
            if unit and unit not in TIME_UNITS_NS:
                wanted = ", ".join(TIME_UNITS_NS)
                raise FormatError(
                    FORMAT,
                    line,
                    f"time in {unit[:20]!r}: one of {wanted} is wanted",
                    id="unknown-time-unit",
                )
            said = unit or ("s" if name in _SECONDS else "")
            time_at, unit_ns = position, TIME_UNITS_NS.get(said, 0)
        else:
            unit = unit or stated.get(name_of(heading), stated.get("", ""))
            columns.append(_column(position, name, unit))
    if time_at < 0:
        raise FormatError(
            FORMAT, line, f"it has no column of times ({', '.join(TIMES)})", id="no-time-column"
        )
    names = [column.channel.name for column in columns]
    if not names:
        raise FormatError(FORMAT, line, "it has no values", id="no-value-columns")
    if len(set(names)) < len(names):
        raise FormatError(FORMAT, line, "two columns have one name", id="repeated-column")
    return time_at, unit_ns, columns


def _named(heading: str, unit: str) -> tuple[str, str]:
    """Name and unit of a column: what stands in brackets, else a unit behind the name."""
    match = _BEHIND.fullmatch(heading)
    if not unit and match is not None:
        name, bracketed, behind = match[1], match[2], match[3]
        known = _time_unit(bracketed, behind) if name_of(name) in TIMES else None
        known = known or (_bracketed(bracketed) if bracketed else _behind(name, behind))
        if known is not None:
            return name_of(name), known
    return name_of(heading), unit


def _time_unit(bracketed: str | None, behind: str) -> str | None:
    return bracketed or (behind if behind in TIME_UNITS_NS else None)


def _bracketed(written: str) -> str | None:
    return written if written in UNITS else None


def _behind(name: str, written: str) -> str | None:
    known = _WRITTEN.get(written.lower())
    if (
        known is None
        or _LETTERS.get(known, "") not in name.lower()
        or mega_or_milli(f"{name} {written}")
    ):
        return None
    return known


def mega_or_milli(heading: str) -> bool:
    """True for a capital M before a unit among small letters, as in "Power (MW)": nobody can tell which it is."""
    return (
        re.search(r"(?<![A-Za-z])M(?:W|J|V|A|Wh)(?![A-Za-z])", heading.replace("_", " "))
        is not None
        and not heading.isupper()
    )


def name_of(words: str) -> str:
    """A heading as the name of a column: lower case, "_" for spaces."""
    return re.sub(r"\s+", "_", words.strip().lower())


def _column(position: int, name: str, unit: str) -> _Column:
    si, factor = UNITS.get(unit, (unit, 1.0))
    words = re.findall(r"[a-z]+", name)
    domain: Domain = next((_PARTS[word] for word in words if word in _PARTS), "unknown")
    core = re.match(r"cpu(\d{1,4})\b", name)
    role, kind = _role(name, si, domain)
    if role in ("power_total", "energy_total"):
        domain = "system"
    channel = Channel(
        name=name, unit=si, kind=kind, domain="thermal" if si == "°C" else domain, role=role,
        source=f"column {name} of plain CSV", core=int(core[1]) if core else None,
    )  # fmt: skip
    return _Column(position=position, channel=channel, factor=factor)


def _role(name: str, unit: str, domain: Domain) -> tuple[str, Kind]:
    if unit in ("W", "J") and not _NO_POWER.isdisjoint(re.findall(r"[a-z]+", name)):
        return "unknown", "gauge"
    if unit == "W":
        return ("power_total" if name == "power" else "power_part"), "gauge"
    if unit == "J":
        return ("energy_total" if name == "energy" else "energy_part"), "counter"
    if unit == "ratio" and domain == "gpu":
        return "gpu_utilization", "gauge"
    return {"°C": "temperature", "Hz": "frequency"}.get(unit, "unknown"), "gauge"


class _Reader:
    """Reads the cells of one file, and keeps what a reader of it must know.

    Args:
        mark: What separates them. Where it is no comma, a comma may be the decimal mark.

    Attributes:
        marks: Of the numbers read so far.
        notes: What was assumed of the cells read so far.
        unsaid_ns: What the first time without a unit counts; 0: there was none.
    """

    def __init__(self, mark: str) -> None:
        self.marks = DecimalMarks(mark)
        self.notes: dict[str, None] = {}
        self.unsaid_ns = 0

    def number(self, cell: str, factor: float, line: int) -> float:
        """A value in its SI unit; NaN where the cell says that there is none."""
        if cell.lower() in NO_VALUE:
            return math.nan
        try:
            value = self.marks.number(cell, float) * factor
        except ValueError:
            value = math.inf
        if not math.isfinite(value) or "_" in cell:
            raise FormatError(FORMAT, line, f"{cell[:20]!r} is no number", id="not-a-number")
        return value

    def time(self, cell: str, unit_ns: int, line: int) -> int:
        """Nanoseconds from a number or an ISO 8601 time; one without a zone is taken as UTC.

        A number whose unit is not said (0) is seconds, or what its size says, since 1970.
        """
        try:
            count = self.marks.number(cell, Decimal)
            if "_" not in cell and count.is_finite() and count.adjusted() <= 18:
                if not unit_ns:
                    unit_ns = unsaid_ns(count, FORMAT, line)
                    self.unsaid_ns = self.unsaid_ns or unit_ns
                t_ns = int((count * unit_ns).to_integral_value())
            else:
                t_ns = _MOST_NS
        except InvalidOperation:
            t_ns = self._date(cell)
        if abs(t_ns) >= _MOST_NS:
            raise FormatError(FORMAT, line, f"{cell[:40]!r} is no time", id="not-a-time")
        return t_ns

    def _date(self, cell: str) -> int:
        time = iso_ns(cell)
        if time is None:
            return _MOST_NS
        t_ns, zoned = time
        if not zoned:
            self.notes[NO_ZONE] = None
        return t_ns
