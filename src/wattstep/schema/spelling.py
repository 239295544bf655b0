"""Format of numbers with units: the prefix, as many digits as the interval needs, the interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from wattstep.schema.sanitize import plain

Notation = Literal["unit", "times", "count"]

_PREFIXES = {-12: "p", -9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}
# The range of prefixes that is usual with a unit, as powers of ten.
_USUAL = {
    "s": (-9, 0),
    "J": (-9, 6),
    "Wh": (-6, 6),
    "W": (-6, 6),
    "V": (-6, 3),
    "A": (-6, 3),
    "Hz": (0, 9),
    "B": (0, 15),
    "B/s": (0, 15),
    "FLOP": (0, 15),
    "FLOP/s": (0, 15),
}
_UNITLESS = ("", "1", "count")
_LEAST_DIGITS, _MOST_DIGITS = 3, 5


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Format of numbers of one unit: times `factor`, then `suffix`."""

    factor: float
    suffix: str


@dataclass(frozen=True, kw_only=True)
class Spelling:
    """A number with its interval as text.

    Attributes:
        amount: The number: "3.41".
        unit: Unit with its prefix, or "".
        interval: "3.30 to 3.52" in the same unit, or ""; with the error of the sensor,
            "3.30 to 3.52; sensor ± 8 %", where that reaches further.
    """

    amount: str
    unit: str
    interval: str

    @property
    def value(self) -> str:
        """Number and unit: "3.41 ms"."""
        return f"{self.amount} {self.unit}".rstrip()


def spell(
    value: float,
    unit: str,
    low: float | None = None,
    high: float | None = None,
    systematic: float | None = None,
    notation: Notation = "unit",
) -> Spelling:
    """A number as text.

    Args:
        value: In `unit`.
        unit: SI unit or "ratio".
        low: Lower end of the interval, same unit.
        high: Upper end of the interval, same unit.
        systematic: Relative error of the sensor.
        notation: "times" writes a ratio as a factor (1.40 ×) instead of a percentage, "count" a
            plain number whatever the unit.
    """
    scale = scale_of(value or high or 0.0, unit, notation)
    numbers = [number for number in (value, low, high) if number is not None]
    whole = _whole("count" if notation == "count" else unit, *numbers)
    decimals = 0 if whole else _decimals(value, low, high, scale)
    return Spelling(
        amount=_written(value, scale, decimals),
        unit=scale.suffix.strip(),
        interval=_interval(value, low, high, systematic or 0.0, scale, decimals),
    )


def quantity(value: float, unit: str, notation: Notation = "unit") -> str:
    """A plain number of a document, such as the memory of a device, with unit and prefix."""
    return spell(value, unit, notation=notation).value


def rounded(value: float, digits: int = 3) -> str:
    """A number inside a sentence, with so many digits and never an exponent: "0.0123", "290"."""
    if not math.isfinite(value):
        return f"{value:g}"
    number = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - (math.floor(math.log10(abs(number))) if number else 0))
    text = f"{number:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def scale_of(value: float, unit: str, notation: Notation = "unit") -> Scale:
    """The factor and the suffix that make `value`, and its neighbours, easy to read."""
    if notation == "count" or unit in _UNITLESS:
        return Scale(factor=1.0, suffix="")
    if unit == "ratio":
        if notation == "times":
            return Scale(factor=1.0, suffix=" ×")
        return Scale(factor=100.0, suffix=" %")
    if unit not in _USUAL:
        return Scale(factor=1.0, suffix=f" {plain(unit)}")
    lowest, highest = _USUAL[unit]
    power = min(max(3 * math.floor(_magnitude(value) / 3), lowest), highest)
    return Scale(factor=10.0**-power, suffix=f" {_PREFIXES[power]}{unit}")


def _magnitude(value: float) -> int:
    """Power of ten of the first digit, after rounding to the digits that will be shown."""
    if value == 0 or not math.isfinite(value):
        return 0
    return int(f"{abs(value):.{_LEAST_DIGITS - 1}e}".partition("e")[2])


def _decimals(value: float, low: float | None, high: float | None, scale: Scale) -> int:
    """Enough decimals for three digits of the value, and to tell the ends of the interval apart."""
    anchor = (value or high or 0.0) * scale.factor
    fewest = _decimals_for(anchor, _least_digits(anchor, scale))
    if low is None or high is None or low == high:
        return fewest
    for decimals in range(fewest, _decimals_for(anchor, _MOST_DIGITS) + 1):
        if _written(low, scale, decimals) != _written(high, scale, decimals):
            return decimals
    return fewest


def _whole(unit: str, *numbers: float) -> bool:
    """True for a count of things, which has no decimals."""
    plain_unit = unit not in _USUAL and unit != "ratio"
    return plain_unit and all(math.isfinite(n) and n == int(n) for n in numbers)


def _least_digits(scaled: float, scale: Scale) -> int:
    """Three digits; two of a part of a per cent."""
    return _LEAST_DIGITS - 1 if scale.suffix == " %" and abs(scaled) < 1 else _LEAST_DIGITS


def _decimals_for(value: float, digits: int) -> int:
    return max(0, digits - 1 - _magnitude(value))


def _written(value: float, scale: Scale, decimals: int) -> str:
    scaled = value * scale.factor
    if not math.isfinite(scaled):
        return "∞" if scaled > 0 else "-∞"
    if decimals > 9:  # far below the smallest prefix in use
        return f"{scaled:.2e}"
    if scaled == 0:
        return "0"
    text = f"{scaled:,.{decimals}f}"
    return text if text.strip("-0.,") else text.lstrip("-")


def _interval(
    value: float,
    low: float | None,
    high: float | None,
    systematic: float,
    scale: Scale,
    decimals: int,
) -> str:
    """The ends, and the sensor's error where an interval of the samples alone would look too sure."""
    ends, half_width = "", 0.0
    if low is not None and high is not None:
        ends = f"{_end(low, value, scale, decimals)} to {_end(high, value, scale, decimals)}"
        half_width = (high - low) / 2
    beside = f"sensor ± {_percent(systematic)}" if systematic * abs(value) > half_width else ""
    return "; ".join(part for part in (ends, beside) if part)


def _end(end: float, value: float, scale: Scale, decimals: int) -> str:
    """An end with the decimals of the value; with three digits where it is far larger.

    Decimals that tell the ends apart stay.
    """
    usual = _decimals_for((value or end) * scale.factor, _LEAST_DIGITS)
    if decimals <= usual:
        decimals = min(decimals, _decimals_for(end * scale.factor, _LEAST_DIGITS))
    return _written(end, scale, decimals)


def _percent(share: float) -> str:
    """Two digits, and no decimals from 10 % on."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"
