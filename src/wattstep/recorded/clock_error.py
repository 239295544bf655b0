"""Change of a figure with the offset between the clocks of samples and steps, and the interval of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from wattstep.recorded.curves import Curve
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.figure import Figure, missing
from wattstep.schema.spelling import rounded

SHIFTS: Final = (-1.0, -0.5, 0.5, 1.0)  # of the uncertainty, by which samples are moved
MOST: Final = 0.5  # of a value: what moves by more is not told
CONFIDENCE: Final = 0.95  # that uncertainties of alignments are stated with
ADVICE: Final = (
    "align the clocks more closely (--align load, or --align offset:SECONDS where it is known)"
)
_WIDENED = "how far this moves within that was added to both sides of the interval"
_ALONE = "the interval is how far this moves within that, and nothing else"


@dataclass(frozen=True, kw_only=True)
class ClockError:
    """Largest offset between the clock of samples and that of steps.

    Attributes:
        seconds: Half of the interval (95 %) that it lies in, in s.
        words: The same for a sentence: "clocks aligned to ± 12 ms by load".
        centred: Whether the middle of what a value averages over was brought to the steps, and
            not its end.
    """

    seconds: float
    words: str
    centred: bool = False

    @property
    def shifts_ns(self) -> tuple[int, ...]:
        """By how much samples are moved to see what figures do, in ns."""
        return tuple(round(share * self.seconds * 1e9) for share in SHIFTS)

    def loose(self, values: FloatArray, moved: FloatArray, least: float = 0.0) -> BoolArray:
        """Mask of values that move by more than half of themselves, or are unknown when moved.

        Args:
            values: As they are, shape (n,).
            moved: With the samples moved by each of `shifts_ns`, shape (n, shifts).
            least: What moves by no more than this stays, in the unit of the values.
        """
        low, high = envelope(values, moved)
        half_width = np.maximum(values - low, high - values)
        firm: BoolArray = half_width <= np.maximum(MOST * np.abs(values), least)
        return ~firm

    def reason(self, value: float, moved: FloatArray, unit: str) -> str:
        """Reason why a value that is loose is not told.

        Args:
            value: As it is.
            moved: With the samples moved, shape (shifts,).
            unit: Of both.
        """
        return f"not resolvable: {self.words}, {self._within(value, moved, unit)}; {ADVICE}"

    def _within(self, value: float, moved: FloatArray, unit: str) -> str:
        if not np.isfinite(moved).all():
            return "and nothing is sampled at one end of that"
        (low,), (high,) = envelope(np.array([value]), moved[None, :])
        return f"within which this is anything from {rounded(low)} to {rounded(high)} {unit}"

    def widened(self, figure: Figure, moved: FloatArray) -> Figure:
        """The figure with its interval widened on both sides by how far it moves.

        The two add up: a clock that lies beside moves all steps alike, so that no mean over steps
        makes it less.

        Args:
            figure: Whose interval, if any, is of what varies between steps.
            moved: Its value with the samples moved, shape (shifts,).
        """
        if figure.value is None:
            return figure
        value = figure.value
        (least,), (most,) = envelope(np.array([value]), moved[None, :])
        if not np.isfinite([least, most]).all():
            words = f"{self.words}: no interval is known"
            return replace(
                figure, low=None, high=None, confidence=None, method=_joined(figure.method, words)
            )
        statistic = figure.low is not None and figure.high is not None
        below, above = (figure.low, figure.high) if statistic else (value, value)
        assert below is not None
        assert above is not None
        low, high = below - (value - float(least)), above + (float(most) - value)
        words = f"{self.words}: {_WIDENED if statistic else _ALONE}"
        return replace(
            figure,
            low=max(low, 0.0) if value >= 0 else low,
            high=high,
            confidence=figure.confidence or CONFIDENCE,
            method=_joined(figure.method, words),
        )

    def applied(self, figure: Figure, moved: FloatArray) -> Figure:
        """The figure widened, or missing where it moves by more than half of itself.

        Args:
            figure: As `widened`.
            moved: As `widened`.
        """
        if figure.value is None:
            return figure
        if self.loose(np.array([figure.value]), moved[None, :])[0]:
            return missing(figure.unit, self.reason(figure.value, moved, figure.unit))
        return self.widened(figure, moved)


def envelope(values: FloatArray, moved: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Between what values may lie within the uncertainty of the clock; NaN where one is not known.

    Between two shifts that were tried a value may lie beyond both: as far as changes allow that
    are twice as steep as the steepest from one shift to the next.

    Args:
        values: As they are, shape (n,).
        moved: With the samples moved by each of `SHIFTS`, shape (n, shifts).
    """
    half = len(SHIFTS) // 2
    course = np.concatenate([moved[:, :half], values[:, None], moved[:, half:]], axis=1)
    middle = (course[:, 1:] + course[:, :-1]) / 2
    beyond = np.abs(np.diff(course, axis=1)).max(axis=1)
    return middle.min(axis=1) - beyond, middle.max(axis=1) + beyond


def _joined(method: str | None, words: str) -> str:
    return f"{method}; {words}" if method else words


def shifted(
    curve: Curve, gauge: tuple[IntArray, FloatArray] | None, by_ns: int
) -> tuple[Curve, tuple[IntArray, FloatArray] | None]:
    """A curve, and the samples that it integrates, at later times.

    Args:
        curve: Accumulated.
        gauge: Samples (t_ns, value), or None.
        by_ns: How much later, in ns.
    """
    moved = replace(curve, t_ns=curve.t_ns + by_ns)
    return moved, None if gauge is None else (gauge[0] + by_ns, gauge[1])
