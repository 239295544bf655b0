"""Fans: how fast they turn, and how hard they are driven."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from wattstep.record.sensors import HWMON, find_chips, is_asleep, present_or_absent, read_integer
from wattstep.schema.channel import Absent, Channel, Present, Sensor, SensorRead

# The driver of older Jetson releases; newer ones are hardware monitors.
JETSON: Final = "sys/devices/pwm-fan"
PERIOD_S: Final = 1.0  # a fan takes seconds to change its speed
SPEED: Final = ("speed", "Hz", "fan_speed", 1 / 60)  # files say turns a minute
DUTY: Final = ("duty", "ratio", "fan_duty", 1 / 255)


class Fans(Sensor):
    """Turns a second and duty of the drive of each fan."""

    name = "fan"
    description = "speed and drive of the fans"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds the fans of the hardware monitors, and that of an older Jetson."""
        chips = find_chips(root).items()
        reads = [part for chip, folder in chips for part in chip_reads(root, chip, folder)]
        return present_or_absent(
            [*reads, *jetson_reads(root)],
            otherwise=f"no fan in /{HWMON} and no /{JETSON}: a machine without a fan, or one that "
            "hides it, as virtual machines do",
        )


def chip_reads(root: Path, chip: str, folder: Path) -> Iterator[SensorRead | Absent]:
    """fan1_input, pwm1 and the like of one chip; "rpm" is what Jetson's counter of turns says."""
    for path in sorted(folder.glob("fan[0-9]*_input")):
        yield fan_read(root, path, f"{chip}.{path.name.partition('_')[0]}", SPEED)
    if (folder / "rpm").is_file() and not (folder / "fan1_input").exists():
        yield fan_read(root, folder / "rpm", f"{chip}.fan1", SPEED)
    for path in sorted(folder.glob("pwm[0-9]*")):
        if re.fullmatch(r"pwm\d+", path.name):
            yield fan_read(root, path, f"{chip}.{path.name}", DUTY)


def jetson_reads(root: Path) -> Iterator[SensorRead | Absent]:
    """Speed and drive of the fan of an older Jetson: as they are, else as they should be."""
    folder = root / JETSON
    for names, quantity in ((("rpm_measured", "rpm"), SPEED), (("cur_pwm", "target_pwm"), DUTY)):
        path = next((folder / name for name in names if (folder / name).is_file()), None)
        if path is not None:
            yield fan_read(root, path, "jetson", quantity)


def fan_read(
    root: Path, path: Path, name: str, quantity: tuple[str, str, str, float]
) -> SensorRead | Absent:
    """Read of one file of a fan, or the reason why there is none."""
    value = read_integer(path)
    if isinstance(value, Absent) and not is_asleep(path):
        return value
    word, unit, role, scale = quantity
    channel = Channel(
        name=f"fan.{name}.{word}",
        unit=unit,
        kind="gauge",
        domain="thermal",
        role=role,
        source=f"/{path.relative_to(root)}",
        scale=scale,
        resolution=scale,
    )
    return SensorRead(path=str(path), parser="number", channels=(channel,), least_period_s=PERIOD_S)
