"""Sensor hosts of a run: this machine, a recording that is played, or an emulated board."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from wattstep.errors import InvalidValueError
from wattstep.record.sensors import probe, probe_all
from wattstep.record.sensors.cpu import SystemTimes
from wattstep.record.sensors.machine import describe
from wattstep.schema.channel import Absent, Channel, Origin, Present
from wattstep.schema.run_documents import DeviceFacts

LOCAL: Final = "local"
HOST: Final = "host"  # what `host_load` finds, among what sensors find
# Scheme to the function that opens it: (name, options, pid, folder) -> SensorHost.
TARGETS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "replay": "wattstep.record.hosts.replay:open_host",
        "emulate": "wattstep.record.hosts.emulation:open_host",
        "adb": "wattstep.record.hosts.phone:open_host",
    }
)
# Devices that train by themselves; `wattstep.remote.execution_hosts` opens them. adb is both: a phone's
# sensors can be looked at from here.
EXECUTION_HOSTS: Final = ("ssh", "adb")


@dataclass(frozen=True, kw_only=True)
class Target:
    """A parsed `--target`: "local", or SCHEME:NAME with options after commas.

    Attributes:
        scheme: "local", a key of `TARGETS` or one of `EXECUTION_HOSTS`.
        name: A recording, a board, a serial number, USER@HOST:PORT.
        options: E.g. {"averaging": "422ms"} from "emulate:jetson-tx2,averaging=422ms".
    """

    scheme: str = LOCAL
    name: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Text for the record: without the folders of a path, and without a serial number."""
        name = {LOCAL: "", "adb": "phone", "ssh": "board"}.get(self.scheme, Path(self.name).name)
        # Where somebody keeps adb is a path of their machine; so are the folders of a board.
        shown = {} if self.scheme in EXECUTION_HOSTS else self.options
        options = (f"{key}={value}" for key, value in shown.items())
        return ",".join([f"{self.scheme}:{name}" if name else self.scheme, *options])


class SensorHost(Protocol):
    """Host of the sensors for as long as a run lasts.

    Attributes:
        device: Description of the machine that the run is of, as `sensors.machine.describe` gives it.
        notes: Facts that the reader of the run must know; more may come when it was closed.
        hidden: The folder that stands for its root, which the record leaves out; "" for none.
    """

    device: DeviceFacts
    notes: tuple[str, ...]
    hidden: str

    @property
    def root(self) -> Path | None:
        """Root of the files of the machine whose sensors they are; None where they are no files here."""
        ...

    def probe(self) -> dict[str, Present | Absent]:
        """Reads of each sensor by its name, or the reason why it has none."""
        ...

    def close(self) -> None:
        """Ends what was started for it; the sampler has ended."""
        ...


def parse_target(text: str | None) -> Target:
    """The target that is asked for.

    Raises:
        InvalidValueError: Nobody knows it.
    """
    if text is None or text == LOCAL:
        return Target()
    scheme, colon, rest = text.partition(":")
    if scheme in EXECUTION_HOSTS:
        rest = rest.removeprefix("//")
    if scheme not in (*TARGETS, *EXECUTION_HOSTS) or not colon or (not rest and scheme != "adb"):
        known = ", ".join(f"{name}:..." for name in dict.fromkeys((*TARGETS, *EXECUTION_HOSTS)))
        raise InvalidValueError(
            f"--target {_shown(scheme, text)}: there are {LOCAL}, {known}", id="unknown-target"
        )
    # A recording's path may hold commas and equals signs: options are what follows the last
    # part that is a file.
    name, options = rest, {}
    while "," in name and not os.path.exists(name):  # noqa: PTH110 - a board's name, or a path
        name, _, last = name.rpartition(",")
        key, equals, value = last.partition("=")
        if not equals or not key:
            raise InvalidValueError(
                f"--target {_shown(scheme, text)}: what follows a comma is an option: write key=value"
            )
        options[key.strip()] = value.strip()
    return Target(scheme=scheme, name=name, options=options)


def _shown(scheme: str, text: str) -> str:
    """A target in a message: a device's may hold a user, a host, a serial number or a password."""
    return f"{scheme}:..." if scheme in EXECUTION_HOSTS else repr(text)


def open_host(target: Target, pid: int, folder: Path) -> SensorHost:
    """Opens a target for the training process `pid`.

    Args:
        target: As parsed.
        pid: The training process.
        folder: Of the run, which exists: what a target must keep (the truth of an emulator) goes
            there.

    Raises:
        InvalidValueError: The board, recording or an option is unknown.
        RecordingError: It cannot be started.
    """
    if target.scheme == LOCAL:
        return LocalHost(pid)
    module, _, function = TARGETS[target.scheme].partition(":")
    opened: SensorHost = getattr(importlib.import_module(module), function)(
        target.name, target.options, pid, folder
    )
    return opened


class LocalHost:
    """This machine."""

    def __init__(self, pid: int, root: Path = Path("/")) -> None:
        self._pid = pid
        self.root = root
        self.device: DeviceFacts = describe(root)
        self.notes: tuple[str, ...] = ()
        self.hidden = ""

    def probe(self) -> dict[str, Present | Absent]:
        """Every sensor below the root."""
        return probe_all(self.root, self._pid)

    def close(self) -> None:
        """Nothing was started."""


def host_load() -> Present | Absent:
    """Busy and steal time of this machine, for a run whose own sensors are those of another.

    The times of the training are this machine's: what else runs here disturbs it. The domain is
    that of the process, so that the channels never pass for those of the other machine.
    """
    times = probe(SystemTimes(), Path("/"), os.getpid())
    if isinstance(times, Absent):
        return times
    return Present(
        reads=tuple(
            replace(read, channels=tuple(_of_host(channel) for channel in read.channels))
            for read in times.reads
        )
    )


def _of_host(channel: Channel) -> Channel:
    what = channel.role.removeprefix("system_")
    return replace(
        channel,
        name=f"host.{what}",
        role=f"host_{what}",
        domain="process",
        source=f"{channel.source} of the machine that trains",
    )


def with_status(sensor: Present | Absent, status: Origin) -> Present | Absent:
    """Copy in which each channel has this status."""
    if isinstance(sensor, Absent):
        return sensor
    return Present(
        reads=tuple(
            replace(read, channels=tuple(replace(c, status=status) for c in read.channels))
            for read in sensor.reads
        )
    )
