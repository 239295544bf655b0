from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattstep.records.channel import Absent
from wattstep.sensors.thermal import ThermalZones, find_zones

ZONE = "sys/class/thermal/thermal_zone"


def zone(number, kind, temperature):
    return {f"{ZONE}{number}/type": f"{kind}\n", f"{ZONE}{number}/temp": f"{temperature}\n"}


def test_a_recorded_laptop_and_a_recorded_pi(procfs, measure):
    assert measure(ThermalZones().probe(procfs, 1)) == pytest.approx(
        {"thermal.bcm2835_thermal": 49.925, "thermal.acpitz": -44.0}
    )


def test_a_zone_behind_a_link_is_found(node_exporter, measure):
    assert measure(ThermalZones().probe(node_exporter, 1)) == pytest.approx(
        {"thermal.cpu_thermal": 12.376}
    )


def test_zones_of_one_type_carry_their_numbers(tree, measure):
    root = tree(
        {**zone(0, "acpitz", 30000), **zone(1, "x86_pkg_temp", 50000), **zone(10, "acpitz", 31000)}
    )
    assert measure(ThermalZones().probe(root, 1)) == {
        "thermal.acpitz.0": 30,
        "thermal.x86_pkg_temp": 50,
        "thermal.acpitz.10": 31,
    }


@pytest.mark.parametrize("nothing", [-256000, -274000])
def test_the_kernel_s_sign_for_no_reading_is_no_temperature(tree, measure, nothing):
    root = tree({**zone(0, "gpu", nothing), **zone(1, "cpu", 40000)})
    assert measure(ThermalZones().probe(root, 1)) == {"thermal.cpu": 40}


def test_a_zone_whose_reading_fails_does_not_hide_the_others(tree, measure):
    root = tree({**zone(0, "cpu", 40000), f"{ZONE}1/type": "wifi\n"})
    (root / f"{ZONE}1/temp").mkdir()  # reads as an error
    assert measure(ThermalZones().probe(root, 1)) == {"thermal.cpu": 40}


def test_when_all_zones_fail_their_reasons_are_told(tree):
    found = ThermalZones().probe(tree(zone(0, "gpu", -256000)), 1)
    assert isinstance(found, Absent)
    assert "-256000" in found.reason


def test_a_virtual_machine_is_told_why(tmp_path):
    found = ThermalZones().probe(tmp_path, 1)
    assert isinstance(found, Absent)
    assert "virtual machines" in found.reason


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["cpu", "CPU", "cpu-0", "cpu.0", "", "gpu"]), max_size=5))
def test_every_zone_has_a_name_of_its_own(types):
    with tempfile.TemporaryDirectory() as folder:
        for number, kind in enumerate(types):
            path = Path(folder) / f"{ZONE}{number}"
            path.mkdir(parents=True)
            (path / "type").write_text(kind)
        assert len(find_zones(Path(folder))) == len(types)
