from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.errors import InvalidValueError
from wattstep.schema.settings import POWER_MODELS, parse_duration, parse_power_model


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10ms", 0.01),
        ("1.5 s", 1.5),
        ("250us", 0.00025),
        ("250µs", 0.00025),
        ("100ns", 1e-7),
        ("2min", 120.0),
        ("1h", 3600.0),
        (" 3 ", 3.0),
        (0.25, 0.25),
        (2, 2.0),
    ],
)
def test_durations_are_read_with_their_units(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds, rel=1e-12)


@given(st.integers(1, 10**6), st.sampled_from(["ns", "us", "ms", "s", "min", "h", "d"]))
def test_every_whole_number_of_a_unit_is_a_duration(number: int, unit: str) -> None:
    units = {
        "ns": 10**9,
        "us": 10**6,
        "ms": 10**3,
        "s": 1,
        "min": 1 / 60,
        "h": 1 / 3600,
        "d": 1 / 86400,
    }
    assert parse_duration(f"{number}{unit}") == pytest.approx(number / units[unit])


@pytest.mark.parametrize("text", ["", "ms", "-1s", "1w", "1e3s", "ten", "1,5s", "0x10", "1s 2"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with refused("malformed-duration", "10ms, 1s", "2min"):
        parse_duration(text)


@pytest.mark.parametrize("value", [0, "0", "0.0ms", -1.0, float("nan"), float("inf")])
def test_a_duration_must_be_above_nothing_and_end(value: str | float) -> None:
    with refused("out-of-range", "duration"):
        parse_duration(value)


@given(st.text())
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidValueError):
        assert parse_duration(text) > 0


def test_no_power_model_is_taken_unless_asked_for() -> None:
    assert parse_power_model(None) is None


def test_a_known_power_model_names_its_source() -> None:
    model = parse_power_model("vcpu")
    assert model is not None
    assert (model["idle_watts_a_core"], model["busy_watts_a_core"]) == POWER_MODELS["vcpu"][:2]
    assert "SPECpower" in model["source"]


def test_a_linear_power_model_is_the_users_own() -> None:
    model = parse_power_model("linear:0.5,3")
    assert_says(model.pop("source"), "the user")
    assert model == {
        "name": "linear:0.5,3",
        "idle_watts_a_core": 0.5,
        "busy_watts_a_core": 3.0,
    }


@pytest.mark.parametrize("text", ["", "cpu", "linear:", "linear:1", "linear:3,1", "linear:-1,2"])
def test_an_unknown_power_model_is_refused_with_the_known_ones(text: str) -> None:
    with refused("unknown-power-model", "vcpu", "linear:IDLE,BUSY"):
        parse_power_model(text)
