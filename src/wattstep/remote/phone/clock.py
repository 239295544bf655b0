"""Puts what a phone has stamped on our clock, through moments that are known on both."""

from __future__ import annotations

import threading
from bisect import bisect_right
from dataclasses import dataclass

from wattstep.record.sensors.android.clock import (
    SLACK_US,
    UPTIME_STEP_US,
    Moment,
    Point,
    between,
)
from wattstep.record.sensors.android.loop import Stamp

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
    """All moments known on both clocks, since the phone was started last.

    One thread adds them while another asks. The phone's wall clock may be set meanwhile: where it
    parted from the uptime, times go by the uptime, which is coarser.
    """

    def __init__(self) -> None:
        self._points: list[_ClockPoint] = []
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
                self._points.append(sample)

    def __len__(self) -> int:
        return len(self._points)

    def reaches(self, stamp: Stamp) -> bool:
        """True if a moment lies after this stamp, so that nothing is guessed ahead."""
        with self._lock:
            return bool(self._points) and self._points[-1].key_us > _key(stamp)

    def place(self, stamp: Stamp) -> Moment | None:
        """A stamp on our clock; None while no moment is known."""
        with self._lock:
            if not self._points:
                return None
            at = bisect_right(self._points, _key(stamp), key=lambda sample: sample.key_us)
            at = min(max(at, 1), len(self._points) - 1)
            a, b = self._points[max(at - 1, 0)], self._points[at]
        apart = [abs(stamp.middle_us - stamp.uptime_us - each.offset_us) for each in (a, b)]
        if stamp.uptime_us and max(apart) > SLACK_US + UPTIME_STEP_US:
            half = UPTIME_STEP_US // 2  # it is rounded down
            return between(
                (a.uptime_us, a.point), (b.uptime_us, b.point), stamp.uptime_us + half, half
            )
        width = (stamp.after_us - stamp.before_us) // 2
        return between(
            (a.point.device_us, a.point), (b.point.device_us, b.point), stamp.middle_us, width
        )


def _key(stamp: Stamp) -> int:
    return stamp.uptime_us or stamp.middle_us
