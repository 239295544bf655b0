"""The clock frequency of each core, as the kernel's frequency driver states it."""

from __future__ import annotations

from pathlib import Path

from wattstep.records.channel import Absent, Channel, Present, Sensor, SensorRead
from wattstep.sensors import present_or_absent, read_integer

CPUS = "sys/devices/system/cpu"


class CoreFrequency(Sensor):
    """Frequency by core. Cores that share a clock show the same value."""

    name = "frequency"
    description = "clock frequency of each core"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds the cores with a frequency driver."""
        return present_or_absent(
            (frequency_read(core, path) for core, path in find_cores(root).items()),
            otherwise=f"no /{CPUS}/cpu*/cpufreq: there is no frequency driver, virtual machines "
            "and containers usually hide it",
        )


def find_cores(root: Path) -> dict[int, Path]:
    """The frequency file of each core."""
    paths = (root / CPUS).glob("cpu[0-9]*/cpufreq/scaling_cur_freq")
    return dict(sorted((int(path.parents[1].name.removeprefix("cpu")), path) for path in paths))


def frequency_read(core: int, path: Path) -> SensorRead | Absent:
    """One core's frequency, in kHz; "<unknown>" and errors are reasons."""
    value = read_integer(path)
    if isinstance(value, Absent):
        return value
    channel = Channel(
        name=f"cpu{core}.frequency",
        unit="Hz",
        kind="gauge",
        domain="cpu",
        role="frequency",
        source=f"/{CPUS}/cpu{core}/cpufreq/scaling_cur_freq",
        scale=1e3,
        core=core,
        resolution=1e3,
    )
    return SensorRead(path=str(path), parser="number", channels=(channel,), least_period_s=0.1)
