"""Puts what a phone has stamped on our clock, through moments that are known on both."""

from __future__ import annotations

import threading
from bisect import bisect_right
from dataclasses import dataclass

from wattstep.sensors.android.clock import SLACK_US, UPTIME_STEP_US, Point
from wattstep.sensors.android.loop import Stamp

DRIFT = 500e-6  # of the phone's clock against ours: a quartz is off by a tenth of that
BACK_US = 1_000_000  # an uptime that goes back by more than this is that of another start


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A time of the phone on our clock.

    Attributes:
        host_ns: On our monotonic clock.
        uncertainty_ns: By how much it may be off, the steps of the phone's clock included.
    """

    host_ns: int
    uncertainty_ns: int


@dataclass(frozen=True, kw_only=True)
class _Known:
    point: Point
    uptime_us: int

    @property
    def key_us(self) -> int:
        """What orders them: the uptime is never set; where it is not told, the clock itself."""
        return self.uptime_us or self.point.device_us

    @property
    def ahead_us(self) -> int:
        return self.point.device_us - self.uptime_us


class PhoneClock:
    """All moments known on both clocks, since the phone was started last.

    One thread adds them while another asks. The phone's wall clock may be set meanwhile: where it
    parted from the uptime, times go by the uptime, which is coarser.
    """

    def __init__(self) -> None:
        self._known: list[_Known] = []
        self._lock = threading.Lock()
        self.restarted = False

    def add(self, point: Point, uptime_us: int) -> None:
        """A moment; those of a later start of the phone, whose uptime began anew, are none."""
        known = _Known(point=point, uptime_us=uptime_us)
        with self._lock:
            last = self._known[-1].key_us if self._known else known.key_us
            if known.key_us < last - BACK_US:
                self.restarted = True
            if not self.restarted and (not self._known or known.key_us > last):
                self._known.append(known)

    def __len__(self) -> int:
        return len(self._known)

    def reaches(self, stamp: Stamp) -> bool:
        """Whether a moment lies after this stamp, so that nothing is guessed ahead."""
        with self._lock:
            return bool(self._known) and self._known[-1].key_us > _key(stamp)

    def place(self, stamp: Stamp) -> Moment | None:
        """A stamp on our clock; None while no moment is known."""
        with self._lock:
            if not self._known:
                return None
            at = bisect_right(self._known, _key(stamp), key=lambda known: known.key_us)
            at = min(max(at, 1), len(self._known) - 1)
            a, b = self._known[max(at - 1, 0)], self._known[at]
        apart = [abs(stamp.middle_us - stamp.uptime_us - each.ahead_us) for each in (a, b)]
        if stamp.uptime_us and max(apart) > SLACK_US + UPTIME_STEP_US:
            half = UPTIME_STEP_US // 2  # it is rounded down
            return _between(a, b, stamp.uptime_us + half, a.uptime_us, b.uptime_us, half)
        width = (stamp.after_us - stamp.before_us) // 2
        return _between(a, b, stamp.middle_us, a.point.device_us, b.point.device_us, width)


def _key(stamp: Stamp) -> int:
    return stamp.uptime_us or stamp.middle_us


def _between(a: _Known, b: _Known, at_us: int, a_us: int, b_us: int, width_us: int) -> Moment:
    """On the line through two moments; outside of them from the nearer one, at our own rate.

    Two moments that are near each other say little of the rate.
    """
    worst_ns = max(a.point.uncertainty_ns, b.point.uncertainty_ns) + width_us * 1000
    if a_us <= at_us <= b_us and a_us < b_us:
        ns_per_us = (b.point.host_ns - a.point.host_ns) / (b_us - a_us)
        host_ns = a.point.host_ns + round((at_us - a_us) * ns_per_us)
        return Moment(host_ns=host_ns, uncertainty_ns=worst_ns)
    near, near_us = (a, a_us) if at_us < a_us else (b, b_us)
    away_ns = (at_us - near_us) * 1000
    return Moment(
        host_ns=near.point.host_ns + away_ns,
        uncertainty_ns=worst_ns + round(abs(away_ns) * DRIFT),
    )
