"""Use of resources by the descendants of the training process: data loaders belong to the training."""

from __future__ import annotations

from pathlib import Path

from wattstep.schema.channel import Absent, Channel, Present, Sensor, SensorRead

SOURCE = "/proc/PID and its descendants"


class Children(Sensor):
    """CPU time, number and resident bytes of all descendants, without the sampler's own.

    Resident bytes count a page that two of them share twice.
    """

    name = "children"
    description = "CPU time, number and memory of the training's child processes"
    scope = "process"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds the process, and whether the kernel lists its children."""
        process = root / "proc" / str(pid)
        if not process.is_dir():
            return Absent(reason=f"there is no process {pid}")
        if not (process / "task" / str(pid) / "children").exists():
            return Absent(reason="the kernel does not list children (CONFIG_PROC_CHILDREN)")
        read = SensorRead(
            path=str(process), parser="children", channels=child_channels(), least_period_s=0.5
        )
        return Present(reads=(read,))


def child_channels() -> tuple[Channel, ...]:
    """CPU time in ns, number, resident bytes: the order of the parser."""
    return (
        Channel(
            name="children.cpu_time",
            unit="s",
            kind="counter",
            domain="process",
            role="children_cpu_time",
            source=SOURCE,
            scale=1e-9,
        ),
        Channel(
            name="children.count",
            unit="processes",
            kind="gauge",
            domain="process",
            role="children_count",
            source=SOURCE,
        ),
        Channel(
            name="children.resident_memory",
            unit="B",
            kind="gauge",
            domain="process",
            role="children_resident_memory",
            source=SOURCE,
        ),
    )
