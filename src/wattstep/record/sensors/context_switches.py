"""Context switches: on the whole machine, and on the training's main thread."""

from __future__ import annotations

from pathlib import Path

from wattstep.record.sensors import present_or_absent, read_text
from wattstep.schema.channel import Absent, Channel, Domain, Present, Sensor, SensorRead

STAT = "proc/stat"
SWITCHES = ("voluntary", "nonvoluntary")


class ContextSwitches(Sensor):
    """Context switches.

    The kernel's file of a process counts its main thread only, so that is what they are called.
    """

    name = "context_switches"
    description = "context switches of the machine and of the training's main thread"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds the counter of the machine and those of the process."""
        reads = [system_read(root), thread_read(root, pid)]
        return present_or_absent(reads, otherwise="nothing was looked at")


def system_read(root: Path) -> SensorRead | Absent:
    """Switches on all cores since the start of the machine."""
    text = read_text(root / STAT)
    if isinstance(text, Absent):
        return text
    if "\nctxt " not in text:
        return Absent(reason=f"/{STAT} has no ctxt line")
    channel = switch_channel("system.context_switches", "system", "context_switches", f"/{STAT}")
    return SensorRead(
        path=str(root / STAT),
        parser="keyed",
        arguments=("ctxt",),
        channels=(channel,),
        least_period_s=0.5,
    )


def thread_read(root: Path, pid: int) -> SensorRead | Absent:
    """Switches of the main thread: it waited (voluntary), or was made to yield (nonvoluntary)."""
    path = root / "proc" / str(pid) / "status"
    text = read_text(path)
    if isinstance(text, Absent):
        return Absent(reason=f"there is no process {pid}")
    if any(f"\n{kind}_ctxt_switches:" not in text for kind in SWITCHES):
        return Absent(reason="/proc/PID/status does not count switches")
    return SensorRead(
        path=str(path),
        parser="status",
        arguments=tuple(f"{kind}_ctxt_switches:" for kind in SWITCHES),
        channels=tuple(
            switch_channel(
                f"process.main_thread.{kind}_switches",
                "process",
                f"{kind}_switches",
                "/proc/PID/status",
            )
            for kind in SWITCHES
        ),
        least_period_s=0.5,
    )


def switch_channel(name: str, domain: Domain, role: str, source: str) -> Channel:
    """A count of events."""
    return Channel(
        name=name,
        unit="events",
        kind="counter",
        domain=domain,
        role=role,
        source=source,
        resolution=1,
    )
