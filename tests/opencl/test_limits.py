"""A driver that hangs or crashes ends its own process alone, and how it ended is told."""

from __future__ import annotations

from typing import Any

from tests.wording import assert_says

from wattstep.opencl.limits import run_limited


def test_what_ends_well_has_said_what_it_had_to() -> None:
    news: list[Any] = []
    assert run_limited("tests.opencl.entries:tell", ["done"], news.append) == ""
    assert news == [{"stage": "done"}]


def test_a_process_that_says_nothing_for_too_long_is_ended() -> None:
    news: list[Any] = []
    assert_says(run_limited("tests.opencl.entries:hang", [], news.append, silent_s=0.2), 0.2)
    assert news == [{"stage": "compiling"}]


def test_a_process_whose_time_is_up_is_ended_whatever_it_says() -> None:
    how = run_limited("tests.opencl.entries:hang", [], lambda news: None, limit_s=0.2)
    assert_says(how, 0.2)


def test_a_process_that_crashes_leaves_its_last_line() -> None:
    assert_says(
        run_limited("tests.opencl.entries:crash", [], lambda news: None), "SIGABRT", "LLVM ERROR"
    )
