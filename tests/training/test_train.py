"""A real training, recorded in this process: what the run holds, and that its parts make the whole."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.refusals import refused
from tests.wording import assert_says, saying

from wattstep.errors import InvalidValueError
from wattstep.record.recorder import Recorder
from wattstep.run import Run, load
from wattstep.schema.figure import Figure
from wattstep.schema.goal import Goal
from wattstep.train.loop import train
from wattstep.train.progress import Progress
from wattstep.train.settings import TrainingSettings
from wattstep.train.time_to_target import TimeToTarget

STEPS = 30


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, list[Progress]]:
    """LeNet, batch 4, thirty measured steps."""
    news: list[Progress] = []
    threads = torch.get_num_threads()
    settings = TrainingSettings(
        workload="lenet",
        steps=STEPS,
        threads=1,
        power_model="vcpu",
        out=str(tmp_path_factory.mktemp("train") / "run"),
    )
    recorder = train(settings, news.append)
    torch.set_num_threads(threads)
    assert recorder.problem is None
    return load(recorder.path), news


@pytest.fixture(scope="module")
def run(trained: tuple[Run, list[Progress]]) -> Run:
    return trained[0]


def figures(thing: Any) -> list[Figure]:
    if isinstance(thing, Figure):
        return [thing]
    if isinstance(thing, dict):
        return [found for value in thing.values() for found in figures(value)]
    if isinstance(thing, (list, tuple)):
        return [found for value in thing for found in figures(value)]
    return []


def test_a_run_has_the_steps_that_were_asked_for(run: Run) -> None:
    steps = run.series.steps
    assert int(steps.warmup.sum()) == 3
    assert list(steps.index[steps.warmup]) == [0, 1, 2]
    assert int(steps.clean.sum()) >= STEPS
    assert int(steps.traced.sum()) >= 10
    assert (np.diff(steps.index) == 1).all()


def test_warm_up_and_traced_steps_do_not_count(run: Run) -> None:
    steps = run.series.steps
    clean = steps.seconds[~(steps.warmup | steps.traced | steps.after_traced)]
    figure = run.metrics()["step_time"]
    assert figure.value == pytest.approx(clean.mean(), rel=1e-9)
    assert figure.n == len(clean)


def test_operations_and_rests_make_the_step(run: Run) -> None:
    document = run.document()
    rests = document["rests"].values()
    rows = [*document["operations"], *rests]
    step = run.metrics()["step_time"].value
    assert sum(row["time"]["value"] for row in rows) == pytest.approx(step, rel=1e-6)
    assert sum(row["share"]["value"] for row in rows) == pytest.approx(1, rel=1e-6)


def test_energy_of_operations_and_rests_makes_that_of_the_step(run: Run) -> None:
    whole = run.metrics()["energy_per_step"]
    document = run.document()
    rests = document["rests"].values()
    energies = [row["energy"]["value"] for row in [*document["operations"], *rests]]
    if whole.missing:
        assert set(energies) == {None}
    else:
        assert sum(energies) == pytest.approx(whole.value, rel=1e-6)


@pytest.mark.parametrize("table", ["layers", "phases", "kinds"])
def test_every_view_of_the_operations_has_the_same_sum(run: Run, table: str) -> None:
    document = run.document()
    whole = sum(row["time"]["value"] for row in document["operations"])
    assert sum(row["time"]["value"] for row in document[table]) == pytest.approx(whole, rel=1e-9)


def test_every_layer_of_the_model_is_there_in_forward_backward_and_optimizer(run: Run) -> None:
    found = {(row["layer"], row["phase"]) for row in run.operations()}
    from wattstep.workloads.torch import find

    model = find("lenet").build(classes=10, image_size=None)
    for path, module in model.named_modules():
        if next(module.parameters(recurse=False), None) is not None:
            for phase in ("forward", "backward", "optimizer"):
                assert (path, phase) in found


def test_operations_of_a_step_are_called_as_often_as_the_model_says(run: Run) -> None:
    calls: dict[str, float] = {}
    for row in run.operations():
        calls[row["name"]] = calls.get(row["name"], 0) + row["calls"].value
    # Means over traced steps, summed over rows: whole but for rounding.
    assert calls["aten::conv2d"] == pytest.approx(2)
    assert calls["ConvolutionBackward0"] == pytest.approx(2)
    assert calls["aten::linear"] == pytest.approx(3)
    assert calls["AddmmBackward0"] == pytest.approx(3)
    assert calls["AccumulateGrad"] == pytest.approx(10)  # five layers with weight and bias


def test_flops_of_the_forward_convolutions_are_those_of_lenet(run: Run) -> None:
    """LeNet-5 on 28×28 with padding: 5×5×1 kernels for 6×28×28 values, 5×5×6 for 16×10×10."""
    flops = [row["flops"].value for row in run.operations() if row["name"] == "aten::conv2d"]
    assert sorted(flops) == [2 * 4 * 25 * 6 * 28 * 28, 2 * 4 * 150 * 16 * 10 * 10]


def test_no_operation_takes_longer_than_the_step_or_less_than_nothing(run: Run) -> None:
    step = run.metrics()["step_time"].value
    for row in run.operations():
        assert 0 <= row["time"].value <= row["busy_time"].value * (1 + 1e-9) <= step * (1 + 1e-9)


def test_every_figure_has_a_unit_a_status_and_an_interval_around_it(run: Run) -> None:
    everything = figures(run.metrics()) + figures(list(run.operations()))
    assert len(everything) > 100
    for figure in everything:
        assert figure.unit
        assert (figure.value is None) == figure.missing
        assert not figure.missing or figure.reason
        if figure.low is not None and figure.value is not None and figure.high is not None:
            slack = 1e-9 * abs(figure.value)
            assert figure.low - slack <= figure.value <= figure.high + slack


def test_energy_without_a_sensor_is_modelled_and_says_so(run: Run) -> None:
    figure = run.metrics()["energy_per_step"]
    if figure.status.value == "measured":
        pytest.skip("this machine has a power sensor")
    assert figure.status.value in ("modelled", "missing")  # missing: too short for the tick
    assert "power model" in (figure.source or "") or figure.reason


def test_which_data_was_used_is_recorded_with_its_hash(run: Run) -> None:
    data = run.info.data
    assert data is not None
    assert data.stand_in is True
    assert data.stands_for == "MNIST"
    assert re.fullmatch(r"[0-9a-f]{64}", data.sha256)


def test_what_ran_is_recorded(run: Run) -> None:
    info = run.info
    assert (info.workload, info.batch_size, info.threads, info.seed) == ("lenet", 4, 1, 0)
    assert info.engine == f"torch {torch.__version__}"
    assert info.model["parameters"] == 61706  # LeNet-5
    assert info.state == "closed"


def test_losses_are_recorded(run: Run) -> None:
    assert np.isfinite(run.series.steps.loss).all()


def test_memory_by_category_adds_up_to_the_peak(run: Run) -> None:
    metrics = run.metrics()
    parts = metrics["memory_breakdown"]
    assert parts["parameters"].value == 4 * 61706
    assert parts["parameters"].status.value == "counted"
    # At the peak not all gradients need be there; at the end of the backward pass they are. Nor
    # feature maps: LeNet's 100 kB do not decide at which operation the process is largest.
    assert metrics["memory_highest"]["feature_maps"].value > 0
    assert metrics["memory_highest"]["gradients"].value == 4 * 61706
    assert sum(p.value for p in parts.values()) == pytest.approx(metrics["peak_memory"].value)


def test_operations_are_a_table_as_the_caller_likes(run: Run) -> None:
    operations = run.operations()
    arrow, frame = operations.to_arrow(), operations.to_pandas()
    assert arrow.num_rows == len(frame) == len(operations)
    assert frame["time"].sum() == pytest.approx(sum(row["time"].value for row in operations))
    assert set(frame["time_status"]) == {"attributed"}
    assert frame["name"].tolist() == [row["name"] for row in operations]


def test_a_timeline_shows_three_steps_in_a_row(run: Run) -> None:
    timeline = run.timeline().to_dict()
    indices = [step["index"] for step in timeline["steps"]]
    assert indices == list(range(indices[0], indices[0] + 3))
    assert timeline["operations"]


def test_progress_goes_from_preparing_to_writing(trained: tuple[Run, list[Progress]]) -> None:
    stages = [progress.stage for progress in trained[1]]
    assert stages[0] == "preparing"
    assert stages[-1] == "writing"
    # What follows the measured steps is part of the whole: nothing is over before it is.
    assert all(0 <= progress.share < 1 for progress in trained[1])
    assert all(
        re.fullmatch(r"about \d+ s left", progress.ahead)
        for progress in trained[1]
        if progress.stage in ("following memory", "writing")
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_size": 0}, {"threads": 0}, {"steps": 0}, {"seconds": 0.0},
        {"seconds": float("nan")}, {"seconds": float("inf")}, {"warmup": -1}, {"engine": "abacus"},
        {"interval": "0.5ms"}, {"interval": "-1ms"}, {"trace": "every:0"}, {"data_dir": "/nowhere"},
        {"power_model": "linear:2"}, {"target": "moon:base"}, {"idle": "never"},
        {"subtract_idle": "during", "idle": "1s"}, {"ambient": float("nan")},
    ],
)  # fmt: skip
def test_settings_that_cannot_be_used_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError):
        TrainingSettings(workload="lenet", **wrong)


@pytest.mark.parametrize(
    ("asked", "steps", "mode"),
    [
        ("auto", None, "auto"), ("auto", 5000, "auto"), ("auto", 100, "every:10"),
        ("auto", 10, "every:3"), ("none", 10, "none"), ("every:7", 10, "every:7"),
    ],
)  # fmt: skip
def test_a_short_run_spreads_its_traced_steps(asked: str, steps: int | None, mode: str) -> None:
    assert TrainingSettings(workload="lenet", trace=asked, steps=steps).trace_mode == mode


def test_a_run_without_tracing_has_figures_and_no_operations(tmp_path: Path) -> None:
    settings = TrainingSettings(
        workload="lenet", steps=5, threads=1, trace="none", out=str(tmp_path / "run")
    )
    threads = torch.get_num_threads()
    run = load(train(settings, lambda progress: None).path)
    torch.set_num_threads(threads)
    assert len(run.operations()) == 0
    assert run.metrics()["step_time"].n == 5
    assert not run.series.steps.traced.any()
    what = {row["what"]: row["reason"] for row in run.document()["missing"]}
    assert "--trace none" in what["operations"]


# --- to a goal -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Run:
    threads = torch.get_num_threads()
    out = str(tmp_path_factory.mktemp("goal") / "run")
    settings = TrainingSettings(
        workload="lenet", batch_size=8, accumulate=2, until="accuracy=0.6", evaluate_every=20,
        steps=1000, trace="none", threads=1, out=out,
    )  # fmt: skip
    recorder = train(settings, lambda progress: None)
    torch.set_num_threads(threads)
    return load(recorder.path)


def test_a_run_with_a_goal_ends_with_the_evaluation_that_reaches_it(learnt: Run) -> None:
    evaluations = learnt.document()["evaluations"]
    assert [row["step"] for row in evaluations] == [20 * n for n in range(len(evaluations))]
    assert all(row["accuracy"]["value"] < 0.6 for row in evaluations[:-1])
    assert evaluations[-1]["accuracy"]["value"] >= 0.6
    assert {row["samples"] for row in evaluations} == {evaluations[-1]["accuracy"]["n"]}
    assert evaluations[-1]["accuracy"]["low"] < evaluations[-1]["accuracy"]["value"]
    steps = learnt.metrics()["steps_to_target"]
    assert (steps.low, steps.value) == (evaluations[-2]["step"], evaluations[-1]["step"])
    assert learnt.metrics()["samples_to_target"].value == 16 * steps.value


def test_evaluations_are_no_part_of_steps_or_of_the_peak(learnt: Run) -> None:
    rests = learnt.series.steps.rest_ns["evaluation"]
    steps = learnt.series.steps
    for begin, end in rests:
        assert not ((steps.start_ns < end) & (steps.end_ns > begin)).any()
    categories = learnt.tables.table("memory")["category"].to_pylist()
    assert categories.count("peak_resident_apart") == len(rests)


def test_a_goal_that_the_workload_cannot_be_judged_by_is_refused_before_recording(
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    settings = TrainingSettings(workload="dqn", until="accuracy=0.6", out=str(out))
    with refused("no-measure", "--until accuracy=0.6"):
        train(settings, lambda progress: None)
    assert not out.exists()


def test_a_budget_that_ends_first_leaves_the_best_value(tmp_path: Path) -> None:
    settings = TrainingSettings(
        workload="lenet", until="accuracy=1", steps=3, trace="none", threads=1,
        out=str(tmp_path / "run"),
    )  # fmt: skip
    train(settings, lambda progress: None)
    run = load(tmp_path / "run")
    assert "accuracy=1 was not reached" in run.document()["status_notes"][0]
    assert run.metrics()["time_to_target"].missing


class Worthless:
    """An engine whose model was never worth anything."""

    def evaluate(self) -> dict[str, float]:
        return {"loss": 2.3, "accuracy": 0.1, "judged": 40}


def test_a_loss_that_is_no_number_ends_the_way_to_the_goal(tmp_path: Path) -> None:
    time_to_target = TimeToTarget(Goal.parse("accuracy=0.6"), Worthless(), every=100)
    about = {"workload": "lenet", "batch_size": 1, "options": {"until": "accuracy=0.6"}}
    with Recorder(tmp_path / "run", trace="none", warmup=0, about=about) as recorder:
        time_to_target.begin(recorder)
        for loss, over in ((2.3, False), (math.nan, True)):
            with recorder.step(samples=1) as step:
                step.loss = loss
            assert time_to_target.ended(last=False, diverged=not math.isfinite(loss)) is over
    run = load(tmp_path / "run")
    assert_says(run.document()["status_notes"][0], "accuracy=0.6", "best was 0.1")
    assert_says(run.metrics()["time_to_target"].reason, "accuracy=0.6", "from step 1 on")
    assert [row["step"] for row in run.document()["evaluations"]] == [0]


@pytest.mark.parametrize(
    ("name", "value", "id", "named"),
    [
        ("accumulate", 0, "out-of-range", ["--accumulate 0", "1"]),
        ("image_size", 0, "out-of-range", ["--image-size 0", "1"]),
        (
            "precision",
            "fp8",
            "unknown-precision",
            ["--precision fp8", "fp32, tf32, bf16, amp, amp-fp16"],
        ),
        ("rate_rule", "cubic", "unknown-rate-rule", ["--rate-rule cubic", "linear, sqrt, fixed"]),
        ("until", "soon", "malformed-goal", ["--until 'soon'"]),
        ("evaluate_every", 0, "out-of-range", ["--evaluate-every 0"]),
    ],
)
def test_settings_that_cannot_be_used_are_named_as_the_command_line_spells_them(
    name: str, value: Any, id: str, named: list[str]
) -> None:
    with refused(id, *named):
        TrainingSettings(workload="lenet", **{name: value})


def test_the_most_frequent_tracing_ends_with_the_steps_that_were_asked_for(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    settings = TrainingSettings(
        workload="lenet", trace="every:1", steps=8, threads=1, out=str(tmp_path / "run")
    )

    def watch(progress: Progress) -> None:
        assert progress.steps < 500, "steps after traced ones do not count, and no others came"

    try:
        train(settings, watch)
    finally:
        torch.set_num_threads(threads)
    assert load(tmp_path / "run").document()["steps"]["clean"] >= 8


# --- conditions ----------------------------------------------------------------------------------


def test_a_run_that_is_to_become_steady_ends_with_its_budget_and_says_what_was_missing(
    tmp_path: Path,
) -> None:
    threads = torch.get_num_threads()
    settings = TrainingSettings(
        workload="lenet", sustain=True, seconds=0.5, least_steps=1, trace="none", threads=1,
        out=str(tmp_path / "run"),
    )  # fmt: skip
    run = load(train(settings, lambda progress: None).path)
    torch.set_num_threads(threads)
    found = run.info.conditions["sustain"]
    assert found["steady"] is False
    assert found["most_s"] == 0.5
    assert found["criterion"]["throughput_change"] == 0.02
    assert any(note.startswith("--sustain: not steady after") for note in run.info.notes)
    assert saying(run.info.notes, "ambient temperature", "--ambient")
    assert saying(run.info.notes, "a fan", "--fan")


def test_steps_that_limit_a_run_which_is_to_become_steady_are_its_limit_and_no_time_is(
    tmp_path: Path,
) -> None:
    threads = torch.get_num_threads()
    settings = TrainingSettings(
        workload="lenet", sustain=True, steps=3, trace="none", threads=1,
        out=str(tmp_path / "run"),
    )  # fmt: skip
    run = load(train(settings, lambda progress: None).path)
    torch.set_num_threads(threads)
    found = run.info.conditions["sustain"]
    assert found["most_s"] is None
    assert found["most_steps"] == 3


def test_what_became_of_the_cool_down_before_it_stands_in_the_run(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    cooled = {"seconds": 12.0, "temperature": 45.5, "note": ""}
    settings = TrainingSettings(
        workload="lenet", steps=2, trace="none", threads=1, out=str(tmp_path / "run"),
        cooled=cooled, ambient=19.0, fan="none",
    )  # fmt: skip
    run = load(train(settings, lambda progress: None).path)
    torch.set_num_threads(threads)
    assert run.info.conditions["cooldown"] == cooled
    fan, ambient = run.info.conditions["fan"], run.info.conditions["ambient"]
    assert (fan["words"], ambient["value"], ambient["unit"]) == ("none", 19.0, "°C")
    assert_says(fan["source"], "the user")
    assert_says(ambient["source"], "the user")
    assert "sustained" not in run.metrics()
