"""Puts what a phone has stamped on our clock, through moments that are known on both."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from wattstep.errors import RecordingError
from wattstep.record.sensors.android.clock import (
    SLACK_US,
    UPTIME_STEP_US,
    Moment,
    Point,
    between,
)
from wattstep.record.sensors.android.loop import Stamp

SET_US = SLACK_US + UPTIME_STEP_US  # by which wall clock and uptime parted where the one was set
BACK_US = 1_000_000  # an uptime that goes back by more than this is that of another start


@dataclass(frozen=True, kw_only=True)
class _ClockPoint:
    point: Point
    uptime_us: int

    @property
    def key_us(self) -> int:
        """Key by which stamps are ordered: the uptime, which is never set; without one the clock itself."""
        return self.uptime_us or self.point.device_us

    @property
    def offset_us(self) -> int:
        return self.point.device_us - self.uptime_us


class PhoneClock:
    """A phone's times as the run's (`schema.clock.Clock`), by moments known on both since its last start.

    One thread adds them while another asks. The phone's wall clock may be set meanwhile: where it
    parted from the uptime, stamps are placed by the uptime, which is coarser. Times without an
    uptime are taken for those of the wall clock since it was set last.
    """

    def __init__(self) -> None:
        self._points: list[_ClockPoint] = []
        self._set_at = 0  # the first of them since the wall clock was set
        self._lock = threading.Lock()
        self.restarted = False

    def add(self, point: Point, uptime_us: int) -> None:
        """A moment; those of a later start of the phone, whose uptime began anew, are none."""
        sample = _ClockPoint(point=point, uptime_us=uptime_us)
        with self._lock:
            last = self._points[-1].key_us if self._points else sample.key_us
            if sample.key_us < last - BACK_US:
                self.restarted = True
            if not self.restarted and (not self._points or sample.key_us > last):
                if self._points and uptime_us:
                    parted_us = abs(sample.offset_us - self._points[-1].offset_us)
                    self._set_at = len(self._points) if parted_us > SET_US else self._set_at
                self._points.append(sample)

    def __len__(self) -> int:
        return len(self._points)

    @property
    def by_uptime(self) -> bool:
        """True if the phone's stamps are of its uptime, since its shell tells no wall clock."""
        with self._lock:
            return bool(self._points) and abs(self._points[-1].offset_us) < BACK_US

    def reaches(self, stamp: Stamp) -> bool:
        """True if a moment lies after this stamp, so that nothing is guessed ahead."""
        with self._lock:
            return bool(self._points) and self._points[-1].key_us > _key(stamp)

    def place(self, stamp: Stamp) -> Moment | None:
        """A stamp on our clock; None while no moment is known."""
        with self._lock:
            if not self._points:
                return None
            a, b = _around(self._points, _key(stamp), lambda point: point.key_us)
        apart = [abs(stamp.middle_us - stamp.uptime_us - each.offset_us) for each in (a, b)]
        if stamp.uptime_us and max(apart) > SET_US:
            half = UPTIME_STEP_US // 2  # it is rounded down
            return between(
                (a.uptime_us, a.point), (b.uptime_us, b.point), stamp.uptime_us + half, half
            )
        width = (stamp.after_us - stamp.before_us) // 2
        return between(
            (a.point.device_us, a.point), (b.point.device_us, b.point), stamp.middle_us, width
        )

    @property
    def rate(self) -> float:
        """As `Clock.rate`; 1 before two moments are known."""
        with self._lock:
            points = [each.point for each in self._points[self._set_at :]]
        if len(points) < 2:
            return 1.0
        span_us = points[-1].device_us - points[0].device_us
        return (points[-1].host_ns - points[0].host_ns) / (1000 * span_us)

    def map(self, t_ns: Any) -> Any:
        """As `Clock.map`.

        Raises:
            RecordingError: No moment is known on both clocks.
        """
        return _each(t_ns, lambda t: self._moment(t).host_ns)

    def uncertainty_at(self, t_ns: Any) -> Any:
        """As `Clock.uncertainty_at`.

        Raises:
            RecordingError: No moment is known on both clocks.
        """
        return _each(t_ns, lambda t: self._moment(t).uncertainty_ns)

    def _moment(self, t_ns: int) -> Moment:
        with self._lock:
            points = self._points[self._set_at :]
        if not points:
            raise RecordingError(
                "no moment is known on the phone's clock and on ours", id="no-moment-known"
            )
        at_us = t_ns // 1000
        a, b = _around(points, at_us, lambda point: point.point.device_us)
        return between((a.point.device_us, a.point), (b.point.device_us, b.point), at_us, 1)


def _each(t_ns: Any, of_one: Callable[[int], int]) -> Any:
    """What a function gives for an integer, or for each of an array."""
    if isinstance(t_ns, int):
        return of_one(t_ns)
    values = t_ns.copy()
    values[:] = [of_one(t) for t in t_ns.tolist()]
    return values


def _around(
    points: Sequence[_ClockPoint], at_us: int, time_us: Callable[[_ClockPoint], int]
) -> tuple[_ClockPoint, _ClockPoint]:
    """The two points about a time, or the two nearest to it; twice the same where there is one."""
    at = min(max(bisect_right(points, at_us, key=time_us), 1), len(points) - 1)
    return points[max(at - 1, 0)], points[at]


def _key(stamp: Stamp) -> int:
    return stamp.uptime_us or stamp.middle_us
