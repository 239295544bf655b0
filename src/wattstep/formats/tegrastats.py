"""A log of tegrastats, with whatever clock its recorder put before the lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from wattstep import boards
from wattstep.boards.table import Board
from wattstep.formats.recording import FormatError, Recording
from wattstep.formats.rows import (
    DAMAGED,
    SECOND_NS,
    Row,
    fraction_ns,
    gather,
    in_order,
    left_out,
    times_of,
    wall_ns,
)
from wattstep.formats.tegrastats_line import NAME, Line, parse_line

MEMORY_TOLERANCE = 0.05  # usable memory differs between releases of the system
NO_BOARD = (
    "which board it is cannot be determined: its rails stay unknown, and there is no total (name the "
    "board if you know it)"
)
ALIKE = (
    "which board it is cannot be determined: it may be {}, whose rails mean the same (name the board if "
    "you know it)"
)
NO_ZONE = "its dates have no time zone: they are read as UTC"
CUT = "line {} is cut and was left out"

# Digits alone are a time only where they are as many as those of our days.
_EPOCH = re.compile(
    r"(?P<count>[0-9]{1,10})(?:\.(?P<part>[0-9]{1,12}))?::"
    r"|(?P<open>\[)?(?P<long>[0-9]{9,10})(?:\.(?P<long_part>[0-9]{1,12}))?(?(open)\]):?[ \t]+(?:- )?"
)
_DATE = re.compile(
    r"(?P<open>\[)?"
    r"(?:(?P<month>[0-9]{2})-(?P<day>[0-9]{2})-(?P<year>[0-9]{4})"
    r"|(?P<iso_year>[0-9]{4})(?P<dash>[-/])(?P<iso_month>[0-9]{2})(?P=dash)(?P<iso_day>[0-9]{2}))"
    r"[ T](?P<clock>[0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,12}))?"
    r"(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?(?(open)\])[:,]?[ \t]+(?:- )?"
)
_MARK = b"\xef\xbb\xbf"  # of UTF-8


@dataclass(frozen=True, kw_only=True)
class _Printed:
    """A line of the log, and when it was printed, if it says so.

    Attributes:
        without_zone: Its time is a date in no time zone.
        line: What it says; None: it is damaged.
    """

    number: int
    t_ns: int | None
    without_zone: bool
    line: Line | None


def parse(data: bytes, *, interval_s: float | None = None, board: str | None = None) -> Recording:
    """Reads a log.

    Args:
        data: The file.
        interval_s: How far apart its lines are, for a log without any clock.
        board: Name of the board's table; None: found by rails, cores and memory, where they tell.

    Raises:
        FormatError: It is not from tegrastats, or many of its lines are damaged. A few are left
            out, with a note, and so is a last line that does not end.
        InvalidValueError: It has no clock and `interval_s` is missing, or there is no such board.
    """
    texts, cut = _texts(data)
    printed, notes = _read(texts, board)
    fitting = [board] if board else fitting_boards(_lines(printed)[0])
    if not board and _alike(fitting):
        printed, _ = _read(texts, fitting[0])
    damaged = len(texts) - len(_lines(printed))
    rows, astray = in_order(_rows(printed))
    times = times_of(rows, NAME, interval_s)
    channels, t_ns, value = gather(rows, times, fill=True)
    ignored: Counter[str] = Counter({DAMAGED: damaged} if damaged else {})
    for line in _lines(printed):
        ignored.update(line.ignored)
    without_zone = any(one.without_zone for one in printed)
    cuts = [CUT.format(cut)] * (cut > 0)
    return Recording(
        format=NAME,
        channels=channels,
        t_ns=t_ns,
        value=value,
        clock=times.clock,
        board=fitting[0] if len(fitting) == 1 else None,
        notes=(
            *cuts,
            *notes,
            *[NO_ZONE] * without_zone,
            *_doubt(fitting),
            *astray,
            *times.notes,
        ),
        ignored=dict(ignored),
    )


def split_time(text: str, line: int = 1) -> tuple[int | None, str]:
    """The wall time in ns that a line begins with, or None, and what follows it.

    Raises:
        FormatError: It begins with a time that no clock shows.
    """
    t_ns, at, _ = _start(text, line)
    return t_ns, text[at:]


def _texts(data: bytes) -> tuple[list[tuple[int, str]], int]:
    """The lines that are not empty, with their numbers; and the number of a last one without end.

    That one is left out: what it lost may be fields, or digits of its last number.
    """
    *whole, tail = data.removeprefix(_MARK).split(b"\n")
    cut = len(whole) + 1 if tail.strip() else 0
    # What is no text becomes a character that no field has.
    decoded = (part.decode("ascii", errors="replace").strip() for part in whole)
    texts = [(number, text) for number, text in enumerate(decoded, 1) if text]
    if not texts:
        problem = "it does not end: it may be cut" if cut else "there is nothing"
        raise FormatError(NAME, max(cut, 1), problem, id="cut-line")
    return texts, cut


def _read(texts: Sequence[tuple[int, str]], board: str | None) -> tuple[list[_Printed], list[str]]:
    """Each line, and what to say of damaged ones.

    Raises:
        FormatError: They are many.
    """
    printed, damage = [], []
    for number, text in texts:
        line, t_ns, without_zone = None, None, False
        try:
            t_ns, at, without_zone = _start(text, number)
            line = parse_line(text[at:], board, number)
        except FormatError as error:
            damage.append(error)
        printed.append(_Printed(number=number, t_ns=t_ns, without_zone=without_zone, line=line))
    return printed, left_out(damage, len(printed) - len(damage))


def _lines(printed: Sequence[_Printed]) -> list[Line]:
    return [one.line for one in printed if one.line is not None]


def _rows(printed: Sequence[_Printed]) -> list[Row]:
    """Of damaged lines only those of a log without a clock, whose place is their time: a gap."""
    counted = all(one.t_ns is None for one in printed if one.line is not None)
    return [
        Row(
            line=one.number,
            t_ns=None if counted else one.t_ns,
            values=one.line.values if one.line is not None else (),
        )
        for one in printed
        if counted or one.line is not None
    ]


def _start(text: str, line: int) -> tuple[int | None, int, bool]:
    """Wall time in ns, where the fields begin, and whether the time is a date without a zone."""
    epoch = _EPOCH.match(text)
    at = epoch.end() if epoch else 0
    date = _DATE.match(text, at)
    fields = date.end() if date else at
    if epoch:
        seconds, part = epoch["count"] or epoch["long"], epoch["part"] or epoch["long_part"]
        return int(seconds) * SECOND_NS + fraction_ns(part or ""), fields, False
    if date is None:
        return None, fields, False
    try:
        return _date_ns(date), fields, date["zone"] is None
    except ValueError:
        raise FormatError(NAME, line, f"{date[0].strip()!r} is no date and time") from None


def _date_ns(match: re.Match[str]) -> int:
    year, month, day = (match[name] or match[f"iso_{name}"] for name in ("year", "month", "day"))
    moment = datetime.strptime(f"{year}-{month}-{day} {match['clock']}", "%Y-%m-%d %H:%M:%S")
    return wall_ns(moment, match["fraction"] or "", _offset(match["zone"]))


def _offset(zone: str | None) -> timedelta | None:
    """Of a time zone: "Z", "+0200", "-05:30"; None where none is written."""
    if zone is None:
        return None
    if zone == "Z":
        return timedelta()
    sign = -1 if zone[0] == "-" else 1
    return sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))


def fitting_boards(line: Line) -> list[str]:
    """The boards that a line may be of, by its rails, cores and memory."""
    fitting = [name for name in boards.names() if _fits(boards.find(name), line)]
    if line.rails and len(fitting) == 1:
        return fitting
    return [name for name in fitting if _same_memory(boards.find(name), line)]


def _alike(names: Sequence[str]) -> bool:
    """True if the log fits a board, and a line means the same on each board that it fits."""
    tables = [boards.find(name) for name in names]
    meanings = [(b.rails, b.total, b.leaves_out, b.window_s, b.zones) for b in tables]
    return bool(meanings) and all(meaning == meanings[0] for meaning in meanings)


def _doubt(names: Sequence[str]) -> list[str]:
    """Message about a log that fits several boards, or none that is known."""
    if len(names) == 1:
        return []
    return [ALIKE.format(" or ".join(names)) if _alike(names) else NO_BOARD]


def _fits(board: Board, line: Line) -> bool:
    """True if it has these rails and as many cores."""
    if any(board.rail(label) is None for label in line.rails):
        return False
    cores = sum(len(cluster.cores) for cluster in board.clusters)
    return cores == line.cores


def _same_memory(board: Board, line: Line) -> bool:
    """True if one of its modules has as much usable memory."""
    if line.memory is None:
        return False
    known = [size for size in (board.memory, *board.memory_variants) if size is not None]
    return any(abs(size - line.memory) <= MEMORY_TOLERANCE * size for size in known)
