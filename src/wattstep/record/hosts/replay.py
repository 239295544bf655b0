"""`--target replay:RECORDING`: recorded sensors play in place of this machine's, and say so."""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wattstep.boards import find
from wattstep.errors import InvalidValueError, RecordingError, error_of
from wattstep.record.hosts import HOST, host_load
from wattstep.record.sensors import SENSORS, probe
from wattstep.record.sensors import load as load_sensor
from wattstep.record.sensors.machine import describe
from wattstep.schema.channel import Absent, Channel, Present, SensorRead
from wattstep.schema.journal import JOURNAL
from wattstep.schema.processes import child_command
from wattstep.schema.run_documents import DeviceFacts

SOURCE = "wattstep.record.hosts.playing:Playing"
OPTIONS = ("speed", "interval", "loop", "board")
REASONS = 3  # that are said in full


def open_host(name: str, options: Mapping[str, str], pid: int, folder: Path) -> ReplayHost:
    """The recording `name` in place of this machine's sensors; those of the process stay real.

    Args:
        name: A file of a known format, or the folder of a run.
        options: "speed": real, max (all at once) or a factor; "loop": yes or no; "interval": of
            the lines of a log without a clock; "board": whose rails they are.
        pid: The training process.
        folder: Of the run: the recording's values lie beside its journals while it records.

    Raises:
        InvalidValueError: An option is unknown, or the recording cannot be read or holds nothing.
    """
    play = _play(options)
    prepared = _prepare(name, options, play.loop, folder / JOURNAL)
    return ReplayHost(Path(name).name, prepared, play, pid)


def _prepare(name: str, options: Mapping[str, str], loop: bool, folder: Path) -> Mapping[str, Any]:
    """Prepares the recording in a child, by `importing.recorded.prepare`: the training's memory must not grow by it."""
    task = {"path": name, "options": dict(options), "loop": loop, "folder": str(folder)}
    done = subprocess.run(
        child_command("wattstep.importing.recorded:main", json.dumps(task)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        env=dict(os.environ),
    )
    if done.returncode != 0:
        words = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise RecordingError(f"{name} cannot be replayed: {words[-1]}", id="replay-failed")
    prepared: dict[str, Any] = json.loads(done.stdout)
    if "error" in prepared:
        raise error_of(prepared, str(prepared["error"]))
    return prepared


@dataclass(frozen=True, kw_only=True)
class Play:
    """Settings of the playing: `speed` 0 is all at once."""

    speed: float
    loop: bool


def _play(options: Mapping[str, str]) -> Play:
    """The options in order.

    Raises:
        InvalidValueError: One is unknown or of no use.
    """
    if unknown := set(options) - set(OPTIONS):
        available = ", ".join(OPTIONS)
        raise InvalidValueError(
            f"replay has no option {sorted(unknown)[0]!r}: there are {available}",
            id="unknown-target-option",
        )
    if options.get("loop", "no") not in ("yes", "no"):
        raise InvalidValueError(
            f"loop={options['loop']}: yes or no is wanted", id="malformed-option"
        )
    loop = options.get("loop") == "yes"
    text = options.get("speed", "real")
    try:
        speed = {"real": 1.0, "max": 0.0}.get(text)
        speed = float(text) if speed is None else speed
    except ValueError:
        speed = math.nan
    if not 0 <= speed < 1e6 or (speed == 0 and text != "max"):
        raise InvalidValueError(
            f"speed={text}: real, max or a factor above 0 is wanted", id="malformed-option"
        )
    if loop and speed == 0:
        raise InvalidValueError(
            "speed=max with loop=yes has no end: leave one of them out", id="endless-replay"
        )
    return Play(speed=speed, loop=loop)


class ReplayHost:
    """This machine with the sensors of a recording.

    Args:
        name: Of the recording.
        prepared: Result of `importing.recorded.prepare`.
        play: Settings of the playing.
        pid: The training process.

    Attributes:
        device: This machine, on which the training really runs, and what is replayed.
        notes: That its power does not belong to this training, and what the recording says.
    """

    def __init__(self, name: str, prepared: Mapping[str, Any], play: Play, pid: int) -> None:
        self._name, self._prepared, self._play, self._pid = name, prepared, play, pid
        board = prepared["board"]
        whose = find(board).title if board else "machine not known"
        self.device: DeviceFacts = {
            **describe(),
            "sensors_of": f"recording {name} ({prepared['format']}, {whose})",
        }
        self.hidden = ""
        self.root = None
        self.notes = (
            f"sensors replayed from {name}: its power does not belong to this training",
            *(f"{name}: {note}" for note in prepared["notes"]),
            *_left_out(name, prepared["ignored"]),
        )

    def probe(self) -> dict[str, Present | Absent]:
        """The process's own sensors, of this machine its load alone, and the recording's."""
        sensors: dict[str, Present | Absent] = {}
        away = Absent(reason=f"not sampled: the sensors of {self._name} are replayed")
        for name in SENSORS:
            sensor = load_sensor(name)
            own = sensor.scope == "process"
            sensors[name] = probe(sensor, Path("/"), self._pid) if own else away
        sensors[HOST] = host_load()
        sensors["replay"] = Present(reads=self._reads())
        return sensors

    def close(self) -> None:
        """Nothing was started; the values lie in the journal, which goes with it."""

    def _reads(self) -> tuple[SensorRead, ...]:
        """Reads, one for all channels whose values share their times; all are emitted by one push source."""
        parts = self._prepared["parts"]
        settings: dict[str, Any] = {
            "files": [part["file"] for part in parts],
            "widths": [len(part["channels"]) for part in parts],
            "speed": self._play.speed,
            "loop_ns": self._prepared["loop_ns"],
            "gains": [part["gains"] for part in parts],
        }
        return tuple(self._read(part, settings) for part in parts)

    def _read(self, part: Mapping[str, Any], settings: Mapping[str, Any]) -> SensorRead:
        return SensorRead(
            path=self._name,
            parser="feed",
            channels=tuple(self._played(Channel(**channel)) for channel in part["channels"]),
            least_period_s=part["spacing_ns"] * 1e-9 / (self._play.speed or 1.0),
            push_source=SOURCE,
            push_settings=settings,
        )

    def _played(self, channel: Channel) -> Channel:
        return replace(
            channel,
            status="modelled" if channel.status == "modelled" else "replayed",
            source=f"{channel.source}, replayed from {self._name}",
        )


def _left_out(name: str, ignored: Mapping[str, int]) -> list[str]:
    """Note on values of the recording that are not played: the most frequent reasons, and how many more."""
    reasons = sorted(ignored.items(), key=lambda item: -item[1])
    if not reasons:
        return []
    shown = "; ".join(f"{count} × {why}" for why, count in reasons[:REASONS])
    more = f"; and {len(reasons) - REASONS} more reasons" if len(reasons) > REASONS else ""
    return [f"not played from {name}: {shown}{more}"]
