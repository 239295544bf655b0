"""From what the sensors found to what the sampler's child reads on which tick."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wattstep.records.channel import Absent, Channel, Present, SensorRead
from wattstep.records.run_info import PlannedRead
from wattstep.records.settings import parse_interval

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


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Reads in the order of their numbers, and the period they are multiples of."""

    period_s: float
    reads: tuple[PlannedRead, ...]
    entries: tuple[Mapping[str, Any], ...]  # the same, as the child wants them
    absent: Mapping[str, str]


def make_plan(found: Mapping[str, Present | Absent], period_s: float) -> Plan:
    """Gives every read its number and the ticks it falls on.

    Raises:
        InvalidValueError: The period is below 1 ms.
    """
    parse_interval(period_s)
    pairs = [("sampler", SELF)]
    for sensor, result in found.items():
        if isinstance(result, Present):
            pairs.extend((sensor, read) for read in result.reads)
    reads, entries = [], []
    for number, (sensor, read) in enumerate(pairs):
        every = max(1, math.ceil(read.least_period_s / period_s - 1e-9))
        reads.append(_planned(number, sensor, read, every))
        entries.append(_entry(read, every))
    absent = {name: _without_number(r.reason) for name, r in found.items() if isinstance(r, Absent)}
    return Plan(period_s=period_s, reads=tuple(reads), entries=tuple(entries), absent=absent)


def _planned(number: int, sensor: str, read: SensorRead, every: int) -> PlannedRead:
    return PlannedRead(
        number=number,
        sensor=sensor,
        path=_without_number(read.path),
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
