"""Watt-hours, CO2 and money at a stated intensity and price."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from tests.reports import synthetic

from wattstep.report.bill import bill
from wattstep.report.terminal.bill import print_bill
from wattstep.schema.figure import Status


def test_a_bill_is_the_energy_of_a_step_times_its_steps_and_a_stated_number() -> None:
    document = synthetic.document()
    document["metrics"]["energy_per_step"] = synthetic.figure(36.0, "J", "measured", 18.0, 54.0)
    document["steps"]["recorded"] = 50
    fifty, thousand = bill(synthetic.report(document), grid=400.0, price=0.5)
    assert (fifty.count, thousand.count) == (50, 1000)
    # 36 J a step are 10 Wh in 1,000 steps: 4 g at 400 g/kWh, half a cent at 0.5 a kWh.
    assert thousand.energy.value == pytest.approx(10.0)
    assert thousand.energy.status is Status.MEASURED
    assert thousand.carbon is not None
    assert thousand.cost is not None
    assert thousand.carbon.value == pytest.approx(4.0)
    assert (thousand.carbon.low, thousand.carbon.high) == pytest.approx((2.0, 6.0))
    assert thousand.carbon.status is Status.MODELLED
    assert thousand.cost.value == pytest.approx(0.005)
    assert fifty.energy.value == pytest.approx(0.5)


def test_without_energy_there_is_no_bill_but_the_reason() -> None:
    document = synthetic.document()
    document["metrics"]["energy_per_step"] = synthetic.missing("J", "no sensor")
    for one in bill(synthetic.report(document), grid=400.0):
        assert one.energy.missing
        assert one.energy.reason == "no sensor"
        assert one.carbon is None


def test_epochs_take_their_samples_at_the_throughput_and_the_energy_of_a_sample() -> None:
    document = synthetic.document()
    metrics = document["metrics"]
    metrics["throughput"] = synthetic.figure(200.0, "samples/s", "measured", 100.0, 400.0)
    metrics["energy_per_sample"] = synthetic.figure(0.036, "J", "measured", 0.018, 0.072)
    (epochs,) = bill(synthetic.report(document), samples=500_000, price=0.5)
    # 500,000 samples at 200 a second, and 36 mJ each: 2,500 s, 18 kJ, 5 Wh.
    assert (epochs.time.value, epochs.time.low, epochs.time.high) == (2500, 1250, 5000)
    assert epochs.energy.value == pytest.approx(5.0)
    assert epochs.cost is not None
    assert epochs.cost.value == pytest.approx(0.0025)
    assert epochs.to_dict()["samples"] == 500_000
    stream = io.StringIO()
    print_bill([epochs], Console(file=stream, width=80))
    assert stream.getvalue().startswith("500,000 samples: 41 min 40 s (20 min 50 s to 1 h 23 min)")


def test_steps_take_their_time_though_nobody_knows_their_energy() -> None:
    document = synthetic.document()
    document["metrics"]["energy_per_step"] = synthetic.missing("J", "no sensor")
    document["metrics"]["step_time"] = synthetic.figure(0.01, "s", "measured", 0.009, 0.011)
    (steps,) = bill(synthetic.report(document), steps=100_000)
    assert (steps.time.value, steps.time.low) == pytest.approx((1000, 900))
    assert steps.energy.reason == "no sensor"
