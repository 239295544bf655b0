"""What a calibration never measured is named beside a prediction on a CPU, and widens it; nothing else does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import hypot, log
from pathlib import Path

import numpy as np
import pytest
from tests.calibrating.test_calibration import MB, WORKLOADS, calibrate, probe
from tests.predicting.steps import KERNEL, PIXELS, step
from tests.wording import assert_says

from wattstep import devices
from wattstep.devices.table import TORCH, Device, KindValues, Value, framework_of
from wattstep.predict import Prediction, predictor_for
from wattstep.predict.cpu.time import CODES, KINDS
from wattstep.schema.step_graph import StepFamily, StepGraph

FLOP = 2 * PIXELS * PIXELS * 64 * 64 * KERNEL * KERNEL  # of the step's convolution, a sample
RANGE = ("least_batch", "most_batch", "most_flop", "most_byte")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def calibrated(tmp_path: Path) -> Device:
    calibrate(tmp_path / "mine.toml", [])
    return devices.find(str(tmp_path / "mine.toml"))


def fitted_to(
    device: Device, *, batches: tuple[int, int] = (1, 16), flop: float = 1e12, without: Sequence[str] = ()
) -> Device:  # fmt: skip
    """The device, of which all kinds of operations were measured up to so many FLOP of one, but for some."""
    (engine, kinds), = device.kinds.items()  # fmt: skip
    asked: dict[str, dict[str, float]] = {
        "step": dict(zip(RANGE[:2], batches, strict=True)),
        **{kind: {"most_flop": flop, "most_byte": 1e15} for kind in KINDS if kind not in without},
    }
    return replace(device, kinds={engine: {k: _with(each, asked.get(k, {})) for k, each in kinds.items()}})  # fmt: skip


def _with(fit: KindValues, ranges: dict[str, float]) -> KindValues:
    values = {key: value for key, value in fit.values.items() if key not in RANGE}
    for key, number in ranges.items():
        exact = Value(value=number, low=number, high=number, basis="calibration", source="")
        values[key] = exact
    return replace(fit, values=values)


def predicted(
    device: Device, batch: int, change: Callable[[StepGraph], StepGraph] = lambda graph: graph
) -> Prediction:
    family = StepFamily(small=change(step(2)), large=change(step(3)))
    return predictor_for(family, device).at(batch)


def widened(made: Prediction, device: Device) -> float:
    """By how much more the time may be off, as a logarithm, than within the fit."""
    (kinds,) = device.kinds.values()
    within = kinds["interval"].values["step_time"].value
    return float(np.sqrt(made.reach["step_time"] ** 2 - within**2))


def test_the_file_says_what_was_measured(calibrated: Device) -> None:
    (kinds,) = (each for key, each in calibrated.kinds.items() if framework_of(key) == TORCH)
    rows = [row for seed, name in enumerate(WORKLOADS) for row in probe(name, seed).rows]
    for kind in ("convolution", "matrix product", "optimizer"):
        mine = [row for row in rows if row[0] == CODES[kind]]
        values = kinds[kind].values
        assert values["most_flop"].value == pytest.approx(max(row[2] for row in mine))
        assert values["most_byte"].value == pytest.approx(max(row[3] + row[4] for row in mine))
    assert "most_byte" not in kinds["attention"].values
    assert [kinds["step"].values[key].value for key in RANGE[:2]] == [4, 4]


def test_within_the_range_nothing_is_said(calibrated: Device) -> None:
    device = fitted_to(calibrated)
    made = predicted(device, 16)
    assert made.within
    assert predicted(device, 64).within
    assert not [note for note in made.notes if "fitted" in note]
    assert widened(made, device) == pytest.approx(0, abs=1e-6)


def test_a_batch_far_beyond_is_named_with_the_range(calibrated: Device) -> None:
    device = fitted_to(calibrated, flop=1e18)
    made = predicted(device, 1_000_000)
    assert not made.within
    assert_says(" ".join(made.notes), "batch 1,000,000", "1 to 16")
    assert widened(made, device) == pytest.approx(log(1.5))
    assert made.reach["system"] == pytest.approx(
        hypot(predicted(device, 4).reach["system"], log(1.25))
    )


def test_operations_far_larger_than_any_that_was_measured_are_named(calibrated: Device) -> None:
    """As images of many more pixels make them, whatever the batch size."""
    device = fitted_to(calibrated, flop=FLOP / 1000)
    made = predicted(device, 4)
    assert not made.within
    assert_says(" ".join(made.notes), f"{8 * FLOP / 1e9:.3g} GFLOP", f"{FLOP / 1e12:.3g}")
    assert widened(made, device) == pytest.approx(log(1.5))
    assert predicted(fitted_to(calibrated, flop=FLOP), 4).within  # 8 times is near enough


def test_a_kind_that_nobody_measured_is_named_and_widens_by_its_part(calibrated: Device) -> None:
    device = fitted_to(calibrated, without=["convolution backward"])
    made = predicted(device, 4)
    share = float(made.operation_seconds[2]) / made.time.total
    assert share > 0.1
    assert not made.within
    assert_says(" ".join(made.notes), f"{100 * share:.0f} %", "convolution")
    assert widened(made, device) == pytest.approx(share * log(3))


def test_a_convolution_of_volumes_is_none_of_those_that_were_measured(calibrated: Device) -> None:
    def of_volumes(graph: StepGraph) -> StepGraph:
        shapes = {
            place: replace(one, kernel=(1, *one.kernel))
            for place, one in graph.convolutions.items()
        }
        return replace(graph, convolutions=shapes)

    made = predicted(fitted_to(calibrated), 4, of_volumes)
    assert_says(" ".join(made.notes), "convolution in 3 dimensions")


def test_an_older_file_says_that_its_range_is_not_known(calibrated: Device) -> None:
    (engine, kinds), = calibrated.kinds.items()  # fmt: skip
    older = {kind: _with(each, {}) for kind, each in kinds.items()}
    device = replace(calibrated, kinds={engine: older})
    made = predicted(device, 1_000_000)
    assert_says(" ".join(made.notes), "calibrate-device")
    assert widened(made, device) == pytest.approx(0, abs=1e-6)
    assert made.memory.used > MB
