from __future__ import annotations

import math
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wattstep.formats.dumpsys import parse_battery, parse_thermal
from wattstep.formats.recording import FormatError

EXAMPLES = 100_000 if settings.default.max_examples > 1000 else 200

# Lines that are public: a phone on USB, one that counts charge in a unit of its own, and a Samsung
# (zebrunner/mcloud-device#150, vendor's lines shortened), with a history like newer ones append.
HEAD = "Current Battery Service state:\n"
POWERED = "  AC powered: false\n  USB powered: true\n  Wireless powered: false\n"
CHARGING = (
    HEAD + POWERED + "  Max charging current: 500000\n  Max charging voltage: 5000000\n"
    "  Charge counter: 1880000\n  status: 2\n  health: 2\n  present: true\n  level: 47\n"
    "  scale: 100\n  voltage: 3874\n  temperature: 323\n  technology: Li-ion\n"
)
ODD_UNIT = (
    HEAD + POWERED + "  Max charging current: 500000\n  Max charging voltage: 4925000\n"
    "  Charge counter: 139\n  status: 2\n  health: 2\n  present: true\n  level: 73\n"
    "  scale: 100\n  voltage: 4058\n  temperature: 300\n  technology: Li-poly\n"
)
SAMSUNG = (
    HEAD + POWERED + "  Max charging current: 0\n  Max charging voltage: 0\n"
    "  Charge counter: 2967000\n  status: 5\n  health: 2\n  present: true\n  level: 100\n"
    "  scale: 100\n  voltage: 4312\n  temperature: 309\n  technology: Li-ion\n"
    "  batterySWSelfDischarging: false\n  batteryMiscEvent: 65536\n  batteryCurrentEvent: 0\n"
    "  mSecPlugTypeSummary: 2\n  LED Charging: true\n  LED Low Battery: true\n"
    "  current now: 0\n  charge counter: 2967000\n  Adaptive Fast Charging Settings: true\n"
    "  USE_FAKE_BATTERY: false\n  mSavedBatteryAsoc: 96\n"
)
HISTORY = (
    "\nBattInfo:\n  08-01 Sending ACTION_BATTERY_CHANGED: level:79, status:3, temperature:111\n"
    "  status: 3\n  temperature: 111\n"
)
# An NVIDIA Shield TV of 2019 (bryanroscoe/shield_optimizer#6); the rest of that dump is cut off.
SHIELD = """\
IsStatusOverride: false
ThermalEventListeners:
        callbacks: 1
        killed: false
        broadcasts count: -1
Thermal Status: 0
Cached temperatures:
        Temperature{mValue=36.0, mType=1, mName=GPU, mStatus=0}
        Temperature{mValue=37.0, mType=0, mName=CPU0, mStatus=0}
        Temperature{mValue=37.0, mType=0, mName=CPU1, mStatus=0}
        Temperature{mValue=37.0, mType=0, mName=CPU2, mStatus=0}
        Temperature{mValue=37.0, mType=0, mName=CPU3, mStatus=0}
HAL Ready: true
"""
LIVE = """\
HAL connection:
	Sdhms connected: yes
Current temperatures from HAL:
	Temperature{mValue=66.5, mType=0, mName=CPU0, mStatus=0}
	Temperature{mValue=41.2, mType=3, mName=VIRTUAL SKIN, back, mStatus=2}
	Temperature{mValue=0.0, mType=4, mName=usbport, mStatus=0}
	Temperature{mValue=-99.9, mType=5, mName=PA, mStatus=0}
	Temperature{mValue=NaN, mType=10, mName=TPU, mStatus=0}
Current cooling devices from HAL:
	CoolingDevice{mValue=11, mType=2, mName=thermal-cpufreq-7}
	CoolingDevice{mValue=0, mType=3, mName=thermal-devfreq-0}
Temperature static thresholds from HAL:
"""
NEW = """\
	TemperatureThreshold{mType=3, mName=VIRTUAL SKIN, back, mHotThrottlingThresholds=[NaN, 39.0, 43.0, 45.0, 46.5, 52.0, 55.0], mColdThrottlingThresholds=[NaN, NaN, NaN, NaN, NaN, NaN, NaN]}
	TemperatureThreshold{mType=0, mName=CPU0, mHotThrottlingThresholds=[25.0, NaN, NaN, 95.0, NaN, NaN, 115.0], mColdThrottlingThresholds=[NaN]}
"""
OLD = """\
	{.type = SKIN, .name = VIRTUAL SKIN, back, .hotThrottlingThresholds = [NaN, 39.0, 43.0, 45.0, 46.5, 52.0, 55.0], .coldThrottlingThresholds = [NaN, NaN, NaN, NaN, NaN, NaN, NaN], .vrThrottlingThreshold = NaN}
	{.type = CPU, .name = CPU0, .hotThrottlingThresholds = [25.0, NaN, NaN, 95.0, NaN, NaN, 115.0], .coldThrottlingThresholds = [NaN], .vrThrottlingThreshold = NaN}
"""


@pytest.mark.parametrize("text", [CHARGING, ODD_UNIT, SAMSUNG])
def test_every_line_of_a_battery_comes_out(text):
    lines = [line for line in text.splitlines() if ": " in line]
    found = parse_battery(text)
    assert len(found.fields) == len(lines)
    assert [f"  {key}: {value}" for key, value in found.fields.items()] == lines


def test_a_battery_in_si_units():
    found = parse_battery(CHARGING.encode())
    assert found.volt == pytest.approx(3.874)
    assert found.celsius == pytest.approx(32.3)
    assert found.level == pytest.approx(0.47)
    assert (found.status, found.powered_by) == ("charging", ("USB",))
    assert parse_battery(SAMSUNG).status == "full"


def test_a_history_below_the_first_block_is_not_the_present():
    found = parse_battery(SAMSUNG + HISTORY)
    assert (found.status, found.celsius) == ("full", 30.9)


def test_zeros_of_old_builds_are_no_values():
    old = HEAD + POWERED + "  status: 1\n  voltage: 0\n  temperature: 0\n"
    found = parse_battery(old)
    assert (found.volt, found.celsius, found.level, found.status) == (None, None, None, "unknown")


def test_values_set_by_hand_are_told():
    text = CHARGING.replace(HEAD, HEAD + "  (UPDATES STOPPED -- use 'reset' to restart)\n")
    assert parse_battery(text).stopped
    assert not parse_battery(CHARGING).stopped


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("Can't find service: battery", 1),
        (CHARGING.replace("3874", "3.8 V"), 13),
        (CHARGING.replace("status: 2", "status:"), 8),
        (HEAD, 1),
    ],
)
def test_what_is_no_battery_is_an_error_with_its_line(text, line):
    with pytest.raises(FormatError) as caught:
        parse_battery(text)
    assert caught.value.line == line


def test_temperatures_of_the_cache_are_none_of_now():
    found = parse_thermal(SHIELD)
    assert len(found.cached) == SHIELD.count("Temperature{") == 5
    assert [t.celsius for t in found.cached] == [36.0, 37.0, 37.0, 37.0, 37.0]
    assert found.current == ()
    assert (found.severity, found.ready, found.overridden) == (0, True, False)
    assert parse_thermal(SHIELD + LIVE).current[0].celsius == 66.5


def test_signs_for_no_reading_are_no_temperatures_and_names_keep_blanks_and_commas():
    found = parse_thermal(SHIELD + LIVE)
    names = [t.name for t in found.current]
    assert names == ["CPU0", "VIRTUAL SKIN, back", "usbport", "PA", "TPU"]
    assert [math.isnan(t.celsius) for t in found.current] == [False, False, True, True, True]
    assert [t.severity for t in found.current] == [0, 2, 0, 0, 0]
    assert found.cooling == {"thermal-cpufreq-7": 11, "thermal-devfreq-0": 0}


@pytest.mark.parametrize("thresholds", [NEW, OLD])
def test_both_ways_to_write_thresholds_say_where_throttling_begins(thresholds):
    skin, cpu = parse_thermal(SHIELD + LIVE + thresholds).thresholds
    assert (skin.name, skin.kind, skin.throttling) == ("VIRTUAL SKIN, back", 3, 39.0)
    assert (cpu.kind, cpu.throttling) == (0, 95.0)  # 25.0 is of the severity "none"
    assert len(skin.hot) == 7


def test_a_status_set_by_hand_is_told_and_a_missing_hal_too():
    text = SHIELD.replace("Override: false", "Override: true").replace("y: true", "y: false")
    found = parse_thermal(text)
    assert (found.overridden, found.ready) == (True, False)


def test_a_temperature_that_cannot_be_read_is_an_error_with_its_line():
    broken = SHIELD.replace("mValue=36.0", "mValue=36,0")
    with pytest.raises(FormatError) as caught:
        parse_thermal(broken)
    assert caught.value.line == 8
    with pytest.raises(FormatError):
        parse_thermal("Can't find service: thermalservice")


_CHANGES = st.lists(st.tuples(st.integers(0, 3000), st.text(max_size=4)), max_size=6)


def _changed(text: str, changes: list[tuple[int, str]]) -> str:
    for at, instead in changes:
        text = text[:at] + instead + text[at + 1 :]
    return text


@pytest.mark.parametrize(("parse", "text"), [(parse_battery, SAMSUNG), (parse_thermal, SHIELD)])
@settings(max_examples=EXAMPLES)
@given(data=st.binary(max_size=300), changes=_CHANGES)
@example(data=b"  level: " + b"9" * 5000, changes=[(0, HEAD)])
def test_any_bytes_give_values_or_a_clear_error(parse, text, data, changes):
    lines = [1]
    for given_text in (data, _changed(text + LIVE + NEW, changes), text.encode() + data):
        try:
            found = parse(given_text)
        except FormatError as error:
            lines.append(error.line)
            continue
        if parse is parse_battery:
            assert found.volt is None or math.isfinite(found.volt)
            assert found.level is None or 0 <= found.level <= 1
    assert min(lines) == 1


@settings(max_examples=EXAMPLES)
@given(changes=_CHANGES)
def test_a_damaged_dump_gives_no_temperature_that_does_not_stand_there(changes):
    text = _changed(SHIELD + LIVE + NEW, changes)
    try:
        found = parse_thermal(text)
    except FormatError:
        return
    numbers = re.findall(r"mValue=(-?[0-9.]+(?:E-?[0-9])?)", text)
    known = {float(n) for n in numbers if n.count(".") <= 1 and n not in (".", "-")}
    got = {t.celsius for t in (*found.current, *found.cached) if math.isfinite(t.celsius)}
    assert got <= known
