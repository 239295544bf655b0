"""A budget is what its grammar says; what it cannot be is refused with what would do."""

from __future__ import annotations

import pytest
from tests.planning.made import device
from tests.refusals import refused

from wattstep import devices
from wattstep.plan import Budget, parse_allowed, parse_period


def test_parts_stand_between_commas_in_any_order_and_unit() -> None:
    budget = Budget.parse("battery 5 %, 30 min,45 °C, 2 GiB, 1.5Wh")
    assert {each.kind: each.most for each in budget.limits} == {
        "battery": 0.05, "time": 1800.0, "temperature": 45.0, "memory": 2.0**31, "energy": 5400.0,
    }  # fmt: skip
    assert [each.spelt for each in budget.limits] == ["5 %", "30 min", "45 °C", "2 GiB", "1.5Wh"]
    assert Budget.parse("").limits == ()


@pytest.mark.parametrize(
    ("text", "id", "naming"),
    [
        ("5 bananas", "malformed-budget", "GiB"),
        ("soon", "malformed-budget", "soon"),
        ("30 min, 1 h", "contradictory-budget", "1 h"),
        ("battery 30 min", "contradictory-budget", "battery is limited"),
        ("speed 30 min", "malformed-budget", "is no speed"),
        ("120 %", "out-of-range", "100 %"),
        ("0 J", "out-of-range", "above 0"),
    ],
)
def test_what_is_no_budget_is_refused_with_what_would_do(text: str, id: str, naming: str) -> None:
    with refused(id, naming):
        Budget.parse(text)


def test_python_gives_a_budget_as_text_as_one_or_none() -> None:
    budget = Budget.parse("30 min")
    assert Budget.of_any(budget) is budget
    assert Budget.of_any("30 min") == budget
    assert Budget.of_any(None).limits == Budget.of_any("").limits == ()
    with refused("malformed-budget", "1800", "with a unit"):
        Budget.of_any(1800)


@pytest.mark.parametrize("given", [0, -5.0, float("nan"), float("inf"), True, None, "soon"])
def test_a_period_is_text_or_seconds(given: object) -> None:
    assert parse_period(3600) == parse_period("hour") == parse_period(3600.0) == 3600.0
    with refused("malformed-duration", str(given)):
        parse_period(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "every_s", "id", "naming"),
    [
        ("20 °C", None, "contradictory-budget", "20 °C already"),  # the air's own
        ("2 h", 3600.0, "contradictory-budget", "--every"),
    ],
)
def test_what_nothing_could_keep_is_refused(text: str, every_s: float | None, id: str, naming: str) -> None:  # fmt: skip
    with refused(id, naming):
        Budget.parse(text).check(device(), every_s)


def test_a_battery_that_is_not_there_and_heat_that_nobody_knows_are_refused() -> None:
    with refused("budget-not-on-device", "no battery", "2 Wh"):
        Budget.parse("5 %").check(devices.find("jetson-orin-nano"), None)
    lacking = devices.find("jetson-orin-nano")
    assert lacking.thermal.resistance is not None
    from dataclasses import replace

    cold = replace(lacking, thermal=replace(lacking.thermal, resistance=None))
    with refused("budget-not-on-device", "resistance"):
        Budget.parse("45 °C").check(cold, None)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("day", 86400.0), ("6 h", 21600.0), ("2 weeks", 1209600.0), ("hour", 3600.0), ("90 min", 5400.0)],
)  # fmt: skip
def test_periods(text: str, seconds: float) -> None:
    assert parse_period(text) == seconds


@pytest.mark.parametrize("text", ["", "0 days", "soon", "-1 h", "day 2"])
def test_what_is_no_period_is_refused(text: str) -> None:
    with refused("malformed-duration", "6 h"):
        parse_period(text)


def test_what_there_is_to_allow() -> None:
    assert parse_allowed("lora, batch") == {"lora", "batch"}
    assert parse_allowed("") == frozenset()
    with refused("unknown-allowance", "precision"):
        parse_allowed("magic")
