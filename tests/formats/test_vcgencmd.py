from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wattstep.formats.recording import FormatError
from wattstep.formats.vcgencmd import (
    parse_clock,
    parse_pmic,
    parse_throttled,
)

EXAMPLES = 100_000 if settings.default.max_examples > 1000 else 200

PI5 = (Path(__file__).parents[1] / "fixtures/rpi/pmic_read_adc.txt").read_text()


def test_every_value_of_the_pi_5s_chip_comes_out():
    found = parse_pmic(PI5)
    values = [Decimal(text) for text in re.findall(r"=([0-9.]+)[AV]$", PI5, re.MULTILINE)]
    assert len(values) == 26
    assert [*found.ampere.values(), *found.volt.values()] == [float(value) for value in values]


def test_power_is_current_times_voltage_of_the_rails_that_have_both():
    # By decimal arithmetic on the text's columns; boards.md, section 3, has 2.95 W for this sample.
    amperes = [Decimal(a) for a in re.findall(r"=([0-9.]+)A$", PI5, re.MULTILINE)]
    names = re.findall(r"(\S+)_A current", PI5)
    volts = {n: Decimal(v) for n, v in re.findall(r"(\S+)_V volt\(\d+\)=([0-9.]+)V", PI5)}
    by_hand = {n: float(a * volts[n]) for n, a in zip(names, amperes, strict=True)}
    watt = parse_pmic(PI5).watt
    assert watt == pytest.approx(by_hand, rel=1e-12)
    assert len(watt) == 12
    assert "EXT5V" not in watt
    assert round(sum(watt.values()), 2) == 2.95


def test_throttling_now_and_since_boot_are_apart():
    found = parse_throttled("throttled=0x50005\n")
    assert (found.now, found.since_boot) == ((0, 2), (0, 2))
    assert parse_throttled(b"throttled=0x0").now == ()
    assert parse_throttled("throttled=0xe0008").since_boot == (1, 2, 3)


def test_clock_comes_in_si_units():
    assert parse_clock("frequency(45)=600000000\n") == 6e8


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ('error=1 error_msg="Command not registered"', 1),
        (" HDMI_A current(22)=0.02A\nHDMI_V volt(23)=5.0", 2),
        (" HDMI_A current(22)=0.02A\n\nHDMI_A current(22)=0.03A", 3),
        (" HDMI_A volt(22)=0.02A", 1),
        (" HDMI_V volt(22)=٣.02V", 1),
    ],
)
def test_what_is_no_answer_of_the_chip_is_an_error_with_its_line(text, line):
    with pytest.raises(FormatError) as caught:
        parse_pmic(text)
    assert caught.value.line == line


@pytest.mark.parametrize("parse", [parse_throttled, parse_clock, parse_pmic])
def test_an_answer_to_another_question_is_an_error(parse):
    with pytest.raises(FormatError):
        parse("VCHI initialization failed")


@pytest.mark.parametrize("parse", [parse_throttled, parse_clock, parse_pmic])
@settings(max_examples=EXAMPLES)
@given(data=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
@example(data=b"throttled=0x" + b"f" * 5000)
@example(data=b"frequency(45)=" + b"9" * 5000)
def test_any_bytes_give_values_or_a_clear_error(parse, data):
    line = 1
    try:
        parse(data)
    except FormatError as error:
        line = error.line
    assert 1 <= line <= data.count(b"\n") + 1


_CHANGES = st.lists(st.tuples(st.integers(0, len(PI5)), st.text(max_size=3)), max_size=4)


@settings(max_examples=EXAMPLES)
@given(changes=_CHANGES)
def test_a_damaged_answer_gives_no_value_that_does_not_stand_there(changes):
    text = PI5
    for at, instead in changes:
        text = text[:at] + instead + text[at + 1 :]
    try:
        found = parse_pmic(text)
    except FormatError:
        return
    numbers = {float(n) for n in re.findall(r"=(-?[0-9.]+)[AV]", text) if n.count(".") <= 1}
    assert {*found.ampere.values(), *found.volt.values()} <= numbers
