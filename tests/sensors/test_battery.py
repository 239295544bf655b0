from __future__ import annotations

import pytest

from wattstep.records.channel import Absent, Present
from wattstep.sensors.battery import Batteries

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


def test_a_negative_current_keeps_its_sign(tree, measure):
    root = tree(battery(current_now=-450_000, voltage_now=4_000_000))
    assert measure(Batteries().probe(root, 1))["battery.bat0.current"] == pytest.approx(-0.45)


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
