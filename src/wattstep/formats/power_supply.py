"""The `uevent` file of a battery or charger, and what the sign and the unit of its current mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from wattstep.formats.recording import FormatError, decoded

_LINE = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)")
_PREFIX = "POWER_SUPPLY_"
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_NOT_SUPPORTED: Final = "-22"  # -EINVAL that leaks through; no measurement
MILLIAMPERES_BELOW = 20_000  # a phone with its screen on draws more than 20 mA (boards.md 4.1)


@dataclass(frozen=True, kw_only=True)
class PowerSupply:
    """Device of the class power_supply.

    Attributes:
        fields: What it says by key, without the prefix "POWER_SUPPLY_".
        rejected: Keys whose value is the kernel's error -22, which became no value.
    """

    fields: Mapping[str, str]
    rejected: tuple[str, ...] = ()

    def text(self, key: str) -> str | None:
        """Text of a property, e.g. "Discharging" for "STATUS"."""
        return self.fields.get(key)

    def integer(self, key: str) -> int | None:
        """In the kernel's unit: µA, µV, µAh, tenths of °C; None where there is no number."""
        value = self.fields.get(key, "")
        return int(value) if _INTEGER.fullmatch(value) else None


@dataclass(frozen=True, kw_only=True)
class Convention:
    """Sign and unit of a gauge's CURRENT_NOW.

    Attributes:
        sign: Its value times this is positive while the battery gives.
        ampere: One unit of it.
        reason: How that was found, for the reader.
    """

    sign: Literal[1, -1]
    ampere: float
    reason: str


@dataclass(frozen=True, kw_only=True)
class Unclear:
    """Reason why the convention cannot be found, and what to do."""

    reason: str


def parse_uevent(data: bytes | str) -> PowerSupply:
    """Lines KEY=VALUE.

    Raises:
        FormatError: A line is something else, or gives a key another value.
    """
    fields: dict[str, str] = {}
    rejected: list[str] = []
    text = decoded(data)
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise FormatError("power supply", number, f"{line.strip()[:40]!r}")
        key, value = match[1].removeprefix(_PREFIX), match[2].strip()
        if value == _NOT_SUPPORTED:
            rejected.append(key)
        elif fields.setdefault(key, value) != value:
            raise FormatError("power supply", number, f"{key} stands there twice")
    if not fields and not rejected:
        raise FormatError("power supply", 1, "no line KEY=VALUE")
    return PowerSupply(fields=fields, rejected=tuple(rejected))


def infer_convention(
    supply: PowerSupply, *, plugged: bool, screen_on: bool | None
) -> Convention | Unclear:
    """Sign and unit of CURRENT_NOW on this phone.

    The kernel's rule is µA, negative while the battery gives; many gauges do it the other way,
    some count in mA (boards.md 4.1). Only a battery that is known to give tells which.

    Args:
        supply: The battery, as it is now.
        plugged: Whether anything feeds the phone.
        screen_on: Whether the screen is lit; None: not known.
    """
    current = supply.integer("CURRENT_NOW")
    if current is None:
        return Unclear(reason="the battery reports no current")
    if plugged or supply.text("STATUS") != "Discharging":
        return Unclear(
            reason="tethered: the battery does not see what the phone draws, and the sign of its "
            "current cannot be found; disconnect the cable and use adb over Wi-Fi"
        )
    if current == 0:
        return Unclear(reason="the battery says 0 A while it discharges")
    small = abs(current) < MILLIAMPERES_BELOW
    if small and screen_on is not True:
        return Unclear(
            reason=f"the battery says {current} with the screen off: mA or µA cannot be determined "
            "apart; light the screen while wattstep looks"
        )
    sign: Literal[1, -1] = -1 if current < 0 else 1
    return Convention(
        sign=sign,
        ampere=1e-3 if small else 1e-6,
        reason=f"sign and unit were inferred once: it said {current} while discharging, so "
        f"{'negative' if current < 0 else 'positive'} means drawn (the kernel's rule is negative) "
        f"and the unit is {'mA, as it is below 20000 with the screen on' if small else 'µA'}; "
        "a gauge of another kind would make this wrong",
    )
