"""Calibration of a board's own power sensors against an external meter: gain, offset, and how sure they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.recorded.curves import Curve
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.stats.statistics import ends_of_estimate
from wattstep.stats.student import NORMAL

TOTAL = "total"  # the power of the whole, whatever it is made of
LEAST_WINDOWS = 20
LEAST_WINDOW_NS = 200_000_000
LEAST_CORRELATION = 0.5
MOST_LAGS = 200_000  # of the grid on which the shift is looked for
# A gain that is less sure than this says nothing that the offset alone would not.
WORST_GAIN = 0.25


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Calibration of the board's own sensors against a meter.

    meter W = gain × own W + offset_w. The covariance is that of the two estimates.

    Attributes:
        gain: With `gain_low` to `gain_high`, 95 %.
        offset_w: In W, with `offset_low` to `offset_high`.
        variance: Of gain, of offset (W²), and their covariance (W).
        center_w: Mean own power during the calibration in W.
        residual_w: Root mean square of what is left, a window, in W.
        windows: How many windows, of `window_s` each.
        correlation: Of the two powers, window by window.
        shift_s: By how much the meter's clock was moved to fit.
        accuracy: Relative accuracy of the meter itself, as its maker states it.
        source: What was calibrated against what.
    """

    gain: float
    gain_low: float
    gain_high: float
    offset_w: float
    offset_low: float
    offset_high: float
    variance: tuple[float, float, float]
    center_w: float
    residual_w: float
    windows: int
    window_s: float
    correlation: float
    shift_s: float = 0.0
    accuracy: float = 0.0
    source: str = ""

    def systematic(self, own_w: float) -> float:
        """Relative uncertainty (95 %) of the calibrated power where the sensors say `own_w`."""
        gain, offset, both = self.variance
        spread = gain * own_w**2 + offset + 2 * both * own_w
        value = self.gain * own_w + self.offset_w
        if value <= 0:
            return math.inf
        return math.hypot(NORMAL * math.sqrt(max(spread, 0.0)) / value, self.accuracy)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Calibration:
        """The inverse of `to_dict`.

        Raises:
            InvalidValueError: It is no calibration.
        """
        try:
            made = cls(**{**document, "variance": tuple(document["variance"])})
            numbers = [made.gain, made.offset_w, *made.variance, made.accuracy]
            if len(made.variance) != 3 or not all(math.isfinite(float(n)) for n in numbers):
                raise ValueError("a number is missing")
        except (TypeError, KeyError, ValueError) as error:
            raise InvalidValueError(
                f"this is no calibration: {error}", id="no-calibration"
            ) from error
        return made


def find_shift(own: Curve, meter: Curve, step_ns: int, most_ns: int) -> tuple[float, float]:
    """By how much the meter's clock must be moved for the two powers to fit best.

    Args:
        own: Cumulative energy by the board's sensors in J.
        meter: The same by the meter, on a clock of its own.
        step_ns: Grid on which both are compared.
        most_ns: The shift is looked for between -most_ns and most_ns, about where both begin.

    Returns:
        The shift in s, to be added to the meter's times, and the correlation there.

    Raises:
        InvalidValueError: One of them is too short or does not vary.
    """
    first, second = _means(own, step_ns), _means(meter, step_ns)
    if min(len(first), len(second)) < LEAST_WINDOWS:
        raise InvalidValueError(
            "the log of the meter or the run is too short to be aligned", id="too-short"
        )
    scores = _correlations(first, second)
    lags = np.arange(-(len(second) - 1), len(first))
    base = own.t_ns[0] - meter.t_ns[0]
    allowed = np.abs(lags * step_ns + (base if most_ns < 2**62 else 0)) <= most_ns
    scores = np.where(allowed, scores, -np.inf)
    best = int(np.argmax(scores))
    if not np.isfinite(scores[best]):
        raise InvalidValueError(
            "the powers of the run and the meter do not vary together", id="unrelated-power"
        )
    fine = _vertex(scores, best)
    return float(base + (lags[best] + fine) * step_ns) * 1e-9, float(scores[best])


def fit(
    own: Curve, meter: Curve, *, window_ns: int, accuracy: float = 0.0, seed: int = 0
) -> Calibration:
    """Gain and offset of the own sensors against the meter.

    Least squares over mean powers of windows. Neighbouring windows err alike: the intervals are those
    of a mean over neighbours (`stats/statistics.py`) of what each window moves the estimate by.
    Windows must be long against what either side averages over.

    Args:
        own: Cumulative energy by the board's sensors in J.
        meter: The same by the meter, on the same clock.
        window_ns: Length of a window.
        accuracy: Relative accuracy of the meter.
        seed: Of the resampling.

    Raises:
        InvalidValueError: Too few windows, no correlation, or a power that hardly varies.
    """
    window_ns = max(window_ns, LEAST_WINDOW_NS)
    begin, end = max(own.t_ns[0], meter.t_ns[0]), min(own.t_ns[-1], meter.t_ns[-1])
    edges = np.arange(begin, end + 1, window_ns, dtype=np.int64)
    x, y = _window_means(own, meter, edges)
    if len(x) < LEAST_WINDOWS:
        raise InvalidValueError(
            f"run and meter have {len(x)} windows of {window_ns * 1e-9:g} s in common: at least "
            f"{LEAST_WINDOWS} are needed",
            id="too-few-windows",
        )
    correlation = float(np.corrcoef(x, y)[0, 1]) if x.std() > 0 and y.std() > 0 else 0.0
    if correlation < LEAST_CORRELATION:
        raise InvalidValueError(
            f"the board's power and the meter's hardly vary together (correlation "
            f"{correlation:.2f}): is it the right log, and is --shift right? Power must vary in "
            "the run: add --idle 30s",
            id="unrelated-power",
        )
    gain, offset = _line(x, y)
    bounds, variance = _uncertainty(x, y - gain * x - offset, seed)
    low, high = np.add(bounds.T, [gain, offset])
    if high[0] - low[0] > 2 * WORST_GAIN * abs(gain):
        raise InvalidValueError(
            f"the power varied too little to tell gain from offset (gain {gain:.2f}, {low[0]:.2f} "
            f"to {high[0]:.2f}): record a longer run with --idle 30s",
            id="constant-power",
        )
    return Calibration(
        gain=gain,
        gain_low=float(low[0]),
        gain_high=float(high[0]),
        offset_w=offset,
        offset_low=float(low[1]),
        offset_high=float(high[1]),
        variance=variance,
        center_w=float(x.mean()),
        residual_w=float(np.sqrt(np.mean((y - gain * x - offset) ** 2))),
        windows=len(x),
        window_s=window_ns * 1e-9,
        correlation=correlation,
        accuracy=accuracy,
    )


def calibrated(curve: Curve, calibration: Calibration) -> Curve:
    """Cumulative energy as the meter would have it."""
    total = calibration.gain * curve.total + calibration.offset_w * curve.covered_ns * 1e-9
    return Curve(t_ns=curve.t_ns, total=total, unit=curve.unit, covered_ns=curve.covered_ns)


def shifted(curve: Curve, shift_s: float) -> Curve:
    """Copy on a clock that is `shift_s` ahead."""
    t_ns = curve.t_ns + np.int64(round(shift_s * 1e9))
    return Curve(t_ns=t_ns, total=curve.total, unit=curve.unit, covered_ns=curve.covered_ns)


def read_calibrations(document: Any) -> dict[str, Calibration]:
    """Calibrations by channel, from a file or a run's description.

    Raises:
        InvalidValueError: It holds none.
    """
    if not isinstance(document, Mapping) or not isinstance(document.get("calibrations"), Mapping):
        raise InvalidValueError(
            "this is no calibration: wattstep calibrate writes them", id="no-calibration"
        )
    return {
        str(name): Calibration.from_dict(each) if isinstance(each, Mapping) else _refuse(name)
        for name, each in document["calibrations"].items()
    }


def _means(curve: Curve, step_ns: int) -> FloatArray:
    """Mean power in each step from the curve's beginning; gaps take the mean of all."""
    edges = np.arange(curve.t_ns[0], curve.t_ns[-1] + 1, step_ns, dtype=np.int64)[:MOST_LAGS]
    gains, covered = curve.difference(edges[:-1], edges[1:])
    power = np.where(covered > 0.5, gains / np.maximum(covered, 1e-9) / (step_ns * 1e-9), np.nan)
    mean = float(np.nanmean(power)) if np.isfinite(power).any() else 0.0
    return np.where(np.isfinite(power), power, mean)


def _correlations(first: FloatArray, second: FloatArray) -> FloatArray:
    """Correlation of the overlapping parts at every lag; -inf where less than half overlaps."""
    lags = len(first) + len(second) - 1
    size = 1 << (lags - 1).bit_length()

    def cross(a: FloatArray, b: FloatArray) -> FloatArray:
        product = np.fft.irfft(np.fft.rfft(a, size) * np.fft.rfft(b[::-1], size), size)
        return np.asarray(product[:lags])

    one, two = np.ones(len(first)), np.ones(len(second))
    a, b = first - first.mean(), second - second.mean()
    n = np.rint(cross(one, two))
    sum_a, sum_b = cross(a, two), cross(one, b)
    above = cross(a, b) - sum_a * sum_b / n
    below = (cross(a * a, two) - sum_a**2 / n) * (cross(one, b * b) - sum_b**2 / n)
    least = max(LEAST_WINDOWS, min(len(first), len(second)) // 2)
    tiny = 1e-9 * max(float(a @ a) * float(b @ b), 1e-300)
    known = (n >= least) & (below > tiny)
    return np.where(known, above / np.sqrt(np.where(known, below, 1.0)), -np.inf)


def _vertex(scores: FloatArray, best: int) -> float:
    """Top of the parabola through the best score and its neighbours, from -0.5 to 0.5."""
    if not 0 < best < len(scores) - 1 or not np.isfinite(scores[best - 1 : best + 2]).all():
        return 0.0
    left, middle, right = scores[best - 1 : best + 2]
    bend = left - 2 * middle + right
    return 0.0 if bend >= 0 else float(np.clip(0.5 * (left - right) / bend, -0.5, 0.5))


def _window_means(own: Curve, meter: Curve, edges: IntArray) -> tuple[FloatArray, FloatArray]:
    if len(edges) < 2:
        return np.zeros(0), np.zeros(0)
    seconds = np.diff(edges) * 1e-9
    (x, seen), (y, known) = (c.difference(edges[:-1], edges[1:]) for c in (own, meter))
    whole = (seen > 0.99) & (known > 0.99)
    return (x / seconds)[whole], (y / seconds)[whole]


def _line(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    spread = x - x.mean()
    gain = float(spread @ (y - y.mean()) / (spread @ spread))
    return gain, float(y.mean() - gain * x.mean())


def _uncertainty(
    x: FloatArray, left: FloatArray, seed: int
) -> tuple[FloatArray, tuple[float, float, float]]:
    """Ends of gain and offset about the estimates, a row each; their variances and covariance.

    Args:
        x: Mean own power of each window in W.
        left: What the line leaves of the meter's, in W.
        seed: Of the resampling.
    """
    away, n = x - x.mean(), len(x)
    left = left * math.sqrt((n - 1) / (n - 2))  # two numbers were fitted, not one
    of_gain = left * away / float((away**2).mean())
    estimates = of_gain, left - x.mean() * of_gain, left  # gain, offset, power at the mean
    ends = np.array([ends_of_estimate(each, seed) for each in estimates])
    gain, _, middle = (ends[:, 1] - ends[:, 0]) / (2 * NORMAL)
    alike = float(np.corrcoef(of_gain, left)[0, 1]) if gain * middle > 0 else 0.0
    both, mean = alike * gain * middle, float(x.mean())
    of_offset = middle**2 + mean**2 * gain**2 - 2 * mean * both
    return ends[:2], (float(gain**2), float(of_offset), float(both - mean * gain**2))


def _refuse(name: Any) -> Calibration:
    raise InvalidValueError(f"this is no calibration: {name} holds no numbers", id="no-calibration")
