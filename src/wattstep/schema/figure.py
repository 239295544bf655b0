"""A figure: a number with its unit, uncertainty, status and source, so that no bare number leaves the analysis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, TypedDict, cast

from wattstep.errors import InvalidValueError
from wattstep.schema.sanitize import plain
from wattstep.schema.spelling import spell

CLOCK: Final = "monotonic clock"  # source of what was timed on the host


class Status(str, Enum):
    """Origin of a number, from the strongest to the weakest."""

    COUNTED = "counted"  # exact: parameters, FLOPs
    MEASURED = "measured"  # a sensor or a clock
    ATTRIBUTED = "attributed"  # a measured whole, divided among parts by a stated method
    REPLAYED = "replayed"  # recorded sensors
    MODELLED = "modelled"  # computed from measured activity by a model
    PREDICTED = "predicted"  # no such run took place
    MISSING = "missing"  # no value, with a reason

    @property
    def rank(self) -> int:
        """Position from strong (0) to weak."""
        return list(Status).index(self)


def weakest(statuses: Iterable[Status]) -> Status:
    """The status of something made from several inputs: that of the weakest of them."""
    return max(statuses, key=lambda status: status.rank)


class Missing(str):
    """Reason why there is no value, given in the value's place: `Ceilings | Missing`.

    It is a str, so that it is shown and joined as it stands, and `missing` makes a Figure of it;
    what tells it from a value is `isinstance(x, Missing)`.
    """

    __slots__ = ()


_ORDER = (
    "value", "unit", "low", "high", "confidence", "n", "method", "systematic", "status", "source",
    "reason",
)  # fmt: skip


class _FigureCore(TypedDict):
    value: float | None
    unit: str
    status: str


class FigureDocument(_FigureCore, total=False):
    """A Figure as JSON; documents of other tools may have value, unit and status alone."""

    low: float | None
    high: float | None
    confidence: float | None
    n: int | None
    method: str | None
    systematic: float | None
    source: str | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A number that leaves the analysis.

    Its text is `18.4 ms (17.5 to 19.3, measured)` or `missing: reason`. `float(figure)` is the value
    in `unit`, and `f"{figure:.3f}"` formats that; of a missing one both raise InvalidValueError.

    Attributes:
        value: The number in `unit`, or None where the status is missing.
        unit: SI unit ("s", "J", "W", "B", "samples/s") or "ratio".
        low: Lower end of the statistical interval, same unit.
        high: Upper end of the statistical interval, same unit.
        confidence: Coverage of the interval, e.g. 0.95.
        n: How many observations the statistic rests on.
        method: How value and interval were computed, with the unit that was resampled.
        systematic: Relative error of the sensor (gain, offset, half of its smallest step), kept apart
            from the interval.
        status: How the number came about.
        source: The sensor, clock or model that it rests on.
        reason: Why it is missing, or what the reader must know.
    """

    value: float | None
    unit: str
    status: Status
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    n: int | None = None
    method: str | None = None
    systematic: float | None = None
    source: str | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        if self.status is Status.MISSING:
            if self.value is not None:
                raise InvalidValueError("a missing figure has no value", id="missing-with-value")
            if not self.reason:
                raise InvalidValueError(
                    "a missing figure needs a reason", id="figure-without-reason"
                )
        elif self.value is None or self.value != self.value:
            raise InvalidValueError(
                f"a figure that is {self.status.value} needs a value", id="figure-without-value"
            )

    @property
    def missing(self) -> bool:
        """True if there is no value."""
        return self.status is Status.MISSING

    def __str__(self) -> str:
        if self.value is None:
            return f"missing: {plain(self.reason)}"
        spelt = spell(self.value, self.unit, self.low, self.high, self.systematic)
        beside = ", ".join(part for part in (spelt.interval, self.status.value) if part)
        return f"{spelt.value} ({beside})"

    def __repr__(self) -> str:
        return f"<Figure: {self}>"

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else str(self)

    def __float__(self) -> float:
        if self.value is None:
            raise InvalidValueError(f"the figure has no value: {plain(self.reason)}", id="no-value")
        return float(self.value)

    @property
    def half_width(self) -> float:
        """Half of the interval's width, 0 without one; what it reaches upward where 0 cut it off."""
        if self.value is None or self.low is None or self.high is None:
            return 0.0
        half = (self.high - self.low) / 2
        return max(half, self.high - self.value) if self.low == 0 else half

    def scaled(self, factor: float, unit: str) -> Figure:
        """Figure in another unit: value and interval times `factor` (positive)."""

        def times(number: float | None) -> float | None:
            return None if number is None else number * factor

        return replace(
            self, value=times(self.value), low=times(self.low), high=times(self.high), unit=unit
        )

    def share_of(self, whole: float) -> Figure:
        """Share of a whole (positive, same unit) of which this is a part.

        Few parts that differ much have a mean whose interval reaches beyond the whole, or below
        nothing: it is cut where a share ends, which takes away no value that could be the true one.
        """
        share = self.scaled(1 / whole, "ratio")
        if share.value is None or share.low is None or share.high is None:
            return share
        low, high = max(share.low, 0.0), min(share.high, 1.0)
        return replace(share, low=min(low, share.value), high=max(high, share.value))

    def to_dict(self) -> FigureDocument:
        """All fields, JSON-ready, in the order of the design."""
        # Not `asdict`, which copies deeply: documents hold tens of thousands of figures.
        document = {**{key: getattr(self, key) for key in _ORDER}, "status": self.status.value}
        return cast(FigureDocument, document)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Figure:
        """The inverse of `to_dict`."""
        return cls(**{**document, "status": Status(document["status"])})


def missing(unit: str, reason: str) -> Figure:
    """A figure that has no value, with the reason: a text, or the `Missing` that stands for the value."""
    return Figure(value=None, unit=unit, status=Status.MISSING, reason=str(reason))


def counted(value: float, unit: str, source: str) -> Figure:
    """A figure that is exact."""
    return Figure(value=value, unit=unit, status=Status.COUNTED, source=source)
