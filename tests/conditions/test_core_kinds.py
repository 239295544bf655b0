"""Big and little cores are told apart, and a run says where its plan took them for equal ones."""

from __future__ import annotations

import os
from typing import Any

import pytest
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.errors import InvalidValueError
from wattstep.schema.cores import parse_clusters
from wattstep.train.environment import core_kinds
from wattstep.train.environment.core_kinds import clusters_for, kinds_of_cores, taken_for_equal
from wattstep.train.settings import TrainingSettings

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
    assert_says(taken_for_equal(planned, unequal), "2 kinds", f"--cores {FIRST}", "heterogeneous")
    few_threads: Any = {**planned, "policy": "heterogeneous"}
    assert "--policy" not in str(taken_for_equal(few_threads, unequal))
    assert taken_for_equal(planned, [cluster(*range(4096), max_hz=1e9)]) is None
    assert taken_for_equal({"policy": "default"}, unequal) is None
    told_apart: Any = {**planned, "clusters": [{"cores": "0", "tasks": 1, "tasks_s": 1.0}]}
    assert taken_for_equal(told_apart, unequal) is None


def test_kinds_are_those_declared_and_else_those_of_the_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert clusters_for("2-3+6,0-1") == ((2, 3, 6), (0, 1))
    monkeypatch.setattr(core_kinds.machine, "describe", lambda: {"clusters": TX2})
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 3})
    assert clusters_for(None) == clusters_for("0-3") == ((1, 2), (0, 3))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3})
    assert clusters_for(None) == ()


def test_sets_of_cores_that_are_no_kinds_are_refused() -> None:
    assert parse_clusters("0-3") == ((0, 1, 2, 3),)
    for wrong in ("0-1,1-2", "0,", "a,b"):
        with pytest.raises(InvalidValueError, match="--cores"):
            parse_clusters(wrong)
    every = sorted(os.sched_getaffinity(0))
    made = f"{every[0]},{every[-1]}" if len(every) > 1 else f"{FIRST},9999"
    with refused("needs-policy" if len(every) > 1 else "core-refused", made.split(",")[-1]):
        TrainingSettings(workload="lenet", policy="co-run", cores=made)
    with refused("core-refused", "9999"):
        TrainingSettings(workload="lenet", policy="heterogeneous", cores=f"{FIRST},9999")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two kinds of cores need two cores")
def test_a_training_passes_its_kinds_on() -> None:
    _, *others = sorted(os.sched_getaffinity(0))
    made = TrainingSettings(workload="lenet", policy="heterogeneous", cores=f"{others[0]},{FIRST}")
    assert made.preparation.clusters == ((others[0],), (FIRST,))
    assert TrainingSettings(workload="lenet", policy="co-run").preparation.clusters == ()
