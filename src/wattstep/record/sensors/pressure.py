"""Pressure: how long tasks waited for a core, for memory or for the disk."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from wattstep.record.sensors import present_or_absent, read_text
from wattstep.schema.channel import Absent, Channel, Domain, Present, Sensor, SensorRead

FOLDER = "proc/pressure"
DOMAINS: Final[Mapping[str, Domain]] = {"cpu": "cpu", "memory": "memory", "io": "system"}


class Pressure(Sensor):
    """Pressure stall time: "some" task waited, or "full", all of them at once."""

    name = "pressure"
    description = "time in which tasks waited for a core, memory or the disk"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds the resources that this kernel accounts for."""
        if not (root / FOLDER).is_dir():
            return Absent(reason=f"no /{FOLDER}: needs Linux 4.20, and psi=1 on some systems")
        reads = [pressure_read(root, resource) for resource in DOMAINS]
        return present_or_absent(reads, otherwise=f"/{FOLDER} is empty")


def pressure_read(root: Path, resource: str) -> SensorRead | Absent:
    """Read of one resource; an old kernel has no "full" line for the cpu."""
    path = root / FOLDER / resource
    text = read_text(path)
    if isinstance(text, Absent):
        return text
    lines = parse_lines(text)
    if not lines:
        return Absent(reason=f"/{FOLDER}/{resource} holds no total")
    return SensorRead(
        path=str(path),
        parser="pressure",
        arguments=lines,
        channels=tuple(stall_channel(resource, line) for line in lines),
        least_period_s=0.5,
    )


def parse_lines(text: str) -> tuple[str, ...]:
    """Those of "some" and "full" that have a total."""
    return tuple(re.findall(r"^(some|full) .*total=\d", text, re.MULTILINE))


def stall_channel(resource: str, line: str) -> Channel:
    """Total stall time, in microseconds."""
    return Channel(
        name=f"pressure.{resource}.{line}",
        unit="s",
        kind="counter",
        domain=DOMAINS[resource],
        role="pressure",
        source=f"/{FOLDER}/{resource}",
        scale=1e-6,
        resolution=1e-6,
    )
