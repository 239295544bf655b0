"""From the phone's clock to ours: echoes give points, lines between them give every other time."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

BURST = 4  # echoes at a time, of which the quickest counts
UPTIME_STEP_US = 10_000
SLACK_US = 20_000  # that the phone's wall clock and its uptime may part before it counts as set
DRIFT = 500e-6  # of the phone's clock against ours: a quartz is off by a tenth of that
# Two points that say less or more of the clocks' rate are not believed.
LEAST_RATE, MOST_RATE = 0.5, 2.0


@dataclass(frozen=True, kw_only=True)
class Point:
    """Moment on both clocks.

    Attributes:
        device_us: On the phone's.
        host_ns: On ours (monotonic), within `uncertainty_ns`.
        uncertainty_ns: Half the echo's way there and back: it came between the two.
    """

    device_us: int
    host_ns: int
    uncertainty_ns: int


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A time of the phone on our clock.

    Attributes:
        host_ns: On our monotonic clock.
        uncertainty_ns: By how much it may be off, the steps of the phone's clock included.
    """

    host_ns: int
    uncertainty_ns: int


def between(a: tuple[int, Point], b: tuple[int, Point], at_us: int, width_us: int = 0) -> Moment:
    """On the line through two points; outside of them from the nearer one.

    There the rate is that of the two points, unless they are so near each other, or so uncertain,
    that they say less of it than is known of any clock (`DRIFT`): then it is our own.

    Args:
        a: The earlier point, and its time on the clock of the phone's that `at_us` is of, in µs.
        b: The later one; it may be equal.
        at_us: Time that is to be placed.
        width_us: Half of what it may be off on the phone's clock itself.
    """
    (a_us, first), (b_us, last) = a, b
    worst_ns = max(first.uncertainty_ns, last.uncertainty_ns) + width_us * 1000
    near, near_us = (first, a_us) if at_us < b_us else (last, b_us)
    away_us = at_us - near_us
    ns_per_us, unsure = 1000.0, DRIFT
    if a_us < b_us:
        error = (first.uncertainty_ns + last.uncertainty_ns) / (1000 * (b_us - a_us))
        if a_us <= at_us <= b_us or error < DRIFT:
            ns_per_us, unsure = (last.host_ns - first.host_ns) / (b_us - a_us), min(error, DRIFT)
    beyond_us = max(a_us - at_us, at_us - b_us, 0)
    return Moment(
        host_ns=near.host_ns + round(away_us * ns_per_us),
        uncertainty_ns=worst_ns + round(beyond_us * 1000 * unsure),
    )


class Eras:
    """Tells when the phone's wall clock, which may be set at any time, was set.

    A stamp comes with the phone's uptime, coarse but steady, that was read within it. While both
    go along, the wall clock counts; when they part, times after that are of another era, and
    must not be compared with those before.
    """

    def __init__(self) -> None:
        self.era = 0
        self._ahead: tuple[int, int] | None = None  # of the wall clock, in µs: least and most

    def place(self, before_us: int, uptime_us: int, after_us: int) -> int:
        """The era that a stamp is of; 0 as long as the clock was not set.

        An uptime of 0 says that the phone does not tell it.
        """
        if uptime_us == 0:
            return self.era
        least, most = before_us - uptime_us - UPTIME_STEP_US, after_us - uptime_us
        if self._ahead and (least > self._ahead[1] + SLACK_US or most < self._ahead[0] - SLACK_US):
            self.era += 1
            self._ahead = None
        # A read that took long tells little; but the clock may also drift, so the newest counts.
        if self._ahead is None or most - least <= SLACK_US:
            self._ahead = least, most
        return self.era


class ClockMap:
    """Times of the phone as times of ours, for one era.

    Args:
        resolution_ns: Smallest step of the phone's clock.
    """

    def __init__(self, resolution_ns: int) -> None:
        self.resolution_ns = resolution_ns
        self.points: list[Point] = []
        self._burst: int | None = None
        self._best: Point | None = None

    def echo(self, number: int, device_us: int, sent_ns: int, received_ns: int) -> Point | None:
        """Takes in one echo; gives the new point when it was the last of its burst."""
        burst, place = divmod(number, BURST)
        done = self.finish() if burst != self._burst else None
        self._burst = burst
        point = Point(
            device_us=device_us,
            host_ns=(sent_ns + received_ns) // 2,
            uncertainty_ns=(received_ns - sent_ns) // 2 + self.resolution_ns,
        )
        if self._best is None or point.uncertainty_ns < self._best.uncertainty_ns:
            self._best = point
        return self.finish() if place == BURST - 1 else done

    def finish(self) -> Point | None:
        """The point of the burst that has begun, if it can be believed."""
        point, self._best, self._burst = self._best, None, None
        if point is None or not self._fits(point):
            return None
        self.points.append(point)
        return point

    def _fits(self, point: Point) -> bool:
        if not self.points:
            return True
        last = self.points[-1]
        device_ns = (point.device_us - last.device_us) * 1000
        return LEAST_RATE * device_ns < point.host_ns - last.host_ns < MOST_RATE * device_ns

    def reaches(self, device_us: int) -> bool:
        """True if a point lies at or after this time, so that nothing is extrapolated."""
        return bool(self.points) and self.points[-1].device_us >= device_us

    def host_ns(self, device_us: int) -> int | None:
        """The time on our clock; beyond the points as `between` has it."""
        if not self.points:
            return None
        at = bisect_right([point.device_us for point in self.points], device_us)
        at = min(max(at, 1), len(self.points) - 1)
        a, b = self.points[max(at - 1, 0)], self.points[at]
        return between((a.device_us, a), (b.device_us, b), device_us).host_ns

    def uncertainty_ns(self) -> int | None:
        """Of the newest times: the worse of the two last points."""
        return max((point.uncertainty_ns for point in self.points[-2:]), default=None)

    def forget(self) -> None:
        """Drops points that no time can need any more: all but the last two."""
        del self.points[:-2]
