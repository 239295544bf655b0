"""Brings the clocks of logs to that of a trace, as the user asks or as the files allow."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from wattstep.errors import InvalidValueError
from wattstep.formats.recording import Recording
from wattstep.importing.clocks.alignment import (
    CRYSTAL,
    AlignmentError,
    ClockMap,
    from_marks,
    from_offset,
)
from wattstep.importing.clocks.alignment_load import Load, from_load, load_of_intervals
from wattstep.importing.telemetry import Telemetry, mapped, merged
from wattstep.schema.channel import Channel
from wattstep.schema.run_documents import AlignmentFacts

Longs = NDArray[np.int64]
Floats = NDArray[np.float64]

WAYS: Final = "auto, wall, load, offset:SECONDS[,rate=R], marks:FILE.csv, none"
# Wall clocks of two machines that are set over a network; those of one machine are the same clock,
# and no file tells which it was.
WALL_S: Final = 0.1
_COVERED: Final = 0.95  # of a trace: a log that has less of it may be misdated
_OFFSET: Final = re.compile(r"offset:([^,]+)(?:,rate=([^,]+))?")
_FOLLOWS: Final = ("power_total", "power_part", "gpu_utilization", "energy_total", "energy_part")


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """Alignment as the user asked for it.

    Attributes:
        way: A word of `WAYS`.
        offset_s: The trace's clock less the log's at the log's first value, in s.
        uncertainty_s: Half of its last digit as written.
        rate: Seconds of the trace's clock in one of the log's; None: not stated.
        marks: A file of moments seen in both clocks.
    """

    way: str = "auto"
    offset_s: float = 0.0
    uncertainty_s: float = 0.0
    rate: float | None = None
    marks: Path | None = None


class Traced(Protocol):
    """Protocol of a trace that can be aligned."""

    @property
    def clock(self) -> str:
        """As in `Trace.clock`."""
        ...


class Busy(Protocol):
    """Protocol of the tables of a trace that can be aligned."""

    @property
    def busy(self) -> Mapping[str, Longs]:
        """As in `TraceTables.busy`."""
        ...

    @property
    def busy_by(self) -> Mapping[str, Sequence[Longs]]:
        """As in `TraceTables.busy_by`."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Aligned:
    """Logs in the clock of the trace.

    Attributes:
        logs: As they were given, with their times in the trace's clock.
        maps: How each was mapped.
        documents: Of each, JSON-ready: "file", "method" (words that go on from "clocks aligned"),
            "uncertainty_s" (the most within the trace; None: not known), "offset_s" (of the trace's
            clock from the log's at its first value), "rate", "rate_low", "rate_high", "map".
        notes: What a reader must know.
    """

    logs: tuple[Telemetry, ...]
    maps: tuple[ClockMap, ...]
    documents: tuple[AlignmentFacts, ...]
    notes: tuple[str, ...]


def parse_alignment(text: str) -> Alignment:
    """Parsed value of `--align`.

    Raises:
        InvalidValueError: It is none of the ways.
    """
    if text in ("auto", "wall", "load", "none"):
        return Alignment(way=text)
    if text.startswith("marks:") and len(text) > len("marks:"):
        return Alignment(way="marks", marks=Path(text.removeprefix("marks:")))
    match = _OFFSET.fullmatch(text)
    if match is None:
        raise InvalidValueError(
            f"--align {text!r} is no way to align: there are {WAYS}", id="unknown-alignment"
        )
    try:
        offset, rate = float(match[1]), None if match[2] is None else float(match[2])
        last = Decimal(match[1]).as_tuple().exponent
    except (ValueError, InvalidOperation) as error:
        raise InvalidValueError(
            f"--align {text!r}: write seconds, as offset:-3.25 or offset:12,rate=1.00002",
            id="malformed-offset",
        ) from error
    from_offset(offset, rate=1.0 if rate is None else rate)  # refuses what no clock does
    half = 0.5 * 10.0**last if isinstance(last, int) else 0.0
    return Alignment(way="offset", offset_s=offset, uncertainty_s=half, rate=rate)


def align(
    wanted: Alignment, trace: Traced | None, tables: Busy | None, logs: Sequence[Telemetry]
) -> Aligned:
    """Logs in the clock of the trace, or of each other where there is no trace.

    Raises:
        InvalidValueError: They cannot be brought together the way that was asked for, or in no
            way; the message says what else there is.
    """
    if not logs:
        return Aligned(logs=(), maps=(), documents=(), notes=())
    if trace is None or tables is None:
        return _among_themselves(wanted, logs)
    maps: list[ClockMap | AlignmentError] = []
    for log in logs:
        try:
            maps.append(_map_of(wanted, trace, tables, log))
        except AlignmentError as error:
            maps.append(error)
    done = [_or_a_sibling_s(n, maps, logs) for n in range(len(logs))]
    span = _span(tables)
    documents = [_document(log, one, span) for log, one in zip(logs, done, strict=True)]
    notes = [f"{log.file}: {note}" for log, m in zip(logs, done, strict=True) for note in m.notes]
    return _finished(
        [mapped(log, m) for log, m in zip(logs, done, strict=True)], done, documents, notes
    )


def _finished(
    logs: Sequence[Telemetry],
    maps: Sequence[ClockMap],
    documents: Sequence[AlignmentFacts],
    notes: Sequence[str],
) -> Aligned:
    _, more = merged(logs)
    return Aligned(
        logs=tuple(logs), maps=tuple(maps), documents=tuple(documents), notes=(*notes, *more)
    )


def _among_themselves(wanted: Alignment, logs: Sequence[Telemetry]) -> Aligned:
    """Logs without a trace keep their clock, which must be one."""
    if wanted.way not in ("auto", "wall", "none"):
        raise InvalidValueError(
            f"--align {wanted.way} brings telemetry to a trace: give --trace", id="needs-trace"
        )
    clocks = {log.recording.clock for log in logs}
    shared = len(logs) == 1 or clocks == {"wall"} or wanted.way == "none"
    if not shared:
        files = ", ".join(f"{log.file} ({log.recording.clock})" for log in logs)
        raise InvalidValueError(
            f"these files share no wall clock: {files}; import each by itself, or say that their "
            "times count from one moment with --align none",
            id="no-common-clock",
        )
    notes = [] if len(logs) == 1 or clocks == {"wall"} else [_UNCHECKED]
    maps = [_as_it_is(log, "none", 0.0) for log in logs]
    return _finished(logs, maps, [], notes)


_UNCHECKED: Final = "the clocks were taken as they are, because --align none says so"


def _map_of(wanted: Alignment, trace: Traced, tables: Busy, log: Telemetry) -> ClockMap:
    if wanted.way == "none":
        return replace(_as_it_is(log, "none", 0.0), notes=(_UNCHECKED,))
    if wanted.way == "offset":
        return _by_offset(wanted, log)
    if wanted.way == "marks" and wanted.marks is not None:
        return from_marks(read_marks(wanted.marks))
    if wanted.way == "load":
        return _by_load(tables, log)
    wall = trace.clock == log.recording.clock == "wall"
    if wanted.way == "wall" and not wall:
        raise InvalidValueError(
            f"--align wall: {_clock_words('the trace', trace.clock)}, "
            f"{_clock_words(log.file, log.recording.clock)}; choose another of {WAYS}",
            id="no-wall-clock",
        )
    if wall and (_overlap(tables, log) or wanted.way == "wall"):
        return _by_wall(tables, log, may_leave=wanted.way == "auto")
    return _by_load_at_last(tables, log, wall)


def _clock_words(what: str, clock: str) -> str:
    return f"{what} has {'a' if clock == 'wall' else 'no'} wall clock"


def _by_load_at_last(tables: Busy, log: Telemetry, wall: bool) -> ClockMap:
    why = "their clocks have nothing in common"
    if wall:
        why = "their wall clocks do not overlap (a time zone?)"
    try:
        by_load = _by_load(tables, log)
    except AlignmentError as error:
        raise AlignmentError(f"{why}, and {error} (--align: {WAYS})") from error
    return replace(by_load, notes=(*by_load.notes, why))


def _or_a_sibling_s(
    number: int, maps: Sequence[ClockMap | AlignmentError], logs: Sequence[Telemetry]
) -> ClockMap:
    """A log that cannot be aligned by itself takes the map of another one of the same wall clock."""
    own, log = maps[number], logs[number]
    if isinstance(own, ClockMap):
        return own
    if log.recording.clock == "wall":
        for other, their in zip(maps, logs, strict=True):
            if isinstance(other, ClockMap) and their.recording.clock == "wall":
                return _borrowed(other, their.file, own)
    raise AlignmentError(f"{log.file}: {own}", id="not-alignable") from own


def _borrowed(other: ClockMap, file: str, why: AlignmentError) -> ClockMap:
    """Two logs with a wall clock may still come from two machines."""
    note = (
        f"taken to be on the wall clock of {file}, which is commonly right within "
        f"{WALL_S * 1e3:.0f} ms: by itself, {why}"
    )
    more = np.int64(WALL_S * 1e9)
    return replace(
        other,
        uncertainty_ns=other.uncertainty_ns + more,
        facts={**other.facts, "borrowed_from": file},
        notes=(note,),
    )


# --- the ways ----------------------------------------------------------------------------------


def _as_it_is(log: Telemetry, method: str, uncertainty_s: float) -> ClockMap:
    first, _ = _extent(log.recording)
    return from_offset(0.0, at_ns=first, uncertainty_s=uncertainty_s, method=method)


def _by_offset(wanted: Alignment, log: Telemetry) -> ClockMap:
    first, _ = _extent(log.recording)
    stated = wanted.rate is not None
    digit = f"{wanted.uncertainty_s * 1e3:g} ms"
    notes = [f"the offset is taken to be right to half of its last digit, ±{digit}"]
    if not stated:
        notes.append(f"its rate was not: ±{CRYSTAL * 1e6:.0f} ppm are allowed for")
    return from_offset(
        wanted.offset_s,
        rate=wanted.rate if wanted.rate is not None else 1.0,
        at_ns=first,
        uncertainty_s=wanted.uncertainty_s,
        rate_uncertainty=0.0 if stated else CRYSTAL,
        notes=notes,
    )


def _by_wall(tables: Busy, log: Telemetry, *, may_leave: bool) -> ClockMap:
    """The wall clocks, checked against the load where that can be.

    Args:
        tables: Of the trace.
        log: What is to be brought to its clock.
        may_leave: Whether the load's map is taken where it says that the wall clocks are wrong and
            is itself better known than they are.
    """
    wall = _as_it_is(log, "wall", WALL_S)
    hints = _hint_of_coverage(tables, log)
    try:
        load = _by_load(tables, log)
    except AlignmentError as error:
        return replace(wall, notes=(f"{_UNCHECKED_WALL}: {error}", *hints))
    middle = sum(_overlap(tables, log) or _extent(log.recording)) // 2
    apart = abs(int(load.map(middle)) - int(wall.map(middle))) * 1e-9
    unsure = float(load.uncertainty_at(middle)) * 1e-9
    facts = {"load_apart_s": apart, "load_s": unsure}
    placed = (
        f"the load places the log {apart:.3g} s from where the wall clocks do (±{unsure:.2g} s)"
    )
    if apart <= unsure:
        agrees = f"the load agrees with the wall clocks: {placed}"
        clock = _as_it_is(log, "wall", min(WALL_S, apart + unsure))
        return replace(clock, notes=(_WALL_NOTE, agrees, *hints), facts=facts)
    if may_leave and unsure < WALL_S:
        taken = f"the wall clocks disagree with the load, which was taken: {placed}"
        return replace(load, notes=(*load.notes, taken, *hints), facts={**load.facts, **facts})
    against = f"the wall clocks disagree with the load: {placed}; if so, import with --align load"
    clock = _as_it_is(log, "wall", apart + unsure)
    return replace(clock, notes=(_WALL_NOTE, against, *hints), facts=facts)


_WALL_NOTE: Final = (
    "wall clocks are taken to agree: exact on one machine, commonly within "
    f"{WALL_S * 1e3:.0f} ms on two that are set over a network; the files do not tell"
)
_UNCHECKED_WALL: Final = (
    f"warning: the wall clocks are taken to agree within {WALL_S * 1e3:.0f} ms, and nothing checks "
    "it: if one of them is wrong, so is the energy of every operation"
)


def _hint_of_coverage(tables: Busy, log: Telemetry) -> list[str]:
    """A log that was meant for a trace covers it."""
    span, both = _span(tables), _overlap(tables, log)
    if span is None or both is None:
        return []
    share = (both[1] - both[0]) / (span[1] - span[0])
    if share >= _COVERED:
        return []
    return [
        f"warning: by their wall clocks the log covers {100 * share:.0f} % of the trace: it was started "
        "late or stopped early, or one of the clocks is wrong"
    ]


def _by_load(tables: Busy, log: Telemetry) -> ClockMap:
    channel = _telling(log.recording)
    if channel is None:
        raise AlignmentError(f"{log.file} {_tells_nothing(log.recording)}")
    t_ns, value = log.recording.t_ns[channel.name], log.recording.value[channel.name]
    window = channel.window_s
    if channel.kind == "counter":
        t_ns, value, window = _rate_of(t_ns, value)
    load = _load_of(tables, channel)
    clock = from_load(load, t_ns, value, window_s=window)
    note = f"{channel.name} was compared with when the trace is busy"
    return replace(
        clock, notes=(note, *clock.notes), facts={**clock.facts, "channel": channel.name}
    )


def _tells_nothing(recording: Recording) -> str:
    """Reason why it cannot be aligned by load."""
    constant = [each.name for each in recording.channels if _may_follow(each)]
    if not constant:
        return "has neither power nor utilization to align by load"
    moves = "do not move" if len(constant) > 1 else "does not move"
    return f"cannot be aligned by load: {', '.join(constant)} {moves}; give marks or an offset"


def _may_follow(channel: Channel) -> bool:
    return channel.role in _FOLLOWS or (
        channel.unit == "ratio" and channel.domain in ("cpu", "gpu")
    )


def _telling(recording: Recording) -> Channel | None:
    """The channel that follows the load best by its role: total power, the part that moves most."""

    def moves(channel: Channel) -> float:
        value = recording.value[channel.name]
        value = value[np.isfinite(value)]
        return float(np.std(value)) if len(value) > 1 else 0.0

    for role in _FOLLOWS:
        channels = [each for each in recording.channels if each.role == role and moves(each) > 0]
        if channels:
            return max(channels, key=moves)
    loads = [e for e in recording.channels if _may_follow(e) and moves(e) > 0]
    return max(loads, key=moves, default=None)


def _load_of(tables: Busy, channel: Channel) -> Load:
    """When what the channel speaks of was busy; of power also with what."""
    processor = {"gpu": "gpu0", "cpu": "cpu"}.get(channel.domain, "all")
    if not len(tables.busy.get(processor, ())):
        processor = "all"
    busy = tables.busy.get(processor, np.empty((0, 2), np.int64))
    load = load_of_intervals(busy[:, 0], busy[:, 1])
    by_name = tables.busy_by.get(processor, ())
    if channel.unit == "ratio" or len(by_name) < 2:
        return load  # a utilization is that of all work alike
    groups = tuple(load_of_intervals(each[:, 0], each[:, 1]) for each in by_name)
    return replace(load, groups=groups)


def _rate_of(t_ns: Longs, value: Floats) -> tuple[Longs, Floats, float | None]:
    """A counter's growth a second, which is a mean over the time before each value."""
    known = np.isfinite(value)
    t_ns, value = t_ns[known], value[known]
    if len(t_ns) < 2:
        return t_ns, value, None
    length = np.diff(t_ns) * 1e-9
    return t_ns[1:], np.diff(value) / length, float(np.median(length))


# --- marks -------------------------------------------------------------------------------------


def read_marks(path: Path) -> Longs:
    """Pairs of times, as `from_marks` takes them.

    The file has the header `telemetry,trace` or `telemetry,trace,uncertainty`: the same moments in
    s of both clocks, and half the 95 % interval of their difference.

    Raises:
        InvalidValueError: It is not there, or no such file.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        words = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidValueError(
            f"--align marks:{path.name}: {(words or str(error)).lower()}"
        ) from error
    try:
        rows = [
            (number, [cell.strip() for cell in cells])
            for number, cells in enumerate(csv.reader(text.splitlines(), strict=True), 1)
            if any(cells) and not cells[0].startswith("#")
        ]
    except csv.Error as error:
        raise InvalidValueError(f"--align marks:{path.name}: {error}") from error
    header = [cell.lower() for cell in rows[0][1]] if rows else []
    if header not in (["telemetry", "trace"], ["telemetry", "trace", "uncertainty"]):
        raise InvalidValueError(
            f"--align marks:{path.name}: its first line must be telemetry,trace[,uncertainty]; "
            "below it the same moments in seconds of both clocks",
            id="marks-header",
        )
    pairs = [_pair(path, number, cells, len(header)) for number, cells in rows[1:]]
    return np.array(pairs, np.int64).reshape(-1, len(header))


def _pair(path: Path, number: int, cells: Sequence[str], columns: int) -> list[int]:
    try:
        times = [int((Decimal(cell) * 10**9).to_integral_value()) for cell in cells]
        usable = all(abs(t_ns) < 2**61 for t_ns in times) and min(times[2:], default=0) >= 0
    except (InvalidOperation, ValueError, OverflowError):
        times, usable = [], False
    if len(times) != columns or not usable:
        raise InvalidValueError(
            f"--align marks:{path.name}: line {number} is no pair of times in seconds",
            id="malformed-mark",
        )
    return times


# --- what is recorded of it --------------------------------------------------------------------


def _span(tables: Busy) -> tuple[int, int] | None:
    busy = tables.busy.get("all")
    return None if busy is None or not len(busy) else (int(busy[0, 0]), int(busy[:, 1].max()))


def _extent(recording: Recording) -> tuple[int, int]:
    times = [t for t in recording.t_ns.values() if len(t)]
    return min(int(t[0]) for t in times), max(int(t[-1]) for t in times)


def _overlap(tables: Busy, log: Telemetry) -> tuple[int, int] | None:
    """Overlap of trace and log if their clocks are one."""
    span = _span(tables)
    if span is None:
        return None
    first, last = _extent(log.recording)
    begin, end = max(first, span[0]), min(last, span[1])
    return (begin, end) if begin < end else None


_WORDS: Final = {
    "wall": "by their wall clocks",
    "load": "by load",
    "offset": "by a stated offset",
    "marks": "by marks",
    "none": "as they are",
}


def _document(log: Telemetry, clock: ClockMap, span: tuple[int, int] | None) -> AlignmentFacts:
    first, last = _extent(log.recording)
    rate, low, high = clock.rate_interval()
    stated = clock.method != "none"
    return {
        "file": log.file,
        "method": _method_words(clock),
        "uncertainty_s": _most_within(clock, first, last, span) if stated else None,
        "offset_s": (int(clock.map(first)) - first) * 1e-9,
        "rate": rate,
        "rate_low": low,
        "rate_high": high,
        "map": clock.document(),
    }


def _method_words(clock: ClockMap) -> str:
    file = clock.facts.get("borrowed_from")
    return _WORDS[clock.method] if file is None else f"{_WORDS[clock.method]} of {file}"


def _most_within(clock: ClockMap, first: int, last: int, span: tuple[int, int] | None) -> float:
    """The largest uncertainty of the log's times that lie in the trace, in s."""
    moments = np.linspace(first, last, 1025).astype(np.int64)
    if span is not None:
        at = clock.map(moments)
        inside = (at >= span[0]) & (at <= span[1])
        # A trace shorter than the distance of these moments lies between two of them.
        moments = moments[inside] if inside.any() else moments[[np.abs(at - span[0]).argmin()]]
    return float(clock.uncertainty_at(moments).max()) * 1e-9
