"""The kernel's thermal zones: temperatures that throttling goes by."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from wattstep.records.channel import Absent, Channel, Present, Sensor, SensorRead
from wattstep.sensors import present_or_absent, read_integer, read_text

FOLDER = "sys/class/thermal"
# A zone without a reading says -256 or -274 °C. Nothing that computes is colder than -100 °C.
LEAST_MILLIDEGREES = -100_000


class ThermalZones(Sensor):
    """Temperature by zone, named after the zone's type."""

    name = "thermal"
    description = "temperatures of the kernel's thermal zones"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds the zones that give a temperature."""
        zones = find_zones(root)
        return present_or_absent(
            (zone_read(root, name, folder) for name, folder in zones.items()),
            otherwise=f"no /{FOLDER}/thermal_zone*: virtual machines and containers usually "
            "hide it",
        )


def find_zones(root: Path) -> dict[str, Path]:
    """The zones by name: their type, and their number where several have one type."""
    folders = sorted((root / FOLDER).glob("thermal_zone[0-9]*"), key=zone_number)
    types = {folder: zone_type(folder) for folder in folders}
    count = Counter(types.values())
    return {
        kind if count[kind] == 1 else f"{kind}.{zone_number(folder)}": folder
        for folder, kind in types.items()
    }


def zone_number(folder: Path) -> int:
    """The number at the end of the zone's name."""
    return int(folder.name.removeprefix("thermal_zone"))


def zone_type(folder: Path) -> str:
    """What the zone calls itself, as part of a channel's name."""
    text = read_text(folder / "type")
    if isinstance(text, Absent):
        return "zone"
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") or "zone"


def zone_read(root: Path, name: str, folder: Path) -> SensorRead | Absent:
    """One zone, or why it has nothing to say now."""
    path = folder / "temp"
    value = read_integer(path)
    if isinstance(value, Absent):
        return value
    if value < LEAST_MILLIDEGREES:
        return Absent(reason=f"{path} holds {value}, the kernel's sign for no reading")
    channel = Channel(
        name=f"thermal.{name}",
        unit="°C",
        kind="gauge",
        domain="thermal",
        role="temperature",
        source=f"/{path.relative_to(root)}",
        scale=1e-3,
    )
    return SensorRead(path=str(path), parser="number", channels=(channel,), least_period_s=1.0)
