"""Forecast of a run's rest from its first steps, with an interval that knows what few steps cannot know.

Step times do not only scatter, they drift: caches, clocks, other programs and heat change their
level on every scale of time. Allan's variance, that of the difference between the means of
neighbouring stretches, shows both: scatter falls with the length of the stretches, drift stays
(a flicker floor; Allan 1966). The rest of a run is one more stretch, longer than any that was seen:
each doubling adds as much drift as the doubling before. How much that is, few steps tell badly,
which the few degrees of freedom of the interval account for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.schema.arrays import FloatArray
from wattstep.schema.figure import Figure, Missing, Status, missing
from wattstep.stats.student import critical_value

CONFIDENCE = 0.9
LEAST = 5  # steps after the warm-up
FLOOR = 0.02  # drift of step times, part of their mean, where no step has shown any yet
FLOOR_WEIGHT = 1.0  # as many comparisons of stretches as that counts for
GROWTH = 1.5  # drift that each doubling adds, over what neighbouring stretches show
SLOPE_SURE = 2.5  # standard errors, from which on a slope counts
SLOPE_HOLDS = 2.0  # as long as it was seen, times so much, it is taken to go on


@dataclass(frozen=True, kw_only=True)
class ExpectedMean:
    """Expected mean of the values to come.

    Attributes:
        mean: Of a value to come.
        error: Its standard error, drift included.
        dof: Degrees of freedom of that.
        drift: Part of the mean that stretches differ by beyond their scatter.
        slope: Change of the mean that a slope in what was seen makes in what is to come.
        n: How many values it rests on.
    """

    mean: float
    error: float
    dof: float
    drift: float
    slope: float
    n: int

    def half_width(self, confidence: float = CONFIDENCE) -> float:
        """Half of the width of the interval of the mean."""
        return self.error * critical_value(confidence, max(round(self.dof), 1))


def expected_mean(
    values: FloatArray, steps_left: float, each: float = 1.0
) -> ExpectedMean | Missing:
    """The mean of values to come, by how the values so far scatter and drift.

    Args:
        values: So far, in order, warm-up left out, none missing, shape (n,): means of `each` steps.
        steps_left: How many steps are to come, above 0.
        each: Steps that a value is the mean of.

    Returns:
        What is expected, or why nothing is.

    Raises:
        InvalidValueError: A value is NaN or infinite, or nothing is to come.
    """
    if not np.isfinite(values).all():
        raise InvalidValueError(
            "a forecast needs values that are finite: leave out the others", id="not-finite"
        )
    if not (steps_left > 0 and each > 0):
        raise InvalidValueError("a forecast needs something that is to come", id="nothing-to-come")
    n = len(values)
    if n < LEAST:
        return Missing(f"{n} steps after the warm-up are too few: {LEAST} are needed")
    mean = float(values.mean())
    if not mean > 0:
        return Missing("the steps took nothing so far")
    relative = values / mean - 1
    scatter = _scatter(relative)
    future = steps_left / each
    floor, dof = _floor(relative, scatter)
    slope, slope_error = _slope(relative, scatter, future)
    # Two neighbouring stretches of equal length differ by twice Allan's variance.
    octaves = (
        2 + GROWTH * math.log2(max(future / n, 1.0))
        if future >= 0.5 * n
        else 2 * future / (future + n) + 1
    )
    variance = scatter * (1 / n + 1 / future) + floor * octaves + slope_error**2
    return ExpectedMean(
        mean=mean * (1 + slope), error=mean * math.sqrt(variance), dof=dof,
        drift=math.sqrt(floor), slope=slope, n=round(n * each),
    )  # fmt: skip


def begun(values: FloatArray) -> int:
    """Number of values of a series' beginning: the cut that leaves the smallest standard error.

    The rule MSER (White 1997) of simulations that start empty; at most half is cut off.
    """
    n = len(values)
    if n < 2 * LEAST:
        return 0
    reverse = values[::-1]
    count = np.arange(1, n + 1)
    total, squares = np.cumsum(reverse), np.cumsum(reverse**2)
    errors = np.maximum(squares - total**2 / count, 0.0) / count**2
    left = errors[::-1][: n // 2 + 1]
    return int(np.argmin(left))


def _scatter(relative: FloatArray) -> float:
    """Variance of a single value that counts for means: short-range correlation included."""
    n = len(relative)
    left = relative - relative.mean()
    lag_one = float(left[1:] @ left[:-1]) / max(float(left @ left), 1e-300)
    lag_one = float(np.clip(lag_one + (1 + 3 * lag_one) / n, 0.0, 0.8))
    return float(left @ left) / (n - 1) * (1 + lag_one) / (1 - lag_one)


def allan(relative: FloatArray, length: int) -> tuple[float, int]:
    """Allan's variance of stretches of so many values, and of how many comparisons."""
    count = len(relative) // length
    # From the end on: what comes is more like what was last.
    means = relative[len(relative) - count * length :].reshape(count, length).mean(axis=1)
    return float((np.diff(means) ** 2).mean()) / 2, count - 1


def _floor(relative: FloatArray, scatter: float) -> tuple[float, float]:
    """The variance by which stretches drift, and its degrees of freedom."""
    floor, comparisons = 0.0, 1
    for parts in (2, 4, 8):
        if (length := len(relative) // parts) < 2:
            break
        seen, compared = allan(relative, length)
        if seen - scatter / length >= floor:
            floor, comparisons = seen - scatter / length, compared
    weight = FLOOR_WEIGHT + comparisons
    return (FLOOR_WEIGHT * FLOOR**2 + comparisons * floor) / weight, weight


def _slope(relative: FloatArray, scatter: float, future: float) -> tuple[float, float]:
    """Addition of a clear slope to the mean of what is to come, and its uncertainty.

    Whether it goes on is not known: it counts by half, give or take the other half.
    """
    n = len(relative)
    if n < 4 * LEAST:
        return 0.0, 0.0
    t = np.arange(n) - (n - 1) / 2
    square = float(t @ t)
    slope = float(t @ relative) / square
    left = relative - slope * t
    error = math.sqrt(max(_scatter(left), 1e-300) / square)
    if abs(slope) < SLOPE_SURE * error:
        return 0.0, 0.0
    lasts = min(future, SLOPE_HOLDS * n)
    # The mean of what is to come, over all of it: it climbs, then stays. Steps that get shorter, as
    # those beside a program that ended, get no shorter than the shortest so far.
    climb = max(slope * (n / 2 + lasts - lasts**2 / (2 * future)), float(relative.min()))
    return 0.5 * climb, 0.5 * abs(climb)


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Forecast of a run as a whole.

    Attributes:
        time: In s, from the first step to the last.
        time_left: In s.
        drift: See `ExpectedMean`; None where there is none.
    """

    time: Figure
    time_left: Figure
    drift: float | None = None


LATER = "what has not begun yet (throttling, another program) is in no step so far"


def forecast_time(
    seconds: FloatArray, done_s: float, steps_left: int, warmup: int, source: str
) -> Forecast:
    """The time of a run of which the first steps are done.

    Args:
        seconds: Times of the steps so far, with what lay between, shape (n,).
        done_s: Time since the first step began, in s.
        steps_left: Steps to come.
        warmup: First steps that do not count.
        source: The clock.
    """
    if steps_left <= 0:
        value = Figure(value=done_s, unit="s", status=Status.MEASURED, source=source)
        return Forecast(time=value, time_left=Figure(
            value=0.0, unit="s", status=Status.COUNTED, source=source,
        ))  # fmt: skip
    steady = seconds[warmup:]
    steady = steady[np.isfinite(steady)]
    expected = expected_mean(steady[begun(steady) :], steps_left)
    if isinstance(expected, Missing):
        return Forecast(time=missing("s", expected), time_left=missing("s", expected))
    left = predicted(expected, steps_left, "s", source)
    return Forecast(time=shifted(left, done_s), time_left=left, drift=expected.drift)


def predicted(expected: ExpectedMean, times: float, unit: str, source: str) -> Figure:
    """So many times the mean to come, as a figure."""
    value, half_width = expected.mean * times, expected.half_width() * times
    return Figure(
        value=value, low=max(value - half_width, 0.0), high=value + half_width, unit=unit,
        confidence=CONFIDENCE, n=expected.n, status=Status.PREDICTED, source=source,
        method=f"mean of the steps so far, which drift by {100 * expected.drift:.1f} % of it beyond their "
        f"scatter (Allan's variance); 90 % interval of Student",
        reason=LATER,
    )  # fmt: skip


def shifted(figure: Figure, by: float) -> Figure:
    """A predicted figure with what is known already added."""
    assert figure.value is not None
    assert figure.low is not None
    assert figure.high is not None
    return Figure(
        value=figure.value + by, low=figure.low + by, high=figure.high + by, unit=figure.unit,
        confidence=figure.confidence, n=figure.n, status=figure.status, source=figure.source,
        method=figure.method, systematic=figure.systematic, reason=figure.reason,
    )  # fmt: skip


def energy_left(time: Figure, power: ExpectedMean | Missing, source: str) -> Figure:
    """Energy to come: time left times mean power to come, both with their errors.

    Args:
        time: Time left in s.
        power: Of stretches of the run, in W; or why there is none.
        source: Of the power.
    """
    if time.value is None:
        return missing("J", time.reason or "the time left is not known")
    if isinstance(power, Missing):
        return missing("J", power)
    value = time.value * power.mean
    span = 0.0 if time.low is None or time.high is None else (time.high - time.low) / 2
    half_width = math.hypot(span * power.mean, time.value * power.half_width())
    return Figure(
        value=value, low=max(value - half_width, min(value, 0.0)), high=value + half_width, unit="J",
        confidence=CONFIDENCE, n=power.n, status=Status.PREDICTED, source=source,
        method=f"time left times mean power, which drifts by {100 * power.drift:.1f} %; half widths "
        "added in squares",
        reason=LATER,
    )  # fmt: skip
