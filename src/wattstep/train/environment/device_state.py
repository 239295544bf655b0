"""States of a device that a sweep goes through: power mode, core set, clock of the cores."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from wattstep.errors import InvalidValueError
from wattstep.schema.cores import parse_cores, spell_cores

_CLOCK: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(k|M|G)Hz", re.IGNORECASE)
_FACTORS: Final = {"k": 1e3, "m": 1e6, "g": 1e9}


@dataclass(frozen=True, kw_only=True)
class DeviceState:
    """State of a device; what is None stays as it is.

    Attributes:
        mode: Number or name of a power mode of NVIDIA's nvpmodel.
        cores: Numbers of the cores that the training and its children may run on.
        frequency_hz: Clock that the cores are held at, of those that their driver offers the
            nearest below.
    """

    mode: str | None = None
    cores: tuple[int, ...] | None = None
    frequency_hz: float | None = None

    @property
    def label(self) -> str:
        """In words that `parse_state` reads, e.g. "mode=MAXN cores=0-3 clock=1200MHz"."""
        words = []
        if self.mode is not None:
            words.append(f"mode={self.mode}")
        if self.cores is not None:
            words.append(f"cores={spell_cores(self.cores)}")
        if self.frequency_hz is not None:
            words.append(f"clock={self.frequency_hz / 1e6:g}MHz")
        return " ".join(words)

    @property
    def changes_device(self) -> bool:
        """True if it needs more than a bound on our own processes."""
        return self.mode is not None or self.frequency_hz is not None


def states_from(
    modes: str | None, cores: str | None, clocks: str | None
) -> tuple[DeviceState, ...]:
    """Every combination of what the options say.

    Args:
        modes: E.g. "0,2" or "MAXN,MAXQ".
        cores: Sets with commas between them, e.g. "0,0-1,0+3".
        clocks: E.g. "600MHz,1.2GHz".

    Raises:
        InvalidValueError: One of them cannot be read.
    """
    sets = [None] if cores is None else [parse_cores(part) for part in _split(cores)]
    hertz = [None] if clocks is None else [parse_clock(part) for part in _split(clocks)]
    names = [None] if modes is None else [_mode(part) for part in _split(modes)]
    return tuple(
        DeviceState(mode=mode, cores=chosen, frequency_hz=clock)
        for mode, chosen, clock in product(names, sets, hertz)
    )


def parse_state(label: str) -> DeviceState:
    """The inverse of `DeviceState.label`.

    Raises:
        InvalidValueError: It is no label.
    """
    values = {}
    for word in label.split():
        key, equals, value = word.partition("=")
        if key not in ("mode", "cores", "clock") or not equals or key in values:
            raise InvalidValueError(f"{label!r} is no state of a device")
        values[key] = value
    return DeviceState(
        mode=values.get("mode"),
        cores=parse_cores(values["cores"]) if "cores" in values else None,
        frequency_hz=parse_clock(values["clock"]) if "clock" in values else None,
    )


def parse_clock(text: str) -> float:
    """Hz from "1.2GHz".

    Raises:
        InvalidValueError: It is no clock.
    """
    match = _CLOCK.fullmatch(text.strip())
    if match is None or float(match[1]) == 0:
        raise InvalidValueError(f"--clocks {text!r}: write 600MHz or 1.2GHz")
    return float(match[1]) * _FACTORS[match[2].lower()]


def nearest_clock(wanted_hz: float, offered_hz: Sequence[float]) -> float | None:
    """The highest clock on offer that is not above the wanted one by more than 1 %, or None."""
    fitting = [clock for clock in offered_hz if clock <= wanted_hz * 1.01]
    return max(fitting, default=None)


def _split(text: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(",")))


def _mode(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_]+", text):
        raise InvalidValueError(f"--modes {text!r}: numbers or names of power modes, e.g. 0,2")
    return text
