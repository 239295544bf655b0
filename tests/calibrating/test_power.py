"""Power of a calibrated machine: which sensors tell it, and what lies between idle and full."""

from __future__ import annotations

from pathlib import Path

import pytest

from wattstep.devices.table import Power, Value
from wattstep.predict.power import power_of
from wattstep.schema.channel import Absent, Channel, Present, SensorRead
from wattstep.train.calibration.power import NO_METER, described, has_meter, measure_power

IDLE = Value(value=3.0, low=2.8, high=3.4, basis="calibration", source="a rail")
FULL = Value(value=9.0, low=8.0, high=9.5, basis="calibration", source="a rail")


@pytest.mark.parametrize(
    ("load", "value", "low", "high"),
    [
        (0.0, 3.0, 2.8, 3.4),
        (1.0, 9.0, 8.0, 9.5),
        # Half of each, whose misses add in squares: 0.1 and 0.5 W down, 0.2 and 0.25 W up.
        (0.5, 6.0, 6.0 - 0.26**0.5, 6.0 + 0.1025**0.5),
    ],
)
def test_ends_of_power_between_idle_and_full(
    load: float, value: float, low: float, high: float
) -> None:
    found = power_of(Power(idle=IDLE, full=FULL), {"cpu": load})
    assert found is not None
    assert (found[0].value, found[0].low, found[0].high) == pytest.approx((value, low, high))


def test_what_no_sensor_tells_has_a_reason() -> None:
    assert described({})["reasons"]["full"] == "no sensor tells"


def meter(role: str) -> Present:
    channel = Channel(
        name="it", unit="W", kind="gauge", domain="system", role=role, source="a rail"
    )
    return Present(reads=(SensorRead(path="power", parser="integer", channels=(channel,)),))


def test_nothing_is_trained_for_power_where_no_sensor_tells_that_of_the_whole(
    tmp_path: Path,
) -> None:
    assert measure_power(tmp_path) == {"reason": NO_METER}
    assert not has_meter([Absent(reason="no such chip"), meter("temperature"), meter("power_part")])
    assert has_meter([meter("power_part"), meter("power_total")])
