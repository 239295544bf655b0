from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattstep.record.sensors.hwmon import HardwareMonitors
from wattstep.schema.channel import Absent, Present

CHIP = "sys/class/hwmon/hwmon0"


def chip(name, **files):
    return {f"{CHIP}/name": f"{name}\n"} | {
        f"{CHIP}/{file}": f"{text}\n" for file, text in files.items()
    }


def channels(found):
    assert isinstance(found, Present), found
    return {channel.name: channel for read in found.reads for channel in read.channels}


def test_a_recorded_server_gives_its_temperatures_by_chip_and_label(node_exporter, measure):
    values = measure(HardwareMonitors().probe(node_exporter, 1))
    # Two processors of four cores, a card whose two inputs share a label, three radios.
    assert len(values) == 2 * 5 + 2 + 3
    assert values["hwmon.coretemp.0.core_2.temperature"] == pytest.approx(53)
    assert values["hwmon.coretemp.1.physical_id_0.temperature"] == pytest.approx(55)
    assert values["hwmon.hwmon.4.foosensor.temp2.temperature"] == pytest.approx(54)
    assert values["hwmon.mt7996_phy0_1.temp1.temperature"] == pytest.approx(56)


def test_power_is_watts_and_energy_joules(tree, measure):
    files = chip("amdgpu", power1_average=35_000_000, power1_label="PPT", energy1_input=2_500_000)
    found = HardwareMonitors().probe(tree(files), 1)
    assert measure(found) == pytest.approx(
        {"hwmon.amdgpu.ppt.power": 35, "hwmon.amdgpu.energy1.energy": 2.5}
    )
    power, energy = channels(found).values()
    assert (power.kind, power.domain, power.role) == ("gauge", "gpu", "power_part")
    assert (energy.kind, energy.domain, energy.role) == ("counter", "gpu", "energy_part")


def test_the_instant_is_preferred_to_the_average(tree, measure):
    files = chip("amdgpu", power1_average=35_000_000, power1_input=36_000_000)
    assert measure(HardwareMonitors().probe(tree(files), 1)) == pytest.approx(
        {"hwmon.amdgpu.power1.power": 36}
    )


@pytest.mark.parametrize(
    ("name", "label", "role"),
    [
        ("power_meter", None, "power_total"),
        ("corsairpsu", "power total", "power_total"),
        ("corsairpsu", "power +12v", "power_part"),
        ("ina238", "VDD_GPU", "power_part"),
        ("amdgpu", None, "power_part"),
    ],
)
def test_only_a_known_meter_of_the_whole_machine_is_a_total(tree, name, label, role):
    files = chip(name, power1_input=1) | ({f"{CHIP}/power1_label": label} if label else {})
    (channel,) = channels(HardwareMonitors().probe(tree(files), 1)).values()
    assert channel.role == role


def test_an_input_that_fails_is_left_out_and_its_chip_stays(tree, measure):
    root = tree(chip("ina238", temp1_input=41_000, power2_input=2_000_000))
    (root / CHIP / "power1_input").mkdir()  # reads as an error, as an EIO does
    assert measure(HardwareMonitors().probe(root, 1)) == pytest.approx(
        {"hwmon.ina238.temp1.temperature": 41, "hwmon.ina238.power2.power": 2}
    )


def test_an_input_with_nothing_connected_is_left_out(tree, measure):
    root = tree(chip("nct6775", temp1_input=-128_000, temp2_input=-5_000))
    assert measure(HardwareMonitors().probe(root, 1)) == {"hwmon.nct6775.temp2.temperature": -5}


@pytest.mark.parametrize(
    ("driver", "crit", "limit"),
    [
        ("coretemp", 100_000, 100),
        ("coretemp", 0, None),
        ("coretemp", None, None),
        ("nvme", 90_000, None),
    ],
)
def test_a_core_throttles_at_its_highest_junction_temperature(tree, driver, crit, limit):
    files = chip(driver, temp2_input=50_000, temp2_max=82_000)
    files |= {f"{CHIP}/temp2_crit": f"{crit}\n"} if crit is not None else {}
    (channel,) = channels(HardwareMonitors().probe(tree(files), 1)).values()
    assert channel.limit == limit


def test_a_thermal_zone_that_is_shown_as_a_chip_too_is_read_once(tree, measure):
    zone = "sys/class/thermal/thermal_zone0"
    root = tree(
        chip("PMIC_Die", temp1_input=100_000, power1_input=2_000_000)
        | {f"{zone}/type": "PMIC-Die\n", f"{zone}/temp": "100000\n"}
    )
    assert measure(HardwareMonitors().probe(root, 1)) == {"hwmon.pmic_die.power1.power": 2}


@pytest.mark.parametrize(
    ("label", "role"),
    [
        ("Ambient", "ambient_temperature"),
        ("Room Temp", "ambient_temperature"),
        ("Core 0", "temperature"),
        (None, "temperature"),
    ],
)
def test_a_label_tells_the_room_s_temperature(tree, label, role):
    files = chip("nct6775", temp1_input=24_000)
    files |= {f"{CHIP}/temp1_label": label} if label else {}
    (channel,) = channels(HardwareMonitors().probe(tree(files), 1)).values()
    assert channel.role == role


def test_voltages_and_currents_make_no_sensor(tree):
    root = tree(chip("ina3221", in1_input=19_000, curr1_input=120, in1_label="VDD_IN"))
    found = HardwareMonitors().probe(root, 1)
    assert found == Absent(reason="/sys/class/hwmon has no temperature, power or energy")


def test_inputs_come_in_the_order_of_their_numbers(tree):
    root = tree(chip("coretemp", temp2_input=1, temp10_input=1, temp1_input=1))
    names = list(channels(HardwareMonitors().probe(root, 1)))
    assert [name.split(".")[2] for name in names] == ["temp1", "temp2", "temp10"]


def test_an_old_driver_keeps_its_name_with_the_device(tree, measure):
    root = tree({f"{CHIP}/device/name": "coretemp\n", f"{CHIP}/temp1_input": "30000\n"})
    assert set(measure(HardwareMonitors().probe(root, 1))) == {"hwmon.coretemp.temp1.temperature"}


def test_a_virtual_machine_is_told_why(tmp_path):
    found = HardwareMonitors().probe(tmp_path, 1)
    assert found == Absent(
        reason="no /sys/class/hwmon: virtual machines and containers usually hide it"
    )


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["chip", "Chip", "chip-0", ""]),
            st.lists(st.sampled_from(["", "temp1", "Core 0", "core_0", None]), max_size=3),
        ),
        max_size=3,
    )
)
def test_every_input_has_a_name_of_its_own(chips):
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, labels) in enumerate(chips):
            path = Path(folder) / f"sys/class/hwmon/hwmon{number}"
            path.mkdir(parents=True)
            (path / "name").write_text(name)
            for place, label in enumerate(labels):
                (path / f"temp{place}_input").write_text("20000")
                if label is not None:
                    (path / f"temp{place}_label").write_text(label)
        found = HardwareMonitors().probe(Path(folder), 1)
        reads = found.reads if isinstance(found, Present) else ()
        names = {channel.name for read in reads for channel in read.channels}
        assert len(names) == sum(len(labels) for _, labels in chips)
