"""Gaps of streams by their cause, by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tests.analysis.test_gpu_breakdown import work_of
from tests.refusals import refused

from wattstep.attribution.gaps import Spans
from wattstep.attribution.gpu_idle import UNKNOWN, StreamIdle, idle_by_cause

US = 1000


def idle_of(
    pieces: Sequence[tuple[int, int, int, int]],
    stretches: Sequence[int] | None = None,
    copies: Sequence[int] = (),
    waits: Sequence[tuple[int, int]] = (),
) -> tuple[StreamIdle, ...]:
    """From stream, asked, begin and end in µs; which are copies, and when the host waits."""
    work = work_of([("gemm", a * US, b * US) for _, _, a, b in pieces], stretches=stretches)
    stream = np.array([one[0] for one in pieces])
    asked = np.array([one[1] if one[1] == UNKNOWN else one[1] * US for one in pieces])
    copy = np.isin(np.arange(len(pieces)), copies)
    waiting = Spans.of([a * US for a, _ in waits], [b * US for _, b in waits])
    return idle_by_cause(work, stream, asked, copy, waiting)


def told(one: StreamIdle) -> tuple[int, int, int, int, int]:
    """In µs."""
    return one.stream, one.gaps, one.host_ns // US, one.launch_ns // US, one.other_ns // US


def test_a_gap_is_the_hosts_a_launchs_or_anothers() -> None:
    """0-10; asked at 50, begins 60: host; asked before, 5 later: launch; 100 later: another."""
    (one,) = idle_of([(7, 0, 0, 10), (7, 50, 60, 70), (7, 65, 75, 80), (7, 76, 180, 190)])
    assert told(one) == (7, 3, 50, 5, 100)


def test_a_host_that_waits_itself_is_a_synchronisation() -> None:
    """0-10; the host waits 2-22 and asks at 50 for what begins at 60."""
    (one,) = idle_of([(7, 0, 0, 10), (7, 50, 60, 70)], waits=[(2, 22)])
    assert told(one) == (7, 1, 38, 0, 0)
    assert (one.sync_ns, one.copy_ns) == (12 * US, 0)


def test_a_copy_in_another_stream_is_what_work_waits_for_that_was_asked_for_in_time() -> None:
    """Stream 7 is free 10-200 and has its next work asked for at 5; a copy runs 20-180 in stream 8."""
    found = idle_of([(7, 0, 0, 10), (8, 1, 20, 180), (7, 5, 200, 210)], copies=[1])
    assert [told(one) for one in found] == [(7, 1, 0, 0, 30), (8, 0, 0, 0, 0)]
    assert found[0].copy_ns == 160 * US


def test_streams_do_not_fill_each_others_gaps() -> None:
    found = idle_of([(7, 0, 0, 10), (8, 0, 12, 20), (7, 0, 100, 110), (8, 0, 25, 30)])
    assert [told(one) for one in found] == [(7, 1, 0, 0, 90), (8, 1, 0, 5, 0)]


def test_work_that_nobody_is_known_to_have_asked_for_is_no_fault_of_the_host() -> None:
    (one,) = idle_of([(7, UNKNOWN, 0, 10), (7, UNKNOWN, 100, 110)])
    assert told(one) == (7, 1, 0, 0, 90)


def test_work_that_overlaps_on_a_stream_leaves_no_negative_gap() -> None:
    (one,) = idle_of([(7, 0, 0, 100), (7, 0, 10, 20), (7, 0, 90, 120), (7, 0, 120, 121)])
    assert told(one) == (7, 0, 0, 0, 0)


def test_nothing_between_two_stretches_of_a_recording_is_a_gap() -> None:
    (one,) = idle_of([(7, 0, 0, 10), (7, 900, 1000, 1010)], stretches=[0, 1])
    assert told(one) == (7, 0, 0, 0, 0)


def test_no_work_has_no_gaps_and_columns_must_fit() -> None:
    assert idle_of([]) == ()
    with refused("unequal-lengths"):
        idle_by_cause(
            work_of([("a", 0, 1)]), np.zeros(2), np.zeros(1, np.int64), np.zeros(1, bool),
            Spans.of([], []),
        )  # fmt: skip
