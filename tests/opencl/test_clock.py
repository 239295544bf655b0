"""Times of events lie where marks say: between the host's times before and after them, within 50 µs."""

from __future__ import annotations

import time

import numpy as np
import pytest

from wattstep.opencl.clock import EventClock, stamps
from wattstep.opencl.device import Opened

SECOND = 1_000_000_000
WITHIN = 50_000  # ns


def made_clock(anchors: list[int], ours: object) -> EventClock:
    """A clock of marks that were queued 1 µs after our time before, and ended 3 µs before that after."""
    clock = EventClock.__new__(EventClock)
    clock._at, clock._offset, clock._half = [], [], []
    for at in anchors:
        moment = ours(at)  # type: ignore[operator]
        clock.add([(at, at + 4000, moment - 1000, moment + 7000)])
    return clock


def test_an_offset_is_known_to_half_of_what_marks_leave() -> None:
    clock = made_clock([5 * SECOND], lambda t: t - 3 * SECOND)
    mapped = clock.map(5 * SECOND)
    # Between 1 µs less and 3 µs more than the truth: the middle, and 2 µs on either side.
    assert mapped == 2 * SECOND + 1000
    assert clock.uncertainty_at(5 * SECOND) == 2001
    assert clock.rate == 1.0


def test_between_two_moments_the_map_is_linear_and_beyond_them_less_sure() -> None:
    drifting = made_clock([0, 10 * SECOND], lambda t: SECOND + t + t // 100_000)  # 10 ppm
    times = np.array([0, 5 * SECOND, 10 * SECOND, 11 * SECOND], np.int64)
    expected = SECOND + times + times // 100_000 + 1000
    assert np.abs(drifting.map(times) - expected).max() <= 1
    assert drifting.rate == pytest.approx(1.00001)
    off = drifting.uncertainty_at(times)
    assert off[:3].tolist() == [2001, 2001, 2001]
    assert off[3] == 2001 + 500_000  # 500 ppm of a second


def test_times_far_from_zero_keep_their_nanoseconds() -> None:
    late = 4_000_000_000_000_000_123  # a clock of the epoch and more
    clock = made_clock([late], lambda t: t - 4_000_000_000_000_000_000)
    assert clock.map(late + 7) - clock.map(late) == 7


def test_events_lie_between_the_host_s_times_around_them(opened: Opened) -> None:
    import pyopencl as cl

    clock = EventClock(opened.queue)
    buffer = opened.allocate(1 << 20)
    brackets = []
    for _ in range(50):
        before = time.monotonic_ns()
        event = cl.enqueue_fill_buffer(opened.queue, buffer, np.uint32(1), 0, 1 << 20)
        event.wait()
        brackets.append((before, stamps(event), time.monotonic_ns()))
    clock.mark(opened.queue)
    opened.release(buffer)
    off = [
        max(before - clock.map(at.queued), clock.map(at.ended) - after, 0)
        for before, at, after in brackets
    ]
    assert max(off) <= WITHIN
    assert all(clock.uncertainty_at(at.started) <= WITHIN for _, at, _ in brackets)


def test_pocl_s_events_are_on_the_raw_clock(opened: Opened) -> None:
    if "Portable" not in opened.device.platform:
        pytest.skip("another driver's clock")
    clock = EventClock(opened.queue)
    raw = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    ours = time.monotonic_ns()
    assert abs(clock.map(raw) - ours) <= WITHIN
