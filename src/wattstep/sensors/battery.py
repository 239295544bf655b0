"""Batteries: the power of the whole machine, while it runs on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from wattstep.records.channel import Absent, Channel, Present, Sensor, SensorRead
from wattstep.sensors import present_or_absent, read_integer, read_text

FOLDER = "sys/class/power_supply"
SLOW_S = 1.0  # gauges in batteries refresh about once a second, and reading one may take a bus
MICROWATT_HOUR_J = 3.6e-3


class Batteries(Sensor):
    """Power drawn from batteries, or the current and voltage that make it, and what they hold.

    On mains these files tell what flows *into* the battery, so there is a sensor only while one
    discharges. Several batteries add up to the machine. Values keep the sign that the driver
    gives them: some count what is drawn as negative.
    """

    name = "battery"
    description = "power of the whole machine while it runs on its battery"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds the batteries of the machine, and whether it runs on them."""
        batteries = find_batteries(root)
        if not batteries:
            return Absent(reason=f"no battery in /{FOLDER}")
        states = {folder.name: state(folder) for folder in batteries}
        if "Discharging" not in states.values():
            said = ", ".join(f"{name} says {text}" for name, text in states.items())
            return Absent(
                reason=f"{said}: a battery shows what the machine draws only while it "
                "discharges; unplug the charger to measure"
            )
        return present_or_absent(
            (part for folder in batteries for part in battery_reads(root, folder)),
            otherwise="the battery tells neither power nor energy",
        )


def find_batteries(root: Path) -> list[Path]:
    """The machine's own batteries, not that of its mouse."""
    return [
        folder
        for folder in sorted((root / FOLDER).glob("*"))
        if read_text(folder / "type") == "Battery" and read_text(folder / "scope") != "Device"
    ]


def state(folder: Path) -> str:
    """What the battery is doing: "Discharging", "Charging", "Full", "Not charging"."""
    text = read_text(folder / "status")
    return "nothing" if isinstance(text, Absent) else text


def battery_reads(root: Path, folder: Path) -> Iterator[SensorRead | Absent]:
    """Power, else current and voltage; and the energy that is left."""
    if (folder / "power_now").exists():
        yield gauge(root, folder / "power_now", "power", "W", "power_total", 1e-6)
    else:
        yield gauge(root, folder / "current_now", "current", "A", "battery_current", 1e-6)
        yield gauge(root, folder / "voltage_now", "voltage", "V", "battery_voltage", 1e-6)
    yield gauge(root, folder / "energy_now", "energy", "J", "battery_energy", MICROWATT_HOUR_J)


def gauge(
    root: Path, path: Path, word: str, unit: str, role: str, scale: float
) -> SensorRead | Absent:
    """One file of a battery, or why it says nothing."""
    value = read_integer(path)
    if isinstance(value, Absent):
        return value
    battery = path.parent.name
    channel = Channel(
        name=f"battery.{battery.lower()}.{word}",
        unit=unit,
        kind="gauge",
        domain="battery",
        role=role,
        source=f"/{path.relative_to(root)}, while {state(path.parent).lower()}",
        scale=scale,
    )
    return SensorRead(path=str(path), parser="number", channels=(channel,), least_period_s=SLOW_S)
