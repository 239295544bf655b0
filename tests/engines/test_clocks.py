"""Every clock that is mapped onto the run's: offset, rate and uncertainty hold, by one Protocol."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattstep.engines.marked_clock import MarkedClock
from wattstep.importing.clocks.alignment import ClockMap
from wattstep.schema.clock import Clock

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


@pytest.mark.parametrize("make", [marked, knotted])
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


def test_what_lies_between_two_marks_stays_between_them() -> None:
    """The thread was stopped for a second between the mark and its stamp."""
    clock = MarkedClock([0, 100, 200], [(0, 10), (90, 110 + SECOND), (SECOND + 190, SECOND + 210)])
    assert clock.map(150) >= SECOND + 110
    assert clock.map(50) <= 90
