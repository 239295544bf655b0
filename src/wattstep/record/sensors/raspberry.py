"""The Raspberry Pi's firmware, asked through vcgencmd: power by rail of a Pi 5, the true clock, throttling."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from wattstep.boards import MODEL, identify
from wattstep.boards.rails import Meaning, meaning
from wattstep.formats.recording import FormatError
from wattstep.formats.vcgencmd import (
    THROTTLED,
    Pmic,
    parse_clock,
    parse_pmic,
    parse_throttled,
)
from wattstep.record.push_sources import Emit, ticks
from wattstep.record.sensors import read_text
from wattstep.schema.channel import Absent, Channel, Present, Sensor, SensorRead
from wattstep.schema.journal import MISSING

THROTTLED_FILE = "sys/devices/platform/soc/soc:firmware/get_throttled"
PLACES = ("usr/bin/vcgencmd", "bin/vcgencmd", "opt/vc/bin/vcgencmd", "usr/local/bin/vcgencmd")
PERIOD_S = 1.0  # polled faster, the PMIC repeats its values (boards.md 3)
TIMEOUT_S = 5.0
SOURCE = "wattstep.record.sensors.raspberry:open_source"
MICRO = 1e-6  # W or V
PMIC = "vcgencmd pmic_read_adc"
INPUT = "EXT5V"  # has a voltage, but no current
REPEATS = "the PMIC repeats values within about a second"
# What the channels of a read are made of: for each the rails whose powers ("sums") or whose
# voltages ("volts") it adds up.
Names = Mapping[str, Sequence[Sequence[str]]]


class RaspberryPower(Sensor):
    """Power by rail of a Raspberry Pi 5, from its power management chip."""

    name = "raspberry"
    description = "power of a Raspberry Pi 5 by rail, from its PMIC"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Asks the chip once; Pi 3 and 4 have none."""
        command = find_command(root)
        if isinstance(command, Absent):
            return command
        try:
            first = parse_pmic(ask(command, "pmic_read_adc"))
        except (FormatError, OSError):
            if not answers(command, "clock"):
                return silent()
            return Absent(
                reason=f"{model(root)} has no power sensor (only the Raspberry Pi 5 meters its "
                "rails): use a meter at the plug"
            )
        rails = list(first.watt)
        if not rails:
            return Absent(reason="vcgencmd pmic_read_adc gives no rail with current and voltage")
        board = identify(root)
        meanings = {rail: meaning(board, rail, rails) for rail in rails}
        return Present(reads=(power_read(command, meanings, first),))


class RaspberryClock(Sensor):
    """The clock that the firmware really gives the cores, and its throttling bits.

    The kernel's scaling_cur_freq is what was asked for (raspberrypi/linux#1337).
    """

    name = "raspberry_clock"
    description = "true clock and throttling of a Raspberry Pi, from its firmware"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Asks the firmware once for each."""
        command = find_command(root)
        if isinstance(command, Absent):
            return command
        reads = [clock_read(command)] if answers(command, "clock") else []
        # Where the kernel has the bits in a file, another sensor reads them at less cost.
        if not (root / THROTTLED_FILE).exists() and answers(command, "throttled"):
            reads.append(throttled_read(command))
        if not reads:
            return silent()
        return Present(reads=tuple(reads))


def model(root: Path) -> str:
    """Name of the board in its device tree; "" where there is none."""
    text = read_text(root / MODEL)
    return "" if isinstance(text, Absent) else text.rstrip("\0 \n")


def find_command(root: Path) -> str | Absent:
    """The vcgencmd of this system, or why there is none."""
    if "Raspberry Pi" not in model(root):
        return Absent(reason="this is no Raspberry Pi")
    for place in PLACES:
        if (root / place).is_file():
            return str(root / place)
    return Absent(
        reason="there is no vcgencmd, which asks the firmware: "
        "sudo apt install raspi-utils (older systems: libraspberrypi-bin)"
    )


def silent() -> Absent:
    """The command is there, and gets nothing from the firmware."""
    return Absent(reason="vcgencmd does not answer: is this user in the group video?")


def ask(command: str, *arguments: str) -> bytes:
    """Output of vcgencmd.

    Raises:
        OSError: It cannot be started, fails, or takes longer than `TIMEOUT_S`.
    """
    try:
        done = subprocess.run(
            [command, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False, env=dict(os.environ),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TimeoutError(110, "vcgencmd does not answer") from None
    if done.returncode != 0:
        raise OSError(5, f"vcgencmd {arguments[0]} failed")
    return done.stdout


def power_read(command: str, meanings: Mapping[str, Meaning], first: Pmic) -> SensorRead:
    """The sum of the table's rails, each rail, and the voltage of the input where it is there.

    Args:
        command: The vcgencmd.
        meanings: By rail. Those of the board's total have that role if all are there: else there
            is no sum, as one without VDD_CORE would be less than half of it.
        first: Answer of the chip.
    """
    total = [rail for rail, each in meanings.items() if each.role == "power_total"]
    inputs = [INPUT] if INPUT in first.volt else []
    channels = [total_channel(meanings[total[0]])] if total else []
    channels += [rail_channel(rail, each) for rail, each in meanings.items()]
    channels += [input_channel(rail) for rail in inputs]
    sums = [*([total] if total else []), *([rail] for rail in meanings)]
    names = {"sums": sums, "volts": [[rail] for rail in inputs]}
    return _read("pmic", PMIC, channels, command, names)


def total_channel(of: Meaning) -> Channel:
    """The sum of the rails that the board's table says make the total."""
    return Channel(
        name="raspberry.power", unit="W", kind="gauge", domain="system", role="power_total",
        source=PMIC, scale=MICRO, note=f"{of.note}; {REPEATS}",
    )  # fmt: skip


def rail_channel(rail: str, of: Meaning) -> Channel:
    """Channel of a rail; those of the total are parts, since their sum is a channel of its own."""
    role = "power_part" if of.role == "power_total" else of.role
    return Channel(
        name=f"raspberry.{rail}.power", unit="W", kind="gauge", domain=of.domain, role=role,
        source=PMIC, scale=MICRO, note="" if of.role == "power_total" else of.note,
    )  # fmt: skip


def input_channel(rail: str) -> Channel:
    """The voltage at the input."""
    return Channel(
        name=f"raspberry.{rail}.voltage", unit="V", kind="gauge", domain="system",
        role="input_voltage", source=PMIC, scale=MICRO,
        note="reads 0.10 to 0.15 V below the connector's",
    )  # fmt: skip


def clock_read(command: str) -> SensorRead:
    """The clock of the ARM cores."""
    source = "vcgencmd measure_clock arm"
    channel = Channel(
        name="raspberry.arm_clock", unit="Hz", kind="gauge", domain="cpu", role="frequency",
        source=source,
        note="what the firmware really gives; the kernel's frequency is what was asked for",
    )  # fmt: skip
    return _read("clock", source, [channel], command, {})


def throttled_read(command: str) -> SensorRead:
    """The bits that hold at this instant."""
    source = "vcgencmd get_throttled"
    bits = "; ".join(f"bit {bit} {words}" for bit, words in THROTTLED.items())
    channel = Channel(
        name="raspberry.throttled", unit="events", kind="gauge", domain="soc",
        role="throttle_reasons", source=source, note=f"{bits}, each at this instant",
    )  # fmt: skip
    return _read("throttled", source, [channel], command, {})


def _read(
    what: str, source: str, channels: Sequence[Channel], command: str, names: Names
) -> SensorRead:
    return SensorRead(
        path=source, parser="feed", channels=tuple(channels), least_period_s=PERIOD_S, push_source=SOURCE,
        push_settings={"command": command, "what": what, "names": names},
    )  # fmt: skip


def pmic_row(command: str, names: Names) -> list[int]:
    """Powers in µW, voltages in µV."""
    readings = parse_pmic(ask(command, "pmic_read_adc"))
    powers = [in_micro(readings.watt, rails) for rails in names["sums"]]
    return [*powers, *(in_micro(readings.volt, rails) for rails in names["volts"])]


def in_micro(values: Mapping[str, float], rails: Sequence[str]) -> int:
    """The sum of these rails in millionths; missing where one of them is."""
    if any(rail not in values for rail in rails):
        return MISSING
    return round(sum(values[rail] for rail in rails) * 1e6)


def clock_row(command: str, names: Names) -> list[int]:
    """The clock in Hz."""
    return [round(parse_clock(ask(command, "measure_clock", "arm")))]


def throttled_row(command: str, names: Names) -> list[int]:
    """Bits 0 to 3: what holds now."""
    return [sum(1 << bit for bit in parse_throttled(ask(command, "get_throttled")).now)]


ROWS: Final[Mapping[str, Callable[[str, Names], list[int]]]] = {
    "pmic": pmic_row,
    "clock": clock_row,
    "throttled": throttled_row,
}


def answers(command: str, what: str) -> bool:
    """True if the firmware knows this question."""
    try:
        ROWS[what](command, {})
    except (FormatError, OSError):
        return False
    return True


class VcgencmdSource:
    """Asks vcgencmd one thing again and again; a row's time is the middle of the asking.

    Args:
        command: The vcgencmd.
        what: A key of `ROWS`.
        names: The rails of the row's figures.
        period_s: Time between rows.
    """

    def __init__(self, command: str, what: str, names: Names, period_s: float) -> None:
        self.command, self.names = command, names
        self.row = ROWS[what]
        self.period_s = max(period_s, PERIOD_S)

    def run(self, emit: Emit, stop: threading.Event) -> None:
        """Gives a row a period, one that says why where there is no answer."""
        for began in ticks(self.period_s, stop):
            try:
                row, errno = self.row(self.command, self.names), 0
            except FormatError:
                row, errno = None, 22
            except OSError as error:
                row, errno = None, error.errno or 5
            emit(0, (began + time.monotonic_ns()) // 2, errno, row)


def open_source(*, command: str, what: str, names: Names, period_s: float) -> VcgencmdSource:
    """As `SensorRead.push_source` names it."""
    return VcgencmdSource(command, what, names, period_s)
