"""Stages of a training's life beside its steps: what is evaluated, saved and read again is in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.predicting.steps import PIXELS, WEIGHTS, evaluated_family, evaluation, family, step

from wattstep import devices
from wattstep.devices.table import Value
from wattstep.predict import Prediction, predictor_for
from wattstep.predict.life import Held, held_of, life_notes, times_of
from wattstep.predict.memory import evaluation_reserved
from wattstep.schema.figure import Status
from wattstep.schema.step_graph import StepFamily

MIB = 1 << 20


def on(device: str, captured: StepFamily, batch: int = 4) -> Prediction:
    return predictor_for(captured, devices.find(device)).at(batch)


def test_a_checkpoint_has_the_model_and_the_optimizers_state() -> None:
    held = held_of(step(4))
    assert (held.model, held.state, held.largest) == (WEIGHTS, WEIGHTS, WEIGHTS)
    assert held.checkpoint == 2 * WEIGHTS
    assert held.tensors == 2


def test_an_evaluation_holds_a_forward_pass_at_a_time() -> None:
    family = evaluated_family()
    graph = family.evaluation_at(1024)
    assert graph is not None
    assert graph.levels().max() == 2 * WEIGHTS + 2 * 1024 * 64 * PIXELS * PIXELS * 4
    # What it takes and what it gives are segments of their own; weights and momentum share a small one.
    assert 1024 * 64 * PIXELS * PIXELS * 4 == 784 * MIB
    assert evaluation_reserved(graph, step(4), gradients_stay=False) == (2 * 784 + 2) * MIB


def test_a_gpu_that_shares_memory_has_checkpoints_in_it_twice() -> None:
    captured = evaluated_family(evaluation_batch=1024)
    stages = on("jetson-orin-nano", captured, batch=256).memory_by_stage
    sizes = {stage: float(figure) for stage, figure in stages.items()}
    assert list(stages) == [
        "framework", "preparation", "steady step", "evaluation", "saving", "reloading",
    ]  # fmt: skip
    assert sizes["saving"] == sizes["steady step"] + WEIGHTS  # a tensor at a time
    # Momentum is on the GPU beside the weights, and the whole file in the host's part.
    assert sizes["reloading"] == sizes["preparation"] + WEIGHTS + 2 * WEIGHTS
    assert sizes["evaluation"] > sizes["steady step"]
    assert all(figure.status == Status.PREDICTED for figure in stages.values())
    # Nobody measured what is beside the steps: it is less sure.
    wide, narrow = stages["evaluation"], stages["steady step"]
    assert wide.high is not None
    assert narrow.high is not None
    assert wide.high / sizes["evaluation"] > narrow.high / sizes["steady step"]


def test_a_gpu_with_memory_of_its_own_saves_elsewhere() -> None:
    device = devices.find("jetson-orin-nano")
    own = replace(device, memory=replace(device.memory, unified=False))
    stages = predictor_for(evaluated_family(), own).at(4).memory_by_stage
    assert float(stages["saving"]) == float(stages["steady step"])


def test_an_evaluation_that_was_not_captured_is_missing_with_its_reason() -> None:
    figure = on("jetson-orin-nano", family()).memory_by_stage["evaluation"]
    assert figure.missing
    assert "not captured" in str(figure.reason)


def test_evaluations_follow_from_two_where_they_are_alike() -> None:
    small, large = (replace(step(size), evaluation=evaluation(size)) for size in (2, 3))
    other = replace(large, evaluation=step(3))
    assert StepFamily(small=small, large=other).evaluation_at(4) is None


def test_mnn_makes_the_tensors_of_a_forward_pass_and_puts_a_file_together() -> None:
    stages = predictor_for(family(), devices.find("snapdragon-855"), engine="mnn").at(4)
    sizes = {stage: float(figure) for stage, figure in stages.memory_by_stage.items()}
    assert sizes["saving"] == pytest.approx(sizes["steady step"] + WEIGHTS)
    assert sizes["framework"] < sizes["evaluation"] < sizes["steady step"]


def test_a_stage_beyond_the_steps_and_beyond_what_there_is_is_said() -> None:
    life = {"framework": 1e8, "steady step": 2e8, "evaluation": 5e8, "saving": None}
    assert life_notes(life, 6e8) == []
    [note] = life_notes(life, 4e8)
    assert note.startswith("evaluation takes 500 MB")


def test_a_large_checkpoint_takes_what_its_disk_does_and_a_tiny_one_what_a_file_does() -> None:
    device = devices.find("raspberry-pi-4")
    storage = device.storage
    assert storage is not None
    assert storage.write is not None

    def saving(size: float, tensors: int) -> Value:
        held = Held(model=size, state=0.0, largest=size, tensors=tensors)
        return times_of(device, "torch", held)["saving"]

    large = saving(4e9, 2)
    assert large.value == pytest.approx(4e9 / storage.write.value, rel=0.01)
    assert large.low == pytest.approx(4e9 / storage.write.high, rel=0.01)
    assert large.high == pytest.approx(4e9 / storage.write.low, rel=0.01)
    # On a busy core of a server, several times as fast as a board's: 1 ms, and 92 ms at most until it was on the disk.
    tiny = saving(40.0, 2)
    assert 1e-3 < tiny.low < tiny.value < 0.092 < tiny.high
    # 400 tensors of 64 numbers took 36 ms there to save, 114 to read.
    assert saving(4e4, 400).low > tiny.low
    assert saving(4e4, 400).value > 0.036
    many = times_of(device, "torch", Held(model=4e4, state=0.0, largest=1e3, tensors=400))
    assert many["reloading"].low < 0.114 < many["reloading"].value < many["reloading"].high


def test_a_device_without_a_disk_tells_no_time_of_saving() -> None:
    device = devices.find("raspberry-pi-4")
    assert device.storage is not None
    assert device.storage.write is not None
    times = times_of(device, "torch", held_of(step(4)))
    assert set(times) == {"framework", "saving", "reloading"}
    assert list(times_of(replace(device, storage=None), "torch", held_of(step(4)))) == ["framework"]
