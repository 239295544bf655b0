"""A recorded run corrects the prediction of another training, by what of it was measured."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.predicting.test_like import ORIN, info
from tests.refusals import refused
from tests.wording import saying

from wattstep import engines, workloads
from wattstep.predict import AnyPredictor, predictor_for
from wattstep.schema.figure import Figure, Status, missing
from wattstep.schema.figures import Metrics
from wattstep.schema.workload import Preparation
from wattstep.train.evidence import learn_from

NONE = missing("B", "it was not recorded")


def lenet(batch: int = 16) -> AnyPredictor:
    captured = engines.find("torch").capture(
        workloads.find("lenet"), Preparation(batch_size=batch), "fp32"
    )
    return predictor_for(captured, ORIN)


def measured(value: float, unit: str, status: Status = Status.MEASURED) -> Figure:
    return Figure(
        value=value, unit=unit, low=value / 1.01, high=value * 1.01, confidence=0.95, status=status
    )


def run(slowed: float = 0.0, power: Status = Status.MEASURED, **changes: Any) -> Any:
    """Of LeNet, batch 16: three times as slow as predicted, of twice the power, as large as predicted."""
    predicted = lenet().at(16)
    assert predicted.power is not None
    return SimpleNamespace(
        path=Path("it"),
        info=info(workload="lenet", **changes),
        excluded=(),
        conditions=SimpleNamespace(
            steps=lambda names: np.arange(100) < 100 * slowed if names else np.zeros(100, bool)
        ),
        metrics=Metrics(
            {
                "step_time": measured(3 * predicted.time.total, "s"),
                "mean_power": measured(2 * predicted.power[0].value, "W", power),
                "peak_memory": NONE,
                "device_peak_memory": measured(predicted.memory.reserved + 5e8, "B"),
                "device_memory_breakdown": {"outside_allocator": measured(5e8, "B")},
            }
        ),
    )


def learned(one: Any) -> AnyPredictor:
    predictor = lenet()
    learn_from(predictor, [one], ORIN)
    return predictor


def test_the_prediction_of_what_was_recorded_comes_close_to_it() -> None:
    plain, predictor = lenet().at(16), learned(run())
    corrected = predictor.at(16)
    assert predictor.evidence.trainings[0].ratios == pytest.approx(
        {"step_time": 3.0, "power": 2.0, "reserved": 1.0}
    )
    assert 2.6 < corrected.time.total / plain.time.total < 3.0
    assert 5.0 < float(corrected.energy_per_step) / float(plain.energy_per_step) < 6.0
    assert corrected.memory.reserved == pytest.approx(plain.memory.reserved)
    for before, after in (
        (plain.step_time, corrected.step_time),
        (plain.mean_power, corrected.mean_power),
        (plain.reserved_memory, corrected.reserved_memory),
    ):
        assert before.high is not None
        assert after.high is not None
        assert after.high / float(after) < before.high / float(before)


def test_modelled_power_corrects_no_energy() -> None:
    plain, predictor = lenet().at(16), learned(run(power=Status.MODELLED))
    assert float(predictor.at(16).mean_power) == pytest.approx(float(plain.mean_power))
    assert predictor.evidence.trainings[0].left_out == {"power": "it is modelled"}
    assert saying(predictor.at(16).notes, "power not", "modelled")


def test_of_a_disturbed_run_memory_alone_counts() -> None:
    plain, predictor = lenet().at(16), learned(run(slowed=0.6))
    assert predictor.at(16).time.total == plain.time.total
    assert list(predictor.evidence.trainings[0].ratios) == ["reserved"]


def test_a_run_without_figures_is_refused() -> None:
    one = run()
    one.metrics = Metrics(
        {
            "step_time": NONE,
            "mean_power": NONE,
            "peak_memory": NONE,
            "device_peak_memory": NONE,
            "device_memory_breakdown": {},
        }
    )
    with refused("evidence-without-figures", "it"):
        learned(one)
