"""The clock frequency of each core, as the kernel's frequency driver states it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from wattstep.boards import MODEL
from wattstep.record.sensors import present_or_absent, read_integer, read_text
from wattstep.schema.channel import Absent, Channel, Present, Sensor, SensorRead

CPUS: Final = "sys/devices/system/cpu"
REQUESTED: Final = "frequency_requested"  # the role of a clock that the firmware may not give
REQUEST: Final = (
    "what the kernel asked the firmware for, not what runs: compare with vcgencmd measure_clock arm"
)


class CoreFrequency(Sensor):
    """Frequency by core. Cores that share a clock show the same value.

    On a Raspberry Pi it is the clock that was asked for (raspberrypi/linux#1337), and has a role of
    its own: the true one comes from the firmware.

    A core that goes offline leaves a gap, and is read again when it comes back.
    """

    name = "frequency"
    description = "clock frequency of each core"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds the cores with a frequency driver."""
        requested = is_raspberry(root)
        return present_or_absent(
            (
                frequency_read(core, path, requested=requested)
                for core, path in find_cores(root).items()
            ),
            otherwise=f"no /{CPUS}/cpu*/cpufreq: there is no frequency driver, virtual machines "
            "and containers usually hide it",
        )


def find_cores(root: Path) -> dict[int, Path]:
    """The frequency file of each core."""
    paths = (root / CPUS).glob("cpu[0-9]*/cpufreq/scaling_cur_freq")
    return dict(sorted((int(path.parents[1].name.removeprefix("cpu")), path) for path in paths))


def is_raspberry(root: Path) -> bool:
    """True if the firmware decides on the clock, and the kernel only asks."""
    model = read_text(root / MODEL)
    return not isinstance(model, Absent) and "Raspberry Pi" in model


def frequency_read(core: int, path: Path, *, requested: bool) -> SensorRead | Absent:
    """Read of one core's frequency, true or requested, in kHz; "<unknown>" and errors are reasons."""
    value = read_integer(path)
    if isinstance(value, Absent):
        return value
    highest = read_integer(path.with_name("cpuinfo_max_freq"))
    channel = Channel(
        name=f"cpu{core}.frequency",
        unit="Hz",
        kind="gauge",
        domain="cpu",
        role=REQUESTED if requested else "frequency",
        source=f"/{CPUS}/cpu{core}/cpufreq/scaling_cur_freq",
        scale=1e3,
        core=core,
        resolution=1e3,
        limit=None if isinstance(highest, Absent) else highest * 1e3,
        note=REQUEST if requested else "",
    )
    return SensorRead(path=str(path), parser="number", channels=(channel,), least_period_s=0.1)
