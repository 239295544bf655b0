"""A training with a thread for each core is warned of others that use the cores, before it begins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wattstep.conditions.crowding import Crowding, too_many_threads

TICK = os.sysconf("SC_CLK_TCK")


def stat(path: Path, busy_s: float) -> Path:
    file = path / "stat"
    file.write_text(f"cpu  {round(busy_s * TICK)} 0 0 99 0 0 0 0 0 0\ncpu0 1 0 0 9 0 0 0 0 0 0\n")
    return file


def test_others_are_all_busy_time_but_that_of_this_process(tmp_path: Path) -> None:
    """In 2 s the cores were busy for 3.5 s, 0.5 s of it with this process: others used 1.5."""
    times, own = iter([10.0, 12.0, 12.0]), iter([1.0, 1.5])
    crowding = Crowding(
        stat(tmp_path, 100), lambda: next(times), lambda: next(own), lambda seconds: None
    )
    stat(tmp_path, 103.5)
    assert crowding.others() == pytest.approx(1.5)


def test_a_kernel_that_does_not_tell_warns_of_nobody(tmp_path: Path) -> None:
    crowding = Crowding(tmp_path / "none", sleep=lambda seconds: None)
    assert crowding.others() == 0


@pytest.mark.parametrize(
    ("threads", "others", "advice"),
    [(2, 0.2, None), (2, 1.4, "--threads 1"), (1, 2.0, None), (4, 1.6, "--threads 2")],
)
def test_the_warning_says_how_many_threads_leave_the_others_theirs(
    threads: int, others: float, advice: str | None
) -> None:
    said = too_many_threads(threads, max(threads, 2), others)
    assert (said is None) == (advice is None)
    assert advice is None or advice in (said or "")
