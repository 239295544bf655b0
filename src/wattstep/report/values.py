"""Figures in words: the number with its prefix and interval, its status, or the reason why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass

from wattstep.schema.figure import Figure, Status
from wattstep.schema.sanitize import brief as brief
from wattstep.schema.sanitize import plain as plain
from wattstep.schema.spelling import Notation as Notation
from wattstep.schema.spelling import quantity as quantity
from wattstep.schema.spelling import scale_of as scale_of
from wattstep.schema.spelling import spell

NO_VALUE = "—"

# Decimal prefixes throughout: 1 MB is 1,000,000 B, as disks, boards and SI have it.
BYTES_NOTE = "1 MB = 1,000,000 B"
# Marks that set numbers that no sensor gave apart from those that one did, even without colour.
_MARKS = {Status.MODELLED: "≈ ", Status.PREDICTED: "~ "}


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
        numbers = {"number": exact(self.number), "low": exact(self.low), "high": exact(self.high)}
        return {name: text for name, text in numbers.items() if text}

    @property
    def missing(self) -> bool:
        """True if there is no value."""
        return self.number is None

    @property
    def text(self) -> str:
        """Value and interval, or "missing: reason"."""
        if self.missing:
            return f"missing: {self.reason}"
        return f"{self.value} ({self.interval})" if self.interval else self.value


def show(figure: Figure, notation: Notation = "unit") -> Shown:
    """A figure as text.

    Args:
        figure: The figure; one that is `located` says where it stands.
        notation: "times" writes a ratio as a factor (1.40 ×) instead of a percentage, "count" a
            plain number whatever the unit.
    """
    pointer: str = getattr(figure, "pointer", "")
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
    spelt = spell(figure.value, figure.unit, figure.low, figure.high, figure.systematic, notation)
    mark = _MARKS.get(figure.status, "")
    return Shown(
        amount=f"{mark}{spelt.amount}",
        unit=spelt.unit,
        interval=spelt.interval,
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
