from __future__ import annotations

import pytest

from wattstep.record.sensors.rapl import Rapl
from wattstep.schema.channel import Absent, Present

FOLDER = "sys/class/powercap"
RANGE = 262_143_328_850


def zone(folder, name, energy=5_000_000):
    return {
        f"{FOLDER}/{folder}/name": f"{name}\n",
        f"{FOLDER}/{folder}/energy_uj": f"{energy}\n",
        f"{FOLDER}/{folder}/max_energy_range_uj": f"{RANGE}\n",
    }


def channels(found):
    assert isinstance(found, Present), found
    return {channel.name: channel for read in found.reads for channel in read.channels}


def roles(found):
    return {name: channel.role for name, channel in channels(found).items()}


SERVER = {**zone("intel-rapl:0", "package-0"), **zone("intel-rapl:0:0", "dram")}
LAPTOP = {
    **zone("intel-rapl:0", "package-0"),
    **zone("intel-rapl:0:0", "core"),
    **zone("intel-rapl:0:1", "uncore"),
}


def test_a_recorded_processor_gives_joules_that_know_where_they_wrap(procfs, measure):
    found = Rapl().probe(procfs, 1)
    assert measure(found) == pytest.approx(
        {
            "rapl.package-0.energy": 240_422.366267,
            "rapl.package-0.core.energy": 118_821.284256,
            "rapl.package-10.energy": 240_422.366267,
        }
    )
    assert {channel.wrap for channel in channels(found).values()} == {RANGE}


def test_a_counter_that_wrapped_grew_by_what_is_left_plus_what_is_new(tree):
    # 262143.328850 J is where it starts again: from 262143 J to 1 J it grew by 1.328850 J.
    (channel,) = channels(Rapl().probe(tree(zone("intel-rapl:0", "package-0")), 1)).values()
    before, after = 262_143_000_000, 1_000_000
    assert channel.wrap is not None
    assert (after - before + channel.wrap) * channel.scale == pytest.approx(1.328850)


def test_cores_and_graphics_are_inside_the_package_and_never_totals(tree):
    assert roles(Rapl().probe(tree(LAPTOP), 1)) == {
        "rapl.package-0.energy": "energy_total",
        "rapl.package-0.core.energy": "energy_part",
        "rapl.package-0.uncore.energy": "energy_part",
    }


def test_packages_and_memory_add_up(tree):
    root = tree({**SERVER, **zone("intel-rapl:1", "package-1"), **zone("intel-rapl:1:0", "dram")})
    assert roles(Rapl().probe(root, 1)) == {
        "rapl.package-0.energy": "energy_total",
        "rapl.package-0.dram.energy": "energy_total",
        "rapl.package-1.energy": "energy_total",
        "rapl.package-1.dram.energy": "energy_total",
    }


def test_the_platform_counter_contains_all_others(tree):
    found = Rapl().probe(tree({**SERVER, **zone("intel-rapl:1", "psys")}), 1)
    assert roles(found) == {
        "rapl.package-0.energy": "energy_part",
        "rapl.package-0.dram.energy": "energy_part",
        "rapl.psys.energy": "energy_total",
    }


def test_a_platform_counter_that_stands_at_zero_is_not_wired(tree):
    found = Rapl().probe(tree({**SERVER, **zone("intel-rapl:1", "psys", 0)}), 1)
    assert roles(found) == {
        "rapl.package-0.energy": "energy_total",
        "rapl.package-0.dram.energy": "energy_total",
    }


def test_each_zone_has_its_domain(tree):
    root = tree({**LAPTOP, **zone("intel-rapl:0:2", "dram"), **zone("intel-rapl:1", "psys")})
    domains = [channel.domain for channel in channels(Rapl().probe(root, 1)).values()]
    assert sorted(domains) == ["cpu", "gpu", "memory", "soc", "system"]


def test_the_same_package_under_mmio_counts_once(tree):
    root = tree({**SERVER, **zone("intel-rapl-mmio:0", "package-0", 4_999_000)})
    found = Rapl().probe(root, 1)
    assert set(channels(found)) == {"rapl.package-0.energy", "rapl.package-0.dram.energy"}
    assert isinstance(found, Present)
    assert all("mmio" not in read.path for read in found.reads)


def test_zones_that_are_nested_and_linked_count_once(tmp_path, tree):
    device = "../../devices/virtual/powercap/intel-rapl"
    files = {**zone("intel-rapl:0", "package-0"), **zone("intel-rapl:0/intel-rapl:0:0", "core")}
    root = tree({name.replace(FOLDER, f"{FOLDER}/{device}"): text for name, text in files.items()})
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "intel-rapl:0").symlink_to(f"{device}/intel-rapl:0")
    (folder / "intel-rapl:0:0").symlink_to(f"{device}/intel-rapl:0/intel-rapl:0:0")
    assert set(channels(Rapl().probe(root, 1))) == {
        "rapl.package-0.energy",
        "rapl.package-0.core.energy",
    }


def test_a_zone_that_is_only_nested_is_found(tree):
    root = tree(
        {**zone("intel-rapl:0", "package-0"), **zone("intel-rapl:0/intel-rapl:0:0", "core")}
    )
    assert "rapl.package-0.core.energy" in channels(Rapl().probe(root, 1))


def test_without_its_memory_the_package_is_no_total(tree):
    root = tree({**zone("intel-rapl:0", "package-0"), f"{FOLDER}/intel-rapl:0:0/name": "dram\n"})
    (root / FOLDER / "intel-rapl:0:0/energy_uj").mkdir()  # reads as an error
    assert roles(Rapl().probe(root, 1)) == {"rapl.package-0.energy": "energy_part"}


def test_counters_for_root_only_say_what_to_do(open_folder, unprivileged):
    for name, text in SERVER.items():
        path = open_folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0 if path.name == "energy_uj" else 0o644)
    with unprivileged():
        found = Rapl().probe(open_folder, 1)
    assert isinstance(found, Absent)
    assert f"sudo chmod o+r {open_folder}/{FOLDER}/intel-rapl*:*/energy_uj" in found.reason
    assert found.reason.count("sudo") == 1  # said once, not once a zone


def test_an_arm_board_is_told_why(tmp_path):
    found = Rapl().probe(tmp_path, 1)
    assert isinstance(found, Absent)
    assert "x86" in found.reason
