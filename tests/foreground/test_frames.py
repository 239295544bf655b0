"""The foreground job, with a clock that only the job itself moves."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from wattstep.train.foreground.frames import PERIOD_NS, SKIPPED, WORK_NS, calibrate, play, work

MS = 1_000_000


@dataclass
class Machine:
    """Sleeps as long as it is asked to and a bit, and works as long as it is told."""

    late: int = 0
    works: list[int] = field(default_factory=list)
    now: int = 1000 * MS

    def clock(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1e9) + self.late

    def do(self, loops: int) -> None:
        self.now += self.works.pop(0)


def played(machine: Machine, count: int) -> list[tuple[int, int, int]]:
    return play(count, 1, machine.clock, machine.sleep, machine.do)


def test_frames_begin_a_period_apart_whatever_the_one_before_took() -> None:
    frames = played(Machine(late=MS, works=[4 * MS, 9 * MS, 4 * MS]), 3)
    begins = [frame[0] for frame in frames]
    assert begins == [1000 * MS + n * PERIOD_NS for n in (1, 2, 3)]
    assert [frame[1:] for frame in frames] == [(MS, 5 * MS), (MS, 10 * MS), (MS, 5 * MS)]


def test_a_late_frame_delays_the_next_one_which_begins_at_once() -> None:
    frames = played(Machine(works=[20 * MS, 4 * MS]), 2)
    assert frames[0][1:] == (0, 20 * MS)
    delay = 20 * MS - PERIOD_NS
    assert frames[1][1:] == (delay, delay + 4 * MS)


def test_a_frame_whose_period_went_by_is_skipped() -> None:
    # 60 ms: frame 1 lasts into frame 4 (periods of 16.7 ms), so that 2 and 3 are never begun.
    frames = played(Machine(works=[60 * MS, 4 * MS, 4 * MS]), 5)
    assert [frame[2] for frame in frames[1:3]] == [SKIPPED, SKIPPED]
    delay = 60 * MS - 3 * PERIOD_NS
    assert frames[3][1:] == (delay, delay + 4 * MS)
    assert frames[4][1:] == (0, 4 * MS)


def test_work_is_calibrated_by_the_fastest_try() -> None:
    # A chunk of 20,000 loops takes 2 ms at best: 4 ms are 40,000.
    machine = Machine(works=[5 * MS, 2 * MS, 3 * MS] + [4 * MS] * 100)
    assert WORK_NS == 4 * MS
    assert calibrate(machine.clock, machine.do) == 40_000


def test_the_work_is_arithmetic_that_cannot_be_left_out() -> None:
    assert work(1) == 1103527590
    assert work(2) == (1103527590 * 1103515245 + 12345) % 2**31
    assert work(0) == pytest.approx(1)
