from __future__ import annotations

import pytest

from wattstep.records.channel import Absent
from wattstep.sensors.frequency import CoreFrequency

FILE = "sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"


def test_frequencies_of_a_recorded_machine_are_in_hertz(node_exporter, measure):
    assert measure(CoreFrequency().probe(node_exporter, 1)) == pytest.approx(
        {
            "cpu0.frequency": 1_699_981_000,
            "cpu1.frequency": 1_699_981_000,
            "cpu2.frequency": 8_000_000,
            "cpu3.frequency": 8_000_000,
        }
    )


def test_a_core_that_does_not_know_is_left_out(tree, measure):
    root = tree({FILE.format(0): "<unknown>\n", FILE.format(1): "1200000\n"})
    assert measure(CoreFrequency().probe(root, 1)) == {"cpu1.frequency": 1.2e9}


def test_when_no_core_knows_the_reason_says_what_was_read(tree):
    found = CoreFrequency().probe(tree({FILE.format(0): "<unknown>\n"}), 1)
    assert isinstance(found, Absent)
    assert "<unknown>" in found.reason


def test_a_virtual_machine_is_told_why(tmp_path):
    found = CoreFrequency().probe(tmp_path, 1)
    assert isinstance(found, Absent)
    assert "virtual machines" in found.reason
