"""What it took to reach a goal, on runs whose steps take 20 ms at 5 W."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from tests.run.made import Sampled, make_run, power
from tests.wording import assert_says

from wattstep.report.html.learning import learning_charts
from wattstep.run import Run, load

LEARNING = [
    (0, "accuracy", 0.1), (0, "loss", 2.3),
    (10, "accuracy", 0.4), (10, "loss", 1.5),
    (30, "accuracy", 0.62), (30, "loss", 1.0),
]  # fmt: skip


def made(path: Path, until: str, **options: Any) -> Run:
    channel = Sampled(channel=power(), raw=lambda t: 5000)
    run = make_run(path / "r", [channel], options={"until": until}, evaluations=LEARNING, **options)
    return load(run.path)


def test_time_and_energy_to_an_accuracy_lie_between_two_evaluations(tmp_path: Path) -> None:
    metrics = made(tmp_path, "accuracy=0.6", trace="none").metrics()
    steps, time = metrics["steps_to_target"], metrics["time_to_target"]
    assert (steps.low, steps.value, steps.status.value) == (10, 30, "counted")
    assert (time.low, time.value) == (pytest.approx(10 * 0.02), pytest.approx(30 * 0.02))
    assert time.status.value == "measured"
    assert metrics["samples_to_target"].value == 30 * 4
    energy = metrics["energy_to_target"]
    assert (energy.low, energy.value) == (pytest.approx(1.0), pytest.approx(3.0))
    assert energy.status.value == "measured"


def test_traced_steps_count_as_clean_ones_and_it_is_said(tmp_path: Path) -> None:
    time = made(tmp_path, "accuracy=0.6").metrics()["time_to_target"]
    assert time.value == pytest.approx(30 * 0.02)
    assert time.status.value == "attributed"
    assert "traced steps count" in time.method


def test_a_loss_is_reached_from_above(tmp_path: Path) -> None:
    metrics = made(tmp_path, "loss=1.5", trace="none").metrics()
    assert (metrics["steps_to_target"].low, metrics["steps_to_target"].value) == (0, 10)


def test_a_goal_that_was_not_reached_is_missing_with_the_best(tmp_path: Path) -> None:
    figure = made(tmp_path, "accuracy=0.9").metrics()["time_to_target"]
    assert figure.missing
    assert_says(figure.reason, "accuracy=0.9", "30 steps", "0.62")


def test_a_run_without_a_goal_has_no_such_figures(tmp_path: Path) -> None:
    run = load(make_run(tmp_path / "r", []).path)
    assert "time_to_target" not in run.metrics()
    assert run.document()["evaluations"] == []


def test_a_loss_that_is_no_number_is_the_reason_and_never_the_best(tmp_path: Path) -> None:
    channel = Sampled(channel=power(), raw=lambda t: 5000)
    run = make_run(
        tmp_path / "r", [channel], trace="none", options={"until": "loss=0.5"},
        evaluations=[(0, "loss", 2.0), (10, "loss", math.nan)], losses=[1.0] * 12 + [math.nan] * 48,
    )  # fmt: skip
    figure = load(run.path).metrics()["time_to_target"]
    assert_says(figure.reason, "loss=0.5", "no finite number", "step 12")
    assert load(run.path).document()["evaluations"][1]["loss"]["status"] == "missing"


def test_an_accuracy_whose_loss_is_no_number_reaches_nothing(tmp_path: Path) -> None:
    channel = Sampled(channel=power(), raw=lambda t: 5000)
    found = [(0, "accuracy", 0.1), (0, "loss", 2.0), (10, "accuracy", 0.7), (10, "loss", math.inf)]
    run = make_run(
        tmp_path / "r", [channel], trace="none", options={"until": "accuracy=0.6"},
        evaluations=found,
    )  # fmt: skip
    assert load(run.path).metrics()["time_to_target"].missing


def test_every_evaluation_is_in_the_document(tmp_path: Path) -> None:
    rows = made(tmp_path, "loss=1").document()["evaluations"]
    assert [row["step"] for row in rows] == [0, 10, 30]
    assert [row["accuracy"]["value"] for row in rows] == [0.1, 0.4, 0.62]
    assert [row["loss"]["value"] for row in rows] == [2.3, 1.5, 1.0]


def judged(path: Path, *more: tuple[int, str, float]) -> Run:
    channel = Sampled(channel=power(), raw=lambda t: 5000)
    found = [(0, "accuracy", 26 / 263), (10, "accuracy", 81 / 263), (10, "loss", 1.0), *more]
    made = make_run(
        path / "r", [channel], trace="none", options={"until": "accuracy=0.3"}, evaluations=found
    )
    return load(made.path)


def test_an_accuracy_over_samples_has_the_interval_of_wilson(tmp_path: Path) -> None:
    run = judged(tmp_path, (10, "judged", 263))
    row = run.document()["evaluations"][1]
    # Newcombe 1998, table I: 81 of 263, 95 %: 0.2553 to 0.3662.
    figure = row["accuracy"]
    assert (figure["low"], figure["high"]) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert (row["samples"], figure["n"], row["loss"]["n"]) == (263, 263, 263)
    for name in ("time", "energy", "steps", "samples"):
        method = run.metrics()[f"{name}_to_target"].method
        assert "judged on 263 held-out samples" in method
        assert "optional stopping" in method


def test_positions_of_the_same_sample_have_no_interval_and_it_is_said(tmp_path: Path) -> None:
    run = judged(tmp_path, (10, "judged", 16), (10, "positions", 2048))
    figure = run.document()["evaluations"][1]["accuracy"]
    assert figure["low"] is figure["high"] is None
    assert_says(figure["method"], "16 held-out samples", "2,048 positions", "no interval")


def test_where_the_samples_were_not_counted_it_is_said(tmp_path: Path) -> None:
    run = judged(tmp_path)
    row = run.document()["evaluations"][1]
    assert row["samples"] is None
    assert row["accuracy"]["low"] is None
    assert_says(row["accuracy"]["method"], "not known")


def test_how_it_learnt_is_drawn_with_the_intervals_there_are(tmp_path: Path) -> None:
    counted = judged(tmp_path, (0, "judged", 263), (10, "judged", 263))
    (chart,) = learning_charts(counted.report().evaluations).values()
    trace = chart["data"][0]
    assert (trace["x"], trace["y"]) == ([0, 10], [26 / 263, 81 / 263])
    assert trace["error_y"]["array"][1] == pytest.approx(0.3662 - 81 / 263, abs=5e-5)
    assert_says(chart["layout"]["xaxis"]["title"]["text"], "steps", "263 samples")
