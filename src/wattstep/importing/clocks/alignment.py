"""Maps from one clock to another: piecewise linear, each with its uncertainty and how it was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattstep.errors import InvalidValueError
from wattstep.schema.run_documents import ClockMapFacts

Longs = NDArray[np.int64]
Floats = NDArray[np.float64]

CRYSTAL: Final = 1e-4  # clocks of computers differ by up to so much where nobody measured it
MOST_RATE: Final = 1e-3  # clocks that differ by more are no clocks: marks that say so are wrong
_FEW_MARKS: Final = 4  # from so many on, one that does not fit the line can be named
_OUTLIER: Final = 6.0  # times the usual distance from the line
_SCALE_OF_MEDIAN: Final = 1.4826  # median distance to standard deviation, of normal errors
_LEAST_NS: Final = 1_000.0  # no mark is believed to be better than a microsecond
_SECOND: Final = 1e9


class AlignmentError(InvalidValueError):
    """Two clocks that cannot be brought together by what is there; the message says what else to do."""

    id = "alignment"


@dataclass(frozen=True, kw_only=True, eq=False)
class ClockMap:
    """Map of one clock's time to another's.

    Attributes:
        from_ns: Knots in the clock that is mapped, in ns, strictly increasing, int64, shape (n,).
        to_ns: The same moments in the other clock, in ns, never decreasing, int64, shape (n,).
        uncertainty_ns: Half the 95 % interval of `to_ns`, int64, shape (n,); linear in between.
        rate: Seconds of the other clock in one of this, over all knots and beyond them.
        rate_uncertainty: Half the 95 % interval of the rate; beyond the knots the uncertainty
            grows by so much a second.
        method: How it was found: "offset", "marks", "load", "wall".
        facts: What a reader may want to know of it, JSON-ready.
        notes: What a reader must know.
    """

    from_ns: Longs
    to_ns: Longs
    uncertainty_ns: Longs
    rate: float
    rate_uncertainty: float
    method: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shape = self.from_ns.shape
        if not (len(shape) == 1 and shape[0] and self.to_ns.shape == shape):
            raise InvalidValueError("a map of clocks needs knots, the same number on both sides")
        if self.uncertainty_ns.shape != shape or (self.uncertainty_ns < 0).any():
            raise InvalidValueError("a map of clocks needs an uncertainty of each knot, 0 or more")
        if (np.diff(self.from_ns) <= 0).any() or (np.diff(self.to_ns) < 0).any():
            raise InvalidValueError("the knots of a map of clocks must not go back")
        if not (np.isfinite(self.rate) and self.rate > 0 and self.rate_uncertainty >= 0):
            raise InvalidValueError("the rate of a map of clocks must be above 0")

    def rate_interval(self) -> tuple[float, float, float]:
        """The rate and the ends of its 95 % interval."""
        return self.rate, self.rate - self.rate_uncertainty, self.rate + self.rate_uncertainty

    def map(self, t_ns: ArrayLike) -> Longs:
        """Times of this clock as times of the other, in ns; beyond the knots at the mean rate."""
        times = np.asarray(t_ns, np.int64)
        slopes = np.diff(self.to_ns) / np.diff(self.from_ns)
        slopes = np.concatenate([[self.rate], slopes, [self.rate]])
        after = np.searchsorted(self.from_ns, times, side="right")
        knot = np.maximum(after - 1, 0)
        since = times - self.from_ns[knot]
        # Nanoseconds of years do not fit a float64: only what the clocks differ by is one.
        more = np.rint(since * (slopes[after] - 1.0)).astype(np.int64)
        mapped: Longs = self.to_ns[knot] + since + more
        return mapped

    def uncertainty_at(self, t_ns: ArrayLike) -> Longs:
        """Half the 95 % interval of `map` at times of this clock, in ns."""
        times = np.asarray(t_ns, np.int64)
        base = self.from_ns[0]
        inside = np.interp(times - base, self.from_ns - base, self.uncertainty_ns)
        beyond = np.maximum(base - times, 0) + np.maximum(times - self.from_ns[-1], 0)
        half: Longs = np.ceil(inside + beyond * self.rate_uncertainty).astype(np.int64)
        return half

    def document(self) -> ClockMapFacts:
        """JSON-ready."""
        return {
            "method": self.method,
            "from_ns": self.from_ns.tolist(),
            "to_ns": self.to_ns.tolist(),
            "uncertainty_ns": self.uncertainty_ns.tolist(),
            "rate": self.rate,
            "rate_uncertainty": self.rate_uncertainty,
            "facts": dict(self.facts),
            "notes": list(self.notes),
        }


def from_offset(
    offset_s: float,
    *,
    rate: float = 1.0,
    at_ns: int = 0,
    uncertainty_s: float = 0.0,
    rate_uncertainty: float = 0.0,
    method: str = "offset",
    notes: Sequence[str] = (),
) -> ClockMap:
    """The map that a stated offset gives.

    Args:
        offset_s: The other clock less this one at `at_ns`, in s.
        rate: Seconds of the other clock in one of this.
        at_ns: When the offset holds, in this clock.
        uncertainty_s: Half the 95 % interval of the offset, in s.
        rate_uncertainty: Half that of the rate.
        method: As in `ClockMap`.
        notes: As in `ClockMap`.

    Raises:
        InvalidValueError: An offset of more than 100 years, or a rate of no clock.
    """
    if not abs(offset_s) < 3.2e9:
        raise InvalidValueError(
            f"an offset of {offset_s:g} s cannot be used: give seconds", id="out-of-range"
        )
    if not abs(rate - 1) <= 0.1:
        raise InvalidValueError(
            f"a rate of {rate:g} is no clock's: it is near 1, as 1.00002", id="out-of-range"
        )
    whole = int(np.floor(offset_s))
    offset_ns = whole * 10**9 + round((offset_s - whole) * _SECOND)
    return ClockMap(
        from_ns=np.array([at_ns], np.int64),
        to_ns=np.array([at_ns + offset_ns], np.int64),
        uncertainty_ns=np.array([np.ceil(uncertainty_s * _SECOND)], np.int64),
        rate=rate,
        rate_uncertainty=rate_uncertainty,
        method=method,
        notes=tuple(notes),
    )


# --- marks -------------------------------------------------------------------------------------


def from_marks(pairs: ArrayLike) -> ClockMap:
    """The map that moments seen in both clocks give.

    One line where the marks lie on it as well as their errors allow, else a knot a mark. A mark
    that contradicts the others is left out, with a note; where two marks contradict each other
    nobody knows which is wrong.

    Args:
        pairs: Shape (n, 2) or (n, 3), int64 in ns: this clock, the other, half the 95 % interval
            of their difference (0: not stated).

    Raises:
        AlignmentError: No marks, or they contradict each other.
    """
    table = np.asarray(pairs, np.int64)
    if table.ndim != 2 or not len(table) or table.shape[1] not in (2, 3):
        raise AlignmentError(
            "no marks to align by: give pairs of times, one of each clock", id="no-marks"
        )
    if table.shape[1] == 2:
        table = np.column_stack([table, np.zeros(len(table), np.int64)])
    table = table[np.argsort(table[:, 0], kind="stable")]
    consistent, notes = _consistent(table)
    if len(consistent) == 1:
        return _one_mark(consistent[0], notes)
    if (np.diff(consistent[:, 0]) <= 0).any() or (np.diff(consistent[:, 1]) < 0).any():
        raise AlignmentError("two marks of one moment, or in another order: remove one of them")
    return _line_or_knots(consistent, notes)


def _one_mark(mark: Longs, notes: Sequence[str]) -> ClockMap:
    note = f"one mark tells no rate: ±{CRYSTAL * 1e6:.0f} ppm are allowed for"
    return ClockMap(
        from_ns=mark[:1],
        to_ns=mark[1:2],
        uncertainty_ns=mark[2:3],
        rate=1.0,
        rate_uncertainty=CRYSTAL,
        method="marks",
        facts={"marks": 1},
        notes=(*notes, note),
    )


def _consistent(table: Longs) -> tuple[Longs, list[str]]:
    """Marks that agree with most of the others, and what is said of the rest."""
    ahead = table[:, 1] - table[:, 0]
    apart = np.abs(np.subtract.outer(table[:, 0], table[:, 0]))
    error = np.add.outer(table[:, 2], table[:, 2]) + _LEAST_NS
    agree = np.abs(np.subtract.outer(ahead, ahead)) <= MOST_RATE * apart + error
    count = agree.sum(axis=1)  # with itself
    good = count * 2 > len(table)
    if not good.any() or (len(table) == 2 and not agree.all()):
        raise AlignmentError(
            f"the marks contradict each other: clocks differ by at most {MOST_RATE * 1e6:.0f} ppm "
            "in their rate; look for a mark that was paired with the wrong moment",
            id="contradicting-marks",
        )
    good &= ~_off_the_line(table, good)
    notes = [
        f"the mark at {t_ns * 1e-9:.3f} s of the telemetry contradicts the others and was left out"
        for t_ns in table[~good, 0]
    ]
    if np.count_nonzero(~good) * 2 >= len(table):
        raise AlignmentError("half of the marks contradict the others: look for wrong pairs")
    return table[good], notes


def _off_the_line(table: Longs, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mark that lies far from the line of the others, one at most."""
    off = np.zeros(len(table), bool)
    places = np.flatnonzero(among)
    if len(places) < _FEW_MARKS:
        return off
    seconds, ahead = _centred(table[places])
    slopes = [
        (ahead[i] - ahead[j]) / (seconds[i] - seconds[j])
        for i in range(len(places))
        for j in range(i)
        if seconds[i] > seconds[j]
    ]
    left = ahead - (np.median(slopes) if slopes else 0.0) * seconds
    left -= np.median(left)
    worst = int(np.argmax(np.abs(left)))
    rest = np.delete(np.abs(left), worst)
    usual = max(_SCALE_OF_MEDIAN * float(np.median(rest)), float(table[places[worst], 2]) / 2)
    # A bend of the clock leaves all marks off a line, and the worst not far from the next worst.
    alone = abs(left[worst]) > 3 * rest.max() + _LEAST_NS
    off[places[worst]] = alone and abs(left[worst]) > _OUTLIER * max(usual, _LEAST_NS)
    return off


def _centred(table: Longs) -> tuple[Floats, Floats]:
    """Seconds from the middle, and what the other clock is ahead by in ns, less its mean."""
    middle = table[0, 0] + (table[-1, 0] - table[0, 0]) // 2
    ahead = table[:, 1] - table[:, 0]
    return (table[:, 0] - middle) / _SECOND, (ahead - ahead[0]).astype(np.float64)


def _line_or_knots(table: Longs, notes: Sequence[str]) -> ClockMap:
    seconds, ahead = _centred(table)
    slope, level = np.polyfit(seconds, ahead, 1)
    left = ahead - level - slope * seconds
    stated = table[:, 2].astype(np.float64)
    bent = _bends(seconds, ahead, left, stated)
    scatter = _between(seconds, ahead) if bent else _scatter(left, len(table) - 2)
    error = np.hypot(stated, scatter)
    span = float(seconds[-1] - seconds[0])
    rate_error = float(np.hypot(error[0], error[-1])) / span * 1e-9
    if len(table) == 2 and not stated.any():
        notes = [*notes, "two marks without a stated error: nothing tells how far they are right"]
    to_ns = table[:, 1] if bent else _on_line(table, level + slope * seconds)
    keep = np.arange(len(table)) if bent else np.array([0, len(table) - 1])
    return ClockMap(
        from_ns=table[keep, 0],
        to_ns=to_ns[keep],
        uncertainty_ns=np.ceil(error[keep]).astype(np.int64),
        rate=1.0 + float(slope) * 1e-9,
        rate_uncertainty=rate_error,
        method="marks",
        facts={"marks": len(table), "residual_ns": float(np.abs(left).max())},
        notes=tuple(notes),
    )


def _on_line(table: Longs, ahead: Floats) -> Longs:
    placed: Longs = table[:, 0] + (table[0, 1] - table[0, 0]) + np.rint(ahead).astype(np.int64)
    return placed


def _bends(seconds: Floats, ahead: Floats, left: Floats, stated: Floats) -> bool:
    """True if one line does not suffice: beyond the stated errors, or where neighbours tell more."""
    if len(seconds) < _FEW_MARKS:
        return False
    if stated.all():
        return bool((np.abs(left) > 1.5 * stated).any())
    return _between(seconds, ahead) < _scatter(left, len(left) - 2) / 2


def _scatter(left: Floats, degrees_of_freedom: int) -> float:
    """Half the 95 % interval of one mark about the line."""
    return (
        2.0 * float(np.sqrt((left**2).sum() / degrees_of_freedom))
        if degrees_of_freedom > 0
        else 0.0
    )


def _between(seconds: Floats, ahead: Floats) -> float:
    """Half the 95 % interval of a mark about the line through its two neighbours."""
    share = (seconds[1:-1] - seconds[:-2]) / (seconds[2:] - seconds[:-2])
    expected = ahead[:-2] + share * (ahead[2:] - ahead[:-2])
    return 2.0 * float(np.sqrt(np.mean((ahead[1:-1] - expected) ** 2)))
