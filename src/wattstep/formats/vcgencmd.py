"""Output of `vcgencmd` of a Raspberry Pi: throttling bits, temperature, clocks, the PMIC of a Pi 5."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from wattstep.formats.recording import FormatError, decoded

# Bits of get_throttled (boards.md 3): 0-3 hold now, 16-19 have happened since boot.
THROTTLED: Final[Mapping[int, str]] = MappingProxyType(
    {
        0: "under-voltage (below 4.63 V)",
        1: "clock of the cores capped",
        2: "throttled",
        3: "soft temperature limit",
    }
)
SINCE_BOOT = 16
_DECIMAL = r"-?[0-9]{1,9}(?:\.[0-9]{1,12})?"
_PMIC = re.compile(
    rf"\s*([A-Za-z0-9_]+)_(A|V)\s+(current|volt)\(([0-9]{{1,4}})\)=({_DECIMAL})(A|V)\s*"
)


@dataclass(frozen=True, kw_only=True)
class Throttled:
    """Throttling bits that the firmware has set: bit numbers, keys of `THROTTLED`."""

    raw: int
    now: tuple[int, ...]
    since_boot: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Pmic:
    """Reply of `pmic_read_adc`.

    Attributes:
        ampere: By rail.
        volt: By rail; EXT5V (the input) and BATT have no current.
    """

    ampere: Mapping[str, float]
    volt: Mapping[str, float]

    @property
    def watt(self) -> dict[str, float]:
        """Power by rail, where both current and voltage are there; in the order of the currents."""
        return {rail: a * self.volt[rail] for rail, a in self.ampere.items() if rail in self.volt}


def parse_throttled(data: bytes | str) -> Throttled:
    """`throttled=0x50005`.

    Raises:
        FormatError: It is something else.
    """
    raw = int(_answer(data, r"throttled=0x([0-9a-fA-F]{1,8})", "get_throttled")[0], 16)
    return Throttled(
        raw=raw,
        now=tuple(bit for bit in THROTTLED if raw >> bit & 1),
        since_boot=tuple(bit for bit in THROTTLED if raw >> (bit + SINCE_BOOT) & 1),
    )


def parse_clock(data: bytes | str) -> float:
    """`frequency(45)=600000000`, in Hz.

    Raises:
        FormatError: It is something else.
    """
    return float(_answer(data, r"frequency\([0-9]{1,4}\)=([0-9]{1,15})", "measure_clock")[0])


def parse_pmic(data: bytes | str) -> Pmic:
    """The lines of `pmic_read_adc`, whose names are aligned to the right.

    Raises:
        FormatError: A line is something else, stands there twice, or there is none.
    """
    readings: dict[str, dict[str, float]] = {"A": {}, "V": {}}
    for number, line in enumerate(decoded(data).split("\n"), 1):
        if not line.strip():
            continue
        match = _PMIC.fullmatch(line)
        if match is None:
            raise FormatError("pmic_read_adc", number, f"{line.strip()[:40]!r}")
        rail, suffix, quantity, _, value, unit = match.groups()
        if not suffix == unit == {"current": "A", "volt": "V"}[quantity]:
            raise FormatError("pmic_read_adc", number, f"{quantity} of {rail} in {unit}")
        if rail in readings[unit]:
            raise FormatError("pmic_read_adc", number, f"{rail} stands there twice")
        readings[unit][rail] = float(value)
    if not readings["A"] and not readings["V"]:
        raise FormatError("pmic_read_adc", 1, "no line of a rail")
    return Pmic(ampere=readings["A"], volt=readings["V"])


def _answer(data: bytes | str, pattern: str, command: str) -> tuple[str, ...]:
    """The groups of the one line that a command answers."""
    text = decoded(data).strip("\n")
    match = re.fullmatch(rf"\s*{pattern}\s*", text, re.ASCII)
    if match is None:
        raise FormatError(command, 1, f"{text[:40]!r}")
    return match.groups()
