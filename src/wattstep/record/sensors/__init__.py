"""The list of sensors, looking for all of them at once, and reading one file while looking."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from wattstep.schema.channel import Absent, Present, Sensor, SensorRead, by_name, name_part
from wattstep.schema.registry import Registry

HWMON: Final = "sys/class/hwmon"
# Strings, so that a sensor which needs a vendor's library costs nothing until it is asked for.
SENSORS: Final = Registry(
    "wattstep.sensors",
    {
        "cpu": "wattstep.record.sensors.cpu:CoreTimes",
        "system_cpu": "wattstep.record.sensors.cpu:SystemTimes",
        "cpu_idle": "wattstep.record.sensors.cpu_idle:IdleResidency",
        "frequency": "wattstep.record.sensors.frequency:CoreFrequency",
        "process_cpu": "wattstep.record.sensors.process_cpu:TaskClock",
        "process_threads": "wattstep.record.sensors.process_threads:ThreadTimes",
        "children": "wattstep.record.sensors.children:Children",
        "process_memory": "wattstep.record.sensors.process_memory:ResidentMemory",
        "proportional_memory": "wattstep.record.sensors.process_memory:ProportionalMemory",
        "system_memory": "wattstep.record.sensors.system_memory:SystemMemory",
        "pressure": "wattstep.record.sensors.pressure:Pressure",
        "context_switches": "wattstep.record.sensors.context_switches:ContextSwitches",
        "page_faults": "wattstep.record.sensors.page_faults:PageFaults",
        "core_wait": "wattstep.record.sensors.core_wait:CoreWait",
        "thermal": "wattstep.record.sensors.thermal:ThermalZones",
        "hwmon": "wattstep.record.sensors.hwmon:HardwareMonitors",
        "ina3221": "wattstep.record.sensors.ina3221:PowerRails",
        "tegrastats": "wattstep.record.sensors.tegrastats:Tegrastats",
        "nvml": "wattstep.record.sensors.nvml:Nvml",
        "rapl": "wattstep.record.sensors.rapl:Rapl",
        "battery": "wattstep.record.sensors.battery:Batteries",
        "raspberry": "wattstep.record.sensors.raspberry:RaspberryPower",
        "raspberry_clock": "wattstep.record.sensors.raspberry:RaspberryClock",
        "tegra_gpu": "wattstep.record.sensors.tegra_gpu:TegraGpu",
        "tegra_memory": "wattstep.record.sensors.tegra_memory:MemoryController",
        "throttling": "wattstep.record.sensors.throttling:Throttling",
        "fan": "wattstep.record.sensors.fan:Fans",
    },
)

# How the file of a unit fails that is powered down, or busy: what it says comes back with it.
PASSING: Final = frozenset(
    {errno.EAGAIN, errno.EBUSY, errno.EIO, errno.ENODATA, errno.ENXIO, errno.ETIMEDOUT}
)


def probe_all(
    root: Path, pid: int, *, process_root: Path | None = None
) -> dict[str, Present | Absent]:
    """Looks for every sensor; trouble with one never hides the others.

    Args:
        root: The root of the file system, "/" or a fixture tree.
        pid: The training process.
        process_root: Root below which the training process is looked for, if that is another.

    Returns:
        For each name in `SENSORS` what was found, or why nothing was.
    """
    sensors = {}
    for name in SENSORS:
        sensor = load(name)
        own = process_root is not None and sensor.scope == "process"
        sensors[name] = probe(sensor, process_root if own and process_root else root, pid)
    return sensors


def probe(sensor: Sensor, root: Path, pid: int) -> Present | Absent:
    """Looks for one sensor; an error of the system becomes the reason why it is absent."""
    try:
        return sensor.probe(root, pid)
    except OSError as error:
        return Absent(reason=why(error))


def load(name: str) -> Sensor:
    """The sensor of this name, its module imported only now.

    Raises:
        KeyError: There is no sensor of this name.
    """
    made: Sensor = SENSORS.load(name)()
    return made


def why(error: OSError) -> str:
    """An error of the system in words, with the file that it is about."""
    path = error.filename
    if isinstance(error, FileNotFoundError) and path:
        return f"there is no {path}"
    problem = (error.strerror or str(error)).lower()
    return f"{path}: {problem}" if path else problem


def find_chips(root: Path) -> dict[str, Path]:
    """Chips of the hardware monitors by name: that of the driver, and the number where several have one name."""
    folders = (root / HWMON).glob("hwmon[0-9]*")
    ordered = sorted(folders, key=lambda folder: int(folder.name.removeprefix("hwmon")))
    return by_name({folder: chip_name(folder) for folder in ordered}, "hwmon")


def chip_name(folder: Path) -> str:
    """The driver's name for the chip; old drivers keep it with the device."""
    for path in (folder / "name", folder / "device/name"):
        text = read_text(path)
        if not isinstance(text, Absent):
            return name_part(text) or "hwmon"
    return "hwmon"


def read_text(path: Path) -> str | Absent:
    """The text of a file without the space around it, or why it cannot be read."""
    try:
        return read_bytes(path).decode(errors="replace").strip()
    except OSError as error:
        return Absent(reason=why(error))


def read_bytes(path: Path) -> bytes:
    """Content of a file; Python's own files give None instead of EAGAIN, as of a GPU that is off.

    Raises:
        OSError: It cannot be read; with its name.
    """
    fd = os.open(path, os.O_RDONLY)
    try:
        parts = []
        while part := os.read(fd, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(fd)


def is_asleep(path: Path) -> bool:
    """True if a file is there, but fails now in a way that passes: a read of it is worth planning."""
    try:
        read_bytes(path)
    except OSError as error:
        return error.errno in PASSING
    return False


def read_integer(path: Path) -> int | Absent:
    """The integer in a file, or why there is none."""
    text = read_text(path)
    if isinstance(text, Absent):
        return text
    try:
        return int(text)
    except ValueError:
        return Absent(reason=f"{path} holds {text[:20]!r}, which is no number")


def present_or_absent(
    results: Iterable[SensorRead | Absent], *, otherwise: str
) -> Present | Absent:
    """Joins the parts of a sensor into one answer, where each part is a read or a reason.

    Args:
        results: The parts.
        otherwise: The reason when there is not even one part.

    Returns:
        The reads that can be had; without any, the reasons of all parts.
    """
    parts = list(results)
    reads = tuple(part for part in parts if isinstance(part, SensorRead))
    if reads:
        return Present(reads=reads)
    reasons = dict.fromkeys(part.reason for part in parts if isinstance(part, Absent))
    return Absent(reason="; ".join(reasons) or otherwise)
