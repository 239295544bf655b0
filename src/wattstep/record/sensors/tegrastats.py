"""NVIDIA's tegrastats, on a Jetson whose power rails cannot be read as files."""

from __future__ import annotations

import errno
import math
import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from wattstep import boards
from wattstep.boards.rails import only_rail_on
from wattstep.boards.table import Board
from wattstep.formats.recording import FormatError
from wattstep.formats.tegrastats import split_time
from wattstep.formats.tegrastats_line import Line, may_come, parse_line, plain
from wattstep.record.push_sources import Emit, PushSource, lines
from wattstep.record.sensors import read_text
from wattstep.schema.channel import Absent, Channel, Present, Sensor, SensorRead
from wattstep.schema.journal import MISSING

COMMAND = "tegrastats"
FOLDERS = ("usr/bin", "usr/sbin", "usr/local/bin")
RAILS = ("sys/bus/i2c/drivers/ina3221*/*-*", "sys/bus/iio/devices/iio:device*/rail_name_*")
MONITORS = "sys/class/hwmon/hwmon*"
FIRST_LINE_S = 5.0  # it takes a second to begin on old boards
# Fields come and go with the units that are on: several lines are looked at.
LINES, LINES_S = 5, 1.0
LEAST_MS = 5  # asked for less it is no faster (8 to 27 ms were seen) and takes a core
SCALES: Final[Mapping[str, float]] = {
    "W": 1e-3, "Hz": 1e3, "ratio": 1e-4, "°C": 1e-3, "B": 1024.0, "blocks": 1.0,
}  # fmt: skip
# What other sensors read from files, where there are these: a channel comes once.
GIVEN: Final[Mapping[str, tuple[str, ...]]] = {
    "cpu": ("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq",),
    "system.": ("proc/meminfo",),
    "thermal.": ("sys/class/thermal/thermal_zone*/temp",),
    "gpu": (
        "sys/devices/gpu.0/load",
        "sys/devices/platform/gpu.0/load",
        "sys/devices/platform/bus@0/*.gpu/load",
        "sys/class/devfreq/*/device/load",
    ),
    "memory": (
        "sys/kernel/debug/bpmp/debug/clk/emc/rate",
        "sys/kernel/debug/clk/override.emc/clk_rate",
        "sys/class/devfreq/*bwmgr*",
    ),
}
UNPLANNED: Final = Channel(
    name="tegrastats.unrecorded_values", unit="events", kind="gauge", domain="sampler",
    role="unrecorded_values", source=COMMAND,
    note="values of a line whose field came only later: tegrastats did not print it when wattstep "
    "looked, and it has no channel",
)  # fmt: skip


class Tegrastats(Sensor):
    """Rails and engines from a process of tegrastats; only where no file gives the rails."""

    name = "tegrastats"
    description = "power rails and engines of a Jetson, from NVIDIA's tegrastats"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Looks for the command, and reads lines of it to see what it tells here."""
        command = find_command(root)
        if command is None:
            return Absent(reason="there is no tegrastats: only Jetsons have it")
        if has_rails(root):
            return Absent(reason="not needed: the power rails are read directly")
        board = boards.identify(root)
        name = board.name if board else None
        seen = first_lines(command, name)
        if isinstance(seen, Absent):
            return seen
        given = given_by_files(root, board)
        channels = wanted_channels(seen, given)
        if not channels:
            return Absent(reason="tegrastats tells nothing here that files do not")
        return Present(reads=(pushed_read(command, name, channels, given),))


def has_rails(root: Path) -> bool:
    """True if files give the power rails, by any of the drivers."""
    if any(True for pattern in RAILS for _ in root.glob(pattern)):
        return True
    return any(read_text(folder / "name") == "ina3221" for folder in root.glob(MONITORS))


def given_by_files(root: Path, board: Board | None) -> list[str]:
    """Prefixes of the names of channels that other sensors read from files."""
    given = [prefix for prefix, files in GIVEN.items() if any(any(root.glob(f)) for f in files)]
    rail = only_rail_on(board, "ina238")
    if rail and any(read_text(folder / "name") == "ina238" for folder in root.glob(MONITORS)):
        given.append(f"rail.{plain(rail.label)}.")
    return given


def is_given(name: str, given: Sequence[str]) -> bool:
    """True if the name begins so, or is all of it: "rail.vin." is no "rail.vin_sys_5v0"."""
    return f"{name}.".startswith(tuple(given))


def find_command(root: Path) -> str | None:
    """The command below the root; on the machine itself, on its search path too."""
    for folder in FOLDERS:
        path = root / folder / COMMAND
        if os.access(path, os.X_OK):
            return str(path)
    return shutil.which(COMMAND) if root == Path("/") else None


def first_lines(command: str, board: str | None) -> list[Line] | Absent:
    """First lines of tegrastats, or the reason why it says nothing."""
    parsed: list[Line] = []
    problem = f"tegrastats said nothing in {FIRST_LINE_S:g} s"
    stop = threading.Event()
    timers = [threading.Timer(FIRST_LINE_S, stop.set), threading.Timer(LINES_S, stop.set)]
    timers[0].start()
    try:
        for number, (_, data) in enumerate(lines([command, "--interval", "100"], stop), 1):
            if number == 1:
                timers[1].start()
            try:
                parsed.append(read_line(data, board))
            except FormatError as error:
                problem = f"tegrastats prints what is not understood: {error}"
            if number == LINES:
                break
    except OSError as error:
        problem = f"tegrastats does not run: {error.strerror or error}"
    finally:
        for timer in timers:
            timer.cancel()
    return parsed or Absent(reason=problem)


def read_line(data: bytes, board: str | None) -> Line:
    """A line as printed, with or without a date.

    Raises:
        FormatError: It is not from tegrastats, or damaged.
    """
    text = data.decode("ascii", errors="replace").strip()
    return parse_line(split_time(text)[1], board)


def wanted_channels(seen: Sequence[Line], given: Sequence[str]) -> list[Channel]:
    """The channels that no file gives, with the scale of the integers that are recorded.

    Beside what the lines tell, what they will tell once the GPU and its engines are on.
    """
    channels: dict[str, Channel] = {}
    for line in sorted(seen, key=lambda line: len(line.rails)):  # all rails tell what each means
        channels.update((channel.name, channel) for channel, _ in line.values)
    for line in seen:
        for channel in may_come(line):
            channels.setdefault(channel.name, channel)
    return [
        replace(channel, scale=SCALES[channel.unit])
        for channel in channels.values()
        if not is_given(channel.name, given)
    ]


def pushed_read(
    command: str, board: str | None, channels: Sequence[Channel], given: Sequence[str]
) -> SensorRead:
    """All channels in one read: a line tells them at one time."""
    return SensorRead(
        path=COMMAND,
        parser="feed",
        channels=(*channels, UNPLANNED),
        least_period_s=LEAST_MS * 1e-3,
        push_source="wattstep.record.sensors.tegrastats:make_source",
        push_settings={
            "command": command,
            "board": board,
            "scales": {channel.name: channel.scale for channel in channels},
            "given": list(given),
        },
    )


def make_source(
    command: str,
    board: str | None,
    scales: Mapping[str, float],
    given: Sequence[str],
    period_s: float,
) -> PushSource:
    """The push source of `pushed_read`.

    Args:
        command: Path of tegrastats.
        board: Name of the board's table, or None.
        scales: Channels in the order of the read, each with its scale; after them comes how many
            values of the line are of no channel.
        given: Prefixes of the names of channels that files give.
        period_s: Time between lines that is asked for.
    """
    return _Lines(command, board, scales, given, max(round(period_s * 1e3), LEAST_MS))


class _Lines:
    def __init__(
        self, command: str, board: str | None, scales: Mapping[str, float], given: Sequence[str],
        interval_ms: int,
    ) -> None:  # fmt: skip
        self._command = [command, "--interval", str(interval_ms)]
        self._board, self._scales, self._given = board, dict(scales), tuple(given)

    def run(self, emit: Emit, stop: threading.Event) -> None:
        """Gives a row for each line; a line that is damaged is a gap.

        Raises:
            OSError: The command cannot be started, or ended with an error.
        """
        for t_ns, data in lines(self._command, stop):
            try:
                line = read_line(data, self._board)
            except FormatError:
                emit(0, t_ns, errno.EBADMSG, None)
                continue
            emit(0, t_ns, 0, self._integers(line))

    def _integers(self, line: Line) -> list[int]:
        readings = {channel.name: value for channel, value in line.values}
        values = ((readings.get(name, math.nan), scale) for name, scale in self._scales.items())
        unplanned = [
            name
            for name, value in readings.items()
            if name not in self._scales and not is_given(name, self._given) and math.isfinite(value)
        ]
        return [
            *(MISSING if math.isnan(v) else round(v / scale) for v, scale in values),
            len(unplanned),
        ]
