"""The kernel's thermal zones: temperatures that throttling goes by."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from wattstep import boards
from wattstep.boards.table import Board, Zone
from wattstep.record.sensors import is_asleep, present_or_absent, read_integer, read_text
from wattstep.schema.channel import (
    Absent,
    Channel,
    Present,
    Sensor,
    SensorRead,
    by_name,
    name_part,
)

FOLDER: Final = "sys/class/thermal"
# A zone without a reading says -256 or -274 °C. Nothing that computes is colder than -100 °C.
LEAST_MILLIDEGREES: Final = -100_000
# What a Jetson's zone says while its unit (the GPU) is powered down: it comes back.
POWERED_DOWN: Final = -256_000
# Trip points outside say nothing: a TX2's GPU trips at -40 °C.
LEAST_TRIP, MOST_TRIP = 0, 200_000
THROTTLING_TRIPS: Final = frozenset({"passive", "hot"})
# Where no board's table tells: made of other zones, or constant, on every Jetson.
USES: Final = {
    "thermal-fan-est": "aggregate",
    "tj-therm": "aggregate",
    "tj-thermal": "aggregate",
    "PMIC-Die": "ignore",
}
AMBIENT: Final = re.compile(r"ambient|intake|inlet|room", re.IGNORECASE)


class ThermalZones(Sensor):
    """Temperature by zone, named after the zone's type.

    The limit is where throttling begins: of the board's table, else the zone's lowest passive or
    hot trip point. A zone whose unit is powered down is read all the same, and has gaps.
    """

    name = "thermal"
    description = "temperatures of the kernel's thermal zones"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds the zones that give a temperature."""
        zones, board = find_zones(root), boards.identify(root)
        return present_or_absent(
            (zone_read(root, name, folder, board) for name, folder in zones.items()),
            otherwise=f"no /{FOLDER}/thermal_zone*: virtual machines and containers usually "
            "hide it",
        )


def find_zones(root: Path) -> dict[str, Path]:
    """The zones by name: their type, and their number where several have one type."""
    folders = sorted((root / FOLDER).glob("thermal_zone[0-9]*"), key=zone_number)
    return by_name({folder: zone_type(folder) for folder in folders}, "thermal_zone")


def zone_number(folder: Path) -> int:
    """The number at the end of the zone's name."""
    return int(folder.name.removeprefix("thermal_zone"))


def zone_type(folder: Path) -> str:
    """Type of the zone, as part of a channel's name."""
    return name_part(zone_label(folder)) or "zone"


def zone_label(folder: Path) -> str:
    """Type of the zone as the kernel writes it."""
    text = read_text(folder / "type")
    return "zone" if isinstance(text, Absent) else text


def zone_read(root: Path, name: str, folder: Path, board: Board | None) -> SensorRead | Absent:
    """Read of a zone, or the reason why it says nothing."""
    path, label = folder / "temp", zone_label(folder)
    known = None if board is None else board.zone(label)
    use = known.use if known is not None else USES.get(label, "temperature")
    if use == "ignore":
        return Absent(reason=f"{path}: {label} is no temperature on this board, but a constant")
    if problem := silent(path):
        return problem
    channel = Channel(
        name=f"thermal.{name}",
        unit="°C",
        kind="gauge",
        domain="thermal",
        role=zone_role(label, use),
        source=f"/{path.relative_to(root)}",
        scale=1e-3,
        limit=throttle_limit(folder, known),
        note=zone_note(known),
    )
    return SensorRead(
        path=str(path),
        parser="at_least",
        arguments=(LEAST_MILLIDEGREES,),
        channels=(channel,),
        least_period_s=1.0,
    )


def silent(path: Path) -> Absent | None:
    """Reason why a zone will never say anything; None where it does, or will when its unit has power."""
    value = read_integer(path)
    if isinstance(value, Absent):
        return None if is_asleep(path) else value
    if value < LEAST_MILLIDEGREES and value != POWERED_DOWN:
        return Absent(reason=f"{path} holds {value}, the kernel's sign for no reading")
    return None


def zone_role(label: str, use: str) -> str:
    """Role of the zone's channel."""
    if use == "aggregate":
        return "temperature_aggregate"
    return "ambient_temperature" if AMBIENT.search(label) else "temperature"


def throttle_limit(folder: Path, known: Zone | None) -> float | None:
    """Temperature at which throttling begins in °C; None: not known."""
    if known is not None and known.throttle_c is not None:
        return known.throttle_c
    trips = [
        read_integer(path.with_name(path.name.replace("_type", "_temp")))
        for path in folder.glob("trip_point_[0-9]*_type")
        if read_text(path) in THROTTLING_TRIPS
    ]
    usable = [t for t in trips if not isinstance(t, Absent) and LEAST_TRIP < t < MOST_TRIP]
    return min(usable) * 1e-3 if usable else None


def zone_note(known: Zone | None) -> str:
    """Note on the zone from the board's table."""
    if known is None or known.critical_c is None:
        return ""
    return f"the board shuts down at {known.critical_c:g} °C"
