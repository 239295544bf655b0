"""What the rest of a run will take, predicted from its first steps, with an interval that knows what few steps cannot know.

Step times do not only scatter, they wander: caches, clocks, other programs and heat change their
level on every scale of time. Allan's variance, that of the difference between the means of
neighbouring stretches, shows both: scatter falls with the length of the stretches, wandering stays
(a flicker floor; Allan 1966). The rest of a run is one more stretch, longer than any that was seen:
each doubling adds as much wandering as the doubling before. How much that is, few steps tell badly,
which the few degrees of freedom of the interval account for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from wattstep.analysis.steps import FloatArray
from wattstep.analysis.student import critical_value
from wattstep.errors import InvalidValueError
from wattstep.records.figure import Figure, Status, missing

CONFIDENCE = 0.9
LEAST = 5  # steps after the warm-up
FLOOR = 0.02  # wandering of step times, part of their mean, where no step has shown any yet
FLOOR_WEIGHT = 1.0  # as many comparisons of stretches as that counts for
GROWTH = 1.5  # wandering that each doubling adds, over what neighbouring stretches show
SLOPE_SURE = 2.5  # standard errors, from which on a slope counts
SLOPE_HOLDS = 2.0  # as long as it was seen, times so much, it is taken to go on


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What is expected of the values to come.

    Attributes:
        mean: Of a value to come.
        error: Its standard error, wandering included.
        freedom: Degrees of freedom of that.
        wandering: Part of the mean that stretches differ by beyond their scatter.
        slope: Change of the mean that a slope in what was seen makes in what is to come.
        n: How many values it rests on.
    """

    mean: float
    error: float
    freedom: float
    wandering: float
    slope: float
    n: int

    def reach(self, confidence: float = CONFIDENCE) -> float:
        """Half of the width of the interval of the mean."""
        return self.error * critical_value(confidence, max(round(self.freedom), 1))


def outlook(values: FloatArray, ahead: float, each: float = 1.0) -> Outlook | str:
    """The mean of values to come, by how the values so far scatter and wander.

    Args:
        values: So far, in order, warm-up left out, none missing, shape (n,): means of `each` steps.
        ahead: How many steps are to come, above 0.
        each: Steps that a value is the mean of.

    Returns:
        What is expected, or why nothing is.

    Raises:
        InvalidValueError: A value is NaN or infinite, or nothing is to come.
    """
    if not np.isfinite(values).all():
        raise InvalidValueError("a forecast needs values that are finite: leave out the others")
    if not (ahead > 0 and each > 0):
        raise InvalidValueError("a forecast needs something that is to come")
    n = len(values)
    if n < LEAST:
        return f"{n} steps after the warm-up are too few: {LEAST} are needed"
    mean = float(values.mean())
    if not mean > 0:
        return "the steps took nothing so far"
    relative = values / mean - 1
    scatter = _scatter(relative)
    future = ahead / each
    floor, freedom = _floor(relative, scatter)
    slope, slope_error = _slope(relative, scatter, future)
    # Two neighbouring stretches of equal length differ by twice Allan's variance.
    octaves = (
        2 + GROWTH * math.log2(max(future / n, 1.0))
        if future >= 0.5 * n
        else 2 * future / (future + n) + 1
    )
    variance = scatter * (1 / n + 1 / future) + floor * octaves + slope_error**2
    return Outlook(
        mean=mean * (1 + slope), error=mean * math.sqrt(variance), freedom=freedom,
        wandering=math.sqrt(floor), slope=slope, n=round(n * each),
    )  # fmt: skip


def begun(values: FloatArray) -> int:
    """Where a series has left its beginning behind: the cut that leaves the smallest standard error.

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
    """The variance by which stretches wander, and its degrees of freedom."""
    found, comparisons = 0.0, 1
    for parts in (2, 4, 8):
        if (length := len(relative) // parts) < 2:
            break
        seen, compared = allan(relative, length)
        if seen - scatter / length >= found:
            found, comparisons = seen - scatter / length, compared
    weight = FLOOR_WEIGHT + comparisons
    return (FLOOR_WEIGHT * FLOOR**2 + comparisons * found) / weight, weight


def _slope(relative: FloatArray, scatter: float, future: float) -> tuple[float, float]:
    """What a clear slope adds to the mean of what is to come, and how uncertain that is.

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
    # The mean of what is to come, over all of it: it climbs, then stays.
    climb = slope * (n / 2 + lasts - lasts**2 / (2 * future))
    return 0.5 * climb, 0.5 * abs(climb)


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What a run as a whole will take.

    Attributes:
        time: In s, from the first step to the last.
        time_left: In s.
        wandering: See `Outlook`; None where there is none.
    """

    time: Figure
    time_left: Figure
    wandering: float | None = None


LATER = "what has not begun yet (throttling, another program) is in no step so far"


def forecast_time(
    seconds: FloatArray, done_s: float, ahead: int, warmup: int, source: str
) -> Forecast:
    """The time of a run of which the first steps are done.

    Args:
        seconds: Times of the steps so far, with what lay between, shape (n,).
        done_s: Time since the first step began, in s.
        ahead: Steps to come.
        warmup: First steps that do not count.
        source: The clock.
    """
    if ahead <= 0:
        value = Figure(value=done_s, unit="s", status=Status.MEASURED, source=source)
        return Forecast(time=value, time_left=Figure(
            value=0.0, unit="s", status=Status.COUNTED, source=source,
        ))  # fmt: skip
    steady = seconds[warmup:]
    steady = steady[np.isfinite(steady)]
    found = outlook(steady[begun(steady) :], ahead)
    if isinstance(found, str):
        return Forecast(time=missing("s", found), time_left=missing("s", found))
    left = predicted(found, ahead, "s", source)
    return Forecast(time=shifted(left, done_s), time_left=left, wandering=found.wandering)


def predicted(found: Outlook, times: float, unit: str, source: str) -> Figure:
    """So many times the mean to come, as a figure."""
    value, reach = found.mean * times, found.reach() * times
    return Figure(
        value=value, low=max(value - reach, 0.0), high=value + reach, unit=unit,
        confidence=CONFIDENCE, n=found.n, status=Status.PREDICTED, source=source,
        method=f"mean of the steps so far, which wander by {found.wandering:.1%} of it beyond their "
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


def energy_left(time: Figure, power: Outlook | str, source: str) -> Figure:
    """Energy to come: time left times mean power to come, both with their errors.

    Args:
        time: Time left in s.
        power: Of stretches of the run, in W; or why there is none.
        source: Of the power.
    """
    if time.value is None:
        return missing("J", time.reason or "the time left is not known")
    if isinstance(power, str):
        return missing("J", power)
    value = time.value * power.mean
    span = 0.0 if time.low is None or time.high is None else (time.high - time.low) / 2
    reach = math.hypot(span * power.mean, time.value * power.reach())
    return Figure(
        value=value, low=max(value - reach, 0.0), high=value + reach, unit="J",
        confidence=CONFIDENCE, n=power.n, status=Status.PREDICTED, source=source,
        method=f"time left times mean power, which wanders by {power.wandering:.1%}; half widths "
        "added in squares",
        reason=LATER,
    )  # fmt: skip
