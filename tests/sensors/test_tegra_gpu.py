from __future__ import annotations

import pytest

from wattstep.record.sensors.tegra_gpu import TegraGpu, find_clock
from wattstep.schema.channel import Absent, Present

TX2 = {"proc/device-tree/compatible": "nvidia,p2597-0000+p3310-1000\0nvidia,tegra186\0"}


def clock(name, current, highest, node=None, listed=None):
    folder = f"sys/class/devfreq/{name}"
    files = {f"{folder}/cur_freq": f"{current}\n", f"{folder}/max_freq": f"{highest}\n"}
    if node:
        files[f"{folder}/device/of_node/name"] = f"{node}\0"
    if listed:
        files[f"{folder}/available_frequencies"] = f"{listed}\n"
    return files


def channels(found):
    assert isinstance(found, Present), found
    return {channel.role: channel for read in found.reads for channel in read.channels}


def test_a_tx2_s_gpu_gives_load_in_thousandths_and_clock_in_hertz(tree, measure):
    root = tree(
        TX2
        | {"sys/devices/gpu.0/load": "432\n"}
        | clock("17000000.gp10b", 114750000, 850000000, "gp10b")
    )
    found = TegraGpu().probe(root, 1)
    assert measure(found) == pytest.approx(
        {"gpu.utilization": 0.432, "gpu.frequency": 114.75e6, "gpu.frequency_cap": 850e6}
    )
    by_role = channels(found)
    assert set(by_role) == {"gpu_utilization", "frequency", "frequency_cap"}
    assert {channel.domain for channel in by_role.values()} == {"gpu"}
    # The mode caps it at 850 MHz; the board's table knows that it can be 1300.5.
    assert by_role["frequency"].limit == 1300.5e6
    assert by_role["frequency_cap"].limit == 1300.5e6


@pytest.mark.parametrize(
    "path",
    [
        "sys/devices/gpu.0",
        "sys/devices/platform/gpu.0",
        "sys/devices/platform/bus@0/17000000.gpu",
        "sys/class/devfreq/17000000.gpu/device",
    ],
)
def test_the_load_is_found_wherever_a_release_keeps_it(tree, measure, path):
    root = tree({f"{path}/load": "1000\n"} | clock("17000000.gpu", 1, 2))
    assert measure(TegraGpu().probe(root, 1))["gpu.utilization"] == 1


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("57000000.gpu", None),
        ("17000000.gv11b", None),
        ("17000000.ga10b", None),
        ("17000000.gpu", "gpu"),
        ("gpu-gpc-0", None),
        ("fb000000.whatever", "gb10b"),
        ("ff9a0000.gpu", "gpu"),
        ("3d00000.qcom,kgsl-3d0", None),
    ],
)
def test_the_clock_is_found_by_the_device_tree_or_the_name(tree, name, node):
    others = clock("bwmgr", 1, 1) | clock("gpu-nvd-0", 1, 1) | clock("15340000.vic", 1, 1, "vic")
    root = tree(others | clock(name, 918000000, 918000000, node))
    found = find_clock(root)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("load", ["1001", "1500", "-1"])
def test_a_load_that_cannot_be_is_a_gap(tree, measure, load):
    root = tree({"sys/devices/gpu.0/load": "432\n"} | clock("57000000.gpu", 1, 2))
    found = TegraGpu().probe(root, 1)
    tree({"sys/devices/gpu.0/load": f"{load}\n"})
    assert set(measure(found)) == {"gpu.frequency", "gpu.frequency_cap"}


def test_the_highest_clock_is_that_of_the_driver_s_list(tree):
    root = tree(clock("57000000.gpu", 1, 640000000, listed="76800000 153600000 921600000"))
    assert channels(TegraGpu().probe(root, 1))["frequency"].limit == 921.6e6


def test_a_gpu_that_is_powered_down_has_gaps_in_its_clock_until_it_is_on(tree, measure):
    root = tree({"sys/devices/gpu.0/load": "0\n"} | clock("57000000.gpu", 0, 921600000))
    path = root / "sys/class/devfreq/57000000.gpu/cur_freq"
    path.unlink()
    path.symlink_to("/proc/self/mem")  # whose first bytes give EIO
    found = TegraGpu().probe(root, 1)
    assert set(channels(found)) == {"gpu_utilization", "frequency", "frequency_cap"}
    path.unlink()
    path.write_text("76800000\n")
    assert measure(found)["gpu.frequency"] == 76.8e6


def test_one_file_that_fails_does_not_hide_the_others(tree, measure):
    root = tree(clock("57000000.gpu", 76800000, 921600000))
    (root / "sys/devices/gpu.0/load").mkdir(parents=True)
    assert set(measure(TegraGpu().probe(root, 1))) == {"gpu.frequency", "gpu.frequency_cap"}


def test_a_machine_without_such_a_gpu_is_told_what_was_looked_for(tree):
    found = TegraGpu().probe(tree(clock("bwmgr", 1, 1)), 1)
    assert isinstance(found, Absent)
    assert "Jetson" in found.reason
