from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wording import assert_says

from wattstep import boards
from wattstep.record.sampling import child
from wattstep.record.sensors import probe_all
from wattstep.record.sensors.hwmon import HardwareMonitors
from wattstep.record.sensors.ina3221 import PowerRails
from wattstep.schema.channel import Absent, Present

TX2_IN = "sys/devices/3160000.i2c/i2c-0/0-0041/iio:device1/in_power0_input"


def channels(found):
    assert isinstance(found, Present), found
    return {channel.name: channel for read in found.reads for channel in read.channels}


def roles(found):
    return {name: channel.role for name, channel in channels(found).items()}


def total(found, values):
    return sum(values[name] for name, role in roles(found).items() if role == "power_total")


def hwmon(folder, rails, **files):
    """A chip of Linux' driver; each rail is label, mV, mA."""
    tree = {f"{folder}/name": "ina3221\n"}
    for number, (label, millivolts, milliamperes) in enumerate(rails, 1):
        tree[f"{folder}/in{number}_label"] = f"{label}\n"
        tree[f"{folder}/in{number}_input"] = f"{millivolts}\n"
        tree[f"{folder}/curr{number}_input"] = f"{milliamperes}\n"
    return tree | {f"{folder}/{name}": f"{text}\n" for name, text in files.items()}


def a_board(compatible):
    return {boards.COMPATIBLE: f"{compatible}\0"}


ORIN_NX = a_board("nvidia,p3768-0000+p3767-0000")


# --- totals ------------------------------------------------------------------------------------


# Worked out by hand from the numbers in tests/fixtures/boards.
@pytest.mark.parametrize(
    ("name", "rails", "watts"),
    [
        ("jetson-tx1", 9, 3.217),  # VDD_IN; not VDD_MUX, which is the carrier's
        ("jetson-tx2", 12, 3.140),  # VDD_IN, which contains the five others of the module
        ("jetson-tx2-nx", 3, 1.996),
        ("jetson-nano", 3, 1.388),
        ("jetson-xavier-nx", 3, 5.48),  # 5 V x 1.096 A
        # No input rail: 0.463 + 1.236 + 2.318 + 0 + 0.154 + 2.934.
        ("jetson-agx-xavier", 6, 7.105),
        ("jetson-orin-nano", 3, 12.457984),  # 4.928 V x 2.528 A
        ("jetson-orin-nx", 3, 5.52),  # 5 V x 1.104 A
        ("jetson-orin-nx-8gb", 3, 5.52),
        # 19.968 x 0.26 + 19.968 x 0.1 + 5.024 x 0.86, without 5.024 x 0.08 that the last contains.
        ("jetson-agx-orin", 4, 11.50912),
        ("jetson-agx-thor", 4, 23.0),
    ],
)
def test_the_total_of_each_board_is_that_of_its_rails(name, rails, watts, board_tree, measure):
    found = PowerRails().probe(board_tree(name), 1)
    values = measure(found)
    assert len(values) == rails
    assert total(found, values) == pytest.approx(watts, rel=1e-12)


@pytest.mark.parametrize(
    "name", ["jetson-nano-2gb", "raspberry-pi-3", "raspberry-pi-3b-plus", "raspberry-pi-4"]
)
def test_a_board_without_a_monitor_is_told_that_it_has_none(name, board_tree):
    found = PowerRails().probe(board_tree(name), 1)
    assert isinstance(found, Absent)
    assert boards.find(name).title in found.reason
    assert "only a meter" in found.reason


def test_every_board_that_has_a_total_of_rails_gives_it(board_tree):
    for name in boards.names():
        found = PowerRails().probe(board_tree(name), 1)
        board = boards.find(name)
        files = any(rail.chip != "pmic" for rail in board.rails)  # that one by vcgencmd
        if board.total and files:
            assert "power_total" in roles(found).values(), name
        else:
            assert isinstance(found, Absent), name


def test_rails_of_the_carrier_are_outside(board_tree):
    found = PowerRails().probe(board_tree("jetson-tx2"), 1)
    outside = {name for name, role in roles(found).items() if role == "power_outside"}
    assert outside == {
        "rail.vdd_mux", "rail.vdd_5v0_io_sys", "rail.vdd_3v3_sys",
        "rail.vdd_3v3_io_slp", "rail.vdd_1v8_io", "rail.vdd_3v3_sys_m2",
    }  # fmt: skip


def test_the_fourth_rail_of_an_agx_orin_is_never_in_the_total(board_tree, measure):
    found = PowerRails().probe(board_tree("jetson-agx-orin"), 1)
    rail = channels(found)["rail.vddq_vdd2_1v8ao"]
    assert rail.role == "power_part"
    assert "VIN_SYS_5V0" in rail.note
    assert "8 W" in channels(found)["rail.vdd_cpu_cv"].note  # what the total leaves out


def test_a_combined_rail_says_that_it_cannot_be_taken_apart(board_tree):
    rail = channels(PowerRails().probe(board_tree("jetson-orin-nx"), 1))["rail.vdd_cpu_gpu_cv"]
    assert (rail.domain, rail.unit, rail.kind) == ("soc", "W", "gauge")
    assert_says(rail.note, "cpu", "gpu", "cv")


# --- layouts -----------------------------------------------------------------------------------


def test_a_chip_behind_several_links_is_read_once(board_tree, measure):
    root = board_tree("jetson-tx2")
    assert len(list(root.glob("sys/bus/iio/devices/*"))) == 4
    assert len(list(root.glob("sys/bus/i2c/drivers/ina3221x/*"))) == 4
    assert len(list(root.glob("sys/devices/3160000.i2c/i2c-0/*/iio_device"))) == 4
    assert len(measure(PowerRails().probe(root, 1))) == 12


@pytest.mark.parametrize("kept", ["sys/bus/i2c", "sys/bus/iio", None])
def test_each_way_to_a_chip_of_the_old_driver_is_enough(board_tree, measure, kept):
    root = board_tree("jetson-tx2")
    for way in ("sys/bus/i2c", "sys/bus/iio"):
        if way != kept:
            shutil.rmtree(root / way)
    assert measure(PowerRails().probe(root, 1))["rail.vdd_in"] == pytest.approx(3.14)


def test_a_folder_named_iio_device_is_enough(tree, measure):
    chip = "sys/devices/3160000.i2c/i2c-0/0-0041/iio_device"
    root = tree({f"{chip}/rail_name_0": "VDD_IN\n", f"{chip}/in_power0_input": "3140\n"})
    assert measure(PowerRails().probe(root, 1)) == pytest.approx({"rail.vdd_in": 3.14})


@pytest.mark.parametrize("kept", ["sys/bus", "sys/class"])
def test_each_way_to_a_chip_of_linux_driver_is_enough(board_tree, measure, kept):
    root = board_tree("jetson-agx-orin")
    for way in ("sys/bus", "sys/class"):
        if way != kept:
            shutil.rmtree(root / way)
    assert len(measure(PowerRails().probe(root, 1))) == 4


def test_copies_of_one_device_without_links_are_read_once(tree, measure):
    rails = [("VDD_IN", 5000, 1000)]
    files = hwmon("sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon3", rails)
    root = tree(files | hwmon("sys/class/hwmon/hwmon3", rails))
    assert measure(PowerRails().probe(root, 1)) == {"rail.vdd_in": 5.0}


@pytest.mark.parametrize(("bus", "device"), [(1, 0), (7, 3), (30, 11)])
def test_buses_and_devices_are_numbered_as_the_release_likes(tree, measure, bus, device):
    folder = f"sys/bus/i2c/drivers/ina3221/{bus}-0040/hwmon/hwmon{device}"
    found = PowerRails().probe(tree(ORIN_NX | hwmon(folder, [("VDD_IN", 5000, 1000)])), 1)
    assert measure(found) == {"rail.vdd_in": 5.0}
    assert roles(found) == {"rail.vdd_in": "power_total"}


def test_rails_on_other_channels_than_usual_are_known_by_their_labels(tree, measure):
    rails = [("VDD_SOC", 5000, 200), ("VDD_IN", 5000, 1000), ("VDD_CPU_GPU_CV", 5000, 400)]
    found = PowerRails().probe(tree(ORIN_NX | hwmon("sys/class/hwmon/hwmon0", rails)), 1)
    assert total(found, measure(found)) == 5.0


def test_chips_behind_one_multiplexer_are_two(tree, measure):
    place = "sys/bus/i2c/drivers/ina3221"
    behind = "sys/devices/platform/i2c-1/1-0070"
    files = hwmon(f"{behind}/i2c-30/30-0040/hwmon/hwmon1", [("VDD_IN", 5000, 1000)])
    root = tree(files | hwmon(f"{behind}/i2c-31/31-0040/hwmon/hwmon2", [("VDD_SOC", 5000, 100)]))
    (root / place).mkdir(parents=True)
    for bus in (30, 31):
        (root / place / f"{bus}-0040").symlink_to(root / behind / f"i2c-{bus}/{bus}-0040")
    assert set(measure(PowerRails().probe(root, 1))) == {"rail.vdd_in", "rail.vdd_soc"}


def test_the_old_driver_s_own_power_is_read_and_else_made_of_voltage_and_current(tree, measure):
    chip = "sys/bus/i2c/drivers/ina3221x/0-0040/iio:device0"
    files = {
        f"{chip}/rail_name_0": "VDD_IN\n",
        f"{chip}/in_voltage0_input": "19152\n",
        f"{chip}/in_current0_input": "164\n",
    }
    root = tree(files)
    assert measure(PowerRails().probe(root, 1))["rail.vdd_in"] == pytest.approx(3.140928)
    (root / chip / "in_power0_input").write_text("3140\n")
    assert measure(PowerRails().probe(root, 1))["rail.vdd_in"] == pytest.approx(3.14)


# --- what is no rail, what nobody knows ----------------------------------------------------------


def test_unconnected_and_disabled_channels_and_sums_are_no_rails(tree, measure):
    rails = [("NC", 0, 0), ("VDD_IN", 5000, 1000), ("VDD_SOC", 5000, 100)]
    files = hwmon(
        "sys/class/hwmon/hwmon0", rails, in3_enable=0, in2_enable=1,
        in7_label="sum of shunt voltages", in7_input=5500, curr4_input=1100,
    )  # fmt: skip
    assert measure(PowerRails().probe(tree(files), 1)) == {"rail.vdd_in": 5.0}


def test_a_rail_that_nobody_has_seen_is_shown_as_unknown(tree, measure):
    rails = [("VDD_IN", 5000, 1000), ("VDD_DRAGON", 5000, 100)]
    found = PowerRails().probe(tree(ORIN_NX | hwmon("sys/class/hwmon/hwmon0", rails)), 1)
    rail = channels(found)["rail.vdd_dragon"]
    assert (rail.domain, rail.role) == ("unknown", "power_part")
    assert "jetson-orin-nx" in rail.note
    assert total(found, measure(found)) == 5.0


def test_on_an_unknown_board_no_rail_is_taken_for_the_total(tree):
    found = PowerRails().probe(tree(hwmon("sys/class/hwmon/hwmon0", [("VDD_IN", 5000, 1)])), 1)
    (rail,) = channels(found).values()
    assert (rail.domain, rail.role) == ("unknown", "power_part")
    assert "no table" in rail.note


def test_inputs_without_a_label_and_with_one_label_have_names_of_their_own(tree):
    files = hwmon("sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon1", [("VDD", 5000, 1)] * 2)
    second = hwmon("sys/bus/i2c/drivers/ina3221/1-0041/hwmon/hwmon2", [("", 5000, 1)])
    del second["sys/bus/i2c/drivers/ina3221/1-0041/hwmon/hwmon2/in1_label"]
    found = PowerRails().probe(tree(files | second), 1)
    assert set(channels(found)) == {"rail.vdd.1", "rail.vdd.2", "rail.1_0041_channel_1"}


def test_a_machine_without_a_monitor_is_told_what_has_one(tmp_path):
    found = PowerRails().probe(tmp_path, 1)
    assert isinstance(found, Absent)
    assert "Jetson" in found.reason


def test_negative_power_stays_negative(board_tree, measure):
    # An idle Thor says -392 mW: 19.6 V x -20 mA.
    values = measure(PowerRails().probe(board_tree("jetson-agx-thor"), 1))
    assert values["rail.vdd_gpu"] == pytest.approx(-0.392)


def test_the_monitor_of_a_thor_s_input_is_left_to_the_rails_and_its_temperature_is_not(
    board_tree, measure
):
    root = board_tree("jetson-agx-thor")
    assert measure(HardwareMonitors().probe(root, 1)) == {"hwmon.ina238.temp1.temperature": 38}
    (root / boards.COMPATIBLE).unlink()
    (root / boards.MODEL).unlink()
    assert "hwmon.ina238.power1.power" in measure(HardwareMonitors().probe(root, 1))
    assert "rail.vin" not in measure(PowerRails().probe(root, 1))


# --- faults ------------------------------------------------------------------------------------


def break_file(path):
    """Reading it fails with EIO, as of a chip that does not answer."""
    path.unlink()
    path.symlink_to("/proc/self/mem")


def test_a_channel_that_cannot_be_read_is_a_gap_and_nothing_else(board_tree):
    # As on an AGX Orin: the second chip shows its label, its values are errors (alumet#212).
    root = board_tree("jetson-agx-orin")
    break_file(root / "sys/class/hwmon/hwmon4/in2_input")
    found = PowerRails().probe(root, 1)
    assert roles(found)["rail.vdd_gpu_soc"] == "power_total"
    results = {}
    for read in found.reads:
        try:
            results[read.channels[0].name] = one_read(read)
        except OSError as error:
            results[read.channels[0].name] = error.strerror
    assert results == {
        "rail.vdd_gpu_soc": 19968 * 260,
        "rail.vdd_cpu_cv": 19968 * 100,
        "rail.vin_sys_5v0": 5024 * 860,
        "rail.vddq_vdd2_1v8ao": "Input/output error",
    }


def one_read(read):
    """What the sampler's child reads; raises what it would make a gap of."""
    entry = {"path": read.path, "parser": read.parser, "arguments": list(read.arguments)}
    fds = []
    try:
        return child.open_read(entry | {"excluded": []}, [], fds)()[0]
    finally:
        for fd in fds:
            os.close(fd)


def test_the_sampler_keeps_the_failed_reads_of_a_rail_with_their_error(board_tree, tmp_path):
    root = board_tree("jetson-agx-orin")
    current = root / "sys/class/hwmon/hwmon3/curr1_input"
    read = PowerRails().probe(root, 1).reads[0]
    entry = {
        "path": read.path, "parser": read.parser, "arguments": list(read.arguments),
        "every": 1, "width": 1, "excluded": [], "slow": 0,
    }  # fmt: skip
    sampled = child.Read(0, entry, [], str(tmp_path))
    sampled.take(1, 100)
    current.write_text("-20\n")  # the file stays open: no new open is needed
    sampled.take(2, 100)
    current.write_text("")
    sampled.take(3, 100)
    for fd in [*sampled.fds, sampled.journal.fd]:
        os.close(fd)
    rows = [struct.unpack("<3q", row) for row in sampled.journal.rows]
    assert [row[1:] for row in rows[:2]] == [(0, 19968 * 260), (0, 19968 * -20)]
    assert rows[2][1] != 0
    assert rows[2][2] == child.MISSING


def test_a_rail_that_fails_while_it_is_looked_for_stays_in_the_total(board_tree):
    """An EAGAIN at the wrong moment must not cost the total of the whole run."""
    root = board_tree("jetson-agx-xavier")
    break_file(root / "sys/bus/i2c/drivers/ina3221x/1-0041/iio:device1/in_power1_input")
    found = PowerRails().probe(root, 1)
    assert set(roles(found).values()) == {"power_total"}
    assert len(roles(found)) == 6
    tx2 = board_tree("jetson-tx2")
    break_file(tx2 / TX2_IN)
    assert roles(PowerRails().probe(tx2, 1))["rail.vdd_in"] == "power_total"


def test_a_total_with_a_rail_that_is_not_there_is_no_total(board_tree):
    root = board_tree("jetson-agx-xavier")
    folder = root / "sys/bus/i2c/drivers/ina3221x/1-0041/iio:device1"
    (folder / "rail_name_1").write_text("NC\n")
    found = PowerRails().probe(root, 1)
    assert set(roles(found).values()) == {"power_part"}
    assert "needs VDDRQ" in channels(found)["rail.gpu"].note


def test_a_failing_part_leaves_an_input_rail_the_total(board_tree, measure):
    root = board_tree("jetson-tx2")
    part = root / "sys/devices/3160000.i2c/i2c-0/0-0041/iio:device1/in_power2_input"
    break_file(part)
    found = PowerRails().probe(root, 1)
    assert roles(found)["rail.vdd_in"] == "power_total"
    assert "rail.vdd_sys_ddr" in roles(found)  # planned: it may come back


def test_a_rail_that_comes_back_is_read(board_tree):
    root = board_tree("jetson-tx2")
    break_file(root / TX2_IN)
    found = PowerRails().probe(root, 1)
    read = next(read for read in found.reads if read.channels[0].name == "rail.vdd_in")
    with pytest.raises(OSError, match="Input/output"):
        one_read(read)
    (root / TX2_IN).unlink()
    (root / TX2_IN).write_text("3140\n")
    assert one_read(read) == 3140


def test_a_folder_in_place_of_a_file_is_a_gap_too(board_tree):
    root = board_tree("jetson-tx2")
    (root / TX2_IN).unlink()
    (root / TX2_IN).mkdir()
    assert "rail.vdd_in" in roles(PowerRails().probe(root, 1))


def test_a_rail_that_this_user_may_not_read_is_told_with_the_others(
    tree, open_folder, unprivileged
):
    files = hwmon(
        "sys/class/hwmon/hwmon0", [("VDD_IN", 5000, 1000), ("VDD_SOC", 5000, 100)], in1_enable=1
    )
    for name, text in (ORIN_NX | files).items():
        path = open_folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (open_folder / "sys/class/hwmon/hwmon0/curr2_input").chmod(0)
    with unprivileged():
        found = PowerRails().probe(open_folder, 1)
    (rail,) = channels(found).values()
    assert rail.role == "power_total"
    assert "VDD_SOC: permission denied" in rail.note


@pytest.mark.parametrize("text", ["", "no number\n", "12 mW\n"])
def test_a_file_that_holds_no_number_is_a_gap_and_no_zero(board_tree, text):
    root = board_tree("jetson-nano")
    path = "sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0/in_power0_input"
    (root / path).write_text(text)
    found = PowerRails().probe(root, 1)
    read = next(read for read in found.reads if read.channels[0].name == "rail.pom_5v_in")
    with pytest.raises(ValueError, match="int"):
        one_read(read)


def test_a_chip_that_disappears_says_so_and_the_others_go_on(board_tree):
    root = board_tree("jetson-agx-orin")
    found = PowerRails().probe(root, 1)
    shutil.rmtree(root / "sys/devices/platform/c240000.i2c/i2c-1/1-0041")
    last = found.reads[-1]
    with pytest.raises(FileNotFoundError):
        one_read(last)
    assert one_read(found.reads[0]) == 19968 * 260


TEXTS = st.one_of(
    st.sampled_from(["VDD_IN", "vdd-in", "NC", "", "VDD_SOC", "5000", "-20", "0", "9" * 30]),
    st.text(max_size=8),
    st.integers(-(2**70), 2**70).map(str),
)


@settings(deadline=None)
@given(st.lists(st.tuples(*[TEXTS] * 5, st.booleans()), max_size=3), st.booleans())
def test_whatever_stands_in_the_files_rails_have_names_and_values_or_gaps(inputs, known):
    with tempfile.TemporaryDirectory() as folder:
        root, chip = Path(folder), Path(folder) / "sys/class/hwmon/hwmon0"
        chip.mkdir(parents=True)
        (chip / "name").write_text("ina3221")
        if known:
            (root / boards.COMPATIBLE).parent.mkdir(parents=True)
            (root / boards.COMPATIBLE).write_text("nvidia,p3767-0000")
        for number, (label, volts, amperes, shunt, interval, labelled) in enumerate(inputs, 1):
            (chip / f"in{number}_input").write_bytes(volts.encode(errors="replace"))
            (chip / f"curr{number}_input").write_bytes(amperes.encode(errors="replace"))
            (chip / f"shunt{number}_resistor").write_bytes(shunt.encode(errors="replace"))
            (chip / "update_interval").write_bytes(interval.encode(errors="replace"))
            if labelled:
                (chip / f"in{number}_label").write_bytes(label.encode(errors="replace"))
        found = PowerRails().probe(root, 1)
        reads = found.reads if isinstance(found, Present) else ()
        assert len({channel.name for read in reads for channel in read.channels}) == len(reads)
        for read in reads:
            with contextlib.suppress(ValueError):  # which the child makes a gap of
                value = one_read(read) * read.channels[0].scale
                number = int(Path(read.path).name.removeprefix("in").partition("_")[0])
                product = int(inputs[number - 1][1]) * int(inputs[number - 1][2])
                assert value == pytest.approx(product / 1e6)


# --- what a value is worth ---------------------------------------------------------------------


def test_the_shunt_that_the_driver_names_gives_the_step(board_tree):
    # 40 uV across 2 mOhm are 20 mA: at 19.968 V 0.39936 W, at 5.024 V 0.10048 W.
    rails = channels(PowerRails().probe(board_tree("jetson-agx-orin"), 1))
    assert rails["rail.vdd_gpu_soc"].resolution == pytest.approx(0.39936)
    assert rails["rail.vddq_vdd2_1v8ao"].resolution == pytest.approx(0.10048)
    # 163.8 mV across 2 mOhm are 81.9 A.
    assert rails["rail.vdd_gpu_soc"].range_to == pytest.approx(81.9 * 19.968)


def test_without_a_shunt_the_table_gives_the_step(board_tree):
    rails = channels(PowerRails().probe(board_tree("jetson-tx2"), 1))
    assert rails["rail.vdd_in"].resolution == 0.0385
    assert rails["rail.vdd_mux"].resolution is None
    assert rails["rail.vdd_mux"].range_to is None


def test_a_shunt_of_the_table_gives_the_step_where_nothing_else_does(tree):
    # A shunt of 5 mOhm by the table of the Orin Nano: 8 mA, at 5 V 40 mW.
    orin_nano = a_board("nvidia,p3768-0000+p3767-0005")
    root = tree(orin_nano | hwmon("sys/class/hwmon/hwmon0", [("VDD_IN", 5000, 1000)]))
    rails = channels(PowerRails().probe(root, 1))
    assert rails["rail.vdd_in"].resolution == pytest.approx(0.04)


def test_the_time_that_a_value_averages_over_is_the_driver_s(board_tree, tree):
    assert (
        channels(PowerRails().probe(board_tree("jetson-tx2"), 1))["rail.vdd_in"].window_s == 0.422
    )
    files = hwmon("sys/class/hwmon/hwmon0", [("VDD_IN", 5000, 1000)], update_interval=430)
    assert channels(PowerRails().probe(tree(files), 1))["rail.vdd_in"].window_s == 0.43


def test_a_xavier_averages_as_the_driver_of_its_release_does(board_tree, tree):
    # L4T 32 has the old driver, L4T 35 the new one (7 ms by the fixture).
    chip = "sys/bus/i2c/drivers/ina3221x/7-0040/iio:device0"
    old = {f"{chip}/rail_name_0": "VDD_IN", f"{chip}/in_power0_input": "5480"}
    xavier = a_board("nvidia,p3509-0000+p3668-0000")
    assert channels(PowerRails().probe(tree(xavier | old), 1))["rail.vdd_in"].window_s == 0.422
    new = PowerRails().probe(board_tree("jetson-xavier-nx"), 1)
    assert channels(new)["rail.vdd_in"].window_s == 0.007


def test_rails_are_found_beside_all_other_sensors(board_tree):
    found = probe_all(board_tree("jetson-tx2"), 1)
    names = [n for name, f in found.items() if isinstance(f, Present) for n in channels(f)]
    assert len(names) == len(set(names))
    assert "rail.vdd_in" in channels(found["ina3221"])


def test_each_rail_is_a_read_of_its_own_and_its_status_can_be_set(board_tree):
    found = PowerRails().probe(board_tree("jetson-tx2"), 1)
    assert all(len(read.channels) == 1 for read in found.reads)
    assert {channel.status for channel in channels(found).values()} == {"measured"}
    assert dataclasses.replace(found.reads[0].channels[0], status="modelled").status == "modelled"
