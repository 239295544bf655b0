"""Plan of a recording: what the sampler's child reads on which tick, and what push sources emit."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wattstep.schema.channel import Absent, Channel, Present, SensorRead
from wattstep.schema.run_info import PlannedRead
from wattstep.schema.settings import parse_interval

DITHER = 0.05  # of the period, either way: an exact step is then seen at all its phases
SELF = SensorRead(
    path="self",
    parser="self",
    channels=(
        Channel(
            name="sampler.cpu_time",
            unit="s",
            kind="counter",
            domain="sampler",
            role="sampler_cpu_time",
            source="own process clock",
            scale=1e-9,
        ),
    ),
    least_period_s=0.5,
)
OWN = "companion"  # the sensor of its own clock
COLLECTOR = SensorRead(
    path="companion",
    parser="feed",
    channels=(
        Channel(
            name="companion.cpu_time",
            unit="s",
            kind="counter",
            domain="sampler",
            role="companion_cpu_time",
            source="own process clock, and that of the commands it runs",
            scale=1e-9,
        ),
    ),
    least_period_s=0.5,
    push_source="wattstep.record.sampling.collector_child:OwnTime",
)


@dataclass(frozen=True, kw_only=True)
class PlannedSource:
    """Push source of the rows of some reads, run by the collector.

    Attributes:
        sensor: Sensor of the reads.
        function: "module:function" that makes the push source.
        settings: Arguments besides `period_s`.
        period_s: The time between rows that is wanted.
        numbers: Of its reads, in the order of their positions within the push source.
        widths: Number of channels of each of them.
    """

    sensor: str
    function: str
    settings: Mapping[str, Any]
    period_s: float
    numbers: tuple[int, ...]
    widths: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Reads in the order of their numbers, and the period they are multiples of.

    The sampler's own come first, so that their numbers are their positions among `entries`.
    """

    period_s: float
    reads: tuple[PlannedRead, ...]
    entries: tuple[Mapping[str, Any], ...]  # those without a push source, as the child wants them
    absent: Mapping[str, str]
    sources: tuple[PlannedSource, ...] = ()
    dither: float = DITHER

    @property
    def sampled(self) -> tuple[PlannedRead, ...]:
        """The reads of the sampler's child."""
        return self.reads[: len(self.entries)]


def make_plan(
    sensors: Mapping[str, Present | Absent], period_s: float, *, hidden: str = ""
) -> Plan:
    """Gives every read its number and the ticks it falls on.

    Args:
        sensors: Result of each sensor's probe.
        period_s: The sampler's period.
        hidden: Folder that stands for the root of a board: the record leaves it out.

    Raises:
        InvalidValueError: The period is below 1 ms.
    """
    parse_interval(period_s)
    pairs = [("sampler", SELF)]
    for sensor, result in sensors.items():
        if isinstance(result, Present):
            pairs.extend((sensor, read) for read in result.reads)
    pushed = [(sensor, read) for sensor, read in pairs if read.push_source]
    if pushed:
        pushed.append((OWN, COLLECTOR))
    pairs = [(sensor, read) for sensor, read in pairs if not read.push_source]
    every = [_every(read, period_s) for _, read in [*pairs, *pushed]]
    absent = {
        name: _without_number(r.reason) for name, r in sensors.items() if isinstance(r, Absent)
    }
    return Plan(
        period_s=period_s,
        reads=tuple(
            _planned(n, *pair, every[n], hidden) for n, pair in enumerate([*pairs, *pushed])
        ),
        entries=tuple(_entry(read, every[n]) for n, (_, read) in enumerate(pairs)),
        absent=absent,
        sources=_sources(pushed, len(pairs), period_s),
    )


def _every(read: SensorRead, period_s: float) -> int:
    return max(1, math.ceil(read.least_period_s / period_s - 1e-9))


def _sources(
    pushed: Sequence[tuple[str, SensorRead]], first: int, period_s: float
) -> tuple[PlannedSource, ...]:
    """Reads of a sensor with the same function and settings belong to one push source."""
    groups: dict[tuple[str, str, str], list[tuple[int, SensorRead]]] = {}
    for number, (sensor, read) in enumerate(pushed, first):
        key = sensor, read.push_source, json.dumps(dict(read.push_settings), sort_keys=True)
        groups.setdefault(key, []).append((number, read))
    return tuple(
        PlannedSource(
            sensor=sensor,
            function=function,
            settings=json.loads(settings),
            period_s=max(period_s, min(read.least_period_s for _, read in reads)),
            numbers=tuple(number for number, _ in reads),
            widths=tuple(len(read.channels) for _, read in reads),
        )
        for (sensor, function, settings), reads in groups.items()
    )


def _planned(number: int, sensor: str, read: SensorRead, every: int, hidden: str) -> PlannedRead:
    return PlannedRead(
        number=number,
        sensor=sensor,
        path=_without_number(read.path.removeprefix(hidden)),
        parser=read.parser,
        every=every,
        channels=read.channels,
    )


def _without_number(text: str) -> str:
    """The record says that it was the training's own process, not which number it had."""
    return re.sub(r"/proc/\d+", "/proc/self", text)


def _entry(read: SensorRead, every: int) -> dict[str, Any]:
    return {
        "path": read.path,
        "parser": read.parser,
        "arguments": list(read.arguments),
        "every": every,
        "width": len(read.channels),
        "excluded": [],
        "slow": int(read.slow),
    }
