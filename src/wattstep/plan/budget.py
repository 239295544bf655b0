"""A budget of one training session: "battery 5 %, 30 min, 45 °C, 2 GiB", each part a limit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil, floor, inf, log10
from types import MappingProxyType
from typing import Final

from wattstep.devices.table import Device
from wattstep.errors import InvalidValueError
from wattstep.schema.spelling import quantity

DAY_S: Final = 86400.0
# What a unit limits, and what one of it is in the unit of the figure that it limits.
UNITS: Final = MappingProxyType(
    {
        "%": ("battery", 0.01),
        "mJ": ("energy", 1e-3), "J": ("energy", 1.0), "kJ": ("energy", 1e3), "Wh": ("energy", 3600.0), "mWh": ("energy", 3.6),
        "ms": ("time", 1e-3), "s": ("time", 1.0), "min": ("time", 60.0), "h": ("time", 3600.0),
        "°C": ("temperature", 1.0), "C": ("temperature", 1.0),
        "MiB": ("memory", 2.0**20), "GiB": ("memory", 2.0**30), "MB": ("memory", 1e6), "GB": ("memory", 1e9),
    }
)  # fmt: skip
SPELT_IN: Final = MappingProxyType(
    {"battery": "ratio", "energy": "J", "time": "s", "temperature": "°C", "memory": "B"}
)
PERIODS: Final = MappingProxyType(
    {"hour": 3600.0, "day": DAY_S, "week": 7 * DAY_S, "h": 3600.0, "min": 60.0, "s": 1.0, "d": DAY_S}
)  # fmt: skip
_PART: Final = re.compile(r"(?:([a-z]+)\s+)?(\d+(?:\.\d+)?)\s*([^\s\d]+)")
_PERIOD: Final = re.compile(r"(?:(\d+(?:\.\d+)?)\s*)?([a-z]+)")


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The most that one quantity of a session may be.

    Attributes:
        kind: One of `SPELT_IN`.
        most: In the unit of `SPELT_IN`.
        text: As it was written.
    """

    kind: str
    most: float
    text: str

    @property
    def unit(self) -> str:
        """In which it was written, of `UNITS`; s where it is the time until the next session."""
        match = _PART.fullmatch(self.text)
        return match[3] if match else "s"

    @property
    def spelt(self) -> str:
        """Its bound as it was written, without the name of what it limits: "45 °C"."""
        return self.text.removeprefix(self.kind).strip()


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limits of a session, at most one of a kind.

    Attributes:
        limits: In the order in which they were written.
    """

    limits: tuple[Limit, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Budget:
        """From "battery 5 %, 30 min, 45 °C".

        Parts stand between commas: a number and a unit of `UNITS`; before it the name of what is
        limited may stand, which has to agree with the unit.

        Raises:
            InvalidValueError: A part is none, two limit the same, or a bound cannot be.
        """
        limits: list[Limit] = []
        for part in filter(None, (part.strip() for part in text.split(","))):
            limit = _limit(part)
            for other in limits:
                if other.kind == limit.kind:
                    raise InvalidValueError(
                        f"--budget {other.text!r} and {limit.text!r} both limit the {limit.kind}: give one",
                        id="contradictory-budget",
                    )
            limits.append(limit)
        return cls(limits=tuple(limits))

    @classmethod
    def of_any(cls, given: object) -> Budget:
        """A budget as Python code may give it: text as `parse` takes it, a budget, or None for no limits.

        Raises:
            InvalidValueError: It is something else, or text that is no budget.
        """
        if isinstance(given, Budget):
            return given
        if given is None or isinstance(given, str):
            return cls.parse(given or "")
        raise InvalidValueError(
            f"budget {given!r}: text with a unit, e.g. 'battery 5 %, 30 min', a Budget, or None",
            id="malformed-budget",
        )

    def of(self, kind: str) -> Limit | None:
        """The limit of a kind."""
        return next((each for each in self.limits if each.kind == kind), None)

    def check(self, device: Device, every_s: float | None) -> None:
        """Refuses limits that cannot be judged on a device, or that nothing could keep.

        Args:
            device: Where it would train.
            every_s: Time in s from the begin of one session to that of the next; None: there is one.

        Raises:
            InvalidValueError: With what would do instead.
        """
        battery = device.battery
        if self.of("battery") is not None and (battery is None or battery.capacity is None):
            raise InvalidValueError(
                f"--budget {self._text('battery')!r}: {device.name} has no battery that its file knows; "
                "limit the energy instead, e.g. 2 Wh",
                id="budget-not-on-device",
            )
        thermal, temperature = device.thermal, self.of("temperature")
        if temperature is not None:
            lacking = [
                name
                for name in ("resistance", "time_constant", "ambient")
                if getattr(thermal, name) is None
            ]
            if device.power.idle is None:
                lacking.append("idle power")
            if lacking:
                raise InvalidValueError(
                    f"--budget {temperature.text!r}: {device.name} lacks {', '.join(lacking)}, without which "
                    "nobody knows how warm it gets; leave the temperature out, or add them to its file",
                    id="budget-not-on-device",
                )
            assert thermal.ambient is not None
            if temperature.most <= thermal.ambient.value:
                raise InvalidValueError(
                    f"--budget {temperature.text!r}: the air around {device.name} has "
                    f"{thermal.ambient.value:g} °C already, and nothing cools below it; give more than that",
                    id="contradictory-budget",
                )
        time = self.of("time")
        if time is not None and every_s is not None and time.most > every_s:
            raise InvalidValueError(
                f"--budget {time.text!r}: a session begins every {quantity(every_s, 's')}, and has to be over by "
                "then; give less time, or a longer --every",
                id="contradictory-budget",
            )

    def _text(self, kind: str) -> str:
        limit = self.of(kind)
        return "" if limit is None else limit.text


def _limit(part: str) -> Limit:
    match = _PART.fullmatch(part)
    if match is None or match[3] not in UNITS:
        raise InvalidValueError(
            f"--budget {part!r}: a number and one of {', '.join(UNITS)}, e.g. 'battery 5 %, 30 min, 45 °C'",
            id="malformed-budget",
        )
    named, number, unit = match.groups()
    kind, factor = UNITS[unit]
    if named is not None and named not in SPELT_IN:
        raise InvalidValueError(
            f"--budget {part!r}: there is no {named}: {', '.join(SPELT_IN)}", id="malformed-budget"
        )
    if named is not None and named != kind:
        units = ", ".join(each for each, (of, _) in UNITS.items() if of == named)
        raise InvalidValueError(
            f"--budget {part!r}: {unit} is of {kind}, not of {named}; {named} is limited in {units}",
            id="contradictory-budget",
        )
    most = float(number) * factor
    if most <= 0 or (kind == "battery" and most > 1):
        raise InvalidValueError(
            f"--budget {part!r}: {'from above 0 to 100 %' if kind == 'battery' else 'it must be above 0'}",
            id="out-of-range",
        )
    return Limit(kind=kind, most=most, text=part)


def spelt_up(most: float, unit: str) -> str:
    """A bound as `Budget.parse` reads it, rounded up to three digits: "1.59 J".

    Args:
        most: In the unit of `SPELT_IN`, above 0.
        unit: Of `UNITS`, in which it is written.
    """
    amount = most / UNITS[unit][1]
    decimals = 2 - floor(log10(amount))
    number = ceil(amount * 10.0**decimals) / 10.0**decimals
    text = f"{number:.{max(0, decimals)}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}"


def parse_period(text: str | float) -> float:
    """Seconds between the begins of two sessions, from "day", "6 h" or "2 weeks", or a number of seconds.

    Raises:
        InvalidValueError: It is no period.
    """
    if isinstance(text, (int, float)) and not isinstance(text, bool) and 0 < text < inf:
        return float(text)
    if not isinstance(text, str):
        raise InvalidValueError(
            f"every {text!r}: text, e.g. '6 h', or a number of seconds above 0",
            id="malformed-duration",
        )
    match = _PERIOD.fullmatch(text.strip().lower())
    count, word = match.groups() if match else (None, "")
    word = word if word in PERIODS else word.removesuffix("s")
    if word not in PERIODS or (count is not None and float(count) <= 0):
        raise InvalidValueError(
            f"--every {text!r}: day, hour, week, or so many of them, e.g. '6 h'",
            id="malformed-duration",
        )
    return float(count or 1) * PERIODS[word]
