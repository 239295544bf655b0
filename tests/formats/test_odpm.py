from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wattstep.formats.odpm import RAILS, parse_energy
from wattstep.formats.recording import FormatError

EXAMPLES = 100_000 if settings.default.max_examples > 1000 else 200

# Public: energy_value of the two meters of a Pixel 6, read at different times.
PIXEL6 = """\
t=251741617
CH0(T=251741617)[VSYS_PWR_WLAN_BT], 192612469095
CH1(T=251741617)[L2S_VDD_AOC_RET], 1393792850
CH2(T=251741617)[S9S_VDD_AOC], 16816975638
CH3(T=251741617)[S5S_VDDQ_MEM], 2720913855
CH4(T=251741617)[S10S_VDD2L], 3656592412
CH5(T=251741617)[S4S_VDD2H_MEM], 4597271837
CH6(T=251741617)[S2S_VDD_G3D], 3702041607
CH7(T=251741617)[L9S_GNSS_CORE], 88535064
t=16086645
CH0(T=16086645)[PPVAR_VSYS_PWR_DISP], 611687448
CH1(T=16086645)[VSYS_PWR_MODEM], 179646995
CH2(T=16086645)[VSYS_PWR_RFFE], 0
CH3(T=16086645)[S2M_VDD_CPUCL2], 124265856
CH4(T=16086645)[S3M_VDD_CPUCL1], 170096352
CH5(T=16086645)[S4M_VDD_CPUCL0], 289995530
CH6(T=16086645)[S5M_VDD_INT], 190164699
CH7(T=16086645)[S1M_VDD_MIF], 196512891
"""


def test_every_rail_of_both_meters_comes_out():
    found = parse_energy(PIXEL6)
    lines = re.findall(r"^CH(\d)\(T=(\d+)\)\[(\w+)\], (\d+)$", PIXEL6, re.MULTILINE)
    assert len(lines) == 16
    assert [(str(m.channel), str(m.t_ms), m.name, str(m.energy_uj)) for m in found] == lines
    assert [m.device for m in found] == [0] * 8 + [1] * 8


def test_rails_feed_what_the_table_says_and_others_are_unknown():
    names = {m.name for m in parse_energy(PIXEL6)}
    cpu = {name for name in names if RAILS.get(name, ("unknown", ""))[0] == "cpu"}
    assert cpu == {"S2M_VDD_CPUCL2", "S3M_VDD_CPUCL1", "S4M_VDD_CPUCL0"}
    assert "VSYS_PWR_MODEM" not in RAILS  # nobody has said what hangs on it


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("CH0(T=1)[A], 2", 1),
        ("t=1\nCH0(T=1)[A] 2", 2),
        ("t=1\nCH0(T=1)[A], 2\nCH0(T=1)[B], 3", 3),
        ("t=1\nCH0(T=1)[A], -2", 2),
        ("cat: energy_value: Permission denied", 1),
    ],
)
def test_what_is_no_meter_is_an_error_with_its_line(text, line):
    with pytest.raises(FormatError) as caught:
        parse_energy(text)
    assert caught.value.line == line


@settings(max_examples=EXAMPLES)
@given(data=st.binary(max_size=200), at=st.integers(0, 800), text=st.text(max_size=5))
@example(data=b"t=" + b"9" * 5000, at=0, text="")
def test_any_bytes_give_values_or_a_clear_error(data, at, text):
    lines = [1]
    for given_data in (data, PIXEL6.encode() + data, PIXEL6[:at] + text + PIXEL6[at + 1 :]):
        try:
            found = parse_energy(given_data)
        except FormatError as error:
            lines.append(error.line)
            continue
        assert all(0 <= meter.energy_uj < 10**18 for meter in found)
    assert min(lines) == 1
