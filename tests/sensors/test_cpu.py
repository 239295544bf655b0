from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattstep.record.sensors.cpu import CoreTimes, SystemTimes, parse_cores
from wattstep.schema.channel import Absent, Present

# user nice system idle iowait irq softirq steal guest guest_nice; guest is part of user.
STAT = """\
cpu  300 20 70 2000 10 3 5 11 40 0
cpu0 100 20 30 1000 4 1 2 5 40 0
cpu2 200 0 40 1000 6 2 3 6 0 0
intr 1 2 3
ctxt 77
"""
HZ = os.sysconf("SC_CLK_TCK")


def test_a_core_s_busy_time_counts_interrupts_and_no_guest_twice(tree, measure):
    values = measure(CoreTimes().probe(tree({"proc/stat": STAT}), 1))
    assert values["cpu0.busy_time"] == pytest.approx((100 + 20 + 30 + 1 + 2) / HZ)
    assert values["cpu0.idle_time"] == pytest.approx((1000 + 4) / HZ)
    assert values["cpu2.steal_time"] == pytest.approx(6 / HZ)
    assert len(values) == 6


def test_a_core_that_goes_offline_leaves_a_gap_and_no_zero(tree, measure):
    found = CoreTimes().probe(tree({"proc/stat": STAT}), 1)
    tree({"proc/stat": "cpu  1 0 0 0 0 0 0 0 0 0\ncpu0 1 0 0 0 0 0 0 0 0 0\nintr 1\n"})
    assert set(measure(found)) == {"cpu0.busy_time", "cpu0.idle_time", "cpu0.steal_time"}


def test_channels_know_their_core_and_their_tick(tree):
    found = CoreTimes().probe(tree({"proc/stat": STAT}), 1)
    assert isinstance(found, Present)
    (read,) = found.reads
    assert [channel.core for channel in read.channels] == [0, 0, 0, 2, 2, 2]
    assert {channel.resolution for channel in read.channels} == {1 / HZ}
    assert read.least_period_s >= 1 / HZ


def test_the_whole_machine_has_roles_of_its_own(tree, measure):
    found = SystemTimes().probe(tree({"proc/stat": STAT}), 1)
    assert measure(found) == pytest.approx(
        {
            "system.busy_time": (300 + 20 + 70 + 3 + 5) / HZ,
            "system.idle_time": 2010 / HZ,
            "system.steal_time": 11 / HZ,
        }
    )
    assert isinstance(found, Present)
    roles = [channel.role for channel in found.reads[0].channels]
    assert roles == ["system_busy_time", "system_idle_time", "system_steal_time"]


def test_without_proc_there_is_a_reason(tmp_path):
    for sensor in (CoreTimes(), SystemTimes()):
        found = sensor.probe(tmp_path, 1)
        assert isinstance(found, Absent)
        assert "proc/stat" in found.reason


def test_a_stat_file_without_cores_is_no_sensor(tree):
    root = tree({"proc/stat": "intr 1\n"})
    assert isinstance(CoreTimes().probe(root, 1), Absent)
    assert isinstance(SystemTimes().probe(root, 1), Absent)


@given(st.text())
def test_any_text_has_some_cores_or_none(text):
    assert all(core >= 0 for core in parse_cores(text))
