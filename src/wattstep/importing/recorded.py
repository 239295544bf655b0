"""Recording made ready to be replayed: in a child, as it takes memory to read one."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wattstep.boards import find
from wattstep.boards.rails import meaning, rail_called
from wattstep.boards.table import Board
from wattstep.errors import InvalidValueError, WattstepError
from wattstep.formats.recording import Recording
from wattstep.formats.registry import read_log
from wattstep.recorded.curves import unwrapped
from wattstep.recorded.power import spoken
from wattstep.recorded.stretches import Stretches
from wattstep.run import load as load_run
from wattstep.schema.channel import Channel
from wattstep.schema.journal import MISSING, RUN
from wattstep.schema.settings import parse_duration

DIGITS, FINEST = 15, 9  # a float64 holds so many; more than nano is nowhere measured
LONGEST_NS = 1 << 61
THINNED = "single samples of {} were thinned (--keep): means of stretches of up to 10 s are played in their place"
Ints = npt.NDArray[np.int64]


def main() -> int:
    """Entry of the child: JSON arguments of `prepare`; what it returns, or the error, as JSON."""
    task = json.loads(sys.argv[1])
    try:
        document = prepare(Path(task["path"]), task["options"], task["loop"], Path(task["folder"]))
    except WattstepError as error:
        document = {**error.document()}
    json.dump(document, sys.stdout)
    return 0


def prepare(path: Path, options: Mapping[str, str], loop: bool, folder: Path) -> dict[str, Any]:
    """Writes the rows of a recording for its feed, and says what they are.

    Args:
        path: The recording.
        options: "interval" and "board", where they are given.
        loop: Whether it is to begin again at its end.
        folder: Where the rows go.

    Returns:
        "format", "board", "notes" and "ignored" of the recording; "loop_ns" as `Playing` takes it;
        "parts", a list: "file", "channels", "spacing_ns" (the median between rows) and "gains".

    Raises:
        InvalidValueError: The recording cannot be read, holds nothing or lasts too long.
    """
    recording = read_recording(path, options)
    if not recording.values:
        raise InvalidValueError(
            f"{path.name} ({recording.format}) holds no values to replay", id="no-values"
        )
    parts = _parts(path.name, recording)
    loop_ns = max(part.loop_ns for part in parts) if loop else 0
    return {
        "format": recording.format,
        "board": recording.board,
        "notes": recording.notes,
        "ignored": dict(recording.ignored),
        "loop_ns": loop_ns,
        "parts": [
            _written(part, folder / f"replay-{n:02d}.bin", loop_ns) for n, part in enumerate(parts)
        ],
    }


def read_recording(path: Path, options: Mapping[str, str]) -> Recording:
    """Content of a recording, whatever its format.

    Raises:
        InvalidValueError: It is not there, of no known format, or damaged.
    """
    if (path / RUN).exists():
        return run_recording(path)
    if path.exists() and not path.is_file():
        raise InvalidValueError(
            f"{path} cannot be replayed: it is neither a run nor a plain file", id="not-a-recording"
        )
    interval, board = options.get("interval"), options.get("board")
    interval_s = None if interval is None else parse_duration(interval)
    form, recording = read_log(path, interval_s=interval_s, board=board, purpose="replayed")
    # A parser that takes the board has decided about its rails, by what each line shows.
    return recording if "board" in form.takes else with_board(recording, board)


# --- a run as a recording ----------------------------------------------------------------------


def run_recording(path: Path) -> Recording:
    """The machine's sensors in a run; what belonged to its process is left out.

    Where samples were thinned, as many stand in each stretch as there were: of a gauge all the same, so
    that the integral over the time is what it was, of a counter as if it had grown steadily.

    Raises:
        DamagedRunError: It cannot be read.
    """
    run = load_run(path)
    channels: list[Channel] = []
    t_ns: dict[str, Ints] = {}
    value: dict[str, npt.NDArray[np.float64]] = {}
    ignored: dict[str, int] = {}
    thinned_ns = 0
    for channel in run.series.channels.values():
        if channel.name not in run.series.samples:
            continue
        times, values = run.series.raw(channel.name)
        if channel.domain in ("process", "sampler"):
            reason = "of the training that was recorded"
            ignored[reason] = ignored.get(reason, 0) + len(times)
        else:
            if (stretches := run.series.stretches.get(channel.name)) is None:
                values = unwrapped(channel, values)
            else:
                times, values = _filled(channel, times, values, stretches)
                thinned_ns = max(thinned_ns, int((stretches.end_ns - stretches.begin_ns).sum()))
            t_ns[channel.name], value[channel.name] = times, values
            channels.append(replace(channel, scale=1.0, wrap=None))
    return Recording(
        format="run", channels=tuple(channels), t_ns=t_ns, value=value, clock="monotonic",
        ignored=ignored, notes=(THINNED.format(spoken(thinned_ns * 1e-9)),) if thinned_ns else (),
    )  # fmt: skip


def _filled(
    channel: Channel, t_ns: Ints, value: npt.NDArray[np.float64], stretches: Stretches
) -> tuple[Ints, npt.NDArray[np.float64]]:
    """Samples of a channel, wraps undone, with others in place of those that were thinned."""
    own = ~stretches.marks(t_ns, value)
    times, values = stretches.beside(t_ns[own], value[own])
    finite = np.isfinite(values)
    at = np.searchsorted(times[finite], stretches.begin_ns[stretches.known])
    values = unwrapped(channel, values, at)
    more_t, more = [times], [values]
    for begin, end, reads, integral in zip(
        stretches.begin_ns, stretches.end_ns, stretches.reads, stretches.integral, strict=True
    ):
        first, last = values[np.searchsorted(times, [begin, end])]
        within = begin + (end - begin) * np.arange(1, reads + 1) // (reads + 1)
        within = within[(within > begin) & (within < end)]
        if not (np.isfinite(first + last + integral) and len(within)):
            continue
        if channel.kind == "counter":
            grown = first + (last - first) * ((within - begin) / (end - begin))
        else:  # by the trapezoidal rule
            edges = first * (within[0] - begin) + last * (end - within[-1])
            held_ns = (within[-1] - within[0]) + ((within[0] - begin) + (end - within[-1])) / 2
            grown = np.full(len(within), (integral * 1e9 - edges / 2) / held_ns)
        more_t.append(within)
        more.append(grown)
    times = np.concatenate(more_t)
    order = np.argsort(times, kind="stable")
    return times[order], np.concatenate(more)[order]


# --- whose rails they are ----------------------------------------------------------------------


def with_board(recording: Recording, name: str | None) -> Recording:
    """The recording with the rails of a board that the user names: which make its total.

    A power of the whole machine that the recording has itself stays its total, alone.

    Raises:
        InvalidValueError: There is no such board.
    """
    if name is None:
        return recording
    board = find(name)
    labels = {c.name: label for c in recording.channels if (label := _label(board, c))}
    whole = any(c.role == "power_total" and c.name not in labels for c in recording.channels)
    channels = [
        _as_rail(board, channel, labels[channel.name], list(labels.values()), whole=whole)
        if channel.name in labels
        else channel
        for channel in recording.channels
    ]
    return replace(recording, channels=tuple(channels), board=name)


def _label(board: Board, channel: Channel) -> str | None:
    """Rail of the board whose power the channel is."""
    if channel.unit != "W" or channel.role not in ("power_total", "power_part", "power_outside"):
        return None
    names = ((rail.label, _rail_names(rail.names)) for rail in board.rails)
    exact = next((label for label, known in names if channel.name in known), None)
    return exact or rail_called(board, channel.name)


def _as_rail(
    board: Board, channel: Channel, label: str, labels: Sequence[str], *, whole: bool
) -> Channel:
    what = meaning(board, label, labels)
    role = "power_part" if whole and what.role == "power_total" else what.role
    note = "; ".join(part for part in (channel.note, what.note) if part)
    return replace(channel, domain=what.domain, role=role, note=note)


def _rail_names(labels: Iterable[str]) -> set[str]:
    lower = [label.lower() for label in labels]
    return {name for x in lower for name in (x, f"rail.{x}", f"rail.{x}.power")}


# --- rows for the feed -------------------------------------------------------------------------


def _parts(name: str, recording: Recording) -> list[_Part]:
    """Channels whose values share their times lie together."""
    groups: dict[bytes, list[Channel]] = {}
    for channel in recording.channels:
        times = recording.t_ns[channel.name]
        if len(times):
            groups.setdefault(times.tobytes(), []).append(channel)
    start = min(int(recording.t_ns[group[0].name][0]) for group in groups.values())
    return [_part(name, recording, group, start) for group in groups.values()]


def _part(name: str, recording: Recording, group: Sequence[Channel], start: int) -> _Part:
    offset = recording.t_ns[group[0].name] - start
    if offset[-1] >= LONGEST_NS:
        raise InvalidValueError(f"{name} lasts longer than can be replayed", id="lasts-too-long")
    scaled = [_scaled(channel, recording.value[channel.name]) for channel in group]
    code = np.zeros(len(offset), np.int64)
    return _Part(
        channels=tuple(channel for channel, _ in scaled),
        rows=np.column_stack([offset, code, *(raw for _, raw in scaled)]),
    )


def _written(part: _Part, file: Path, loop_ns: int) -> dict[str, Any]:
    part.rows.tofile(file)
    return {
        "file": str(file),
        "channels": [asdict(channel) for channel in part.channels],
        "spacing_ns": part.spacing_ns,
        "gains": part.gains(loop_ns),
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class _Part:
    """Channels with the same times; rows of int64 (offset in ns, 0, raw values)."""

    channels: tuple[Channel, ...]
    rows: Ints

    @property
    def spacing_ns(self) -> int:
        offset = self.rows[:, 0]
        return int(np.median(np.diff(offset))) if len(offset) > 1 else 10**9

    @property
    def loop_ns(self) -> int:
        """After the last row there is as much time as between two."""
        return int(self.rows[-1, 0]) + self.spacing_ns

    def gains(self, loop_ns: int) -> list[int]:
        """Growth of each counter in a loop, at its mean rate; 0 for gauges."""
        return [
            _gain(self.rows[:, 0], self.rows[:, column], loop_ns) if c.kind == "counter" else 0
            for column, c in enumerate(self.channels, 2)
        ]


def _gain(offset: Ints, raw: Ints, loop_ns: int) -> int:
    known = np.flatnonzero(raw != MISSING)
    if len(known) < 2:
        return 0
    first, last = known[0], known[-1]
    grown, span = int(raw[last]) - int(raw[first]), int(offset[last]) - int(offset[first])
    return grown * loop_ns // span


def _scaled(channel: Channel, value: npt.NDArray[np.float64]) -> tuple[Channel, Ints]:
    """Integers, as journals hold them, of all digits that a float64 has."""
    known = np.isfinite(value)
    largest = float(np.abs(value[known]).max()) if known.any() else 0.0
    exponent = math.ceil(math.log10(largest)) if largest else 0
    scale = 10.0 ** -min(DIGITS - exponent, FINEST + max(0, -exponent), 300)
    raw = np.full(len(value), MISSING, np.int64)
    raw[known] = np.rint(value[known] / scale).astype(np.int64)
    return replace(channel, scale=scale, wrap=None), raw
