"""Memory of the whole machine: what is left for new work, and what has gone to swap."""

from __future__ import annotations

import re
from pathlib import Path

from wattstep.record.sensors import read_text
from wattstep.schema.channel import Absent, Channel, Present, Sensor, SensorRead

MEMINFO = "proc/meminfo"
ROLES = {
    "MemTotal:": "total_memory",
    "MemAvailable:": "available_memory",
    "SwapTotal:": "swap_total",
    "SwapFree:": "swap_free",
}


class SystemMemory(Sensor):
    """Total and available memory, total and free swap."""

    name = "system_memory"
    description = "available memory and free swap of the machine"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds the lines that this kernel has."""
        text = read_text(root / MEMINFO)
        if isinstance(text, Absent):
            return text
        keys = tuple(key for key in ROLES if key in parse_keys(text))
        if "MemAvailable:" not in keys:
            return Absent(reason=f"/{MEMINFO} has no MemAvailable: that needs Linux 3.14")
        read = SensorRead(
            path=str(root / MEMINFO),
            parser="keyed",
            arguments=keys,
            channels=tuple(memory_channel(ROLES[key]) for key in keys),
            least_period_s=0.5,
        )
        return Present(reads=(read,))


def parse_keys(text: str) -> frozenset[str]:
    """The first words of the lines, with their colons."""
    return frozenset(re.findall(r"^\S+:", text, re.MULTILINE))


def memory_channel(role: str) -> Channel:
    """A line of /proc/meminfo, whose "kB" are KiB."""
    return Channel(
        name=f"system.{role}",
        unit="B",
        kind="gauge",
        domain="memory",
        role=role,
        source=f"/{MEMINFO}",
        scale=1024,
        resolution=1024,
    )
