from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattstep.boards import identify
from wattstep.boards.table import Zone
from wattstep.record.sensors.thermal import ThermalZones, find_zones, throttle_limit, zone_read
from wattstep.schema.channel import Absent, Present

ZONE = "sys/class/thermal/thermal_zone"


def zone(number, kind, temperature):
    return {f"{ZONE}{number}/type": f"{kind}\n", f"{ZONE}{number}/temp": f"{temperature}\n"}


def channels(found):
    assert isinstance(found, Present), found
    return [channel for read in found.reads for channel in read.channels]


def names(found):
    return [channel.name for channel in channels(found)]


def roles(found):
    return {channel.name: channel.role for channel in channels(found)}


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


def test_the_kernel_s_sign_for_no_reading_is_no_temperature(tree, measure):
    root = tree({**zone(0, "gpu", -274000), **zone(1, "cpu", 40000)})
    assert names(ThermalZones().probe(root, 1)) == ["thermal.cpu"]


def test_a_zone_that_is_powered_down_has_gaps_until_its_unit_is_on(tree, measure):
    root = tree({**zone(0, "GPU-therm", -256000), **zone(1, "cpu", 40000)})
    found = ThermalZones().probe(root, 1)
    assert names(found) == ["thermal.gpu_therm", "thermal.cpu"]
    assert measure(found) == {"thermal.cpu": 40}
    tree(zone(0, "GPU-therm", 38500))
    assert measure(found) == {"thermal.gpu_therm": 38.5, "thermal.cpu": 40}


def test_a_zone_whose_read_fails_for_now_is_planned(tree):
    root = tree({f"{ZONE}0/type": "GPU-therm\n", **zone(1, "cpu", 40000)})
    # The first bytes of a process's memory cannot be read: a real EIO.
    (root / f"{ZONE}0/temp").symlink_to("/proc/self/mem")
    assert names(ThermalZones().probe(root, 1)) == ["thermal.gpu_therm", "thermal.cpu"]


def test_a_zone_whose_reading_fails_does_not_hide_the_others(tree, measure):
    root = tree({**zone(0, "cpu", 40000), f"{ZONE}1/type": "wifi\n"})
    (root / f"{ZONE}1/temp").mkdir()  # reads as an error
    assert measure(ThermalZones().probe(root, 1)) == {"thermal.cpu": 40}


def test_when_all_zones_fail_their_reasons_are_told(tree):
    found = ThermalZones().probe(tree(zone(0, "gpu", -274000)), 1)
    assert isinstance(found, Absent)
    assert "-274000" in found.reason


def test_a_zone_that_may_not_be_read_says_so(open_folder, unprivileged):
    for number, name in enumerate(("cpu", "gpu")):
        path = open_folder / f"{ZONE}{number}/temp"
        path.parent.mkdir(parents=True)
        path.with_name("type").write_text(name)
        path.write_text("40000\n")
    (open_folder / f"{ZONE}1/temp").chmod(0)
    with unprivileged():
        found = ThermalZones().probe(open_folder, 1)
        assert names(found) == ["thermal.cpu"]
        refused = zone_read(open_folder, "gpu", open_folder / f"{ZONE}1", None)
    assert isinstance(refused, Absent)
    assert "permission denied" in refused.reason


# What lm-sensors showed of a TX2 (boards.md 2.5), with the two zones that mean nothing by
# themselves; the trip of the GPU at -40 °C is the board's own.
TX2 = {
    "proc/device-tree/compatible": "nvidia,p2597-0000+p3310-1000\0nvidia,tegra186\0",
    **zone(0, "BCPU-therm", 20500),
    **zone(1, "GPU-therm", 19000),
    **zone(2, "PMIC-Die", 100000),
    **zone(3, "thermal-fan-est", 19600),
    f"{ZONE}1/trip_point_0_type": "passive\n",
    f"{ZONE}1/trip_point_0_temp": "-40000\n",
}


def test_the_board_s_table_says_what_a_zone_is(tree, measure):
    found = ThermalZones().probe(tree(TX2), 1)
    assert roles(found) == {
        "thermal.bcpu_therm": "temperature",
        "thermal.gpu_therm": "temperature",
        "thermal.thermal_fan_est": "temperature_aggregate",
    }
    assert measure(found)["thermal.bcpu_therm"] == 20.5


def test_a_constant_is_left_out_with_its_reason(tree):
    root = tree(TX2)
    left_out = zone_read(root, "pmic_die", root / f"{ZONE}2", identify(root))
    assert isinstance(left_out, Absent)
    assert "constant" in left_out.reason


def test_without_a_table_a_jetson_s_aggregates_are_known_by_name(tree):
    root = tree({**zone(0, "tj-thermal", 55100), **zone(1, "PMIC-Die", 50000)})
    assert roles(ThermalZones().probe(root, 1)) == {"thermal.tj_thermal": "temperature_aggregate"}


def trips(number, *points):
    return {
        f"{ZONE}{number}/trip_point_{place}_{what}": f"{value}\n"
        for place, (kind, degrees) in enumerate(points)
        for what, value in (("type", kind), ("temp", degrees))
    }


@pytest.mark.parametrize(
    ("points", "limit"),
    [
        ([("active", 60000), ("passive", 99000), ("critical", 104500)], 99),
        ([("hot", 101000), ("passive", 97500)], 97.5),
        ([("passive", -40000), ("hot", 95000)], 95),
        ([("passive", 0), ("passive", 250000)], None),
        ([("critical", 104500), ("active", 40000)], None),
        ([], None),
    ],
)
def test_throttling_begins_at_the_lowest_trip_point_that_slows_down(tree, points, limit):
    found = ThermalZones().probe(tree({**zone(0, "cpu", 40000), **trips(0, *points)}), 1)
    assert [channel.limit for channel in channels(found)] == [limit]


def test_the_table_s_limit_comes_before_the_trip_points(tree):
    root = tree({**zone(0, "cpu", 1), **trips(0, ("passive", 90000))})
    known = Zone(type="cpu", throttle_c=97.0)
    assert throttle_limit(root / f"{ZONE}0", known) == 97


def test_the_room_s_temperature_is_told_from_the_board_s(tree):
    root = tree({**zone(0, "Intake Air", 24000), **zone(1, "acpitz", 30000)})
    assert roles(ThermalZones().probe(root, 1)) == {
        "thermal.intake_air": "ambient_temperature",
        "thermal.acpitz": "temperature",
    }


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
