"""The kernel's hardware monitors: temperatures, power and energy of chips on the board."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wattstep.boards import identify
from wattstep.boards.rails import only_rail_on
from wattstep.record.sensors import (
    HWMON,
    chip_name,
    find_chips,
    present_or_absent,
    read_integer,
    read_text,
)
from wattstep.schema.channel import (
    Absent,
    Channel,
    Domain,
    Kind,
    Present,
    Sensor,
    SensorRead,
    name_part,
)

ZONES: Final = "sys/class/thermal"
# An input with nothing connected may say -128 or -273 °C. Nothing that computes is so cold.
LEAST_MILLIDEGREES = -100_000

# What the power and energy inputs of a chip speak of, where the driver's name tells.
DOMAINS: Final[Mapping[str, Domain]] = {
    "amd_energy": "soc",
    "amdgpu": "gpu",
    "fam15h_power": "soc",
    "i915": "gpu",
    "nouveau": "gpu",
    "radeon": "gpu",
    "xe": "gpu",
}
AMBIENT: Final = re.compile(r"ambient|intake|inlet|room")
# By driver, the threshold at which the chip slows itself down: a core's highest junction
# temperature (the kernel's hwmon/coretemp). Thresholds of other drivers mean an alarm, or nothing.
THROTTLING: Final[Mapping[str, str]] = {"coretemp": "crit"}
# Chip and label of inputs that measure the whole machine; any other is a part of it.
TOTALS: Final = frozenset({("power_meter", "power1"), ("corsairpsu", "power_total")})


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """Kind of input: its files, and the properties of its channels.

    Attributes:
        word: Last part of the channel's name.
        files: Endings of the file's name after prefix and number, the first that exists counts.
    """

    prefix: str
    files: tuple[str, ...]
    word: str
    unit: str
    kind: Kind
    scale: float
    least_period_s: float


# Voltages and currents are left out: which pairs make a power is known only by board.
QUANTITIES: Final = (
    Quantity(
        prefix="temp",
        files=("input",),
        word="temperature",
        unit="°C",
        kind="gauge",
        scale=1e-3,
        least_period_s=1.0,
    ),
    Quantity(
        prefix="power",
        files=("input", "average"),
        word="power",
        unit="W",
        kind="gauge",
        scale=1e-6,
        least_period_s=0.02,
    ),
    Quantity(
        prefix="energy",
        files=("input",),
        word="energy",
        unit="J",
        kind="counter",
        scale=1e-6,
        least_period_s=0.02,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Input:
    """Input of a chip, e.g. `own` "temp2" with the label "core_0"; without a label both are equal."""

    quantity: Quantity
    own: str
    label: str
    path: Path


class HardwareMonitors(Sensor):
    """Temperatures, powers and energies by chip and label; an input that fails is left out alone."""

    name = "hwmon"
    description = "temperatures, power and energy from the chips on the board"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds the inputs that give a number."""
        if not (root / HWMON).is_dir():
            return Absent(reason=f"no /{HWMON}: virtual machines and containers usually hide it")
        zones = find_zones(root)
        return present_or_absent(
            (
                part
                for chip, folder in find_chips(root).items()
                for part in chip_reads(root, chip, folder, zones)
            ),
            otherwise=f"/{HWMON} has no temperature, power or energy",
        )


def find_zones(root: Path) -> frozenset[str]:
    """The kernel's thermal zones, by their types."""
    texts = map(read_text, (root / ZONES).glob("thermal_zone[0-9]*/type"))
    return frozenset(name_part(text) for text in texts if not isinstance(text, Absent))


def chip_reads(
    root: Path, chip: str, folder: Path, zones: frozenset[str]
) -> Iterator[SensorRead | Absent]:
    """Every input of one chip that we want, as a read or as a reason.

    The kernel shows each thermal zone as a chip, too. It is left to the sensor of the zones,
    which knows those that are constant or made of others.
    """
    for quantity in QUANTITIES:
        if quantity.prefix == "temp" and name_part(chip_name(folder)) in zones:
            yield Absent(reason=f"{folder}: {chip} is a thermal zone, see the sensor thermal")
            continue
        inputs = find_inputs(folder, quantity)
        if inputs and quantity.prefix == "power" and is_rail_monitor(root, folder):
            yield Absent(reason=f"{folder}: {chip} measures rails, see the sensor ina3221")
            continue
        count = Counter(each.label for each in inputs)
        for each in inputs:
            unique = each.label if count[each.label] == 1 else f"{each.label}.{each.own}"
            yield input_read(root, chip_name(folder), f"{chip}.{unique}", each)


def is_rail_monitor(root: Path, folder: Path) -> bool:
    """True if the chip measures a rail that the board's table knows."""
    name = chip_name(folder)
    return name == "ina3221" or only_rail_on(identify(root), name) is not None


def find_inputs(folder: Path, quantity: Quantity) -> list[Input]:
    """The inputs of one quantity in order of their numbers."""
    inputs: dict[int, Input] = {}
    for ending in quantity.files:
        for path in folder.glob(f"{quantity.prefix}[0-9]*_{ending}"):
            own = path.name.partition("_")[0]
            text = read_text(folder / f"{own}_label")
            label = own if isinstance(text, Absent) else name_part(text) or own
            number = int(own.removeprefix(quantity.prefix))
            inputs.setdefault(number, Input(quantity=quantity, own=own, label=label, path=path))
    return [inputs[number] for number in sorted(inputs)]


def input_read(root: Path, driver: str, name: str, chip_input: Input) -> SensorRead | Absent:
    """Read of one input, or the reason why it says nothing now."""
    value = read_integer(chip_input.path)
    if isinstance(value, Absent):
        return value
    quantity = chip_input.quantity
    if quantity.prefix == "temp" and value < LEAST_MILLIDEGREES:
        return Absent(reason=f"{chip_input.path} holds {value}: nothing is connected to it")
    channel = Channel(
        name=f"hwmon.{name}.{quantity.word}",
        unit=quantity.unit,
        kind=quantity.kind,
        domain=input_domain(driver, quantity),
        role=input_role(driver, chip_input),
        source=f"/{chip_input.path.relative_to(root)}",
        scale=quantity.scale,
        limit=throttle_limit(driver, chip_input),
    )
    return SensorRead(
        path=str(chip_input.path),
        parser="number",
        channels=(channel,),
        least_period_s=quantity.least_period_s,
    )


def throttle_limit(driver: str, chip_input: Input) -> float | None:
    """The temperature at which throttling begins; None: not known."""
    if chip_input.quantity.prefix != "temp" or driver not in THROTTLING:
        return None
    value = read_integer(chip_input.path.with_name(f"{chip_input.own}_{THROTTLING[driver]}"))
    return None if isinstance(value, Absent) or value <= 0 else value * chip_input.quantity.scale


def input_domain(driver: str, quantity: Quantity) -> Domain:
    """Domain of the input; "system" where the driver's name does not tell."""
    return "thermal" if quantity.prefix == "temp" else DOMAINS.get(driver, "system")


def input_role(driver: str, chip_input: Input) -> str:
    """A temperature; the total of the machine where that is known, else a part of it."""
    if chip_input.quantity.prefix == "temp":
        return "ambient_temperature" if AMBIENT.search(chip_input.label) else "temperature"
    whole = (driver, chip_input.label) in TOTALS
    return f"{chip_input.quantity.word}_{'total' if whole else 'part'}"
