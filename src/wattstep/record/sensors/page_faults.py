"""Page faults of the training process: touches of memory that was not there."""

from __future__ import annotations

from pathlib import Path

from wattstep.record.sensors import read_text
from wattstep.schema.channel import Absent, Channel, Present, Sensor, SensorRead

# proc(5): minflt and majflt, of all threads together.
FIELDS = {"minor": 10, "major": 12}


class PageFaults(Sensor):
    """Page faults of the training process: minor (the kernel gave a page), major (from the disk).

    Faults of child processes are not in them.
    """

    name = "page_faults"
    description = "page faults of the training process"
    scope = "process"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds the process, and whether its line is one that can be read."""
        path = root / "proc" / str(pid) / "stat"
        text = read_text(path)
        if isinstance(text, Absent):
            return Absent(reason=f"there is no process {pid}")
        if len(text.rpartition(")")[2].split()) < max(FIELDS.values()) - 2:
            return Absent(reason="/proc/PID/stat does not count page faults")
        read = SensorRead(
            path=str(path),
            parser="process_stat",
            arguments=tuple(FIELDS.values()),
            channels=tuple(fault_channel(kind) for kind in FIELDS),
            least_period_s=0.1,
        )
        return Present(reads=(read,))


def fault_channel(kind: str) -> Channel:
    """A count of faults of one kind."""
    return Channel(
        name=f"process.{kind}_faults",
        unit="events",
        kind="counter",
        domain="process",
        role=f"{kind}_faults",
        source="/proc/PID/stat",
        resolution=1,
    )
