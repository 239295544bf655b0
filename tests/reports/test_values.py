"""Figures as text, against numbers written out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wording import assert_says

from wattstep.report.values import NO_VALUE, plain, quantity, show
from wattstep.schema.figure import Figure, Status, missing
from wattstep.schema.spelling import rounded


def shown(value: float, unit: str, **more: Any) -> str:
    return show(Figure(value=value, unit=unit, status=Status.MEASURED, **more)).text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.00341, "s", "3.41 ms"),
        (0.0000034149, "s", "3.41 µs"),
        (1234.0, "s", "1,234 s"),
        (0.9999, "s", "1.00 s"),
        (0.0009996, "s", "1.00 ms"),
        (0.0123, "J", "12.3 mJ"),
        (4321.0, "J", "4.32 kJ"),
        (5.0, "W", "5.00 W"),
        (212_400_000, "B", "212 MB"),
        (512.0, "B", "512 B"),
        (2.3e9, "FLOP", "2.30 GFLOP"),
        (1.5e9, "Hz", "1.50 GHz"),
        (0.934, "ratio", "93.4 %"),
        (0.0034, "ratio", "0.34 %"),
        (1.0, "ratio", "100 %"),
        (-0.021, "ratio", "-2.10 %"),
        (1172.6, "samples/s", "1,173 samples/s"),
        (45.25, "°C", "45.2 °C"),
        (7, "count", "7"),
        (61706, "parameters", "61,706 parameters"),
        (0.0, "J", "0 J"),
    ],
)
def test_a_number_has_three_digits_and_the_usual_prefix(value: float, unit: str, text: str) -> None:
    assert shown(value, unit) == text


def test_the_interval_is_in_the_unit_of_the_value() -> None:
    assert shown(0.00341, "s", low=0.0033, high=0.00352) == "3.41 ms (3.30 to 3.52)"


def test_digits_are_added_until_the_ends_of_a_narrow_interval_differ() -> None:
    assert shown(0.12343, "s", low=0.12341, high=0.12344) == "123.43 ms (123.41 to 123.44)"


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (2.35, 0.0, 21.104, "2.35 s (0 to 21.1)"),
        (0.0871, 0.0691, 0.1038, "87.1 ms (69.1 to 104)"),
        (3.41, -0.204, 120.06, "3.41 s (-0.20 to 120)"),
        (0.0999, 0.0998, 0.1002, "99.9 ms (99.8 to 100)"),
        # The upper end would be written as the value.
        (0.1001, 0.0998, 0.10042, "100.1 ms (99.8 to 100.4)"),
        (0.9994, 0.9986, 1.0003, "999 ms (999 to 1,000)"),
    ],
)
def test_a_wide_interval_has_no_more_digits_than_its_value(
    value: float, low: float, high: float, text: str
) -> None:
    assert shown(value, "s", low=low, high=high) == text


def test_no_more_than_five_digits_are_shown() -> None:
    assert shown(0.123456, "s", low=0.1234561, high=0.1234562) == "123 ms (123 to 123)"


def test_missing_shows_the_reason_and_no_number() -> None:
    found = show(missing("J", "no sensor"))
    assert found.text == "missing: no sensor"
    assert found.value == NO_VALUE
    assert found.missing


@pytest.mark.parametrize(("status", "mark"), [("modelled", "≈ "), ("predicted", "~ ")])
def test_what_no_sensor_gave_is_marked(status: str, mark: str) -> None:
    assert show(Figure(value=3.0, unit="W", status=Status(status))).value == f"{mark}3.00 W"


def test_method_source_and_systematic_error_are_told() -> None:
    figure = Figure(
        value=3.0,
        unit="J",
        status=Status.MEASURED,
        low=2.9,
        high=3.1,
        confidence=0.95,
        n=50,
        method="block bootstrap over steps",
        systematic=0.02,
        source="ina3221:VDD_GPU",
    )
    interval = ("95 % interval", "n = 50", "block bootstrap")
    assert_says(show(figure).detail, *interval, "source: ina3221:VDD_GPU", "± 2 %")


def test_a_factor_and_a_count_are_not_percentages() -> None:
    figure = Figure(value=1.404, unit="ratio", status=Status.MEASURED)
    assert show(figure, "times").text == "1.40 ×"
    assert show(replace(figure, value=2.0), "count").text == "2"


@given(
    st.floats(1e-9, 1e12),
    st.sampled_from(["s", "J", "W", "B", "Hz", "FLOP", "ratio", "samples/s"]),
)
def test_text_gives_the_value_back_to_three_digits(value: float, unit: str) -> None:
    number, _, suffix = shown(value, unit).replace(",", "").partition(" ")
    prefix = "" if suffix in (unit, "%") else suffix.removesuffix(unit)
    factor = {"n": 1e-9, "µ": 1e-6, "m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
    back = float(number) * factor[prefix] * (0.01 if suffix == "%" else 1)
    assert back == pytest.approx(value, rel=0.051 if unit == "ratio" and value < 0.01 else 0.0051)


def test_control_characters_cannot_steer_a_terminal() -> None:
    assert plain("a\x1b[31mb\u202ec\nd") == "a�[31mb⟨U+202E⟩c d"


def test_a_plain_quantity_has_unit_and_prefix() -> None:
    assert quantity(25e9, "B") == "25.0 GB"
    assert quantity(0.01003, "s") == "10.0 ms"


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (0.00012, 0.0, 51.25854e-3, "120 µs (0 to 51,259)"),
        (0.79, 0.0, 1.0, "79.0 % (0 to 100)"),
        (3.41, 3.3, 3.52, "3.41 (3.30 to 3.52)"),
        (0.18712, 0.18698, 0.18731, "18.71 % (18.70 to 18.73)"),
    ],
)
def test_ends_of_an_interval_have_no_more_digits_than_its_width(
    value: float, low: float, high: float, text: str
) -> None:
    unit = "s" if "µs" in text else "ratio" if "%" in text else "1"
    ends = Figure(value=value, low=low, high=high, unit=unit, status=Status.MEASURED, source="x")
    assert show(ends).text == text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(290.4, 2, "290"), (12345.0, 3, "12,300"), (0.01234, 3, "0.0123"), (2.5, 3, "2.5"),
     (-0.5, 2, "-0.5"), (0.0, 3, "0"), (999.9, 3, "1,000")],
)  # fmt: skip
def test_a_number_in_a_sentence_has_no_exponent(value: float, digits: int, text: str) -> None:
    assert rounded(value, digits) == text
