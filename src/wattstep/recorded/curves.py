"""Cumulative curves: sampled gauges and counters as functions of time whose differences can be attributed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattstep.errors import InvalidValueError
from wattstep.recorded.stretches import Stretches
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.channel import Channel
from wattstep.schema.checks import MOST_W

_NS = 1e-9
_WHOLE = 0.999  # of an interval: rounding apart, all of it was sampled
LEAP = 100.0  # times the usual step of a counter: it did not count that
_FAR_NS = 2**62 - 1  # 146 years: differences and doubles of such times fit into int64
_WRAP_STEPS = 10  # a wrap is believed up to so many times the largest forward step


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """Integral since the first sample, linear between samples.

    Across a gap (a failed read, a reset, samples too far apart) nothing is known: `total` and
    `covered_ns` stand still there.

    Attributes:
        t_ns: Times of the samples in ns, strictly increasing, int64, shape (n,).
        total: Amount accumulated since `t_ns[0]` in `unit`, float64, shape (n,).
        unit: SI unit of the amount, e.g. "J".
        covered_ns: Time since `t_ns[0]` that lies outside gaps, in ns, int64, shape (n,).
    """

    t_ns: IntArray
    total: FloatArray
    unit: str
    covered_ns: IntArray

    def __post_init__(self) -> None:
        if not self.t_ns.shape == self.total.shape == self.covered_ns.shape:
            raise InvalidValueError("a curve needs a total and a covered time for each time stamp")
        _check_times(self.t_ns)
        if not np.isfinite(self.total).all():
            raise InvalidValueError("the total of a curve must be finite")

    def at(self, t_ns: ArrayLike) -> FloatArray:
        """The total at times `t_ns` in ns: NaN inside a gap and outside the sampled range."""
        times = as_times(t_ns)
        if not len(self.t_ns):
            return np.full(times.shape, np.nan)
        return np.where(self._known(times), self._interpolated(times, self.total), np.nan)

    def rates(self) -> FloatArray:
        """Mean rate in a second since the sample before, shape (n,); NaN: not known."""
        length = np.diff(self.t_ns)
        known = np.diff(self.covered_ns) == length
        rates: FloatArray = np.full(len(self.t_ns), np.nan)
        rates[1:] = np.where(known, np.diff(self.total) / (length * 1e-9), np.nan)
        return rates

    @property
    def renewed(self) -> Curve:
        """Of its samples those that brought more: of a counter that is read more often than it counts.

        From one to the next its rate is the mean; from every reading to the next, nothing or far more.
        """
        new = np.append(False, np.diff(self.total) != 0)[: len(self.total)]
        return Curve(
            t_ns=self.t_ns[new], total=self.total[new], unit=self.unit, covered_ns=self.covered_ns[new]
        )  # fmt: skip

    def without(self, spans: IntArray) -> Curve:
        """The curve with gaps where nothing is known after all; begin and end of each in ns, shape (s, 2), in order."""
        begun = np.searchsorted(spans[:, 0], self.t_ns[:-1], side="right")
        ended = np.searchsorted(spans[:, 1], self.t_ns[:-1], side="right")
        known = (np.diff(self.covered_ns) > 0) & (begun == ended)
        return _accumulated(self.t_ns, np.diff(self.total), known, self.unit)

    def evenly(self, spans: IntArray) -> Curve:
        """The curve without its samples within some spans: it goes evenly through each; begin and end in ns, shape (s, 2), in order."""
        begun = np.searchsorted(spans[:, 0], self.t_ns) - 1
        kept = (begun < 0) | (self.t_ns >= spans[np.maximum(begun, 0), 1])
        return Curve(
            t_ns=self.t_ns[kept], total=self.total[kept], unit=self.unit, covered_ns=self.covered_ns[kept]
        )  # fmt: skip

    @property
    def known_parts(self) -> IntArray:
        """Begin and end in ns of the times from sample to sample that lie in no gap, shape (p, 2)."""
        known = np.diff(self.covered_ns) > 0
        return np.stack([self.t_ns[:-1][known], self.t_ns[1:][known]], axis=1)

    def difference(self, starts: ArrayLike, ends: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Integral over each interval as far as it was sampled, and the sampled length.

        Args:
            starts: Starts of the intervals in ns.
            ends: Their ends, none before its start.

        Returns:
            The amount in the covered part of each interval, NaN where none of it is covered; and
            the covered part of its length, from 0 to 1 (an instant is covered or not).

        Raises:
            InvalidValueError: An interval ends before it starts.
        """
        first, last = as_times(starts), as_times(ends)
        check_intervals(first, last)
        covered = self.covered_ratio(first, last)
        if not len(self.t_ns):
            return np.full(first.shape, np.nan), covered
        values = self._interpolated(last, self.total) - self._interpolated(first, self.total)
        return np.where(covered > 0, values, np.nan), covered

    def apart(
        self, start_ns: IntArray, end_ns: IntArray, lasting_ns: IntArray | None = None
    ) -> tuple[float, float]:
        """Least and most that intervals may have gained together, as parts of what they are given.

        From sample to sample a curve goes evenly: of what it gains between two of them, intervals that
        fill b of this time are given b / (a + b), where a lies outside of them. It was all theirs where
        nothing flowed outside, and b / (2 a + b) where twice as much flowed there.

        Args:
            start_ns: Begins of the intervals, in order.
            end_ns: Their ends; none begins before the one before has ended.
            lasting_ns: How much of each is meant, evenly; None: all of it.
        """
        lasting_ns = end_ns - start_ns if lasting_ns is None else lasting_ns
        edges = np.stack([start_ns, end_ns], axis=1).ravel() - self.t_ns[0]
        within = np.stack([np.zeros(len(start_ns), np.int64), lasting_ns], axis=1).ravel()
        inside = np.diff(np.interp(self.t_ns - self.t_ns[0], edges, np.cumsum(within)))
        length = np.diff(self.t_ns)
        mine = inside > 0
        gain, inside, length = np.diff(self.total)[mine], inside[mine], length[mine]
        outside = np.maximum(length - inside, 0.0)
        given = float((gain * inside / length).sum())
        if given <= 0:
            return 1.0, 1.0
        least = float((gain * inside / (outside + length)).sum())
        return min(least / given, 1.0), max(float(gain.sum()) / given, 1.0)

    def gains(self, parts: IntArray) -> tuple[FloatArray, FloatArray]:
        """Integral over each part as far as it was sampled, and the sampled time in s, shape (p,) each.

        Args:
            parts: Begin and end of each in ns, shape (p, 2).
        """
        gains, covered = self.difference(parts[:, 0], parts[:, 1])
        return gains, (parts[:, 1] - parts[:, 0]) * 1e-9 * covered

    def covered_ratio(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """The part of each interval's length, from 0 to 1, that samples cover."""
        if not len(self.t_ns):
            return np.zeros(starts.shape)
        if self.covers(starts, ends):
            return np.broadcast_to(np.float64(1), starts.shape)
        span = self.covered_ns.astype(np.float64)
        covered = self._interpolated(ends, span) - self._interpolated(starts, span)
        length = (ends - starts).astype(np.float64)
        ratio = np.divide(covered, length, out=np.zeros_like(length), where=length > 0)
        if (length == 0).any():
            ratio = np.where(length > 0, ratio, self._known(starts))
        return np.minimum(ratio, 1.0)

    def covered_at(self, times: IntArray) -> IntArray:
        """The sampled time from `t_ns[0]` to each time, in ns."""
        if not len(self.t_ns):
            return np.zeros(times.shape, dtype=np.int64)
        if self.covered_ns[-1] == self.t_ns[-1] - self.t_ns[0]:
            elapsed: IntArray = np.clip(times, self.t_ns[0], self.t_ns[-1]) - self.t_ns[0]
            return elapsed
        covered = self._interpolated(times, self.covered_ns.astype(np.float64))
        return np.rint(covered).astype(np.int64)

    def covers(self, starts: IntArray, ends: IntArray) -> bool:
        """True if there are no gaps and every interval lies in the sampled range."""
        if not starts.size:
            return True
        if not len(self.t_ns) or self.covered_ns[-1] != self.t_ns[-1] - self.t_ns[0]:
            return False
        return bool(starts.min() >= self.t_ns[0] and ends.max() <= self.t_ns[-1])

    def _known(self, times: IntArray) -> NDArray[np.bool_]:
        after = np.searchsorted(self.t_ns, times, side="right")
        before = np.maximum(after - 1, 0)
        following = np.minimum(after, len(self.t_ns) - 1)
        between = (after > 0) & (self.covered_ns[following] > self.covered_ns[before])
        known: NDArray[np.bool_] = between | (self.t_ns[before] == times)
        return known

    def _interpolated(self, times: IntArray, values: FloatArray) -> FloatArray:
        # Nanoseconds since 1970 do not fit into a float64: count from the first sample.
        base = self.t_ns[0]
        at: FloatArray = np.interp(times - base, self.t_ns - base, values)
        return at


def curve_of_gauge(
    t_ns: ArrayLike, value: ArrayLike, max_gap_ns: int | None = None, *, unit: str = "J"
) -> Curve:
    """The time integral of a gauge by the trapezoidal rule: power in W gives energy in J.

    Args:
        t_ns: Times of the samples in ns, strictly increasing.
        value: The samples; NaN is a failed read, and the intervals on both sides of it a gap.
        max_gap_ns: Samples further apart than this have a gap between them; None: never.
        unit: Unit of the gauge times seconds.

    Raises:
        InvalidValueError: Times are unsorted or repeated, or a value is infinite.
    """
    times, samples, known = _sampled(t_ns, value)
    length = np.diff(times)
    if max_gap_ns is not None:
        known &= length <= max_gap_ns
    steps = (samples[1:] + samples[:-1]) * 0.5 * (length * _NS)
    return _accumulated(times, steps, known, unit)


def curve_of_counter(t_ns: ArrayLike, value: ArrayLike, *, unit: str) -> Curve:
    """Count of a counter since its first sample.

    Args:
        t_ns: Times of the samples in ns, strictly increasing.
        value: The samples, wraps undone by `unwrap`. NaN is a failed read: the intervals on both
            sides of it are a gap. So is a step back, which is a reset, and one of more than a megawatt.
        unit: Unit of the value.

    Raises:
        InvalidValueError: Times are unsorted or repeated, or a value is infinite.
    """
    times, samples, known = _sampled(t_ns, value)
    steps = np.diff(samples)
    return _accumulated(times, steps, known & countable(times, steps, unit), unit)


def countable(t_ns: IntArray, steps: FloatArray, unit: str) -> BoolArray:
    """Mask of steps of a counter that something counted: none back, none that no power makes.

    More than a megawatt, and a hundred times as much as its steps usually are: a meter that counts
    in hundredths of a kilowatt hour takes a large step in a short time, but each is as large.

    Args:
        t_ns: Times between which the steps lie, shape (n + 1,).
        steps: Shape (n,).
        unit: Of the counter.
    """
    counted: BoolArray = steps >= 0
    forward = steps[steps > 0]
    if unit != "J" or not len(forward):
        return counted
    most = np.maximum(MOST_W * np.diff(t_ns) * _NS, LEAP * float(np.median(forward)))
    return counted & (steps <= most)


def curve_of(channel: Channel, t_ns: IntArray, value: FloatArray, max_gap_ns: int) -> Curve:
    """The cumulative curve of a channel: counters as they are, gauges integrated over time."""
    if channel.kind == "gauge":
        return curve_of_gauge(t_ns, value, max_gap_ns, unit="J" if channel.unit == "W" else "")
    return curve_of_counter(t_ns, unwrapped(channel, value), unit=channel.unit)


def curve_across(
    channel: Channel, t_ns: IntArray, value: FloatArray, stretches: Stretches, max_gap_ns: int
) -> Curve:
    """As `curve_of`, going on through times of which no single samples were kept.

    Args:
        channel: The channel.
        t_ns: Times of its samples.
        value: The samples.
        stretches: What stands for the others; their edges are samples, too.
        max_gap_ns: As `curve_of_gauge`.
    """
    known = stretches.known
    begin, end = stretches.begin_ns, stretches.end_ns
    times, first = np.unique(np.concatenate([t_ns, begin, end]), return_index=True)
    values = np.concatenate([value, stretches.first, stretches.last])[first]
    valid = times[~np.isnan(values)]
    at = np.searchsorted(valid, begin)
    after = np.minimum(at + 1, max(len(valid) - 1, 0))
    known &= (at < after) & (valid[np.minimum(at, after)] == begin) & (valid[after] == end)
    at = at[known]
    if channel.kind == "counter":
        values = unwrapped(channel, values, at)
    times, samples, whole = _sampled(times, values)
    if channel.kind == "counter":
        steps = np.diff(samples)
        whole[at] = True
        return _accumulated(
            times, steps, whole & countable(times, steps, channel.unit), channel.unit
        )
    length = np.diff(times)
    steps = (samples[1:] + samples[:-1]) * 0.5 * (length * _NS)
    whole &= length <= max_gap_ns
    steps[at], whole[at] = stretches.integral[known], True
    return _accumulated(times, steps, whole, "J" if channel.unit == "W" else "")


def unwrapped(channel: Channel, value: FloatArray, many: IntArray | None = None) -> FloatArray:
    """Values of a channel, those of a counter that starts again from 0 going on; NaN stays.

    Args:
        channel: The channel.
        value: Its values.
        many: As `unwrap`, among those that are there.

    Raises:
        InvalidValueError: A value of a counter lies beyond where it starts again.
    """
    if channel.wrap is None:
        return value
    known = np.isfinite(value)
    raw = np.rint(value[known] / channel.scale).astype(np.int64)
    result: FloatArray = value.copy()
    result[known] = unwrap(raw, channel.wrap, many) * channel.scale
    return result


def curve_of_clock(start_ns: int, end_ns: int) -> Curve:
    """Wall time itself, in s, from `start_ns` to `end_ns`: its attribution shares out time."""
    times = np.array([start_ns, end_ns] if end_ns > start_ns else [start_ns], dtype=np.int64)
    elapsed = times - times[0]
    return Curve(t_ns=times, total=elapsed * _NS, unit="s", covered_ns=elapsed)


def add_curves(curves: Sequence[Curve]) -> Curve:
    """The sum of curves of one unit, where all of them were sampled; a gap in one is a gap in it."""
    begin = max(curve.t_ns[0] for curve in curves)
    end = min(curve.t_ns[-1] for curve in curves)
    t_ns = np.unique(np.concatenate([curve.t_ns for curve in curves]))
    t_ns = t_ns[(t_ns >= begin) & (t_ns <= end)]
    steps = np.zeros(max(len(t_ns) - 1, 0))
    whole = np.ones(len(steps), bool)
    for curve in curves:
        gains, covered = curve.difference(t_ns[:-1], t_ns[1:])
        steps += np.nan_to_num(gains)
        whole &= covered > _WHOLE
    return _accumulated(t_ns, steps, whole, curves[0].unit)


def unwrap(raw: ArrayLike, wrap: int | None, many: IntArray | None = None) -> IntArray:
    """Undo the wraps of a counter that starts again from 0 at `wrap`; resets stay visible.

    A step back by `old - new` is a wrap, of `new + wrap - old`, when that is at most half of `wrap`
    and at most ten times the largest step forward, those of more than half apart. Otherwise the counter was reset: the step back
    remains, and `curve_of_counter` makes a gap of it.

    Args:
        raw: Raw integers as read, shape (n,).
        wrap: The kernel's `max_energy_range` or the like; None where the counter never wraps.
        many: Positions of steps that stand for many, none of them back; None: none do.

    Raises:
        InvalidValueError: A raw value is negative or above `wrap`.
    """
    values = _integers(raw, "raw counter values")
    if wrap is None or len(values) < 2:
        return values
    if values.min() < 0 or values.max() > wrap:
        raise InvalidValueError(
            f"raw counter values must lie between 0 and the wrap at {wrap}", id="out-of-range"
        )
    steps = np.diff(values)
    single = steps if many is None else np.delete(steps, many)
    # One of more than half (to 0 and back, say) is as likely a step back, and no measure of others.
    largest = int(single[single <= wrap // 2].max(initial=0))
    limit = min(wrap // 2, _WRAP_STEPS * largest) if largest > 0 else wrap // 2
    wrapped = (steps < 0) & (steps + wrap <= limit)
    values[1:] += np.cumsum(wrapped) * np.int64(wrap)
    return values


def as_times(t_ns: ArrayLike) -> IntArray:
    """Times in ns as an int64 array.

    Raises:
        InvalidValueError: They are no integers, or beyond what differences of int64 can hold.
    """
    times = np.asarray(t_ns)
    if times.size == 0:
        return times.astype(np.int64)
    if times.dtype.kind not in "iu":
        raise InvalidValueError(f"times must be integer nanoseconds, not {times.dtype}")
    if times.max() > _FAR_NS or times.min() < -_FAR_NS:
        raise InvalidValueError(f"times must lie within {_FAR_NS} ns of 0")
    return times.astype(np.int64, copy=False)


def check_intervals(starts: IntArray, ends: IntArray) -> None:
    """Refuse intervals that end before they start, or starts without ends.

    Raises:
        InvalidValueError: There are such intervals.
    """
    if starts.shape != ends.shape:
        raise InvalidValueError(f"{starts.shape} starts do not fit {ends.shape} ends")
    if (ends < starts).any():
        raise InvalidValueError("an interval ends before it starts", id="backward-interval")


def _check_times(times: NDArray[Any]) -> None:
    if times.ndim != 1 or times.dtype != np.int64:
        raise InvalidValueError("time stamps must be an int64 array of one dimension")
    if (times[1:] <= times[:-1]).any():
        raise InvalidValueError("time stamps must be sorted, none repeated")


def _integers(values: ArrayLike, name: str) -> IntArray:
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise InvalidValueError(f"{name} must be integers, not {array.dtype}")
    return array.astype(np.int64)


def _sampled(t_ns: ArrayLike, value: ArrayLike) -> tuple[IntArray, FloatArray, NDArray[np.bool_]]:
    """Times and values of the reads that succeeded, and which intervals between them hold no failed one."""
    times, samples = as_times(t_ns), np.asarray(value, dtype=np.float64)
    if times.shape != samples.shape:
        raise InvalidValueError(f"{times.shape} time stamps do not fit {samples.shape} values")
    _check_times(times)
    if np.isinf(samples).any():
        raise InvalidValueError("a sample is infinite", id="not-finite")
    valid = np.flatnonzero(~np.isnan(samples))
    return times[valid], samples[valid], np.diff(valid) == 1


def _accumulated(times: IntArray, steps: FloatArray, known: NDArray[np.bool_], unit: str) -> Curve:
    total, covered = np.zeros(len(times)), np.zeros(len(times), dtype=np.int64)
    np.cumsum(np.where(known, steps, 0.0), out=total[1:])
    np.cumsum(np.where(known, np.diff(times), 0), out=covered[1:])
    return Curve(t_ns=times, total=total, unit=unit, covered_ns=covered)
