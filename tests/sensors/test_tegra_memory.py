from __future__ import annotations

import pytest

from wattstep.record.sensors.tegra_memory import MemoryController
from wattstep.schema.channel import Absent, Present

DEBUG = "sys/kernel/debug"
TX2 = {
    f"{DEBUG}/bpmp/debug/clk/emc/rate": "102000000\n",
    f"{DEBUG}/bpmp/debug/clk/emc/max_rate": "1866000000\n",
    "sys/kernel/actmon_avg_activity/mc_all": "16320\n",
}


def channels(found):
    assert isinstance(found, Present), found
    return {channel.name: channel for read in found.reads for channel in read.channels}


def test_an_idle_tx2_uses_sixteen_per_cent_of_a_low_clock(tree, measure):
    # tegrastats of an idle TX2 says "EMC_FREQ 16%@102"; the activity is in kHz.
    found = MemoryController().probe(tree(TX2), 1)
    assert measure(found) == pytest.approx(
        {"memory.frequency": 102e6, "memory.controller_utilization": 0.16}
    )
    frequency, share = channels(found).values()
    assert (frequency.role, frequency.domain, frequency.limit) == ("frequency", "memory", 1866e6)
    assert (share.role, share.unit) == ("memory_controller_utilization", "ratio")


@pytest.mark.parametrize(
    ("clock", "highest", "activity"),
    [
        ("bpmp/debug/clk/emc/rate", "bpmp/debug/clk/emc/max_rate", "cactmon/mc_all"),
        (
            "bpmp/debug/clk/emc/rate",
            "bpmp/debug/clk/emc/max_rate",
            "bpmp/debug/actmon/mc_all_avg_activity",
        ),
        (
            "clk/override.emc/clk_rate",
            "tegra_bwmgr/emc_max_rate",
            "../actmon_avg_activity/mc_all",
        ),
        (
            "../../class/devfreq/bwmgr/cur_freq",
            "../../class/devfreq/bwmgr/max_freq",
            "cactmon/mc_all",
        ),
    ],
)
def test_every_release_s_files_are_known(tree, measure, clock, highest, activity):
    (root := tree({f"{DEBUG}/x": ""})).joinpath("sys/class").mkdir()
    for name, text in ((clock, "1600000000"), (highest, "2133000000"), (activity, "400000")):
        path = (root / DEBUG / name).resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = MemoryController().probe(root, 1)
    assert measure(found) == pytest.approx(
        {"memory.frequency": 1.6e9, "memory.controller_utilization": 0.25}
    )
    assert channels(found)["memory.frequency"].limit == 2.133e9


def test_a_clock_of_zero_is_no_share_at_all(tree, measure):
    root = tree(TX2)
    found = MemoryController().probe(root, 1)
    tree({f"{DEBUG}/bpmp/debug/clk/emc/rate": "0\n"})
    assert measure(found) == {"memory.frequency": 0}


@pytest.mark.parametrize(("activity", "share"), [("204000", None), ("103000", 1.0098039)])
def test_twice_the_clock_is_no_share_of_it(tree, measure, activity, share):
    found = MemoryController().probe(tree(TX2), 1)
    tree({"sys/kernel/actmon_avg_activity/mc_all": f"{activity}\n"})
    assert measure(found).get("memory.controller_utilization") == (share and pytest.approx(share))


def test_without_an_activity_there_is_the_clock(tree, measure):
    root = tree(TX2)
    (root / "sys/kernel/actmon_avg_activity/mc_all").unlink()
    assert set(measure(MemoryController().probe(root, 1))) == {"memory.frequency"}


def test_who_is_not_root_is_told_so(open_folder, unprivileged):
    for name, text in (TX2 | {"proc/device-tree/model": "quill"}).items():
        path = open_folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (open_folder / DEBUG).chmod(0o700)
    with unprivileged():
        found = MemoryController().probe(open_folder, 1)
    assert isinstance(found, Absent)
    assert "sudo" in found.reason


def test_other_machines_have_none(tmp_path):
    found = MemoryController().probe(tmp_path, 1)
    assert isinstance(found, Absent)
    assert "only Jetson" in found.reason
