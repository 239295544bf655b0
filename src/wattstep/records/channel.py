"""Channels, and what a sensor hands to the sampler: which file to read, how to parse it, how often."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

Kind = Literal["gauge", "counter"]
Domain = Literal[
    "cpu", "gpu", "memory", "soc", "system", "process", "battery", "thermal", "sampler"
]


@dataclass(frozen=True, kw_only=True)
class Channel:
    """One series of samples.

    Attributes:
        name: Unique in a run, dotted, e.g. "cpu0.idle_time".
        unit: SI unit of the value after scaling: "s", "B", "J", "W", "°C", "Hz", "ratio", "events".
        kind: "gauge" (the value at an instant) or "counter" (grows; differences count).
        domain: What part of the device it speaks of.
        role: What it is used for, e.g. "busy_time", "resident_memory", "power", "disturbance".
        source: Where it was read, e.g. "/proc/stat", "perf task-clock".
        scale: Raw integer times scale gives the value in `unit`.
        wrap: Raw value at which a counter starts again from 0, or None.
        core: The core that it belongs to, or None.
        resolution: Smallest step of the source in `unit`, where it is documented.
    """

    name: str
    unit: str
    kind: Kind
    domain: Domain
    role: str
    source: str
    scale: float = 1.0
    wrap: int | None = None
    core: int | None = None
    resolution: float | None = None


@dataclass(frozen=True, kw_only=True)
class SensorRead:
    """One read of one file, which gives the raw integers of one or more channels.

    Attributes:
        path: The file. For a perf counter the perf event instead, as "perf:NAME".
        parser: Name of the parser in the sampler's child (`sampling/child.py`).
        arguments: What the parser needs to know, JSON-ready.
        channels: The channels, in the order of the integers that the parser gives.
        least_period_s: Never read more often than this, whatever the sampler's period; reads
            whose cost or resolution makes finer ticks pointless say so here.
        slow: It takes milliseconds: the ticks must not wait for it.
    """

    path: str
    parser: str
    arguments: tuple[str | int, ...] = ()
    channels: tuple[Channel, ...]
    least_period_s: float = 0.0
    slow: bool = False


@dataclass(frozen=True, kw_only=True)
class Present:
    """A sensor that was found, with its reads."""

    reads: tuple[SensorRead, ...]


@dataclass(frozen=True, kw_only=True)
class Absent:
    """A sensor that is not there, with the reason in words that a user understands."""

    reason: str


class Sensor(Protocol):
    """Finds one kind of sensor. One file each in `sensors/`."""

    name: str
    description: str

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Looks for the sensor.

        Args:
            root: The root of the file system, "/" or a fixture tree; every path is taken below it.
            pid: The training process, for sensors that read its own files.
        """
        ...
