"""Predictions follow from a step's shapes and a device's values as one works them out by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import erf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.predicting.steps import PIXELS, WEIGHTS, convolution, evaluated_family, family, step
from tests.refusals import refused
from tests.wording import assert_says

from wattstep import devices
from wattstep.devices.table import Device, Value
from wattstep.errors import InvalidValueError
from wattstep.predict import Predictor, check_device
from wattstep.predict.familiar import (
    kernel_ranges,
    out_of_range,
    reach_beyond,
    strange_kernels,
    strange_operation,
    strange_shares,
)
from wattstep.predict.memory import fit_probability, replay, system_memory, training_fits
from wattstep.predict.time import StepTime, step_time
from wattstep.predict.work import KERNELS, convolution_kind, work_of
from wattstep.schema.figure import Status
from wattstep.schema.run_report import RunReport
from wattstep.schema.step_graph import StepFamily, StepGraph

MIB = 1 << 20
TX2 = devices.find("jetson-tx2")
VALUES = {
    "step": {
        "kernel_gap_s": 0.0, "forward_start_s": 1e-4, "backward_start_s": 1e-4, "optimizer_start_s": 1e-4,
    },
    "convolution": {"tile": 32.0, "half_rows": 0.0, "half_depth": 0.0, "half_parallel": 0.0},
    **{
        f"{kind} convolution": {
            "forward_efficiency": 0.5, "data_efficiency": 0.5, "weights_efficiency": 0.25,
            "traffic_times": 2.0, "unaligned": 1.0, "least_kernel": 3.0, "most_kernel": 3.0,
        }
        for kind in ("dense", "pointwise", "strided", "depthwise")
    },
    **{name: {"bandwidth_efficiency": 0.5} for name in KERNELS if not name.endswith("convolution")},
}  # fmt: skip


def test_a_step_takes_the_time_of_its_arithmetic_and_its_traffic() -> None:
    batch, peak, bandwidth = 8, 1e12, 1e10
    image = batch * 64 * PIXELS * PIXELS * 4
    flops = 2 * batch * PIXELS * PIXELS * 64 * 64 * 9
    arithmetic = flops / (0.5 * peak) * 2 + flops / (0.25 * peak)  # forward, data; weights
    # Each kernel has two images, twice, and the weights three times.
    traffic = 3 * (2 * 2 * image + 3 * WEIGHTS) / bandwidth
    # The update, and gradients that are set to zero and added to.
    update = (3 * WEIGHTS + 4 * WEIGHTS) / (0.5 * bandwidth)
    time = step_time(work_of(step(batch)), VALUES, peak=peak, bandwidth=bandwidth)
    assert time.device == pytest.approx(arithmetic + traffic + update)
    assert time.host == pytest.approx(4e-4)  # forward, two backward, one of the optimizer
    assert time.device < time.total < time.device + time.host


def test_a_step_of_next_to_nothing_takes_what_the_host_takes() -> None:
    time = step_time(work_of(step(1)), VALUES, peak=1e18, bandwidth=1e18)
    assert time.total == pytest.approx(time.host)


@pytest.mark.parametrize(
    ("shapes", "kind"),
    [
        (convolution(1), "dense convolution"),
        (convolution(1, side=1), "pointwise convolution"),
        (convolution(1, inputs=3), "strided convolution"),
        (replace(convolution(1), stride=(2, 2)), "strided convolution"),
        (convolution(1, groups=64), "depthwise convolution"),
        (convolution(1, groups=2), "dense convolution"),
    ],
)
def test_kinds_of_convolutions(shapes: object, kind: str) -> None:
    assert convolution_kind(shapes) == kind  # type: ignore[arg-type]


def test_kernels_that_nobody_measured_are_told() -> None:
    graph = step(4)
    wide = {i: replace(one, kernel=(5, 5)) for i, one in graph.convolutions.items()}
    for shapes, shares in (
        (graph.convolutions, {}),
        (wide, {"dense convolution of 5": 0.5}),
    ):
        made = replace(graph, convolutions=shapes)
        work = work_of(made)
        only = np.where(
            work.sides > 0, 1.0, 0.0
        )  # a second of each, forward and weights: FLOPs are of 3×3
        time = StepTime(total=4.0, device=3.0, host=0.0, kernels=only, alone={})
        strange = strange_kernels(made, work, kernel_ranges(VALUES))
        assert strange_shares(strange, time) == shares


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({}, ""),
        ({"kernel": (3, 3, 3)}, "convolution in 3 dimensions"),
        ({"kernel": (3,)}, "convolution in 1 dimension"),
        ({"transposed": True}, "transposed convolution"),
        ({"dilation": (2, 2)}, "dilated convolution"),
        ({"groups": 2}, "grouped convolution"),
        ({"groups": 64}, ""),
    ],
)
def test_convolutions_that_nobody_measured(change: dict[str, Any], what: str) -> None:
    graph = replace(step(4), convolutions={1: replace(convolution(4), **change)})
    assert strange_operation(graph, 1) == what


@pytest.mark.parametrize(
    ("name", "kind", "what"),
    [
        ("aten::native_batch_norm", "normalization", ""),
        ("aten::native_group_norm_backward", "normalization", "group_norm"),
        ("aten::_softmax", "loss", "_softmax"),
        ("aten::_log_softmax", "loss", ""),
        ("aten::embedding", "embedding", "embedding"),
        ("aten::addmm", "matrix product", "matrix product"),
        ("aten::relu_", "activation", ""),
    ],
)
def test_operations_that_nobody_measured(name: str, kind: str, what: str) -> None:
    graph = replace(step(4), names=("", name, "", ""), kinds=("", kind, "", ""), convolutions={})
    assert strange_operation(graph, 1) == what.lstrip("_")


def test_what_is_out_of_range_is_named_and_widens() -> None:
    # 56 px; 64·64·9 multiply-adds at each of 56·56 places are 0.12 GMAC.
    (line,) = out_of_range(step(4))
    assert_says(line, "56 px", 224)
    large = replace(step(512), names=("", "", "", "aten::addcdiv_"))
    words = " ".join(out_of_range(large))
    assert "batch 512 (fitted: 2 to 256)" in words
    assert "no SGD" in words
    reach = dict.fromkeys(("step_time", "reserved"), 0.2)
    assert reach_beyond(reach, {}, []) == reach
    beyond = reach_beyond(reach, {"softmax": 0.5}, ["one", "two"])
    assert beyond["step_time"] ** 2 == pytest.approx(
        0.2**2 + (0.5 * np.log(3)) ** 2 + 2 * np.log(1.5) ** 2
    )
    assert beyond["reserved"] ** 2 == pytest.approx(0.2**2 + np.log(1.25) ** 2)
    prediction = Predictor(family(), TX2).at(512)
    assert not prediction.within
    assert any("batch 512" in note and "56 px" in note for note in prediction.notes)


def test_memory_is_what_one_adds_up() -> None:
    batch = 32
    image = batch * 64 * PIXELS * PIXELS * 4
    # 14 tiles of 4×4 outputs on a side, 36 numbers each, of inputs and outputs; and of the weights.
    workspace = (batch * 14 * 14 * 36 * 128 + 36 * 64 * 64) * 4
    found = replay(step(batch))
    assert found.workspace == workspace
    # Weights, gradient that stays, momentum; input, output and its gradient; a second gradient; workspace.
    assert found.allocated == pytest.approx(3 * image + 4 * WEIGHTS + workspace, rel=0.02)
    assert found.allocated <= found.reserved < found.allocated + 40 * MIB


def test_the_system_has_libraries_beside_the_allocator_and_a_floor() -> None:
    values = {"libraries": 1000.0, "products": 200.0, "stays": 50.0}
    assert system_memory(5000, values, floor=1500, products=True) == 6000
    assert system_memory(100, values, floor=1500, products=True) == 1500
    assert system_memory(5000, values, floor=1500, products=False) == 5800


@pytest.mark.parametrize(("reserved", "used"), [(4900, 5900), (5100, 6000), (5940, 6000), (5950, 6000), (6000, 6050), (9000, 9050)])  # fmt: skip
def test_segments_get_the_pages_of_libraries_before_memory_runs_out(
    reserved: int, used: int
) -> None:
    values = {"libraries": 1000.0, "products": 200.0, "stays": 50.0}
    rest = {"floor": 1500, "products": True, "usable": 6000}
    assert system_memory(reserved, values, **rest) == used


@pytest.mark.parametrize("device", ["jetson-nano", "jetson-tx2", "jetson-xavier-nx", "jetson-agx-xavier", "jetson-orin-nano", "jetson-orin-nx", "jetson-agx-orin"])  # fmt: skip
def test_what_rather_fits_never_takes_more_than_there_is(device: str) -> None:
    predictor = Predictor(family(), devices.find(device))
    room = predictor.fitted.usable.value
    even = predictor.largest(0.5)
    assert even
    steps = [predictor.at(size) for size in range(even // 2, 2 * even, max(1, even // 50))]
    fitting = [one.memory.used for one in steps if one.fits(0.5)]
    assert 0.8 * room < max(fitting) <= room
    # And what takes more than there is does not fit.
    beyond = [one for one in steps if one.memory.used > room]
    assert beyond
    assert not any(one.fits(0.5) for one in beyond)


def test_what_just_fits_is_as_likely_to_fit_as_not() -> None:
    assert fit_probability(100, 100, 0.2) == pytest.approx(0.5)
    # The end of a 90 % interval: 5 % lie beyond.
    assert fit_probability(100 * np.exp(-0.2), 100, 0.2) == pytest.approx(0.95, abs=0.001)
    assert fit_probability(100 * np.exp(0.2), 100, 0.2) == pytest.approx(0.05, abs=0.001)


def test_larger_batches_take_more_and_fit_less() -> None:
    predictor = Predictor(family(), TX2)
    few, many = predictor.at(4), predictor.at(64)
    assert float(few.step_time) < float(many.step_time)
    assert float(few.throughput) < float(many.throughput)
    assert few.memory.reserved < many.memory.reserved
    sure, even = predictor.largest(0.98), predictor.largest(0.5)
    assert sure is not None
    assert even is not None
    assert 0 < sure < even
    assert predictor.fits_with(sure) >= 0.98 > predictor.fits_with(sure + 1)
    assert predictor.at(sure).fits()
    assert not predictor.at(even + 1).fits(0.5)
    few, many = predictor.at(sure), predictor.at(4 * even)
    assert few.shortage == ""
    assert any("does not train" in note for note in many.report(workload="").notes)
    memory = many.system_memory
    assert float(memory) > TX2.memory.usable.value  # type: ignore[union-attr]
    assert memory.low < float(memory) < memory.high  # type: ignore[operator]


@pytest.mark.parametrize("begin", [1, 8, 1 << 20])
def test_largest_batch_wherever_the_search_begins(
    begin: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Predictor(family(), TX2).largest(0.5)
    monkeypatch.setattr(Predictor, "_last_power", lambda self, probability: begin)
    assert Predictor(family(), TX2).largest(0.5) == found


@pytest.mark.parametrize(("room", "bound"), [(0, 0), (0, 3), (1, 1), (184, 184), (184, 190), (184, 1000), (1 << 20, 1 << 20)])  # fmt: skip
def test_search_beneath_a_bound(room: int, bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fits_with(self: Predictor, size: int) -> float:
        asked.append(size)
        return float(size <= room)

    monkeypatch.setattr(Predictor, "fits_with", fits_with)
    monkeypatch.setattr(Predictor, "fits_at_most", lambda self, size: float(size <= bound))
    assert Predictor(family(), TX2).largest(0.5) == room
    assert all(size <= bound for size in asked)


def quadratic(size: int) -> StepGraph:
    """A step whose images are as many as the square of its batch: distances between all samples."""
    return replace(step(size**2), batch_size=size)


def jumping(size: int) -> StepGraph:
    """A step that takes 40 times as much from batch 30 on."""
    return replace(step(40 * size if size >= 30 else size), batch_size=size)


@pytest.mark.parametrize("probability", [0.5, 0.98])
@pytest.mark.parametrize(("capture", "at_most"), [(step, 6), (quadratic, 9), (jumping, 12)])
def test_largest_batch_of_few_captures(
    capture: Callable[[int], StepGraph], at_most: int, probability: float
) -> None:
    captured: list[int] = []

    def counted(size: int) -> StepGraph:
        captured.append(size)
        return capture(size)

    predictor = Predictor(StepFamily(small=step(2), large=step(3), capture=counted), TX2)
    found = predictor.largest(probability)
    assert found
    assert predictor.fits_with(found) >= probability
    assert len(captured) <= at_most
    assert len(captured) == len(set(captured))
    beyond = found + max(1, found // 8)
    assert predictor.fits_with(beyond) < probability


@pytest.mark.parametrize(("images", "largest"), [(0, 4096), (10_000, 0)])
def test_largest_batch_where_all_or_none_fit(images: int, largest: int) -> None:
    def capture(size: int) -> StepGraph:
        return replace(step(1 + images * size), batch_size=size)

    predictor = Predictor(StepFamily(small=step(2), large=step(3), capture=capture), TX2)
    assert predictor.largest(0.5) == largest


def test_largest_batch_is_not_known_where_one_cannot_be_captured() -> None:
    def capture(size: int) -> StepGraph:
        raise InvalidValueError("it fails")

    predictor = Predictor(StepFamily(small=step(2), large=step(3), capture=capture), TX2)
    assert predictor.largest(0.5) is None


def test_how_much_is_usable_counts_with_its_range() -> None:
    room, none = value(100.0, 100.0, 100.0), value(1.0, 0.5, 2.0)
    rest = {"most": 1e9, "floor": none, "stays": 0.0}
    # As likely as not, whatever the ranges: all of them are about 100.
    unsure = value(100.0, 50.0, 200.0)
    for usable in (room, unsure):
        assert training_fits(100, 0.2, usable=usable, **rest) == pytest.approx(0.5, abs=0.01)
    # The sum of two normal distributions of logarithms: its half interval is the hypotenuse.
    for reserved in (60, 150):
        away = np.log(100 / reserved) * 1.645 / np.hypot(0.2, np.log(2))
        expected = 0.5 * (1 + erf(away / np.sqrt(2)))
        found = training_fits(reserved, 0.2, usable=unsure, **rest)
        assert found == pytest.approx(expected, abs=0.01)
    # 95 % of what a framework takes is below the end of its range.
    rest["floor"] = value(50.0, 25.0, 100.0)
    assert training_fits(10, 0.2, usable=room, **rest) == pytest.approx(0.95, abs=0.001)
    rest["most"] = 50.0
    assert training_fits(10, 0.2, usable=room, **rest) == pytest.approx(0.5, abs=0.001)


def value(best: float, low: float, high: float) -> Value:
    return Value(value=best, low=low, high=high, basis="calibration", source="made")


def without_usable(device: Device) -> Device:
    return replace(device, memory=replace(device.memory, usable=None))


def without_interval(device: Device) -> Device:
    kinds = {name: one for name, one in device.kinds["torch-1.6"].items() if name != "interval"}
    return replace(device, kinds={"torch-1.6": kinds})


@pytest.mark.parametrize(
    ("less", "key"),
    [
        (without_usable, "memory.usable"),
        (without_interval, 'kinds."torch-1.6".interval'),
    ],
)
def test_what_is_missing_is_refused_by_its_key(less: Callable[[Device], Device], key: str) -> None:
    with refused("device-lacks-values", key):
        Predictor(family(), less(TX2))


def test_the_report_says_predicted_and_its_operations_make_the_step() -> None:
    prediction = Predictor(evaluated_family(), TX2).at(16)
    report = prediction.report(workload="by hand")
    assert RunReport.from_dict(report.to_dict()).to_dict() == report.to_dict()
    figures = {(name, part): figure for name, part, figure in report.metrics.each()}
    exact = {key for key, figure in figures.items() if figure.status is Status.COUNTED}
    assert exact == {("memory_breakdown", name) for name in ("parameters", "optimizer_state")}
    never = figures.pop(("time_to_throttle", None))  # its fan is enough
    assert never.missing
    guessed = [figure for key, figure in figures.items() if key not in exact]
    assert {figure.status for figure in guessed} == {Status.PREDICTED}
    for figure in guessed:
        assert figure.low is not None
        assert figure.high is not None
        assert figure.low <= float(figure) <= figure.high
    rest = sum(float(costs["time"]) for costs in report.unattributed.values())
    for rows in (report.operations, report.layers, report.phases, report.kinds):
        whole = sum(float(row.figure("time")) for row in rows) + rest
        assert whole == pytest.approx(float(prediction.step_time))
    for row in report.kinds:
        assert float(row.figure("share")) <= row.figure("share").high <= 1  # type: ignore[operator]
        assert row.figure("calls").status is Status.COUNTED
    energy = float(prediction.mean_power) * float(prediction.step_time)
    assert float(prediction.energy_per_step) == pytest.approx(energy)
    assert sum(map(float, prediction.memory_breakdown.values())) == pytest.approx(
        prediction.memory.reserved
    )


def test_a_device_that_nobody_measured_borrows_values_says_so_and_is_less_sure() -> None:
    here, there = (
        Predictor(family(), devices.find(name)) for name in ("jetson-tx2", "jetson-nano")
    )
    sure, unsure = here.at(16), there.at(16)
    assert any("nobody measured" in note for note in unsure.notes)
    of_it, of_others = here.fitted.reach, there.fitted.reach
    assert of_others["step_time"] == pytest.approx(of_it["step_time"] + np.log(2))
    assert of_others["reserved"] == pytest.approx(of_it["reserved"] + np.log(1.25))
    assert unsure.reach["step_time"] > of_others["step_time"]  # its inputs are small, too
    assert float(unsure.step_time) > float(sure.step_time)  # a smaller GPU


def test_all_that_is_missing_is_named_at_once_and_where_to_look(tmp_path: Path) -> None:
    (tmp_path / "gpu.toml").write_text(
        'title = "one"\n[memory]\nunified = true\n[power]\n[thermal]\n'
        '[processors.gpu]\nkind = "gpu"\ntitle = "a GPU"\n'
        'peak.fp32 = { value = 1e12, low = 1e12, high = 1e12, basis = "datasheet", source = "it" }\n'
    )
    device = devices.find(str(tmp_path / "gpu.toml"))
    with refused(
        "device-lacks-values", "memory.bandwidth", "memory.usable", "floors.torch"
    ) as told:
        Predictor(family(), device)
    assert f"wattstep devices {tmp_path / 'gpu.toml'}" in str(told.value)
    assert {"memory.bandwidth", "memory.usable", "floors.torch"} <= set(device.missing)


@pytest.mark.parametrize("name", devices.names())
@pytest.mark.parametrize("engine", [None, "mnn", "torch"])
def test_the_screen_of_a_device_lists_what_a_refusal_says_that_it_lacks(
    name: str, engine: str | None
) -> None:
    device = devices.find(name)
    try:
        check_device(device, engine=engine)
    except InvalidValueError as error:
        if error.id == "device-lacks-values":
            lacking = str(error).partition(" lacks ")[2].partition(": ")[0].split(", ")
            assert set(lacking) <= set(device.missing)


@pytest.mark.parametrize("engine", ["tflite", "Torch-1.6", "torch-2.0", ""])
def test_a_framework_that_nobody_knows_is_refused(engine: str) -> None:
    with refused("unknown-framework", "torch, torch-1.6"):
        Predictor(family(), TX2, engine=engine)


def test_a_framework_is_called_what_its_values_are_of() -> None:
    assert Predictor(family(), TX2).fitted.engine == "torch-1.6"
    nano = Predictor(family(), devices.find("jetson-nano"))
    assert nano.fitted.engine == "torch"
    assert "nobody measured torch" in nano.fitted.notes[0]


@pytest.mark.parametrize(
    ("device", "precision", "word"),
    [
        ("raspberry-pi-4", "fp32", "no GPU"),
        ("snapdragon-855", "fp32", "floors.torch"),
        ("jetson-tx2", "bf16", "--precision bf16"),
    ],
)
def test_what_cannot_be_predicted_is_said_in_a_line(device: str, precision: str, word: str) -> None:
    with pytest.raises(InvalidValueError, match=word):
        Predictor(family(), devices.find(device), precision=precision)


def test_a_convolution_of_next_to_no_outputs_takes_at_most_a_wait_for_each_term_of_its_sums() -> (
    None
):
    # As the last layer of a GAN's discriminator: 256 channels of 4x4 pixels to one score a sample.
    last = replace(
        convolution(4, inputs=256, outputs=1, side=4), input_size=(4, 4), output_size=(1, 1)
    )
    graph = replace(step(4), convolutions={1: last, 2: last}, flops=np.array([0.0, 32_768.0, 65_536.0, 0.0]))  # fmt: skip
    work = work_of(graph)
    values = Predictor(family(), TX2).fitted.values
    seconds = step_time(work, values, peak=666e9, bandwidth=59.7e9).kernels
    assert seconds[work.flops > 0].max() < 256 * 16 * 1e-6 + 0.1e-3
    many = work_of(step(4))  # with 64 channels of 56x56 pixels nothing is bounded
    held = step_time(many, values, peak=666e9, bandwidth=59.7e9).kernels
    assert held[many.flops > 0].min() > 64 * 9 * 1e-6


def test_tokens_are_told_of_workloads_that_have_them() -> None:
    prediction = Predictor(family(), TX2).at(16)
    report = prediction.report(workload="by hand", tokens_per_sample=256)
    metrics = {name: figure for name, part, figure in report.metrics.each() if part is None}
    seconds, joules = float(prediction.step_time), float(prediction.energy_per_step)
    assert float(metrics["tokens_per_second"]) == pytest.approx(16 * 256 / seconds)
    assert float(metrics["energy_per_token"]) == pytest.approx(joules / 16 / 256)
    assert metrics["energy_per_token"].status is Status.PREDICTED
