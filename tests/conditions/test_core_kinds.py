"""Big and little cores are told apart, and a run says where its plan took them for equal ones."""

from __future__ import annotations

import os
from typing import Any

from tests.wording import assert_says

from wattstep.train.environment.core_kinds import kinds_of_cores, taken_for_equal

FIRST, *_ = sorted(os.sched_getaffinity(0))


def cluster(*cores: int, max_hz: float | None) -> Any:
    return {"kind": "made", "cores": list(cores), "max_hz": max_hz}


TX2 = [cluster(0, 3, 4, 5, max_hz=2.0e9), cluster(1, 2, max_hz=2.1e9)]


def test_the_fastest_kind_of_core_comes_first_and_one_kind_is_none() -> None:
    assert kinds_of_cores(range(6), TX2) == ("1-2", "0+3-5")
    assert kinds_of_cores((0, 3, 4), TX2) == ()
    assert kinds_of_cores((0, 2), TX2) == ("2", "0")
    assert kinds_of_cores((0, 1), [cluster(0, max_hz=None), cluster(1, max_hz=1e9)]) == ("1", "0")


def test_a_plan_by_measured_times_takes_unequal_cores_for_equal_and_says_so() -> None:
    unequal = [
        cluster(FIRST, max_hz=2e9),
        cluster(*sorted(os.sched_getaffinity(0))[1:], FIRST, max_hz=1e9),
    ]
    planned: Any = {"policy": "co-run", "predicted": {}}
    assert_says(taken_for_equal(planned, unequal), "2 kinds", f"--cores {FIRST}")
    assert taken_for_equal(planned, [cluster(*range(4096), max_hz=1e9)]) is None
    assert taken_for_equal({"policy": "default"}, unequal) is None
