"""Batteries: the power of the whole machine, while it runs on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from wattstep.record.sensors import present_or_absent, read_integer, read_text
from wattstep.schema.channel import Absent, Channel, Present, Sensor, SensorRead

FOLDER = "sys/class/power_supply"
SLOW_S = 1.0  # gauges in batteries refresh about once a second, and reading one may take a bus
MICRO = 1e-6
MICRO_HOUR = 3.6e-3  # µWh in J, µAh in C


class Batteries(Sensor):
    """Power drawn from batteries, or the current and voltage that make it, and what they hold.

    On mains these files tell what flows *into* the battery, so there is a sensor only while one
    discharges, and a gap when the charger is plugged in meanwhile. Several batteries add up to the
    machine; one that rests, or is charged by another, adds 0. What is drawn is positive here; some
    drivers count it as negative, which shows in the sign that a battery has while it says that it
    discharges.
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
            texts = ", ".join(f"{name} says {text}" for name, text in states.items())
            return Absent(
                reason=f"{texts}: a battery shows what the machine draws only while it "
                "discharges; unplug the charger to measure"
            )
        drawn = drawn_reads(root, batteries) if any(map(drawn_file, batteries)) else []
        held = [part for folder in batteries for part in held_reads(root, folder)]
        return present_or_absent(
            [*drawn, *held], otherwise="the battery tells neither power nor energy"
        )


def find_batteries(root: Path) -> list[Path]:
    """The machine's own batteries, not that of its mouse."""
    return [
        folder
        for folder in sorted((root / FOLDER).glob("*"))
        if read_text(folder / "type") == "Battery" and read_text(folder / "scope") != "Device"
    ]


def state(folder: Path) -> str:
    """State of the battery: "Discharging", "Charging", "Full", "Not charging"; "nothing" where it tells none."""
    text = read_text(folder / "status")
    return "nothing" if isinstance(text, Absent) else text


def drawn_file(folder: Path) -> Path | None:
    """The file that tells what the battery gives: power, else current."""
    files = (folder / "power_now", folder / "current_now")
    return next((file for file in files if file.exists()), None)


def drawn_reads(root: Path, batteries: Sequence[Path]) -> list[SensorRead]:
    """Reads of what each battery gives; one that cannot be read is a gap, as the sum lacks it."""
    giving = [folder for folder in batteries if state(folder) == "Discharging"]
    # One driver has all of them, as a rule: those that rest now do not show its sign.
    turned = any(is_negative(drawn_file(folder)) for folder in giving)
    return [
        drawn_read(root, folder, [other for other in batteries if other != folder], turned=turned)
        for folder in batteries
    ]


def is_negative(path: Path | None) -> bool:
    """True if the file holds a number below 0."""
    value = read_integer(path) if path else 0
    return isinstance(value, int) and value < 0


def drawn_read(root: Path, folder: Path, others: Sequence[Path], *, turned: bool) -> SensorRead:
    """Power or current of one battery, read together with the status of all."""
    path = drawn_file(folder) or folder / "power_now"
    whole = path.name == "power_now"
    channel = Channel(
        name=f"battery.{folder.name.lower()}.{'power' if whole else 'current'}",
        unit="W" if whole else "A",
        kind="gauge",
        domain="battery",
        role="power_total" if whole else "battery_current",
        source=f"/{path.relative_to(root)}, while discharging",
        scale=-MICRO if turned else MICRO,
        note="its driver counts what is drawn as negative" if turned else "",
    )
    return SensorRead(
        path=str(path),
        parser="drawn",
        arguments=tuple(str(each / "status") for each in (folder, *others)),
        channels=(channel,),
        least_period_s=SLOW_S,
    )


def held_reads(root: Path, folder: Path) -> Iterator[SensorRead | Absent]:
    """The voltage that a current needs; and what is left: energy, else charge."""
    if not (folder / "power_now").exists():
        yield gauge(root, folder / "voltage_now", "voltage", "V", "battery_voltage", MICRO)
    if (folder / "energy_now").exists() or not (folder / "charge_now").exists():
        yield gauge(root, folder / "energy_now", "energy", "J", "battery_energy", MICRO_HOUR)
    else:
        yield gauge(root, folder / "charge_now", "charge", "C", "battery_charge", MICRO_HOUR)


def gauge(
    root: Path, path: Path, word: str, unit: str, role: str, scale: float
) -> SensorRead | Absent:
    """Read of one file of a battery, or the reason why there is none."""
    value = read_integer(path)
    if isinstance(value, Absent):
        return value
    channel = Channel(
        name=f"battery.{path.parent.name.lower()}.{word}",
        unit=unit,
        kind="gauge",
        domain="battery",
        role=role,
        source=f"/{path.relative_to(root)}",
        scale=scale,
        limit=when_full(path, scale),
    )
    return SensorRead(path=str(path), parser="number", channels=(channel,), least_period_s=SLOW_S)


def when_full(path: Path, scale: float) -> float | None:
    """The most that `energy_now` or `charge_now` can be, where the battery tells."""
    full = read_integer(path.with_name(path.name.replace("_now", "_full")))
    return (
        full * scale if isinstance(full, int) and full > 0 and "voltage" not in path.name else None
    )
