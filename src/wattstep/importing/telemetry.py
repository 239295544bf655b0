"""Logs of sensors, whatever wrote them, and several of them as one set of samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wattstep.boards import find, names
from wattstep.boards.rails import board_called
from wattstep.errors import InvalidValueError
from wattstep.formats.recording import Recording
from wattstep.formats.registry import read_log
from wattstep.importing.recorded import with_board
from wattstep.schema.channel import Channel
from wattstep.schema.clock import Clock

Longs = NDArray[np.int64]
Floats = NDArray[np.float64]

LEAST_RAILS: Final = 2
ITS_BOARD: Final = "its columns are taken to be the rails of {}: name another board if they are not"
NO_UNITS: Final = (
    "no column says that it is power or energy, and these say no unit: {}; state it (--unit mW)"
)
_TOTALS: Final = ("power_total", "energy_total")


@dataclass(frozen=True, kw_only=True, eq=False)
class Telemetry:
    """Content of one file.

    Attributes:
        file: Its name, without its folder.
        recording: Its values.
    """

    file: str
    recording: Recording


def read_telemetry(
    paths: Iterable[Path],
    *,
    interval_s: float | None = None,
    board: str | None = None,
    units: Sequence[str] = (),
) -> tuple[Telemetry, ...]:
    """Files of sensor values, each with its own clock.

    Args:
        paths: The files, in any known format.
        interval_s: Of the lines of logs without a clock, in s.
        board: Whose rails they are; None: as the files tell.
        units: Of columns of CSV whose heading says none; see `read_log`.

    Raises:
        InvalidValueError: One cannot be read, or holds no values; the message names it.
    """
    return tuple(_read(path, interval_s, board, units) for path in paths)


def _read(
    path: Path, interval_s: float | None, board: str | None, units: Sequence[str]
) -> Telemetry:
    try:
        form, recording = read_log(path, interval_s=interval_s, board=board, units=units)
    except InvalidValueError as error:
        raise InvalidValueError(
            f"--telemetry {path.name}: {_without_name(error, path)}", id="unreadable-telemetry"
        ) from error
    if "board" not in form.takes:
        recording = with_board(recording, board) if board else _of_its_board(recording)
    if not recording.values:
        raise InvalidValueError(
            f"--telemetry {path.name}: it ({form.name}) holds no values", id="no-values"
        )
    notes = (*recording.notes, *_without_units(recording.channels))
    return Telemetry(file=path.name, recording=replace(recording, notes=notes))


def _without_units(channels: Sequence[Channel]) -> list[str]:
    """Advice for a log that may hold power while no heading says so."""
    names = [channel.name for channel in channels if not channel.unit]
    if not names or {channel.unit for channel in channels} & {"W", "J"}:
        return []
    return [NO_UNITS.format(", ".join(names))]


def _of_its_board(recording: Recording) -> Recording:
    """With the rails of the board that its columns name, where it has no total of its own."""
    roles = {channel.role for channel in recording.channels}
    rails = [channel.name for channel in recording.channels if channel.role == "power_part"]
    if roles & {*_TOTALS} or len(rails) < LEAST_RAILS:
        return recording
    called = board_called([find(name) for name in names()], rails)
    if called is None:
        return recording
    named = with_board(recording, called.name)
    return replace(named, notes=(*named.notes, ITS_BOARD.format(called.name)))


def _without_name(error: InvalidValueError, path: Path) -> str:
    """Message of an error that names the file itself."""
    message = str(error)
    for name in (str(path), path.name):
        if message.startswith(f"{name} "):
            return f"it {message.removeprefix(f'{name} ')}"
    return message.removeprefix(f"{path}: ").removeprefix(f"{path.name}: ")


def mapped(log: Telemetry, clock: Clock) -> Telemetry:
    """The log with its times in another clock; no value is lost where two fall together."""
    done: dict[int, Longs] = {}
    times: dict[str, Longs] = {}
    for name, t_ns in log.recording.t_ns.items():
        if id(t_ns) not in done:  # channels of a row share their times
            done[id(t_ns)] = _increasing(clock.map(t_ns))
        times[name] = done[id(t_ns)]
    return replace(log, recording=replace(log.recording, t_ns=times))


def _increasing(t_ns: Longs) -> Longs:
    count = np.arange(len(t_ns))
    increasing: Longs = np.maximum.accumulate(t_ns - count) + count
    return increasing


# --- several files -----------------------------------------------------------------------------


def merge(logs: Sequence[Telemetry]) -> tuple[Telemetry, ...]:
    """Logs on one clock in which no channel stands twice; see `merged`."""
    return merged(logs)[0]


def merged(logs: Sequence[Telemetry]) -> tuple[tuple[Telemetry, ...], tuple[str, ...]]:
    """Logs on one clock in which no channel stands twice, and what was done to get there.

    A channel of several files is one series where the files follow each other, as rotated logs do,
    or say the same wherever they overlap. Where they overlap and differ they are channels of their
    own, each behind the name of its file. Of several totals of the machine over the same time the
    first file's is the total: nothing is counted twice.

    Raises:
        InvalidValueError: Files of one name overlap and differ: which is right, nobody knows.
    """
    notes: list[str] = []
    result = list(logs)
    for name in _repeated(logs):
        holders = [i for i, log in enumerate(result) if name in log.recording.t_ns]
        files = ", ".join(result[i].file for i in holders)
        joined = _series([result[i].recording for i in holders], name)
        if joined is not None:
            result[holders[0]] = _with_series(result[holders[0]], name, *joined)
            for i in holders[1:]:
                result[i] = _without(result[i], name)
            notes.append(f"{name} is one series of {files}")
        else:
            _refuse_same_name([result[i] for i in holders], name)
            for i in holders:
                result[i] = _renamed(result[i], name)
            notes.append(
                f"{name} differs where {files} overlap: each stands behind the name of its file"
            )
    result, more = _one_total(result)
    logs_with_channels = tuple(log for log in result if log.recording.channels)
    return logs_with_channels, (*_condensed(notes), *more)


def _condensed(notes: Sequence[str]) -> list[str]:
    """A file may have a hundred channels: one note for all of which the same is said."""
    groups: dict[str, list[str]] = {}
    for note in notes:
        name, _, rest = note.partition(" ")
        groups.setdefault(rest, []).append(name)
    return [
        f"{names[0]}{f' and {len(names) - 1} more channels:' * (len(names) > 1)} {rest}"
        for rest, names in groups.items()
    ]


def _repeated(logs: Sequence[Telemetry]) -> list[str]:
    seen: dict[str, int] = {}
    for log in logs:
        for channel in log.recording.channels:
            seen[channel.name] = seen.get(channel.name, 0) + 1
    return [name for name, count in seen.items() if count > 1]


def _series(recordings: Sequence[Recording], name: str) -> tuple[Longs, Floats] | None:
    """Common series of all, or None where they differ."""
    if len({_channel(recording, name).unit for recording in recordings}) > 1:
        return None
    parts = [(recording.t_ns[name], recording.value[name]) for recording in recordings]
    parts = sorted((part for part in parts if len(part[0])), key=lambda part: int(part[0][0]))
    if not parts:
        return recordings[0].t_ns[name], recordings[0].value[name]
    t_ns, value = parts[0]
    for times, values in parts[1:]:
        if times[0] <= t_ns[-1] and not _same(t_ns, value, times, values):
            return None
        fresh = ~np.isin(times, t_ns)
        order = np.argsort(np.concatenate([t_ns, times[fresh]]), kind="stable")
        t_ns = np.concatenate([t_ns, times[fresh]])[order]
        value = np.concatenate([value, values[fresh]])[order]
    return t_ns, value


def _same(t_ns: Longs, value: Floats, times: Longs, values: Floats) -> bool:
    """True if two series have the same values at the same times wherever both are."""
    begin, end = max(t_ns[0], times[0]), min(t_ns[-1], times[-1])
    one, other = (t_ns >= begin) & (t_ns <= end), (times >= begin) & (times <= end)
    return np.array_equal(t_ns[one], times[other]) and np.array_equal(
        value[one], values[other], equal_nan=True
    )


def _refuse_same_name(logs: Sequence[Telemetry], name: str) -> None:
    stems = [_stem(log.file) for log in logs]
    if len(set(stems)) == len(stems):
        return
    begin = max(int(log.recording.t_ns[name][0]) for log in logs)
    end = min(int(log.recording.t_ns[name][-1]) for log in logs)
    raise InvalidValueError(
        f"{' and '.join(log.file for log in logs)} differ in {name} from {begin * 1e-9:.3f} s to "
        f"{end * 1e-9:.3f} s: leave one out, or rename a file so that its channels can be told apart",
        id="differing-telemetry",
    )


def _stem(file: str) -> str:
    return file.removesuffix(".gz").rpartition(".")[0] or file


def _channel(recording: Recording, name: str) -> Channel:
    return next(channel for channel in recording.channels if channel.name == name)


def _with_series(log: Telemetry, name: str, t_ns: Longs, value: Floats) -> Telemetry:
    recording = log.recording
    return replace(
        log,
        recording=replace(
            recording,
            t_ns={**recording.t_ns, name: t_ns},
            value={**recording.value, name: value},
        ),
    )


def _without(log: Telemetry, name: str) -> Telemetry:
    recording = log.recording
    return replace(
        log,
        recording=replace(
            recording,
            channels=tuple(each for each in recording.channels if each.name != name),
            t_ns=_but(recording.t_ns, name),
            value=_but(recording.value, name),
        ),
    )


def _but(series: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: each for key, each in series.items() if key != name}


def _renamed(log: Telemetry, name: str) -> Telemetry:
    recording, new = log.recording, f"{_stem(log.file)}.{name}"
    channels = tuple(
        replace(each, name=new) if each.name == name else each for each in recording.channels
    )
    return replace(
        log,
        recording=replace(
            recording,
            channels=channels,
            t_ns={new if key == name else key: each for key, each in recording.t_ns.items()},
            value={new if key == name else key: each for key, each in recording.value.items()},
        ),
    )


def _one_total(logs: Sequence[Telemetry]) -> tuple[list[Telemetry], list[str]]:
    """Totals of later files beside an earlier one's are no totals."""
    result: list[Telemetry] = []
    notes: list[str] = []
    for log in logs:
        first = next((early for early in result if _both_total(early, log)), None)
        if first is not None:
            log = _not_total(log, first.file)
            notes.append(
                f"{first.file} and {log.file} both have the power of the whole machine: the total "
                f"is that of {first.file}, which was named first"
            )
        result.append(log)
    return result, notes


def _both_total(one: Telemetry, other: Telemetry) -> bool:
    spans = [_span_of_totals(one), _span_of_totals(other)]
    if None in spans:
        return False
    (begin, end), (start, stop) = (span for span in spans if span is not None)
    return begin <= stop and start <= end


def _span_of_totals(log: Telemetry) -> tuple[int, int] | None:
    times = [
        log.recording.t_ns[each.name]
        for each in log.recording.channels
        if each.role in _TOTALS and len(log.recording.t_ns[each.name])
    ]
    if not times:
        return None
    return min(int(t[0]) for t in times), max(int(t[-1]) for t in times)


def _not_total(log: Telemetry, first: str) -> Telemetry:
    note = f"the total is that of {first}"
    channels = tuple(
        replace(each, role="unknown", note="; ".join(part for part in (each.note, note) if part))
        if each.role in _TOTALS
        else each
        for each in log.recording.channels
    )
    return replace(log, recording=replace(log.recording, channels=channels))
