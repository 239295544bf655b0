"""Memory of the training process: resident at every tick, proportional once a second."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from wattstep.record.sensors import read_text
from wattstep.schema.channel import Absent, Channel, Present, Sensor, SensorRead


class ResidentMemory(Sensor):
    """Resident set size.

    The kernel gathers pages by core before it adds them up, so the value may lag by some dozens
    of pages for each core.
    """

    name = "process_memory"
    description = "resident memory of the training process"
    scope = "process"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds the process."""
        path = root / "proc" / str(pid) / "statm"
        if not path.exists():
            return Absent(reason=f"there is no process {pid}")
        page_bytes = os.sysconf("SC_PAGE_SIZE")
        channel = Channel(
            name="process.resident_memory",
            unit="B",
            kind="gauge",
            domain="process",
            role="resident_memory",
            source="/proc/PID/statm",
            scale=page_bytes,
            resolution=page_bytes,
        )
        read = SensorRead(
            path=str(path),
            parser="fields",
            arguments=(1,),
            channels=(channel,),
            least_period_s=0.1,
        )
        return Present(reads=(read,))


class ProportionalMemory(Sensor):
    """Proportional set size: a page that n processes share counts 1/n.

    Where the kernel lists children, theirs too, and what they add to the training's own resident
    memory: a page that they share with it, or with each other, counts once.
    """

    name = "proportional_memory"
    description = "memory of the training process and its children, shared pages counted in part"
    scope = "process"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Reads the file once: it may exist and yet be closed to this user."""
        process = root / "proc" / str(pid)
        path = process / "smaps_rollup"
        text = read_text(path)
        if isinstance(text, Absent):
            return Absent(reason=f"needs Linux 4.14 and the right to trace: {text.reason}")
        if "\nPss:" not in text:
            return Absent(reason="/proc/PID/smaps_rollup has no Pss line")
        # The kernel walks all pages for it: 0.1 to 11 ms a read, during which it holds up mmap.
        read = SensorRead(
            path=str(path),
            parser="keyed",
            arguments=("Pss:",),
            channels=(_channel("process.proportional_memory", "proportional_memory"),),
            least_period_s=1.0,
            slow=True,
        )
        if not (process / "task" / str(pid) / "children").exists():
            return Present(reads=(read,))
        channels = (*read.channels, *family_channels())
        return Present(
            reads=(
                replace(read, path=str(process), parser="family", arguments=(), channels=channels),
            )
        )


def family_channels() -> tuple[Channel, ...]:
    """Channels of the children's memory, in the order of the parser."""
    return (
        _channel("children.proportional_memory", "children_proportional_memory"),
        _channel("children.added_memory", "children_added_memory"),
        _channel("children.shared_memory", "children_shared_memory"),
    )


def _channel(name: str, role: str) -> Channel:
    return Channel(
        name=name,
        unit="B",
        kind="gauge",
        domain="process",
        role=role,
        source="/proc/PID/smaps_rollup",
        scale=1024,
        resolution=1024,
    )
