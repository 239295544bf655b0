"""Predictions of trainings with MNN on a phone's CPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.predicting.steps import WEIGHTS, convolution, family, step
from tests.refusals import refused

from wattstep import devices
from wattstep.predict import MnnPredictor, check_device, predictor_for
from wattstep.predict.mnn.predictor import operation_seconds, resident
from wattstep.predict.mnn.work import work_of
from wattstep.schema.figure import Status

PHONE = devices.find("snapdragon-855")
IMAGE = 64 * 56 * 56 * 4  # bytes of a sample's feature maps, as large before as after


def test_gradients_of_a_convolution_lie_around_in_full() -> None:
    # 3x3 of stride 1: windows are 9 images. For weights: windows, result's gradient, input. For the
    # input: result's gradient, columns, columns spread over the input, the input twice.
    work = work_of(step(2))
    assert work.tensors[1] == 2 * IMAGE
    assert work.tensors[2] == 2 * IMAGE * ((9 + 1 + 1) + (1 + 9 + 9 + 2))
    assert work.tensors[3] == 0  # the update's are counted by the parameters
    assert (work.trained, work.state, work.frozen) == (WEIGHTS, WEIGHTS, 0)


def test_a_first_layer_has_no_gradient_of_its_input_and_a_stride_spreads_columns() -> None:
    graph = step(1)
    first = replace(graph, flops=np.array([0.0, graph.flops[1], graph.flops[1], 0.0]))
    assert work_of(first).tensors[2] == IMAGE * (9 + 1 + 1)
    halved = replace(convolution(1), stride=(2, 2), output_size=(28, 28))
    strided = replace(graph, convolutions={1: halved, 2: halved}, flops=graph.flops / 4)
    # Result and windows are a quarter; columns spread over the input are as many as its pixels.
    assert work_of(strided).tensors[2] == pytest.approx(
        IMAGE * ((9 / 4 + 1 / 4 + 1) + (1 / 4 + 9 / 4 + 9 + 2))
    )


def test_memory_is_a_floor_the_parameters_and_all_that_a_step_makes() -> None:
    work = work_of(step(3))
    parts = resident(work, floor=1e7, copies=6, tensors=1)
    assert parts.parameters == 6 * WEIGHTS
    assert parts.total == 1e7 + 6 * WEIGHTS + 3 * IMAGE * 33
    plain = resident(replace(work, state=0.0), floor=1e7, copies=6, tensors=1)
    assert plain.parameters == 5 * WEIGHTS  # without momentum


def test_time_is_arithmetic_bytes_made_and_commands() -> None:
    graph = step(1)
    work = work_of(graph)
    seconds = operation_seconds(work, graph, flop=1e-10, byte=1e-9, command=1e-5, copies=6)
    forward, backward, update = seconds[1:]
    assert forward == pytest.approx(graph.flops[1] * 1e-10 + IMAGE * 1e-9 + 2e-5)
    assert backward == pytest.approx(2 * graph.flops[1] * 1e-10 + 32 * IMAGE * 1e-9 + 10e-5)
    assert update == pytest.approx(6 * WEIGHTS * 1e-9 + 9e-5)


def test_a_phone_trains_with_mnn_and_says_what_it_rests_on() -> None:
    prediction = predictor_for(family(), PHONE).at(4)
    assert prediction.engine == "mnn"
    assert prediction.step_time.status is Status.PREDICTED
    assert prediction.within
    small, large = (float(MnnPredictor(family(), PHONE).at(size).system_memory) for size in (4, 8))
    assert large - small == pytest.approx(4 * 33 * IMAGE, rel=0.05)
    report = prediction.report(workload="by hand")
    assert "no such run" in report.notes[0]


def test_work_unlike_that_of_the_fit_widens_and_is_named() -> None:
    graph = step(4)
    single = {place: convolution(4, groups=64) for place in (1, 2)}
    strange = replace(family(), small=replace(step(2), convolutions=single), large=replace(step(3), convolutions=single))  # fmt: skip
    seen = MnnPredictor(family(), PHONE).at(graph.batch_size)  # type: ignore[arg-type]
    unseen = MnnPredictor(strange, PHONE).at(4)
    assert unseen.reach["step_time"] > seen.reach["step_time"]
    assert not unseen.within
    assert any("no value was" in note for note in unseen.notes)
    assert not any("no value was" in note for note in seen.notes)


def test_its_mode_is_one_that_was_measured() -> None:
    whole = MnnPredictor(family(), PHONE).at(4).time.total
    slower = MnnPredictor(family(), PHONE, mode="1.71ghz").at(4).time.total
    factor = PHONE.kinds["mnn"]["time in mode"].values["1.71GHz"].value
    assert slower == pytest.approx(factor * whole)
    with refused("unknown-mode", "1.71GHz"):
        check_device(PHONE, mode="fast")


def test_mnn_elsewhere_and_another_precision_are_refused() -> None:
    with refused("unknown-framework", "snapdragon-855", "calibrate-device", "kinds.mnn"):
        check_device(devices.find("jetson-tx2"), engine="mnn")
    with refused("unknown-precision", "fp32"):
        check_device(PHONE, precision="bf16")
