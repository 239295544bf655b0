"""What runs are called side by side, and what they are compared by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.wording import assert_says

from wattstep.report.wording import compared, may_or_should, setting, steps, titles
from wattstep.schema.figure import Figure, Status, missing
from wattstep.schema.figures import Metrics
from wattstep.schema.run_report import RunReport


def run(batch: int = 4, precision: str = "fp32", **options: Any) -> RunReport:
    return RunReport(title="LeNet-5", batch_size=batch, precision=precision, options=options)


def test_runs_are_told_apart_by_what_differs_and_by_nothing_else() -> None:
    assert titles([run(), run(8)]) == ["LeNet-5 · batch 4", "LeNet-5 · batch 8"]
    assert titles([run(), run(precision="amp")]) == [
        "LeNet-5 · batch 4 · fp32", "LeNet-5 · batch 4 · amp",
    ]  # fmt: skip
    rates = titles([run(rate_rule="linear"), run(rate_rule="fixed", accumulate=4)])
    assert [title.split(" · ")[2:] for title in rates] == [
    ["linear rate"], ["accumulated 4 times", "fixed rate"],
    ]  # fmt: skip
    other = replace(run(), title="DQN", options={"image_size": 84})
    assert titles([run(), other]) == ["LeNet-5 · batch 4", "DQN · batch 4"]
    assert titles([run(), run(8, precision="amp")])[1] == "LeNet-5 · batch 8 · amp"
    assert titles([]) == []


def test_runs_to_a_goal_are_compared_by_what_it_took() -> None:
    reached = replace(run(), metrics=Metrics({"time_to_target": missing("s", "not reached")}))
    assert compared([run(), reached])[:2] == ("time_to_target", "energy_to_target")
    assert compared([run()])[0] == "step_time"


def test_accumulation_stands_beside_the_batch() -> None:
    assert setting(run(accumulate=4))[:2] == ["batch 4", "accumulated 4 times"]
    assert setting(run(accumulate=1))[0] == "batch 4"


def test_the_arguments_of_a_script_stand_beside_its_engine() -> None:
    one = replace(run(arguments="--width 32"), engine="torch 2.4")
    assert setting(one)[:2] == ["torch 2.4", "--width 32"]


def test_of_no_steps_no_kinds_are_counted() -> None:
    none = replace(run(), steps=replace(run().steps, recorded=0, clean=0, traced=0))
    assert_says(steps(none), "no steps")


def test_a_gain_whose_interval_begins_at_nothing_is_only_possible() -> None:
    for low, word in ((None, "should"), (0.0, "may"), (0.004, "may"), (0.01, "should")):
        high = None if low is None else 0.9
        gain = Figure(value=0.5, unit="ratio", status=Status.PREDICTED, low=low, high=high)
        assert may_or_should(gain) == word
