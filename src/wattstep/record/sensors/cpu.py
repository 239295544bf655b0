"""Time that each core, and all of them together, spent busy, idle or robbed by a hypervisor."""

from __future__ import annotations

import os
import re
from pathlib import Path

from wattstep.record.sensors import read_text
from wattstep.schema.channel import Absent, Channel, Domain, Present, Sensor, SensorRead

STAT = "proc/stat"
TIMES = ("busy_time", "idle_time", "steal_time")  # the order in which the parsers give them


class CoreTimes(Sensor):
    """Busy, idle and steal time by core; ticks of 10 ms, so fine over seconds only."""

    name = "cpu"
    description = "busy, idle and steal time of each core, in ticks of the kernel"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds the cores that are online."""
        text = read_text(root / STAT)
        if isinstance(text, Absent):
            return text
        cores = parse_cores(text)
        if not cores:
            return Absent(reason=f"/{STAT} names no core")
        channels = (
            time_channel(f"cpu{core}.{time}", "cpu", time, core) for core in cores for time in TIMES
        )
        read = SensorRead(
            path=str(root / STAT),
            parser="cores",
            arguments=cores,
            channels=tuple(channels),
            least_period_s=0.2,
        )
        return Present(reads=(read,))


class SystemTimes(Sensor):
    """Busy, idle and steal time over all cores, from which the load of others is taken.

    The roles differ from those of the cores ("system_busy_time"), so that nobody adds both.
    """

    name = "system_cpu"
    description = "busy, idle and steal time of all cores together"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds the line of all cores."""
        text = read_text(root / STAT)
        if isinstance(text, Absent):
            return text
        if not text.startswith("cpu "):
            return Absent(reason=f"/{STAT} does not begin with the line of all cores")
        read = SensorRead(
            path=str(root / STAT),
            parser="stat_total",
            channels=tuple(
                time_channel(f"system.{time}", "system", f"system_{time}") for time in TIMES
            ),
            least_period_s=0.25,
        )
        return Present(reads=(read,))


def parse_cores(text: str) -> tuple[int, ...]:
    """The cores that have a line in the text of /proc/stat: those online."""
    return tuple(int(number) for number in re.findall(r"^cpu(\d+) ", text, re.MULTILINE))


def time_channel(name: str, domain: Domain, role: str, core: int | None = None) -> Channel:
    """A counter of the kernel's ticks, which are USER_HZ to the second."""
    tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
    return Channel(
        name=name,
        unit="s",
        kind="counter",
        domain=domain,
        role=role,
        source=f"/{STAT}",
        scale=tick_s,
        core=core,
        resolution=tick_s,
    )
