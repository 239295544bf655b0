"""Every clock that is mapped onto the run's: offset, rate and uncertainty hold, by one Protocol."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused

from wattstep.engines.marked_clock import MarkedClock
from wattstep.importing.clocks.alignment import ClockMap
from wattstep.record.sensors.android.clock import Point
from wattstep.remote.phone.clock import PhoneClock
from wattstep.schema.clock import Clock
from wattstep.schema.journal import Mark
from wattstep.store.device_clock import DeviceTimes
from wattstep.store.mark_rows import MARK

SECOND = 10**9
HALF = 400  # ns between a mark and the stamps on either side of it


def marked(moments: list[int], theirs: Callable[[int], int]) -> Clock:
    """From marks in a trace."""
    brackets = [(t - HALF, t + HALF) for t in moments]
    return MarkedClock([theirs(t) for t in moments], brackets)


def knotted(moments: list[int], theirs: Callable[[int], int]) -> Clock:
    """From moments that are known on both."""
    knots = np.array([theirs(t) for t in moments], np.int64)
    ours = np.array(moments, np.int64)
    rate = (moments[-1] - moments[0]) / float(knots[-1] - knots[0])
    return ClockMap(
        from_ns=knots, to_ns=ours, uncertainty_ns=np.full(len(ours), HALF), rate=rate,
        rate_uncertainty=1e-6, method="marks",
    )  # fmt: skip


def followed(moments: list[int], theirs: Callable[[int], int]) -> Clock:
    """From events in a device's queue, between when they were put there and when they were seen."""
    rows = np.zeros(len(moments), MARK)
    rows["kind"] = Mark.DEVICE
    rows["t"], rows["value"] = [t - HALF for t in moments], 2 * HALF
    rows["cpu"] = [theirs(t) for t in moments]
    (clock,) = DeviceTimes(lambda: iter([rows])).clocks.values()
    return clock


def echoed(moments: list[int], theirs: Callable[[int], int]) -> Clock:
    """From echoes of a phone, whose wall clock is read in µs."""
    clock = PhoneClock()
    for t in moments:
        wall_us = theirs(t) // 1000
        clock.add(Point(device_us=wall_us, host_ns=t, uncertainty_ns=HALF + 1000), t // 1000)
    return clock


@pytest.mark.parametrize("make", [marked, knotted, followed, echoed])
@given(
    offset_s=st.integers(-(10**6), 10**6),
    ppm=st.integers(-200, 200),
    share=st.floats(0, 1),
)
def test_a_time_comes_back_within_the_stated_uncertainty(
    make: Callable[..., Clock], offset_s: int, ppm: int, share: float
) -> None:
    def theirs(t: int) -> int:
        return t + offset_s * SECOND + t * ppm // 10**6

    moments = [SECOND, SECOND + 1_000_000, 3 * SECOND, 5 * SECOND]
    clock = make(moments, theirs)
    true = int(SECOND + share * 4 * SECOND)
    found, unsure = int(clock.map(theirs(true))), int(clock.uncertainty_at(theirs(true)))
    assert unsure >= HALF
    assert abs(found - true) <= unsure
    # By hand: a second of ours is 1 + ppm / 10^6 of theirs.
    assert clock.rate == pytest.approx(1 / (1 + ppm * 1e-6), abs=1e-9)


@pytest.mark.parametrize("make", [knotted, followed, echoed])
def test_many_times_are_mapped_as_each_by_itself(make: Callable[..., Clock]) -> None:
    clock = make([SECOND, 3 * SECOND, 5 * SECOND], lambda t: t + t // 10**5)
    times = np.array([SECOND, 2 * SECOND, 5 * SECOND, 7 * SECOND], np.int64)
    for of in (clock.map, clock.uncertainty_at):
        assert of(times).tolist() == [int(of(t)) for t in times.tolist()]


def test_a_phone_s_times_are_those_of_its_clock_since_that_was_set() -> None:
    """It was set back by an hour between the second and the third second of ours."""
    clock = PhoneClock()
    for t_s, wall_s in ((1, 7201), (2, 7202), (3, 3603), (5, 3605)):
        point = Point(device_us=wall_s * 10**6, host_ns=t_s * SECOND, uncertainty_ns=HALF)
        clock.add(point, (100 + t_s) * 10**6)
    assert clock.map(3604 * SECOND) == 4 * SECOND
    assert clock.rate == 1.0


def test_a_phone_of_which_no_moment_is_known_maps_nothing() -> None:
    with refused("no-moment-known"):
        PhoneClock().map(SECOND)


def test_what_lies_between_two_marks_stays_between_them() -> None:
    """The thread was stopped for a second between the mark and its stamp."""
    clock = MarkedClock([0, 100, 200], [(0, 10), (90, 110 + SECOND), (SECOND + 190, SECOND + 210)])
    assert clock.map(150) >= SECOND + 110
    assert clock.map(50) <= 90
