"""Channels, and what a sensor hands to the sampler: which file to read, how to parse it, how often."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

Kind = Literal["gauge", "counter"]
Domain = Literal[
    "cpu", "gpu", "memory", "soc", "system", "process", "battery", "thermal", "sampler", "unknown"
]
Origin = Literal["measured", "replayed", "modelled"]
# Roles of CPU times: of what trains, the best first, and of what records.
TRAINING_CPU = ("process_cpu_time", "process_cpu_time_coarse", "children_cpu_time")
RECORDING_CPU = ("sampler_cpu_time", "companion_cpu_time")
_OF_QUANTITY = re.compile(r"power|energy|watts?|joules?|total|used|consum(?:ed|ption)|[\W_]")
# A name of one such letter is a quantity, of nothing in particular, in its own unit alone.
_LETTERS = {"W": "pw", "J": "ej", "V": "uv", "A": "ia"}


@dataclass(frozen=True, kw_only=True)
class Channel:
    """Series of samples.

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
        status: What its values are: of a sensor, of a recording that is played, or of an emulated
            board. Figures made from it are no stronger.
        window_s: The time that the source averages over before each value, where documented.
        observed_share: Part of the time in which the source looks at all, where documented.
        range_to: Highest value that the source can show, in `unit`, where documented.
        limit: Where throttling begins (a temperature), the highest it can be (a frequency, a
            current), in `unit`; None: not known.
        note: What a reader of its figures must know ("leaves out the carrier board: 6-8 W").
        gpu: Names of the GPU that it speaks of, separated by blanks: UUIDs (those of its MIG
            instances, too), address on the PCI bus; "" where that is no question.
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
    status: Origin = "measured"
    window_s: float | None = None
    observed_share: float | None = None
    range_to: float | None = None
    limit: float | None = None
    note: str = ""
    gpu: str = ""


@dataclass(frozen=True, kw_only=True)
class SensorRead:
    """Read of one file, which gives the raw integers of one or more channels.

    Attributes:
        path: The file. For a perf counter the perf event instead, as "perf:NAME".
        parser: Name of the parser in the sampler's child (`record/sampling/child.py`).
        arguments: What the parser needs to know, JSON-ready.
        channels: The channels, in the order of the integers that the parser gives.
        least_period_s: Never read more often than this, whatever the sampler's period; reads
            whose cost or resolution makes finer ticks pointless say so here.
        slow: It takes milliseconds: the ticks must not wait for it.
        push_source: What gives the rows where no file does: "module:function", see `wattstep.record.push_sources`.
            Such a read has the parser "feed", and `path` is only what the record calls it.
        push_settings: What that function is called with, JSON-ready. Reads of a sensor with the
            same source and settings are given by one source.
        feed: Former name of `push_source`; warns.
        feed_settings: Former name of `push_settings`; warns.
    """

    path: str
    parser: str
    arguments: tuple[str | int, ...] = ()
    channels: tuple[Channel, ...]
    least_period_s: float = 0.0
    slow: bool = False
    push_source: str = ""
    push_settings: Mapping[str, Any] = field(default_factory=dict)
    feed: InitVar[str] = ""
    feed_settings: InitVar[Mapping[str, Any] | None] = None

    def __post_init__(self, feed: str, feed_settings: Mapping[str, Any] | None) -> None:
        # Sensors of other packages may still have the names of before.
        for name, former, value in (
            ("push_source", "feed", feed),
            ("push_settings", "feed_settings", feed_settings),
        ):
            if value:
                warnings.warn(
                    f"SensorRead({former}=...) is now {name}", DeprecationWarning, stacklevel=3
                )
                object.__setattr__(self, name, value)


@dataclass(frozen=True, kw_only=True)
class Present:
    """A sensor that was found, with its reads."""

    reads: tuple[SensorRead, ...]


@dataclass(frozen=True, kw_only=True)
class Absent:
    """A sensor that is not there, with the reason in words that a user understands."""

    reason: str


class Sensor(Protocol):
    """Finds one kind of sensor. One file each in `sensors/`.

    Attributes:
        name: As in the list of sensors.
        description: What it tells, in a few words.
        scope: "process" for what belongs to the training process, which is always the real one;
            "machine" for what belongs to the device, which may be replayed or emulated.
    """

    name: str
    description: str
    scope: Literal["machine", "process"] = "machine"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Looks for the sensor.

        Args:
            root: The root of the file system, "/" or a fixture tree; every path is taken below it.
            pid: The training process, for sensors that read its own files.
        """
        ...


def name_part(label: str) -> str:
    """A label as part of a channel's name: lower-case letters and digits, "_" between; may be ""."""
    return re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")


def by_name(names: Mapping[Path, str], numbered: str) -> dict[str, Path]:
    """Folders by name; where several have one, with the number after `numbered` in the folder's own name."""
    count = Counter(names.values())
    return {
        name if count[name] == 1 else f"{name}.{folder.name.removeprefix(numbered)}": folder
        for folder, name in names.items()
    }


class Rail(Protocol):
    """What tells one channel of power or energy from another; as of `Channel`."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def role(self) -> str: ...  # noqa: D102

    @property
    def domain(self) -> str: ...  # noqa: D102

    @property
    def unit(self) -> str: ...  # noqa: D102


R = TypeVar("R", bound=Rail)


def parts_once(channels: Iterable[R]) -> list[R]:
    """Parts of a machine that add up: a gauge is left out where a counter tells the energy of the same part.

    A graphics card has both, "gpu0.power" and "gpu0.energy".
    """
    parts = [channel for channel in channels if channel.role in ("power_part", "energy_part")]
    counted = {
        thing_of(channel.name, channel.unit) for channel in parts if channel.role == "energy_part"
    }
    return [c for c in parts if c.role == "energy_part" or thing_of(c.name, c.unit) not in counted]


def thing_of(name: str, unit: str) -> str:
    """What a channel is of: its name without words for power and energy, "gpu" for "gpu_power"; "" for "p" in W."""
    thing = _OF_QUANTITY.sub("", name.lower())
    return "" if len(thing) == 1 and thing in _LETTERS.get(unit, "") else thing
