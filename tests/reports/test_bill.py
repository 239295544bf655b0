"""Watt-hours, CO2 and money at a stated intensity and price."""

from __future__ import annotations

import pytest
from tests.reports import synthetic

from wattstep.report.bill import bill
from wattstep.schema.figure import Status


def test_a_bill_is_the_energy_of_a_step_times_its_steps_and_a_stated_number() -> None:
    document = synthetic.document()
    document["metrics"]["energy_per_step"] = synthetic.figure(36.0, "J", "measured", 18.0, 54.0)
    document["steps"]["recorded"] = 50
    fifty, thousand = bill(synthetic.report(document), grid=400.0, price=0.5)
    assert (fifty.steps, thousand.steps) == (50, 1000)
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
