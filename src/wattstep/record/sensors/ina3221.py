"""Power rails of boards with INA3221 power monitors (NVIDIA's Jetson series), in every driver's layout."""

from __future__ import annotations

import errno
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from wattstep.boards import identify
from wattstep.boards.rails import meaning, only_rail_on
from wattstep.boards.table import INA3221_STEPS, Board
from wattstep.record.sensors import PASSING, present_or_absent, read_bytes, read_integer, read_text
from wattstep.schema.channel import Absent, Channel, Present, Sensor, SensorRead, name_part

# Where chips are found. A chip behind several of them is one chip; see `find_chips`.
PLACES: Final = (
    "sys/class/hwmon/hwmon[0-9]*",
    "sys/bus/i2c/drivers/ina3221/*/hwmon/hwmon[0-9]*",
    "sys/bus/i2c/drivers/ina3221x/*/iio:device[0-9]*",
    "sys/bus/i2c/drivers/ina3221x/*/iio_device",
    "sys/bus/iio/devices/iio:device[0-9]*",
    "sys/devices/*.i2c/i2c-*/*/iio:device[0-9]*",
    "sys/devices/*.i2c/i2c-*/*/iio_device",
)
ADDRESS: Final = re.compile(r"\d+-00[0-9a-f]{2}")
SHUNT_STEP_V = 40e-6  # of the INA3221
# The registers of every recorded board held a new value each 11 to 27 ms.
LEAST_PERIOD_S = 0.01
# The default of NVIDIA's iio driver, on whatever board: 64 averages of 1.1 ms, twice for each of
# three channels. A device tree may say otherwise.
IIO_WINDOW_S = 0.422
SLOW_NS = 2_000_000  # kernels before 5.14 wait for the next conversion at every read
# In the tree of an emulated board a folder in place of a file stands for one that fails.
FAILS_NOW: Final = PASSING | {errno.EISDIR}
UNCONNECTED: Final = frozenset({"NC", "sum of shunt voltages"})


@dataclass(frozen=True, kw_only=True)
class Input:
    """Input of a chip.

    Attributes:
        label: Of its rail, as the driver names it, or why it cannot be determined.
        paths: The file of its power, or those whose product it is: voltage in mV, current in mA.
        scale: The integer, or the product, times this is the power in W.
        voltage: The file of its voltage in mV.
        window_s: The time that each value averages over, where it is known.
        shunt_ohm: As the driver was told, or None.
        by_shunt: It is one of an INA3221's, of whose shunt voltage step and range are documented.
    """

    label: str | Absent
    paths: tuple[Path, ...]
    scale: float
    voltage: Path
    window_s: float | None = None
    shunt_ohm: float | None = None
    by_shunt: bool = True


@dataclass(frozen=True, kw_only=True)
class Power:
    """An input that was tried.

    Attributes:
        label: Of its rail.
        input: Input that is read.
        slow: A read of it waits for the chip.
    """

    label: str
    input: Input
    slow: bool


class PowerRails(Sensor):
    """Power by rail, with the meaning that the board's table gives it.

    The rails of the table's total have the role "power_total" if all of them are there; a rail
    beside the module is "power_outside", any other "power_part". One that only fails now counts:
    it may come back, and until then its gaps are gaps of the total. Rails are found by their
    labels, because buses and devices are numbered anew by every release.
    """

    name = "ina3221"
    description = "power of the board's rails"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds the rails; one that fails now and may come back is planned, and is a gap."""
        board = identify(root)
        inputs = [one for folder in find_chips(root, board) for one in chip_inputs(folder, board)]
        parts = [try_input(one) for one in inputs]
        powers = [part for part in parts if isinstance(part, Power)]
        refused = [part for part in parts if isinstance(part, Absent)]
        labels = [power.label for power in powers]
        named = zip(channel_names(powers), powers, strict=True)
        channels = [
            (rail_channel(root, board, name, power, labels), power) for name, power in named
        ]
        denied = [part.reason for part in refused if "denied" in part.reason]
        reads = [rail_read(with_note(channel, denied), power) for channel, power in channels]
        return present_or_absent([*reads, *refused], otherwise=no_chip(board))


def no_chip(board: Board | None) -> str:
    """Reason why there are no rails."""
    if board is not None and board.no_total:
        return f"{board.title}: {board.no_total}"
    return "no power monitor INA3221: NVIDIA's Jetson boards have one"


# --- finding -----------------------------------------------------------------------------------


def find_chips(root: Path, board: Board | None) -> list[Path]:
    """The folders of the power monitors, each chip once."""
    chips, seen = [], set[str]()
    for place in PLACES:
        for folder in sorted(root.glob(place), key=_by_number):
            keys = chip_keys(folder)
            if keys & seen or not is_monitor(folder, board):
                continue
            chips.append(folder)
            seen |= keys
    return chips


def _by_number(path: Path) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", str(path))
    ]


def chip_keys(folder: Path) -> set[str]:
    """Keys that no two chips share: the address on the bus, and the device's own name."""
    real = folder.resolve()
    named = {real.name} if real.name[-1:].isdigit() else set()
    return named | set(addresses(real)[-1:])


def addresses(path: Path) -> list[str]:
    """The addresses on buses that a path leads through, a multiplexer's before its chips'."""
    return [part for part in path.parts if ADDRESS.fullmatch(part)]


def is_monitor(folder: Path, board: Board | None) -> bool:
    """True if the folder is of a power monitor whose inputs we know how to read."""
    if (folder / "rail_name_0").exists():
        return True
    name = read_text(folder / "name")
    if name == "ina238":
        return only_rail_on(board, "ina238") is not None
    return name == "ina3221"


# --- the layouts -------------------------------------------------------------------------------


def chip_inputs(folder: Path, board: Board | None) -> Iterator[Input]:
    """The inputs of a chip, in whatever layout."""
    if (folder / "rail_name_0").exists():
        return iio_inputs(folder, board)
    if read_text(folder / "name") == "ina238":
        return iter([ina238_input(folder, board)])
    return hwmon_inputs(folder)


def iio_inputs(folder: Path, board: Board | None) -> Iterator[Input]:
    """NVIDIA's driver of Linux 4.4 and 4.9: mV, mA and mW, channels from 0."""
    for number in range(3):
        if not (folder / f"rail_name_{number}").exists():
            continue
        power = folder / f"in_power{number}_input"
        voltage, current = (folder / f"in_{what}{number}_input" for what in ("voltage", "current"))
        whole = power.exists() or not current.exists()
        yield Input(
            label=read_text(folder / f"rail_name_{number}") or unnamed(folder, number),
            paths=(power,) if whole else (voltage, current),
            scale=1e-3 if whole else 1e-6,
            voltage=voltage,
            window_s=IIO_WINDOW_S,
        )


def hwmon_inputs(folder: Path) -> Iterator[Input]:
    """Linux' own driver: mV and mA, channels from 1; the 7th voltage is a sum, no rail."""
    for number in range(1, 4):
        voltage = folder / f"in{number}_input"
        if not voltage.exists() or read_text(folder / f"in{number}_enable") == "0":
            continue
        label = folder / f"in{number}_label"
        text = read_text(label) if label.exists() else ""
        shunt = read_integer(folder / f"shunt{number}_resistor")
        yield Input(
            label=text or unnamed(folder, number),
            paths=(voltage, folder / f"curr{number}_input"),
            scale=1e-6,
            voltage=voltage,
            window_s=update_interval(folder),
            shunt_ohm=shunt * 1e-6 if isinstance(shunt, int) and shunt > 0 else None,
        )


def unnamed(folder: Path, number: int) -> str:
    """Name of an input without a label; no board's table knows it."""
    return f"{(addresses(folder.resolve()) or [folder.name])[-1]} channel {number}"


def ina238_input(folder: Path, board: Board | None) -> Input:
    """A monitor of one rail, in µW; without a label it is the one that the board's table has."""
    rail = only_rail_on(board, "ina238")
    labels = [read_text(folder / name) for name in ("label", "power1_label", "in1_label")]
    names = [label for label in labels if isinstance(label, str) and label]
    return Input(
        label=names[0] if names else rail.label if rail else "ina238",
        paths=(folder / "power1_input",),
        scale=1e-6,
        voltage=folder / "in1_input",
        window_s=update_interval(folder),
        by_shunt=False,
    )


def update_interval(folder: Path) -> float | None:
    """Time in s in which the chip converts all its inputs as often as it averages."""
    interval = read_integer(folder / "update_interval")
    return interval * 1e-3 if isinstance(interval, int) and interval > 0 else None


# --- trying ------------------------------------------------------------------------------------


def try_input(one: Input) -> Power | Absent:
    """The input after reading it; an unconnected one, and one that is refused, is a reason."""
    if isinstance(one.label, Absent):
        return one.label
    if one.label in UNCONNECTED:
        return Absent(reason=f"{one.voltage}: {one.label}, no rail")
    problem, cost_ns = try_to_read(one.paths)
    if problem is not None and problem.errno not in FAILS_NOW:
        return Absent(reason=f"{one.label}: {(problem.strerror or str(problem)).lower()}")
    if cost_ns > SLOW_NS:  # it may have been interrupted
        cost_ns = try_to_read(one.paths)[1]
    return Power(label=one.label, input=one, slow=cost_ns > SLOW_NS)


def try_to_read(paths: Sequence[Path]) -> tuple[OSError | None, int]:
    """Error of the system on reading integers from these files, and what asking took in ns."""
    began = time.perf_counter_ns()
    problem: OSError | None = None
    try:
        for path in paths:
            int(read_bytes(path))
    except OSError as error:
        problem = error
    except ValueError:
        problem = OSError(errno.EIO, "no number")
    return problem, time.perf_counter_ns() - began


# --- making reads ------------------------------------------------------------------------------


def channel_names(powers: Sequence[Power]) -> list[str]:
    """Names by label; inputs that share one carry a number."""
    plain = [name_part(power.label) for power in powers]
    count, taken = Counter(plain), Counter[str]()
    names = []
    for name in plain:
        taken[name] += 1
        names.append(f"rail.{name}" if count[name] == 1 else f"rail.{name}.{taken[name]}")
    return names


def rail_channel(
    root: Path, board: Board | None, name: str, power: Power, labels: Sequence[str]
) -> Channel:
    """The channel of a rail, with the meaning that the board's table gives it."""
    what = meaning(board, power.label, labels)
    first, *others = power.input.paths
    resolution = power_resolution(board, power)
    return Channel(
        name=name,
        unit="W",
        kind="gauge",
        domain=what.domain,
        role=what.role,
        source=" times ".join([f"/{first.relative_to(root)}", *(path.name for path in others)]),
        scale=power.input.scale,
        resolution=resolution,
        range_to=resolution * INA3221_STEPS if resolution and power.input.by_shunt else None,
        window_s=power.input.window_s,
        note=what.note,
    )


def with_note(channel: Channel, more: Sequence[str]) -> Channel:
    """The channel with more to know about it."""
    return replace(channel, note="; ".join(part for part in (channel.note, *more) if part))


def rail_read(channel: Channel, power: Power) -> SensorRead:
    """The read of one rail, apart from all others, so that its failure is its own."""
    first, *others = power.input.paths
    return SensorRead(
        path=str(first),
        parser="product" if others else "number",
        arguments=tuple(map(str, others)),
        channels=(channel,),
        least_period_s=LEAST_PERIOD_S,
        slow=power.slow,
    )


def power_resolution(board: Board | None, power: Power) -> float | None:
    """The smallest step of the power in W: by the shunt that the driver names, else by the table."""
    rail = board.rail(power.label) if board else None
    shunt_ohm = power.input.shunt_ohm
    if shunt_ohm is None and rail is not None:
        if rail.quantum_w is not None:
            return rail.quantum_w
        shunt_ohm = rail.shunt_ohm
    millivolts = read_integer(power.input.voltage)
    if shunt_ohm is None or not isinstance(millivolts, int) or not millivolts:
        return rail.quantum_w if rail else None
    return SHUNT_STEP_V / shunt_ohm * abs(millivolts) * 1e-3
