"""Progress: nothing of short work, then how far it is and what is left, in a pipe too; no word where it is quiet."""

from __future__ import annotations

import time

import pytest
from tests.wording import assert_says

from wattstep.cli import progress
from wattstep.cli.progress import Course, bar_of, list_progress


class Clock:
    """A clock that is set by hand."""

    now_s = 100.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now_s


def test_time_left_follows_from_what_was_done_and_runs_down_meanwhile() -> None:
    clock = Clock()
    course = Course("counting", clock)
    clock.now_s += 30
    course.stands("lenet", 0.25)  # 30 s for a quarter: 90 s more
    assert course.left == "about 1 min 30 s left"
    clock.now_s += 60
    assert course.left == "about 30 s left"
    assert str(course) == f"counting: lenet (25 %, {course.left})"
    clock.now_s += 60  # it took longer than foretold: nothing more is
    assert course.left == ""
    assert_says(str(course), "counting: lenet", "25 %", "2 min 30 s")


def test_no_time_left_is_made_up_where_nothing_tells_it() -> None:
    clock = Clock()
    course = Course("predicting", clock)
    clock.now_s += 60
    course.stands("capturing a step", None)
    assert course.left == ""
    assert_says(str(course), "predicting:", "capturing a step", "1 min 0 s")
    course.stands("the first of many", 0.01)
    assert course.left == ""


def test_of_items_that_take_unlike_times_the_share_is_by_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = []
    monkeypatch.setattr(Course, "stands", lambda self, stage, share: told.append((stage, share)))
    with list_progress("counting", 3, quiet=False, weights=[1, 8, 1]) as tell:
        for item in "abc":
            tell(item)
    assert told == [("a, 1 of 3", 0.0), ("b, 2 of 3", 0.1), ("c, 3 of 3", 0.9)]


def test_in_a_pipe_long_work_says_where_it_is_while_it_tells_nothing_itself(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "SHOWN_FROM_S", 0.01)
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.01)
    lines = ""
    with bar_of("importing", quiet=False) as show:
        show("reading the trace", 0.5)
        for _ in range(1000):
            lines += capfd.readouterr().err
            if lines.count("importing: reading the trace (50 %") > 1:
                break
            time.sleep(0.01)
    assert lines.count("(50 %") > 1
    assert "\x1b" not in lines


def test_quiet_and_short_work_say_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "SHOWN_FROM_S", 3600.0)
    with bar_of("importing", quiet=False) as show:
        show("reading", 0.5)
    monkeypatch.setattr(progress, "SHOWN_FROM_S", 0.0)
    with bar_of("importing", quiet=True) as show:
        show("reading", 0.5)
        time.sleep(0.05)
    assert capfd.readouterr() == ("", "")
