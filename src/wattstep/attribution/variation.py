"""Variation of an operation's instances: robust spread, slow instances and the time lost in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattstep.attribution.codes import Codes, compact
from wattstep.errors import InvalidValueError
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray

SLOW = 1.5  # times the median: what is less is not worth a reader's time
DEVIATIONS = 3.0  # robust standard deviations beyond the median
TO_NORMAL = 1.4826  # median absolute deviation to standard deviation, of a normal distribution
LEAST_WINDOWS = 5  # below, a median at a position says nothing of what is usual there
HIGH = 0.95  # the quantile beside the median


@dataclass(frozen=True, kw_only=True, eq=False)
class Instances:
    """Instances of operations, those of a window in the order of time; arrays of shape (n,).

    Attributes:
        group: Number of the operation, counted from 0.
        groups: How many operations there are.
        window: Number of the traced step, counted from 0, not falling.
        windows: How many there are.
        seconds: What each instance took in s.
    """

    group: Codes
    groups: int
    window: Codes
    windows: int
    seconds: FloatArray

    def __post_init__(self) -> None:
        if not len(self.group) == len(self.window) == len(self.seconds):
            raise InvalidValueError(
                "every instance needs an operation, a window and a time", id="unequal-lengths"
            )
        if not np.isfinite(self.seconds).all() or (self.seconds < 0).any():
            raise InvalidValueError(
                "times of instances must be finite and not negative", id="not-finite"
            )
        if (np.diff(self.window) < 0).any():
            raise InvalidValueError(
                "instances must come in the order of their windows", id="unordered-instances"
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class Variation:
    """Variation of instances; arrays of shape (groups,) unless they say otherwise.

    Attributes:
        calls: Instances.
        windows: Windows in which there are any.
        total_s: Their time in s.
        median_s: Median instance in s.
        deviation_s: Median absolute deviation from the median in s.
        high_s: The 95th percentile in s.
        cv: Standard deviation over mean; NaN where there is one instance, or no time.
        steady_calls: How often it is called in each window, where that never changes; 0 elsewhere.
        between_positions: Part of the variance that is between calls of the same step, always the
            same ones; NaN where the number of calls changes or there is one a step.
        between_steps: Part that is between steps as a whole; NaN where it cannot be determined.
        slow: Of each instance, whether it is slow for its place in the step, shape (n,).
        lost_s: Of each instance, what it took longer than the median of its place, 0 where it is
            not slow, shape (n,).
        position: Of each instance, which call of its operation in the step it is, shape (n,).
        usual_s: Of each instance, the median at its place, shape (n,).
    """

    calls: IntArray
    windows: IntArray
    total_s: FloatArray
    median_s: FloatArray
    deviation_s: FloatArray
    high_s: FloatArray
    cv: FloatArray
    steady_calls: IntArray
    between_positions: FloatArray
    between_steps: FloatArray
    slow: BoolArray
    lost_s: FloatArray
    position: IntArray
    usual_s: FloatArray


def variation(of: Instances) -> Variation:
    """Variation of each operation's instances.

    An instance is compared with the median of its place: the calls of the same operation at the
    same position of the step, where every step calls it equally often; else all of its calls. It
    is slow if it takes more than 1.5 times that, and more than three robust standard deviations
    (1.4826 median absolute deviations of all of the operation's instances from the medians of
    their places, relative to those) beyond it. With fewer than five windows none is.

    Args:
        of: The instances.
    """
    calls = np.bincount(of.group, minlength=of.groups)
    cell, position, cell_calls = _positions(of)
    windows = np.bincount(cell // of.windows, minlength=of.groups) if len(cell) else 0 * calls
    steady = _steady(of, cell, cell_calls, windows)
    median, high = _quantiles(of.group, of.groups, of.seconds, (0.5, HIGH))
    deviation = _median(of.group, of.groups, np.abs(of.seconds - median[of.group]))
    usual = _usual(of, position, steady)
    slow = _slow(of, usual, windows)
    shares = _shares_of_variance(of, position, cell, cell_calls, steady)
    return Variation(
        calls=calls,
        windows=windows,
        total_s=np.bincount(of.group, of.seconds, minlength=of.groups).astype(np.float64),
        median_s=median,
        deviation_s=deviation,
        high_s=high,
        cv=_relative_deviation(of, calls),
        steady_calls=steady,
        between_positions=shares[0],
        between_steps=shares[1],
        slow=slow,
        lost_s=np.where(slow, of.seconds - usual, 0.0),
        position=position,
        usual_s=usual,
    )


def _positions(of: Instances) -> tuple[IntArray, IntArray, IntArray]:
    """Cells (an operation in a window) that there are; of each instance its position in its cell; their calls."""
    code = of.group.astype(np.int64) * of.windows + of.window
    order = np.argsort(code, kind="stable")
    begins = np.flatnonzero(np.append(True, np.diff(code[order]) != 0)[: len(order)])
    lengths = np.diff(begins, append=len(order))
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order)) - np.repeat(begins, lengths)
    return code[order[begins]], position, lengths


def _steady(of: Instances, cell: IntArray, cell_calls: IntArray, windows: IntArray) -> IntArray:
    """Calls in a window of each operation that is called equally often in all that hold it, else 0."""
    group = cell // max(of.windows, 1)
    most, least = np.zeros(of.groups, np.int64), np.full(of.groups, np.iinfo(np.int64).max)
    np.maximum.at(most, group, cell_calls)
    np.minimum.at(least, group, cell_calls)
    return np.where((most == least) & (windows > 0), most, 0)


def _quantiles(
    group: Codes, groups: int, values: FloatArray, shares: tuple[float, ...]
) -> list[FloatArray]:
    """Quantiles of the values of each group, linear between them; NaN where there is none."""
    order = np.argsort(values, kind="stable")
    order = order[np.argsort(group[order], kind="stable")]  # the second sort is one of integers
    ordered = values[order]
    counts = np.bincount(group, minlength=groups)
    first = np.cumsum(counts) - counts
    quantiles = []
    for share in shares:
        at = share * np.maximum(counts - 1, 0)
        low = first + np.floor(at).astype(np.int64)
        high = np.minimum(low + 1, first + np.maximum(counts - 1, 0))
        result = np.full(groups, np.nan)
        some = counts > 0
        part = (at - np.floor(at))[some]
        result[some] = ordered[low[some]] * (1 - part) + ordered[high[some]] * part
        quantiles.append(result)
    return quantiles


def _median(group: Codes, groups: int, values: FloatArray) -> FloatArray:
    return _quantiles(group, groups, values, (0.5,))[0]


def _usual(of: Instances, position: IntArray, steady: IntArray) -> FloatArray:
    """The median at the place of each instance in s."""
    place = of.group.astype(np.int64)
    place = place * (int(steady.max(initial=0)) + 1) + np.where(steady[of.group] > 0, position, 0)
    used, place = compact(place)
    medians = _median(place, len(used), of.seconds)
    usual: FloatArray = medians[place]
    return usual


def _slow(of: Instances, usual: FloatArray, windows: IntArray) -> BoolArray:
    """Mask of instances that are slow for their place; none where the median is 0."""
    relative = np.divide(of.seconds, usual, out=np.ones(len(usual)), where=usual > 0)
    spread = TO_NORMAL * _median(of.group, of.groups, np.abs(relative - 1.0))
    beyond = relative - 1.0 > np.maximum(SLOW - 1.0, DEVIATIONS * spread[of.group])
    slow: BoolArray = beyond & (windows[of.group] >= LEAST_WINDOWS)
    return slow


def _relative_deviation(of: Instances, calls: IntArray) -> FloatArray:
    """Coefficient of variation; NaN where there is none."""
    known = np.maximum(calls, 1)
    mean = np.bincount(of.group, of.seconds, minlength=of.groups) / known
    squares = np.bincount(of.group, (of.seconds - mean[of.group]) ** 2, minlength=of.groups)
    deviation = np.sqrt(squares / np.maximum(calls - 1, 1))
    defined = (calls > 1) & (mean > 0)
    ratio: FloatArray = np.divide(deviation, mean, out=np.full(of.groups, np.nan), where=defined)
    return ratio


def _shares_of_variance(
    of: Instances, position: IntArray, cell: IntArray, cell_calls: IntArray, steady: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Parts of the variance between positions and between steps: variance components of two ways.

    With one call a step, all of it is between steps. Where the calls change from step to step,
    only steps and what is within them are told apart (one way, unbalanced).
    """
    group = cell // max(of.windows, 1)
    of_cell = np.searchsorted(cell, of.group.astype(np.int64) * of.windows + of.window)
    sums = np.bincount(of_cell, of.seconds, minlength=len(cell))
    calls = np.bincount(of.group, minlength=of.groups)
    steps = np.bincount(group, minlength=of.groups)
    mean = np.bincount(of.group, of.seconds, minlength=of.groups) / np.maximum(calls, 1)
    total = np.bincount(of.group, (of.seconds - mean[of.group]) ** 2, minlength=of.groups)
    of_steps = cell_calls * (sums / np.maximum(cell_calls, 1) - mean[group]) ** 2
    steps_squares = np.bincount(group, of_steps, minlength=of.groups)
    many = (steady > 1) & (steps > 1)
    positions_squares = _position_squares(of, position, steady, mean, steps, many)
    left = np.maximum(total - steps_squares - positions_squares, 0.0)
    degrees = np.where(many, (steps - 1) * (steady - 1), calls - steps)
    noise = np.divide(left, degrees, out=np.zeros(of.groups), where=degrees > 0)
    squared = np.bincount(group, cell_calls.astype(np.float64) ** 2, minlength=of.groups)
    spare = np.maximum(steps - 1, 1)
    size = (calls - squared / np.maximum(calls, 1)) / spare  # calls a step, as they count
    between = np.maximum(steps_squares / spare - noise, 0.0) / np.maximum(size, 1e-300)
    places = np.zeros(of.groups)
    spread = positions_squares[many] / (steady[many] - 1) - noise[many]
    places[many] = np.maximum(spread, 0.0) / steps[many]
    whole = between + places + noise
    nan = np.full(of.groups, np.nan)
    defined = (whole > 0) & (steps > 1)
    shares = np.divide(between, whole, out=nan.copy(), where=defined)
    shares[(steady == 1) & defined] = 1.0
    return np.divide(places, whole, out=nan, where=defined & many), shares


def _position_squares(
    of: Instances,
    position: IntArray,
    steady: IntArray,
    mean: FloatArray,
    steps: IntArray,
    many: BoolArray,
) -> FloatArray:
    """Sum of squares between positions of the operations that are called equally often."""
    chosen = np.flatnonzero(many[of.group])
    if not len(chosen):
        return np.zeros(of.groups)
    width = int(steady.max()) + 1
    used, place = compact(of.group[chosen].astype(np.int64) * width + position[chosen])
    group = used // width
    sums = np.bincount(place, of.seconds[chosen], minlength=len(used))
    squares = steps[group] * (sums / steps[group] - mean[group]) ** 2
    return np.bincount(group, squares, minlength=of.groups).astype(np.float64)


def between_shapes(seconds: FloatArray, operation: Codes, shape: Codes) -> FloatArray:
    """Part of the variance of each operation that is between its shapes (omega squared), from 0 to 1.

    Args:
        seconds: Of each instance, shape (n,).
        operation: Of each instance, shapes apart left aside, counted from 0.
        shape: Of each instance, the operation with its shapes, counted from 0.

    Returns:
        Shape (operations,); NaN where there is one shape, or nothing left to compare it with.
    """
    operations, shapes = int(operation.max(initial=-1)) + 1, int(shape.max(initial=-1)) + 1
    calls, of_shape = (
        np.bincount(c, minlength=n) for c, n in ((operation, operations), (shape, shapes))
    )
    owner = np.zeros(shapes, np.int64)
    owner[shape] = operation
    kinds = np.bincount(owner[of_shape > 0], minlength=operations)
    mean = np.bincount(operation, seconds, minlength=operations) / np.maximum(calls, 1)
    own = np.bincount(shape, seconds, minlength=shapes) / np.maximum(of_shape, 1)
    total = np.bincount(operation, (seconds - mean[operation]) ** 2, minlength=operations)
    between = np.bincount(owner, of_shape * (own - mean[owner]) ** 2, minlength=operations)
    degrees = calls - kinds
    noise = np.divide(total - between, degrees, out=np.zeros(operations), where=degrees > 0)
    defined = (kinds > 1) & (degrees > 0) & (total > 0)
    ratio = np.divide(
        between - (kinds - 1) * noise, total + noise, out=np.full(operations, np.nan), where=defined
    )
    shares: FloatArray = np.clip(ratio, 0.0, 1.0)
    return shares
