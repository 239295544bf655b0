"""Figures in words: the number with its prefix and interval, its status, or the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

from wattstep.records.figure import Figure, Status
from wattstep.records.plain_text import brief as brief
from wattstep.records.plain_text import plain as plain

Notation = Literal["unit", "times", "count"]

NO_VALUE = "—"

# Decimal prefixes throughout: 1 MB is 1,000,000 B, as disks, boards and SI have it.
BYTES_NOTE = "1 MB = 1,000,000 B"

_PREFIXES = {-12: "p", -9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}
# The range of prefixes that is usual with a unit, as powers of ten.
_USUAL = {
    "s": (-9, 0),
    "J": (-9, 6),
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
# Marks that set numbers that no sensor gave apart from those that one did, even without colour.
_MARKS = {Status.MODELLED: "≈ ", Status.PREDICTED: "~ "}
_LEAST_DIGITS, _MOST_DIGITS = 3, 5


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How numbers of one unit are written: times `factor`, then `suffix`."""

    factor: float
    suffix: str


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A figure as text.

    Attributes:
        amount: The number, marked where no sensor gave it: "3.41", "≈ 5.20"; a dash for none.
        unit: Unit with its prefix, or "".
        interval: "3.30 to 3.52" in the unit of the value, or ""; with the error of the sensor,
            "3.30 to 3.52; sensor ± 8 %", where that reaches further.
        status: One of the words of `Status`.
        reason: Why it is missing, or what the reader must know; "" if nothing.
        detail: Method, source and systematic error in one line, or "".
        number: The value itself, for sorting.
        low: Lower end of the interval, or None.
        high: Upper end of the interval, or None.
        base_unit: Unit of `number`, `low` and `high`, without a prefix.
        pointer: Where the figure stands in the document of `--json`, or "" (`located.located`).
    """

    amount: str
    unit: str
    interval: str
    status: str
    reason: str
    detail: str
    number: float | None
    low: float | None = None
    high: float | None = None
    base_unit: str = ""
    pointer: str = ""

    @property
    def value(self) -> str:
        """Number and unit, e.g. "3.41 ms" or "≈ 5.20 W"; a dash where there is none."""
        return f"{self.amount} {self.unit}".rstrip()

    @property
    def exact(self) -> dict[str, str]:
        """Value and ends of the interval with all digits, by name; none that is not there."""
        found = {"number": exact(self.number), "low": exact(self.low), "high": exact(self.high)}
        return {name: text for name, text in found.items() if text}

    @property
    def missing(self) -> bool:
        """Whether there is no value."""
        return self.number is None

    @property
    def text(self) -> str:
        """Value and interval, or "missing: reason"."""
        if self.missing:
            return f"missing: {self.reason}"
        return f"{self.value} ({self.interval})" if self.interval else self.value


def is_figure(thing: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether a part of a document is a figure."""
    return isinstance(thing, Mapping) and {"value", "unit", "status"} <= thing.keys()


def show(document: Mapping[str, Any], notation: Notation = "unit") -> Shown:
    """A figure as text.

    Args:
        document: The figure, as `Figure.to_dict` writes it.
        notation: "times" writes a ratio as a factor (1.40 ×) instead of a percentage, "count" a
            plain number whatever the unit.
    """
    figure = Figure.from_dict(document)
    pointer: str = getattr(document, "pointer", "")
    if figure.value is None:
        return Shown(
            amount=NO_VALUE,
            unit="",
            interval="",
            status=figure.status.value,
            reason=plain(figure.reason or ""),
            detail="",
            number=None,
            base_unit=plain(figure.unit),
            pointer=pointer,
        )
    scale = scale_of(figure.value or figure.high or 0.0, figure.unit, notation)
    decimals = 0 if _is_whole(figure, notation) else _decimals(figure, scale)
    mark = _MARKS.get(figure.status, "")
    return Shown(
        amount=f"{mark}{_written(figure.value, scale, decimals)}",
        unit=scale.suffix.strip(),
        interval=_interval(figure, scale, decimals),
        status=figure.status.value,
        reason=plain(figure.reason or ""),
        detail=_detail(figure),
        number=figure.value,
        low=figure.low,
        high=figure.high,
        base_unit=plain(figure.unit),
        pointer=pointer,
    )


def exact(number: float | None) -> str:
    """A number with all its digits, as JavaScript reads it; "" for none."""
    if number is None:
        return ""
    return repr(float(number)) if math.isfinite(number) else ("-" * (number < 0) + "Infinity")


def quantity(value: float, unit: str, notation: Notation = "unit") -> str:
    """A plain number of a document, such as the memory of a device, with unit and prefix."""
    scale = scale_of(value, unit, notation)
    scaled = value * scale.factor
    decimals = 0 if _whole(unit, value) else _decimals_for(scaled, _least_digits(scaled, scale))
    return f"{_written(value, scale, decimals)}{scale.suffix}"


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


def _decimals(figure: Figure, scale: Scale) -> int:
    """Enough decimals for three digits of the value, and to tell the ends of the interval apart."""
    anchor = (figure.value or figure.high or 0.0) * scale.factor
    fewest = _decimals_for(anchor, _least_digits(anchor, scale))
    if figure.low is None or figure.high is None or figure.low == figure.high:
        return fewest
    for decimals in range(fewest, _decimals_for(anchor, _MOST_DIGITS) + 1):
        if _written(figure.low, scale, decimals) != _written(figure.high, scale, decimals):
            return decimals
    return fewest


def _is_whole(figure: Figure, notation: Notation) -> bool:
    """Whether it is a count of things, which has no decimals."""
    numbers = [n for n in (figure.value, figure.low, figure.high) if n is not None]
    return _whole("count" if notation == "count" else figure.unit, *numbers)


def _whole(unit: str, *numbers: float) -> bool:
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


def _interval(figure: Figure, scale: Scale, decimals: int) -> str:
    if figure.low is None or figure.high is None:
        return _beside(figure, 0.0)
    low, high = (_written(end, scale, decimals) for end in (figure.low, figure.high))
    beside = _beside(figure, (figure.high - figure.low) / 2)
    return f"{low} to {high}{'; ' if beside else ''}{beside}"


def _beside(figure: Figure, half_width: float) -> str:
    """The systematic error, where an interval of the samples alone would look too sure."""
    reach = (figure.systematic or 0.0) * abs(figure.value or 0.0)
    return f"sensor ± {_percent(figure.systematic or 0.0)}" if reach > half_width else ""


def _percent(share: float) -> str:
    """Two digits, and no decimals from 10 % on."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def _detail(figure: Figure) -> str:
    parts = []
    if figure.confidence is not None and figure.low is not None:
        parts.append(f"{100 * figure.confidence:g} % interval")
    if figure.n is not None:
        parts.append(f"n = {figure.n:,}")
    if figure.method:
        parts.append(plain(figure.method))
    if figure.source:
        parts.append(f"source: {plain(figure.source)}")
    if figure.systematic is not None:
        parts.append(f"systematic error ± {100 * figure.systematic:.3g} %")
    return "; ".join(parts)
