"""Recorded trainings correct a prediction by as much as errors are common, and make it surer by as much."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log, sqrt
from typing import Any

import numpy as np
import pytest
from tests.predicting.steps import family
from tests.refusals import refused
from tests.wording import assert_says, saying

from wattstep import devices
from wattstep.predict import Predictor
from wattstep.predict.like import BORROWED, Error, Evidence, Miss, Recorded, Sharing, correction
from wattstep.schema.figure import Figure, Status
from wattstep.schema.run_info import RunInfo
from wattstep.train.evidence import check_alike, deviation

HALF_COMMON = Sharing(device=0.5, network=0.9, fade=0.25)
ORIN, TX2 = devices.find("jetson-orin-nano"), devices.find("jetson-tx2")
NORMAL_90 = 1.6449


def error(network: str, batch: int = 16, *, common: float = 0.3, own: float = 0.3) -> Error:
    return Error(network=(network,), batch_size=batch, common=common, own=own)


def test_runs_of_other_networks_leave_the_part_of_each_network() -> None:
    misses = [Miss(error=error(str(i)), off=0.6) for i in range(3)]
    corrected = correction(error("mine"), misses, HALF_COMMON)
    # The mean of three is the common part with a variance of 0.09 / 3 beside it.
    weight = 0.09 / (0.09 + 0.09 / 3)
    assert log(corrected.factor) == pytest.approx(weight * 0.6)
    assert corrected.reach == pytest.approx(NORMAL_90 * sqrt(0.09 * (1 - weight) + 0.09), rel=1e-3)


def test_a_run_of_the_same_network_and_batch_is_nearly_what_is_predicted() -> None:
    misses = [Miss(error=error("mine", common=0.0), off=log(2))]
    corrected = correction(error("mine", common=0.0), misses, HALF_COMMON)
    assert corrected.factor == pytest.approx(2**0.9)
    assert corrected.reach == pytest.approx(NORMAL_90 * 0.3 * sqrt(1 - 0.9**2), rel=1e-3)


def test_the_farther_its_batch_the_less_it_says() -> None:
    factors = [
        correction(error("mine"), [Miss(error=error("mine", batch), off=0.5)], HALF_COMMON).factor
        for batch in (16, 32, 64, 256)
    ]
    assert factors == sorted(factors, reverse=True)
    # What remains at any distance is what all trainings have in common: half.
    assert factors[-1] > exp(0.5 * 0.5)


def test_what_was_hardly_measured_says_little() -> None:
    miss = Miss(error=error("other"), off=0.6)
    vague, systematic = replace(miss, noise=3.0), replace(miss, systematic=3.0)
    sure = correction(error("mine"), [miss], HALF_COMMON).factor
    assert sure == pytest.approx(exp(0.3))
    assert correction(error("mine"), [vague], HALF_COMMON).factor < 1.01
    # A sensor that is wrong is so in each run: many do not make up for it.
    assert correction(error("mine"), [systematic] * 50, HALF_COMMON).factor < 1.01
    assert correction(error("mine"), [vague] * 50, HALF_COMMON).factor > 1.06


@pytest.mark.parametrize("runs", [1, 2, 5])
def test_intervals_hold_in_90_percent_of_made_devices_and_shrink(runs: int) -> None:
    generator = np.random.default_rng(runs)
    held, before, after = [], [], []
    for _ in range(2000):
        common = generator.normal(0, 0.3)
        own, noise = generator.normal(0, 0.3, runs + 1), generator.normal(0, 0.1, runs)
        misses = [
            Miss(error=error(str(i)), off=common + own[i] + noise[i], noise=0.1)
            for i in range(runs)
        ]
        corrected = correction(error("mine"), misses, HALF_COMMON)
        truth = common + own[runs]
        held.append(abs(truth - log(corrected.factor)) <= corrected.reach)
        before.append(truth)
        after.append(truth - log(corrected.factor))
    assert 0.88 < np.mean(held) < 0.92
    assert NORMAL_90 * 0.3 < corrected.reach < NORMAL_90 * sqrt(0.18)
    assert np.std(after) < np.std(before)


# --- predictions -------------------------------------------------------------------------------


def learned(**off: float) -> Predictor:
    """Of a device whose values are another's; what a run of another network missed by quantity."""
    predictor = Predictor(family(), ORIN)
    errors = predictor.errors(predictor.at(8))
    other = {name: replace(each, network=("other",)) for name, each in errors.items()}
    recorded = Recorded(run="it", workload="other", batch_size=8, ratios=dict.fromkeys(off, 1.0))
    misses = {name: [Miss(error=other[name], off=value)] for name, value in off.items()}
    predictor.learn(Evidence(misses=misses, trainings=[recorded]))
    return predictor


def test_without_a_run_nothing_changes() -> None:
    plain, predictor = Predictor(family(), ORIN), Predictor(family(), ORIN)
    predictor.learn(Evidence())
    assert predictor.at(8).report(workload="a") == plain.at(8).report(workload="a")
    assert predictor.fits_with(300) == plain.fits_with(300)


def test_time_goes_with_the_runs_by_what_is_common_to_a_borrowed_device() -> None:
    plain, corrected = Predictor(family(), ORIN).at(8), learned(step_time=log(2)).at(8)
    ratio = corrected.time.total / plain.time.total
    of_device = Predictor(family(), ORIN).reach_of_device["step_time"]
    # Part of the variance that is common, where the run's interval is as wide as this one's.
    part = BORROWED["step_time"].device * (of_device / plain.reach["step_time"]) ** 2
    assert ratio == pytest.approx(2**part)
    assert corrected.reach["step_time"] == pytest.approx(
        plain.reach["step_time"] * sqrt(1 - part**2)
    )
    rows = sum(float(row.figures["time"]) for row in corrected.report(workload="").operations)
    waits = next(iter(corrected.report(workload="").unattributed.values()))
    assert rows + float(waits["time"]) == pytest.approx(corrected.time.total)
    assert float(corrected.energy_per_step) == pytest.approx(ratio * float(plain.energy_per_step))
    assert float(corrected.mean_power) == pytest.approx(float(plain.mean_power))
    assert saying(corrected.notes, "corrected", "step time")
    assert_says(str(corrected.step_time.source), "1 recorded run")


def test_power_shifts_energy_and_nothing_else() -> None:
    plain, corrected = Predictor(family(), ORIN).at(8), learned(power=log(1.5)).at(8)
    ratio = float(corrected.mean_power) / float(plain.mean_power)
    assert 1.0 < ratio < 1.5
    assert float(corrected.energy_per_step) == pytest.approx(ratio * float(plain.energy_per_step))
    assert corrected.time.total == plain.time.total
    width = [figure.high / figure.low for figure in (plain.mean_power, corrected.mean_power)]
    assert width[1] < width[0]


def test_memory_of_the_same_network_decides_what_fits() -> None:
    plain, predictor = Predictor(family(), TX2), Predictor(family(), TX2)
    largest = plain.largest(0.5)
    assert largest is not None
    miss = Miss(error=predictor.errors(predictor.at(largest))["reserved"], off=log(1.3))
    recorded = Recorded(run="it", workload="it", batch_size=largest, ratios={"reserved": 1.3})
    predictor.learn(Evidence(misses={"reserved": [miss]}, trainings=[recorded]))
    assert predictor.fits_with(largest) < 0.05 < 0.45 < plain.fits_with(largest)
    # The plain one has all there is, the libraries' part as small as it gets; the other would take more.
    room, stays = TX2.memory.usable, TX2.kinds["torch-1.6"]["memory"].values["stays"]
    assert room is not None
    assert plain.at(largest).memory.used == pytest.approx(room.value, rel=0.02)
    corrected = predictor.at(largest).memory
    assert corrected.reserved > 1.2 * plain.at(largest).memory.reserved
    assert corrected.used == pytest.approx(corrected.reserved + stays.value)
    assert predictor.at(largest).fits_with == predictor.fits_with(largest)


# --- runs that say nothing ---------------------------------------------------------------------


def info(**changes: Any) -> RunInfo:
    given: dict[str, Any] = {
        "state": "closed", "created": "", "workload": "resnet8", "title": "ResNet-8", "engine": "torch 2.5.0",
        "batch_size": 16, "threads": 4, "precision": "fp32", "processor": "cuda", "seed": 0,
        "interval_s": 0.1, "warmup": 5, "trace": "", "device": {"board": "jetson-orin-nano"},
    }  # fmt: skip
    return RunInfo(**{**given, **changes})


def test_a_run_of_the_same_device_is_evidence() -> None:
    check_alike("it", info(), Predictor(family(), ORIN), ORIN, here=False, mode=None)


@pytest.mark.parametrize(
    ("changes", "id"),
    [
        ({"device": {"board": "jetson-tx2"}}, "evidence-of-another-device"),
        ({"engine": "mnn 2.9"}, "evidence-of-another-kind"),
        ({"processor": "cpu"}, "evidence-of-another-kind"),
        ({"precision": "bf16"}, "evidence-of-another-kind"),
        (
            {"device": {"board": "jetson-orin-nano", "power_mode": "7W"}},
            "evidence-of-another-kind",
        ),
        ({"options": {"compiled": True}}, "evidence-of-another-kind"),
        ({"options": {"governor": "energy"}}, "evidence-of-another-kind"),
        ({"target": "emulate:jetson-orin-nano"}, "evidence-not-measured"),
        ({"target": "replay:log"}, "evidence-not-measured"),
        ({"workload": "mine.py"}, "evidence-not-predictable"),
    ],
)
def test_a_run_of_something_else_is_refused(changes: dict[str, Any], id: str) -> None:
    with refused(id):
        check_alike("it", info(**changes), Predictor(family(), ORIN), ORIN, here=False, mode=None)


def test_this_is_the_machine_itself() -> None:
    with refused("evidence-of-another-device"):
        check_alike("it", info(), Predictor(family(), ORIN), ORIN, here=True, mode=None)


def test_a_mode_is_that_of_the_run() -> None:
    in_7w = info(device={"board": "jetson-orin-nano", "power_mode": "7W"})
    predictor = Predictor(family(), ORIN, mode="7W")
    check_alike("it", in_7w, predictor, ORIN, here=False, mode="7W")
    with refused("evidence-of-another-kind"):
        check_alike("it", info(), predictor, ORIN, here=False, mode="7W")


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(2 / 1.1, 2 * 1.1, log(1.1) / 1.96), (0.0, 4.0, 1 / 1.96), (None, None, 0.0)],
)
def test_the_measured_interval_is_noise(
    low: float | None, high: float | None, expected: float
) -> None:
    figure = Figure(
        value=2.0, unit="s", low=low, high=high, confidence=0.95, status=Status.MEASURED
    )
    assert deviation(figure) == pytest.approx(expected, rel=1e-3)
