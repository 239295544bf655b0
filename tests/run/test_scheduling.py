"""Figures and sentences of a run by a plan, worked out by hand from what it recorded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.wording import assert_says

from wattstep.report.scheduled import schedule_sentences
from wattstep.run.scheduling import over_bound, plan_bound, plan_saving, predicted_step_time
from wattstep.schema.configuration import configuration_of
from wattstep.schema.figure import Figure, Status, missing
from wattstep.schema.run_report import RunReport


def figure(value: float, low: float, high: float) -> Any:
    status = Status.PREDICTED
    return Figure(value=value, low=low, high=high, unit="s", status=status).to_dict()


SCHEDULE: Any = {
    "policy": "critical-path",
    "updates": [
        {"tasks": 123, "workers": 2, "threads": {"1": 120, "2": 3}, "pinned": True, "policy": "co-run"}
    ],
    "teams": [], "cores": 2, "predicted": figure(0.009, 0.008, 0.011), "default": figure(0.010, 0.009, 0.012),
    "bound_s": 0.0075, "path_s": 0.004, "work_s": 0.0075, "beside_s": 0.0005, "times": "kept",
    "learning_steps": 12, "changed_by": None, "handover_s": 1e-5, "interference": [],
    "relearned": [
        {"step": 80, "steps_factor": 1.5, "operations_factor": 1.6, "again": True, "learning_steps": 9},
        {"step": 400, "steps_factor": 1.2, "operations_factor": None, "again": False, "learning_steps": 4},
    ],
}  # fmt: skip


def parts(schedule: Any, step: Figure | None = None) -> Any:
    return SimpleNamespace(
        info=SimpleNamespace(schedule=schedule),
        metrics=SimpleNamespace(figure=lambda name: step if name == "step_time" else None),
    )


def test_the_bound_is_that_of_the_plan_without_what_nothing_bounds() -> None:
    bound = plan_bound(parts(SCHEDULE))
    assert bound is not None
    assert bound.value == pytest.approx(0.0075)
    assert bound.status is Status.PREDICTED
    saved = plan_saving(parts(SCHEDULE))
    assert saved is not None
    assert saved.value == pytest.approx(0.1)
    predicted = predicted_step_time(parts(SCHEDULE))
    assert predicted is not None
    assert (predicted.low, predicted.value, predicted.high) == (0.008, 0.009, 0.011)


def test_the_step_over_its_bound_is_predicted_as_the_bound_is() -> None:
    step = Figure(value=0.010, low=0.0096, high=0.0104, unit="s", status=Status.MEASURED)
    over = over_bound(parts(SCHEDULE, step))
    assert over is not None
    assert (over.low, over.value, over.high) == pytest.approx(
        (1.28, 0.010 / 0.0075, 0.0104 / 0.0075)
    )
    assert over.status is Status.PREDICTED
    untold = over_bound(parts(SCHEDULE, missing("s", "none")))
    assert untold is not None
    assert untold.missing


def test_runs_without_measured_operations_have_none_of_these_figures() -> None:
    for schedule in ({}, {"policy": "default", "updates": SCHEDULE["updates"]}):
        told = parts(schedule)
        assert [
            each(told) for each in (predicted_step_time, plan_bound, over_bound, plan_saving)
        ] == [None] * 4


def test_plan_prediction_bound_and_changes_are_said_with_their_figures() -> None:
    texts = schedule_sentences(RunReport(schedule=SCHEDULE))
    assert len(texts) == 3
    assert_says(
        texts[0],
        "critical-path",
        "2 workers",
        "123 operations",
        "120 on 1 thread",
        "3 on 2",
        "co-run",
    )
    assert_says(texts[0], "9.00 ms", "10.0 %", "8.00 ms", "7.50 ms", "13.3 %")
    assert_says(texts[1], "80", "1.50", "1.60")
    assert_says(texts[2], "400", "1.20")
    assert schedule_sentences(RunReport()) == []


def test_plans_that_came_out_differently_are_told_apart_in_words() -> None:
    told = configuration_of(RunReport(schedule=SCHEDULE))["plan of operations"]
    assert_says(told, "co-run", "2 workers")
    assert configuration_of(RunReport())["plan of operations"] != told


def test_a_report_gives_back_its_plan() -> None:
    report = RunReport(schedule=SCHEDULE)
    assert RunReport.from_dict(report.to_dict()).schedule == SCHEDULE
