"""Puts times of the runner's clock on ours: from its stamps of the phone's clocks, through moments known on both.

How long something took is known by the runner's clock within millionths, when it was by echoes within a
millisecond or more. So its seconds are taken for ours, and what is off at a place is caught up with from
there on at the most that two clocks drift apart (`DRIFT`): no length of a step is wrong by more.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Final

from wattstep.record.sensors.android.clock import DRIFT, UPTIME_STEP_US
from wattstep.record.sensors.android.loop import Stamp
from wattstep.remote.phone.clock import PhoneClock
from wattstep.remote.phone.runner_journal import ClockStamp

APART_NS: Final = 10_000_000_000  # between two places on both clocks
SLEPT_NS: Final = 5_000_000  # by which the phone's uptime runs ahead of the runner's clock


@dataclass(frozen=True, kw_only=True)
class _Place:
    runner_ns: int
    host_ns: int
    uncertainty_ns: int


class RunnerClock:
    """The runner's times (CLOCK_MONOTONIC of the phone) as the run's.

    Args:
        phone: The phone's clocks, as they are known here.

    Attributes:
        uncertainty_ns: The worst of the places so far.
        slept_ns: How long the phone slept, during which the runner's clock stands still.
    """

    def __init__(self, phone: PhoneClock) -> None:
        self._phone = phone
        self._waiting: list[ClockStamp] = []
        self._last: _Place | None = None  # the newest that is known, not yet among the places
        self._boot_ahead_ns: int | None = None
        self._places: list[_Place] = []
        self.uncertainty_ns = 0
        self.slept_ns = 0

    def add(self, stamp: ClockStamp) -> None:
        """A stamp, in the order of their times."""
        self._waiting.append(stamp)

    def look(self, *, everything: bool = False) -> None:
        """Takes in the stamps before the newest moment that is known on both clocks; at the end all."""
        while self._waiting:
            stamp = self._waiting[0]
            ours = self._stamp(stamp)
            if not everything and not self._phone.reaches(ours):
                break
            del self._waiting[0]
            moment = self._phone.place(ours)
            if moment is not None:
                self._place(stamp, moment.host_ns, moment.uncertainty_ns)
        if everything and self._last is not None:
            self._settle(self._last)

    def _stamp(self, stamp: ClockStamp) -> Stamp:
        """As the phone's shell would have stamped it."""
        step_ns = UPTIME_STEP_US * 1000
        wall_ns = stamp.boot_ns if self._phone.by_uptime else stamp.real_ns
        return Stamp(
            before_us=wall_ns // 1000,
            uptime_us=stamp.boot_ns // step_ns * UPTIME_STEP_US,
            after_us=wall_ns // 1000,
        )

    def _place(self, stamp: ClockStamp, host_ns: int, uncertainty_ns: int) -> None:
        half_ns = (stamp.after_ns - stamp.before_ns) // 2
        place = _Place(
            runner_ns=stamp.middle_ns, host_ns=host_ns, uncertainty_ns=uncertainty_ns + half_ns
        )
        ahead_ns = stamp.boot_ns - stamp.middle_ns
        before_ns, self._boot_ahead_ns = self._boot_ahead_ns, ahead_ns
        if before_ns is not None and ahead_ns - before_ns > SLEPT_NS and self._last is not None:
            self.slept_ns += ahead_ns - before_ns
            self._settle(self._last)
            self._settle(place, slept=True)
        if not self._places or place.runner_ns - self._places[-1].runner_ns >= APART_NS:
            self._settle(place)
        self._last = place

    def _settle(self, place: _Place, *, slept: bool = False) -> None:
        """Takes a place for known, moved to where the line up to it may lead."""
        last = self._places[-1] if self._places else None
        host_ns = place.host_ns
        if last is not None:
            span_ns = place.runner_ns - last.runner_ns
            if span_ns <= 0:
                return
            off_ns = place.host_ns - last.host_ns - span_ns
            most_ns = round(DRIFT * span_ns)
            if not slept or off_ns < 0:
                off_ns = min(max(off_ns, -most_ns), most_ns)
            host_ns = last.host_ns + span_ns + off_ns
        moved_ns = abs(host_ns - place.host_ns)
        self.uncertainty_ns = max(self.uncertainty_ns, place.uncertainty_ns + moved_ns)
        self._places.append(replace(place, host_ns=host_ns))

    @property
    def known(self) -> bool:
        """True if there is any place on both clocks."""
        return bool(self._places)

    def reaches(self, t_ns: int) -> bool:
        """True if a place lies at or after this time, so that nothing is guessed ahead."""
        return bool(self._places) and self._places[-1].runner_ns >= t_ns

    def map(self, t_ns: int) -> int:
        """A time on our clock, in ns: on the line between two places; beyond them by the runner's seconds."""
        at = bisect_right(self._places, t_ns, key=lambda place: place.runner_ns)
        before = self._places[max(at - 1, 0)]
        if at in (0, len(self._places)):
            return before.host_ns + t_ns - before.runner_ns
        after = self._places[at]
        rate = (after.host_ns - before.host_ns) / (after.runner_ns - before.runner_ns)
        return before.host_ns + round((t_ns - before.runner_ns) * rate)
