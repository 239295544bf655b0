"""Time that each core spent in its idle states, in microseconds: the complement of its busy time."""

from __future__ import annotations

from pathlib import Path

from wattstep.record.sensors import present_or_absent, read_integer
from wattstep.schema.channel import Absent, Channel, Present, Sensor, SensorRead

CPUS = "sys/devices/system/cpu"


class IdleResidency(Sensor):
    """Idle residency by core, summed over all its states.

    The polling state (POLL) counts: a core that polls runs no task, /proc/stat calls it idle too,
    and only with it busy and idle time add up to wall time. That it draws the power of a busy
    core is a matter of power, not of utilization.

    The kernel adds to these counters when a core *leaves* a state. A core that sleeps through
    four ticks therefore stands still for four and then jumps by all of them: a difference larger
    than its window reaches back into the windows before it.
    """

    name = "cpu_idle"
    description = "time each core spent in its idle states"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds the cores whose idle states are counted."""
        return present_or_absent(
            (idle_read(core, paths) for core, paths in find_states(root).items()),
            otherwise=f"no /{CPUS}/cpu*/cpuidle: this kernel does not count idle states, as is "
            "usual in virtual machines",
        )


def find_states(root: Path) -> dict[int, list[Path]]:
    """For each core the time files of its idle states."""
    files: dict[int, list[Path]] = {}
    for path in sorted((root / CPUS).glob("cpu[0-9]*/cpuidle/state[0-9]*/time")):
        core = int(path.parents[2].name.removeprefix("cpu"))
        files.setdefault(core, []).append(path)
    return dict(sorted(files.items()))


def idle_read(core: int, paths: list[Path]) -> SensorRead | Absent:
    """The sum over the states of one core: a file of each, a microsecond or two a file."""
    for path in paths:
        time_us = read_integer(path)
        if isinstance(time_us, Absent):  # without one state the sum would be wrong
            return time_us
    channel = Channel(
        name=f"cpu{core}.idle_residency",
        unit="s",
        kind="counter",
        domain="cpu",
        role="idle_residency",
        source=f"/{CPUS}/cpu{core}/cpuidle/state*/time",
        scale=1e-6,
        core=core,
        resolution=1e-6,
    )
    first, *others = map(str, paths)
    return SensorRead(
        path=first,
        parser="sum",
        arguments=tuple(others),
        channels=(channel,),
        least_period_s=0.2,
    )
