from __future__ import annotations

import pytest

from wattstep.record.sensors.battery import Batteries
from wattstep.schema.channel import Absent, Present

FOLDER = "sys/class/power_supply"


def battery(name="BAT0", status="Discharging", **files):
    values = {"type": "Battery", "status": status} | files
    return {f"{FOLDER}/{name}/{file}": f"{text}\n" for file, text in values.items()}


def test_a_recorded_laptop_on_its_battery(node_exporter, measure):
    found = Batteries().probe(node_exporter, 1)
    # 36.58 Wh are 36.58 * 3600 J.
    assert measure(found) == pytest.approx(
        {"battery.bat0.power": 5.002, "battery.bat0.energy": 131_688}
    )


def test_a_battery_behind_a_link_is_found(procfs, measure):
    assert measure(Batteries().probe(procfs, 1))["battery.bat0.power"] == pytest.approx(4.83)


def test_the_power_is_that_of_the_machine_and_says_that_it_discharged(node_exporter):
    found = Batteries().probe(node_exporter, 1)
    assert isinstance(found, Present)
    power = found.reads[0].channels[0]
    assert power.role == "power_total"
    assert power.source == "/sys/class/power_supply/BAT0/power_now, while discharging"


def test_without_power_there_are_current_and_voltage(tree, measure):
    root = tree(battery(current_now=450_000, voltage_now=11_660_000))
    assert measure(Batteries().probe(root, 1)) == pytest.approx(
        {"battery.bat0.current": 0.45, "battery.bat0.voltage": 11.66}
    )


@pytest.mark.parametrize("file", ["power_now", "current_now"])
def test_what_is_drawn_is_positive_whatever_sign_the_driver_gives_it(tree, measure, file):
    values = {"voltage_now": 4_000_000} if file == "current_now" else {}
    root = tree(battery(**values, **{file: -450_000}))
    found = Batteries().probe(root, 1)
    word = file.removesuffix("_now")
    assert measure(found)[f"battery.bat0.{word}"] == pytest.approx(0.45)
    assert isinstance(found, Present)
    assert "negative" in found.reads[0].channels[0].note
    tree(battery(**values, **{file: 450_000}))  # a weak charger: it still says that it gives
    assert measure(found)[f"battery.bat0.{word}"] == pytest.approx(-0.45)


@pytest.mark.parametrize("status", ["Charging", "Full", "Not charging", "Unknown"])
@pytest.mark.parametrize("file", ["power_now", "current_now"])
def test_what_flows_into_a_battery_during_a_run_is_a_gap_and_no_power(tree, measure, file, status):
    """A laptop draws 10 W; then its charger is plugged in, and it is charged with 45 W."""
    held = {"voltage_now": 4_000_000, "energy_now": 1_000_000}
    root = tree(battery(**held, **{file: 10_000_000}))
    found = Batteries().probe(root, 1)
    name = f"battery.bat0.{file.removesuffix('_now')}"
    assert measure(found)[name] == pytest.approx(10)
    tree(battery(status=status, **held, **{file: 45_000_000}))
    on_mains = measure(found)
    assert name not in on_mains
    assert on_mains["battery.bat0.energy"] == pytest.approx(3600)  # what it holds stays known
    tree(battery(**held, **{file: 11_000_000}))
    assert measure(found)[name] == pytest.approx(11)


@pytest.mark.parametrize("status", ["Charging", "Full", "Not charging", "Unknown"])
def test_a_battery_that_rests_or_is_charged_by_another_adds_nothing(tree, measure, status):
    first, second = "battery.bat0.power", "battery.bat1.power"
    root = tree(battery(power_now=9_000_000) | battery("BAT1", status, power_now=1_000_000))
    found = Batteries().probe(root, 1)
    assert isinstance(found, Present)
    assert {c.role for read in found.reads for c in read.channels} == {"power_total"}
    assert measure(found) == pytest.approx({first: 9, second: 0})
    # The first is empty, the second takes over.
    tree(battery(status=status, power_now=2_000_000) | battery("BAT1", power_now=8_000_000))
    assert measure(found) == pytest.approx({first: 0, second: 8})
    # The charger comes.
    tree(battery(status=status, power_now=2_000_000) | battery("BAT1", status, power_now=8_000_000))
    assert measure(found) == {}


def test_a_battery_that_rests_at_first_has_the_sign_of_the_one_that_gives(tree, measure):
    root = tree(battery(power_now=-9_000_000) | battery("BAT1", "Full", power_now=0))
    found = Batteries().probe(root, 1)
    tree(battery(status="Full", power_now=0) | battery("BAT1", power_now=-8_000_000))
    assert measure(found)["battery.bat1.power"] == pytest.approx(8)


def test_a_battery_that_cannot_be_read_is_not_left_out_of_the_sum(tree):
    root = tree(battery(power_now=9_000_000) | battery("BAT1", energy_now=1_000_000))
    found = Batteries().probe(root, 1)
    assert isinstance(found, Present)
    roles = {c.name: c.role for read in found.reads for c in read.channels}
    assert roles["battery.bat1.power"] == "power_total"  # planned; every read of it fails


def test_batteries_that_tell_only_what_is_left_give_that(tree, measure):
    assert measure(Batteries().probe(tree(battery(energy_now=1_000_000)), 1)) == pytest.approx(
        {"battery.bat0.energy": 3600}
    )


def test_a_battery_that_counts_charge_tells_coulombs(tree, measure):
    root = tree(battery(current_now=450_000, voltage_now=11_660_000, charge_now=3_000_000))
    # 3 Ah are 10800 C.
    assert measure(Batteries().probe(root, 1))["battery.bat0.charge"] == pytest.approx(10_800)


@pytest.mark.parametrize("status", ["Charging", "Full", "Not charging", "Unknown"])
def test_on_mains_a_battery_measures_nothing(tree, status):
    found = Batteries().probe(tree(battery(status=status, power_now=15_000_000)), 1)
    assert isinstance(found, Absent)
    assert f"BAT0 says {status}" in found.reason
    assert "unplug" in found.reason


def test_two_batteries_of_which_one_discharges_are_both_read(tree, measure):
    root = tree(battery("BAT0", power_now=9_000_000) | battery("BAT1", "Not charging", power_now=0))
    assert measure(Batteries().probe(root, 1)) == pytest.approx(
        {"battery.bat0.power": 9, "battery.bat1.power": 0}
    )


def test_the_battery_of_a_mouse_and_the_charger_are_not_the_machine_s(tree):
    files = battery("hidpp_battery_0", scope="Device") | {f"{FOLDER}/AC/type": "Mains\n"}
    assert Batteries().probe(tree(files), 1) == Absent(
        reason="no battery in /sys/class/power_supply"
    )
