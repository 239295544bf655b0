from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wattstep.formats.power_supply import Convention, Unclear, infer_convention, parse_uevent
from wattstep.formats.recording import FormatError

EXAMPLES = 100_000 if settings.default.max_examples > 1000 else 200

# Public: a Mi 8 that charges, with a negative current (MatteCarra/AccA#27), and a Pixel 3a on USB
# with charging disabled, 976 µA (MatteCarra/AccA#35).
MI8 = """\
POWER_SUPPLY_STATUS=Charging
POWER_SUPPLY_CURRENT_NOW=-326171
POWER_SUPPLY_VOLTAGE_NOW=3888173
POWER_SUPPLY_CHARGE_COUNTER=1528169
POWER_SUPPLY_CHARGE_FULL=3346000
POWER_SUPPLY_TEMP=290
"""
PIXEL3A = """\
POWER_SUPPLY_CURRENT_NOW=976
POWER_SUPPLY_VOLTAGE_NOW=3815175
POWER_SUPPLY_TEMP=313
POWER_SUPPLY_CHARGE_DISABLE=1
"""


def discharging(current: int) -> str:
    return f"POWER_SUPPLY_STATUS=Discharging\nPOWER_SUPPLY_CURRENT_NOW={current}\n"


@pytest.mark.parametrize("text", [MI8, PIXEL3A])
def test_every_line_comes_out(text):
    found = parse_uevent(text)
    pairs = re.findall(r"^POWER_SUPPLY_(\w+)=(.*)$", text, re.MULTILINE)
    assert list(found.fields.items()) == pairs
    assert len(pairs) == text.count("\n")
    assert [found.integer(key) for key, value in pairs if value != "Charging"] == [
        int(value) for _, value in pairs if value != "Charging"
    ]


def test_the_kernels_error_that_leaks_through_is_no_current():
    found = parse_uevent("POWER_SUPPLY_CURRENT_NOW=-22\nPOWER_SUPPLY_TEMP=290\n")
    assert found.integer("CURRENT_NOW") is None
    assert found.rejected == ("CURRENT_NOW",)
    assert found.integer("TEMP") == 290


@pytest.mark.parametrize(
    ("current", "sign", "ampere"),
    [(-450_000, -1, 1e-6), (450_000, 1, 1e-6), (-450, -1, 1e-3), (450, 1, 1e-3)],
)
def test_sign_and_unit_come_from_what_a_discharging_battery_says(current, sign, ampere):
    found = infer_convention(parse_uevent(discharging(current)), plugged=False, screen_on=True)
    assert isinstance(found, Convention)
    assert (found.sign, found.ampere) == (sign, ampere)
    assert found.sign * current * found.ampere == pytest.approx(0.45)
    assert str(current) in found.reason


@pytest.mark.parametrize(
    ("text", "plugged", "words"),
    [
        (MI8, True, "tethered"),
        (PIXEL3A, True, "tethered"),
        (discharging(-450_000), True, "tethered"),
        (MI8, False, "tethered"),
        (discharging(0), False, "0 A"),
        ("POWER_SUPPLY_STATUS=Discharging\n", False, "no current"),
    ],
)
def test_a_battery_that_does_not_surely_give_tells_no_convention(text, plugged, words):
    found = infer_convention(parse_uevent(text), plugged=plugged, screen_on=True)
    assert isinstance(found, Unclear)
    assert words in found.reason


@pytest.mark.parametrize("screen_on", [False, None])
def test_a_small_current_with_the_screen_off_may_be_of_either_unit(screen_on):
    supply = parse_uevent(discharging(-976))
    assert isinstance(infer_convention(supply, plugged=False, screen_on=screen_on), Unclear)
    big = parse_uevent(discharging(-45_000))
    assert isinstance(infer_convention(big, plugged=False, screen_on=screen_on), Convention)


@pytest.mark.parametrize(
    ("text", "line"),
    [("", 1), (MI8 + "cat: I/O error", 7), (MI8 + "POWER_SUPPLY_TEMP=300", 7), ("=3", 1)],
)
def test_what_is_no_uevent_is_an_error_with_its_line(text, line):
    with pytest.raises(FormatError) as caught:
        parse_uevent(text)
    assert caught.value.line == line


@settings(max_examples=EXAMPLES)
@given(data=st.binary(max_size=200), at=st.integers(0, 180), text=st.text(max_size=5))
@example(data=b"POWER_SUPPLY_TEMP=" + b"9" * 5000, at=0, text="")
def test_any_bytes_give_values_or_a_clear_error(data, at, text):
    lines = [1]
    for given_data in (data, MI8.encode() + data, MI8[:at] + text + MI8[at + 1 :]):
        try:
            found = parse_uevent(given_data)
        except FormatError as error:
            lines.append(error.line)
            continue
        for key, value in found.fields.items():
            number = found.integer(key)
            assert number is None or number == int(value)
    assert min(lines) == 1
