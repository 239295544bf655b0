"""Rows of a log, each with what it says about its time, as one series for each channel."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import accumulate, groupby, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from wattstep.errors import InvalidValueError
from wattstep.formats.recording import FormatError
from wattstep.schema.channel import Channel

if TYPE_CHECKING:  # live sensors parse lines without it
    from decimal import Decimal

    import numpy as np

N = TypeVar("N")
SECOND_NS = 1_000_000_000
DAMAGED = "damaged line"
FEW, SHARE, NAMED = 3, 100, 8  # damaged lines: so many, or one in a hundred; so many are named
HOUR_NS = 3600 * SECOND_NS
TIME_UNITS_NS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "s": SECOND_NS, "ms": 10**6, "us": 1000, "µs": 1000, "ns": 1,
        "min": 60 * SECOND_NS, "h": HOUR_NS,
    }
)  # fmt: skip
LAST_NS = 4_102_444_800 * SECOND_NS  # the year 2100; later years are mistakes
# Cells in small letters, as loggers write them that have no value at a time.
NO_VALUE = frozenset(
    {
        "", "-", "--", "---", "nan", "n/a", "na", "null", "none", "[n/a]", "[not supported]",
        "not supported",
    }
)  # fmt: skip
NO_END = "the last line has no end and was left out"
COMMAS = "commas in its numbers are decimal marks"
MIXED = "below it some numbers have a comma, others a point: use one of them"
THOUSANDS = (
    "all numbers with a comma have three digits behind it, as {} has: whether that is a decimal mark or parts "
    "thousands nobody can tell; write points"
)
_LONGEST_S = 10**8  # three years: nothing counts that long from its start
# Numbers that are a date from 2001 to 2100: the first, the one behind the last, what each counts in ns.
_DATES = tuple((10**9 * SECOND_NS // ns, LAST_NS // ns, ns) for ns in (SECOND_NS, 10**6, 1000, 1))
_DATES_IN = MappingProxyType({SECOND_NS: "s", 10**6: "ms", 1000: "µs", 1: "ns"})
# So far apart, times without a unit may as well be thousandths of what they are taken for: of dates,
# since a device was switched on.
_FAR_APART_S, _DATES_FAR_APART_S = 5, 3600
NO_TIME_UNIT = (
    "its times say no unit, and lie {:g} apart: call the column time_s, time_ms, or what else it is"
)
NO_DATE = (
    "time {} says no unit, and is no date from 2001 to 2100 in s, ms, µs or ns since 1970: call the column time_s, "
    "time_ns, or what else it is"
)
TAKEN = "its times say no unit and are taken as {}"
NO_ZONE = "times without a zone are taken as UTC"
SORTED = "lines that stand later than their time says: {}; all are sorted by their times"
SAME_TIME = "lines of the same time are spread evenly up to the next time"
_DECIMAL_COMMA = re.compile(r"\b0+,[0-9]|[0-9]{4},[0-9]|[0-9],(?:[0-9]{1,2}|[0-9]{4,})(?![0-9])")
_ANY_COMMA = re.compile(r"[0-9]+,[0-9]+")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_ISO = re.compile(
    r"([0-9]{4})[-/]([0-9]{2})[-/]([0-9]{2})[ T]([0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:[.,]([0-9]{1,12}))? ?(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """Values that one line gives.

    Attributes:
        line: Its number in the file, from 1.
        t_ns: Wall time in ns since 1970, or None where the line says none.
        values: Each with its channel; NaN: the line says that there is none.
    """

    line: int
    t_ns: int | None
    values: Sequence[tuple[Channel, float]]


@dataclass(frozen=True, kw_only=True)
class Times:
    """When the rows were, in ns and strictly increasing; the kind of clock; what was done to it."""

    t_ns: Sequence[int]
    clock: str
    notes: tuple[str, ...] = ()


def left_out(damage: Sequence[FormatError], whole: int) -> list[str]:
    """Note about a few damaged lines that were left out.

    Args:
        damage: What is wrong with each of them.
        whole: How many lines could be read.

    Raises:
        FormatError: They are many: more than three and more than 1 %, or no fewer than the others.
    """
    if not damage:
        return []
    count = len(damage)
    if count >= whole or count > max(FEW, whole // SHARE):
        raise damage[0]
    numbers = ", ".join(str(error.line) for error in damage[:NAMED]) + ", ..." * (count > NAMED)
    lines = "lines are" if count > 1 else "line is"
    return [f"{count} {lines} damaged and left out ({numbers}): {damage[0]}"]


def wall_ns(moment: datetime, fraction: str = "", offset: timedelta | None = None) -> int:
    """A date and time as ns since 1970.

    Args:
        moment: To the second, without a time zone.
        fraction: Decimals of the second as written, "412" for 412 ms.
        offset: Of its time zone from UTC; None: it is read as UTC.

    Raises:
        ValueError: It is before 1970 or after 2100.
    """
    since = moment.replace(tzinfo=timezone.utc) - (offset or timedelta()) - _EPOCH
    nanoseconds = round(since.total_seconds()) * SECOND_NS + fraction_ns(fraction)
    if not 0 <= nanoseconds < LAST_NS:
        raise ValueError(f"{moment:%Y-%m-%d} is no date of a log")
    return nanoseconds


def fraction_ns(digits: str) -> int:
    """Decimals of a second, as written, in ns."""
    return int(digits[:9].ljust(9, "0"))


def whole_lines(data: bytes) -> tuple[bytes, bool]:
    """The text up to its last line's end, and whether something stood behind it.

    A line without its end may have lost digits: nobody can tell 20.5 from the 2 that is left of it.
    """
    end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
    return data[:end], bool(data[end:].strip())


def separator(header: str) -> str:
    """Delimiter of a line's cells: of comma, semicolon and tab the most frequent."""
    return max(";\t,", key=header.count)


def iso_ns(cell: str) -> tuple[int, bool] | None:
    """Nanoseconds since 1970 of an ISO 8601 date and time; None: it is none.

    Returns:
        The time, and whether it says its zone; one without is taken as UTC.
    """
    match = _ISO.fullmatch(cell)
    if match is None:
        return None
    year, month, day, clock, fraction, zone = match.groups()
    offset = "+00:00" if zone in (None, "Z") else f"{zone[:3]}:{zone[3:].lstrip(':') or '00'}"
    try:
        moment = datetime.fromisoformat(f"{year}-{month}-{day}T{clock}{offset}")
    except ValueError:
        return None
    seconds = (moment - _EPOCH) // timedelta(seconds=1)
    return seconds * SECOND_NS + fraction_ns(fraction or ""), zone is not None


class DecimalMarks:
    """Points and commas in the numbers of one file; cells that are no numbers tell nothing of them.

    Args:
        mark: What separates its cells. Where it is no comma, a comma may be the decimal mark.
    """

    def __init__(self, mark: str) -> None:
        self._commas = mark != ","
        self._points = False
        self._parted = ""  # the first number whose comma may as well part thousands
        self._decided = False  # a comma was read that is a decimal mark for sure
        self.commas = False

    def number(self, cell: str, read: Callable[[str], N]) -> N:
        """What `read` makes of a cell, whose decimal comma, where it can be one, is a point then.

        Raises:
            Exception: As `read` does, of a cell that is no number.
        """
        comma = self._commas and cell.count(",") == 1 and "." not in cell
        number = read(cell.replace(",", ".") if comma else cell)
        if comma:
            self.see(cell)
        self._points |= "." in cell
        return number

    def see(self, numbers: str) -> None:
        """Takes note of numbers with decimal commas."""
        self.commas = True
        self._decided = self._decided or _DECIMAL_COMMA.search(numbers) is not None
        if not self._decided and not self._parted and (match := _ANY_COMMA.search(numbers)):
            self._parted = match[0]

    def notes(self, format_name: str, line: int) -> tuple[str, ...]:
        """What was assumed of the commas.

        Raises:
            FormatError: Commas and points both stand in numbers, so that one of them parts
                thousands; or all commas may as well part thousands.
        """
        if self._points and self.commas:
            raise FormatError(format_name, line, MIXED, id="mixed-decimal-marks")
        if self._parted and not self._decided:
            problem = THOUSANDS.format(self._parted)
            raise FormatError(format_name, line, problem, id="ambiguous-commas")
        return (COMMAS,) if self.commas else ()


def unsaid_ns(number: Decimal | float, format_name: str, line: int) -> int:
    """What a time without a unit counts, in ns: seconds, or by its size s, ms, µs or ns since 1970.

    Raises:
        FormatError: It is too large for a time since a start, and no date from 2001 to 2100.
    """
    if number < _LONGEST_S:
        return SECOND_NS
    for first, behind, ns in _DATES:
        if first <= number < behind:
            return ns
    raise FormatError(format_name, line, NO_DATE.format(f"{number:.15g}"), id="no-time-unit")


def unsaid_by_column(numbers: np.ndarray) -> np.ndarray | None:
    """As `unsaid_ns` says, for all rows; None where it would raise."""
    import numpy as np

    units = [numbers < _LONGEST_S, *((f <= numbers) & (numbers < b) for f, b, _ in _DATES)]
    ns: np.ndarray = np.select(units, [SECOND_NS, *(ns for _, _, ns in _DATES)], 0)
    return ns if ns.all() else None


def taken(
    unit_ns: int, since_1970: bool, apart_s: float, format_name: str, line: int
) -> tuple[str, ...]:
    """Note about times without a unit.

    Args:
        unit_ns: What `unsaid_ns` says of them; 0: they say their unit.
        since_1970: They are dates.
        apart_s: How far rows usually lie apart, so taken.
        format_name: For errors.
        line: Of the header.

    Raises:
        FormatError: They lie so far apart that they may as well be in a smaller unit.
    """
    if not unit_ns:
        return ()
    if apart_s >= (_DATES_FAR_APART_S if since_1970 else _FAR_APART_S):
        apart = NO_TIME_UNIT.format(apart_s * SECOND_NS / unit_ns)
        raise FormatError(format_name, line, apart, id="no-time-unit")
    return (TAKEN.format(f"{_DATES_IN[unit_ns]} since 1970" if since_1970 else "seconds"),)


def spread(t_ns: Sequence[int]) -> list[int]:
    """Times that never go back, with equal ones spread evenly up to the next; see `SAME_TIME`."""
    return _spread(t_ns, _usual(t_ns))


def in_order(rows: Sequence[Row]) -> tuple[Sequence[Row], tuple[str, ...]]:
    """Rows by their time where some stand later than they belong, and what was done; else as they came.

    Such a line, written late by a buffer or by one of several writers, fits between two others
    where its time belongs. Lines after a clock that was set back do not: their times lie among
    those before, nearer to them than lines come, or far from all others.
    """
    times_ns = [row.t_ns for row in rows if row.t_ns is not None]
    if len(times_ns) < len(rows) or not _times_back(times_ns):
        return rows, ()
    order = sorted(range(len(times_ns)), key=times_ns.__getitem__)
    times = [times_ns[at] for at in order]
    latest = list(accumulate(times_ns, max))
    late = [times_ns[at] < latest[at] for at in order]
    apart = [math.inf, *(after - before for before, after in pairwise(times)), math.inf]
    usual = _usual(times if _often_back(times_ns) else times_ns)
    near = statistics.median(min(apart[n : n + 2]) for n, is_late in enumerate(late) if is_late)
    borders = [apart[n] for n, (one, other) in enumerate(pairwise(late), 1) if one != other]
    far = sum(gap > 3 * usual for gap in borders)
    if near < 0.6 * usual or far > len(borders) // 10:
        return rows, ()
    return [rows[at] for at in order], (SORTED.format(sum(late)),)


def _times_back(t_ns: Sequence[int]) -> int:
    return sum(now < before for before, now in pairwise(t_ns))


def _often_back(t_ns: Sequence[int]) -> bool:
    """True if times go back more often than clocks are set."""
    return _times_back(t_ns) > max(FEW, len(t_ns) // SHARE)


def times_of(
    rows: Sequence[Row], format_name: str, interval_s: float | None, clock: str = "wall"
) -> Times:
    """When each row was: by its own clock, else counted at the stated interval.

    A clock that goes back, as clocks do when they are set, is carried on at the usual distance of
    rows. Rows of one time, as clocks of whole seconds give, are spread evenly up to the next time.

    Raises:
        FormatError: Some rows have a time and others none; or times go back in many of them, more
            often than clocks are set.
        InvalidValueError: No row has a time, and no interval was stated.
    """
    times_ns = [row.t_ns for row in rows if row.t_ns is not None]
    if not times_ns:
        return _counted(len(rows), interval_s)
    if len(times_ns) < len(rows):
        odd = next(r for r in rows if (r.t_ns is None) != (rows[0].t_ns is None))
        problem = "other lines begin with their time, this one does not"
        if odd.t_ns is not None:
            problem = "it begins with its time, the lines before it do not"
        raise FormatError(format_name, odd.line, problem)
    usual = _usual(times_ns)
    forward, back = _carried_on(times_ns, usual)
    if _often_back(times_ns):
        at = next(at for at, (before, now) in enumerate(pairwise(times_ns), 1) if now < before)
        problem = f"its time goes back, as those of {back} lines do: sort them, or leave them out"
        raise FormatError(format_name, rows[at].line, problem, id="time-goes-back")
    if forward[-1] > LAST_NS:
        raise FormatError(format_name, rows[-1].line, "its clock has jumped too far")
    spread = _spread(forward, usual)
    notes = []
    if back:
        notes.append(f"the clock went back {back} times: later times are moved on")
    notes.extend(_jumps(times_ns, usual))
    if spread != forward:
        notes.append(SAME_TIME)
    return Times(t_ns=spread, clock=clock, notes=tuple(notes))


def _counted(count: int, interval_s: float | None) -> Times:
    if interval_s is None and count == 1:
        return Times(t_ns=[0], clock="counted", notes=("one row, without a clock",))
    if interval_s is None:
        raise InvalidValueError(
            "these lines have no clock: say how far apart they are (interval, e.g. 1s)",
            id="no-clock",
        )
    if not (math.isfinite(interval_s) and 1e-6 <= interval_s <= 86400):
        raise InvalidValueError(
            f"lines {interval_s} s apart: give 1 µs to a day", id="out-of-range"
        )
    step = round(interval_s * SECOND_NS)
    return Times(
        t_ns=[step * index for index in range(count)],
        clock="counted",
        notes=(f"no clock: lines are taken to be {interval_s:g} s apart",),
    )


def _usual(t_ns: Sequence[int]) -> int:
    """The usual distance of rows that differ in time; a second where there is none."""
    steps = [after - before for before, after in pairwise(t_ns) if after > before]
    return max(round(statistics.median(steps)), 1) if steps else SECOND_NS


def _jumps(t_ns: Sequence[int], usual: int) -> list[str]:
    """Note about steps far beyond the usual: no line tells a pause from a clock that was set."""
    steps = [after - before for before, after in pairwise(t_ns)]
    far = [step for step in steps if step > max(HOUR_NS, 1000 * usual)]
    if not far:
        return []
    longest = max(far) / HOUR_NS
    return [
        f"the clock jumped forward {len(far)} times, by {longest:.3g} hours at most: the recording "
        "paused, or the clock was set"
    ]


def _carried_on(t_ns: Sequence[int], usual: int) -> tuple[list[int], int]:
    """Times that never go back, and how often they did."""
    result, shift, back = [t_ns[0]], 0, 0
    for before, now in pairwise(t_ns):
        if now < before:
            shift += before - now + usual
            back += 1
        result.append(now + shift)
    return result, back


def _spread(t_ns: Sequence[int], usual: int) -> list[int]:
    """Equal times spread evenly up to the next time, but over a second at most."""
    groups = [(t, len(list(same))) for t, same in groupby(t_ns)]
    following = [t for t, _ in groups[1:]] + [groups[-1][0] + usual]
    result: list[int] = []
    for (t, count), after in zip(groups, following, strict=True):
        for place in range(count):
            due = t + min(after - t, SECOND_NS) * place // count
            result.append(max(due, result[-1] + 1) if result else due)
    return result


def gather(
    rows: Iterable[Row], times: Times, *, fill: bool
) -> tuple[tuple[Channel, ...], Mapping[str, np.ndarray], Mapping[str, np.ndarray]]:
    """Channels in the order in which they come, and times and values by the channel's name.

    Args:
        rows: As read.
        times: Of these rows.
        fill: A row that does not name a channel is a gap (NaN) in it; else it is no row of it.
    """
    import numpy as np

    channels: dict[str, Channel] = {}
    series: dict[str, dict[int, float]] = {}
    for row, t_ns in zip(rows, times.t_ns, strict=True):
        for channel, value in row.values:
            channels.setdefault(channel.name, channel)
            series.setdefault(channel.name, {})[t_ns] = value
    every = np.array(times.t_ns, dtype=np.int64)
    t_by_name, v_by_name = {}, {}
    for name, values in series.items():
        t_by_name[name] = every if fill else np.array(list(values), dtype=np.int64)
        wanted = times.t_ns if fill else values
        v_by_name[name] = np.array([values.get(t, math.nan) for t in wanted], dtype=np.float64)
    return tuple(channels.values()), t_by_name, v_by_name
