"""The list of sensors, looking for all of them at once, and reading one file while looking."""

from __future__ import annotations

import errno
import importlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from wattstep.records.channel import Absent, Present, Sensor, SensorRead

# Strings, so that a sensor which needs a vendor's library costs nothing until it is asked for.
SENSORS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cpu": "wattstep.sensors.cpu:CoreTimes",
        "system_cpu": "wattstep.sensors.cpu:SystemTimes",
        "cpu_idle": "wattstep.sensors.cpu_idle:IdleResidency",
        "frequency": "wattstep.sensors.frequency:CoreFrequency",
        "process_cpu": "wattstep.sensors.process_cpu:TaskClock",
        "process_threads": "wattstep.sensors.process_threads:ThreadTimes",
        "children": "wattstep.sensors.children:Children",
        "process_memory": "wattstep.sensors.process_memory:ResidentMemory",
        "proportional_memory": "wattstep.sensors.process_memory:ProportionalMemory",
        "system_memory": "wattstep.sensors.system_memory:SystemMemory",
        "pressure": "wattstep.sensors.pressure:Pressure",
        "context_switches": "wattstep.sensors.context_switches:ContextSwitches",
        "page_faults": "wattstep.sensors.page_faults:PageFaults",
        "core_wait": "wattstep.sensors.core_wait:CoreWait",
        "thermal": "wattstep.sensors.thermal:ThermalZones",
        "hwmon": "wattstep.sensors.hwmon:HardwareMonitors",
        "ina3221": "wattstep.sensors.ina3221:PowerRails",
        "tegrastats": "wattstep.sensors.tegrastats:Tegrastats",
        "nvml": "wattstep.sensors.nvml:Nvml",
        "rapl": "wattstep.sensors.rapl:Rapl",
        "battery": "wattstep.sensors.battery:Batteries",
        "raspberry": "wattstep.sensors.raspberry:RaspberryPower",
        "raspberry_clock": "wattstep.sensors.raspberry:RaspberryClock",
        "tegra_gpu": "wattstep.sensors.tegra_gpu:TegraGpu",
        "tegra_memory": "wattstep.sensors.tegra_memory:MemoryController",
        "throttling": "wattstep.sensors.throttling:Throttling",
        "fan": "wattstep.sensors.fan:Fans",
    }
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
        process_root: Where the training process is looked for, if that is another root.

    Returns:
        For each name in `SENSORS` what was found, or why nothing was.
    """
    found = {}
    for name in SENSORS:
        sensor = load(name)
        own = process_root is not None and sensor.scope == "process"
        found[name] = probe(sensor, process_root if own and process_root else root, pid)
    return found


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
    module, _, sensor = SENSORS[name].partition(":")
    made: Sensor = getattr(importlib.import_module(module), sensor)()
    return made


def why(error: OSError) -> str:
    """An error of the system in words, with the file that it is about."""
    path = error.filename
    if isinstance(error, FileNotFoundError) and path:
        return f"there is no {path}"
    problem = (error.strerror or str(error)).lower()
    return f"{path}: {problem}" if path else problem


def read_text(path: Path) -> str | Absent:
    """The text of a file without the space around it, or why it cannot be read."""
    try:
        return read_bytes(path).decode(errors="replace").strip()
    except OSError as error:
        return Absent(reason=why(error))


def read_bytes(path: Path) -> bytes:
    """What a file holds; Python's own files give None instead of EAGAIN, as of a GPU that is off.

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
    """Whether a file is there, but fails now in a way that passes: a read of it is worth planning."""
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


def present_or_absent(found: Iterable[SensorRead | Absent], *, otherwise: str) -> Present | Absent:
    """One answer for a sensor of many parts, where each part is a read or a reason.

    Args:
        found: The parts.
        otherwise: The reason when there is not even one part.

    Returns:
        The reads that can be had; without any, the reasons of all parts.
    """
    parts = list(found)
    reads = tuple(part for part in parts if isinstance(part, SensorRead))
    if reads:
        return Present(reads=reads)
    reasons = dict.fromkeys(part.reason for part in parts if isinstance(part, Absent))
    return Absent(reason="; ".join(reasons) or otherwise)
