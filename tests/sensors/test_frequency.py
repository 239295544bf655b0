from __future__ import annotations

import pytest

from wattstep.record.sensors.frequency import CoreFrequency
from wattstep.schema.channel import Absent, Present

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


def channels(found):
    assert isinstance(found, Present), found
    return [channel for read in found.reads for channel in read.channels]


def test_the_limit_is_the_highest_clock_that_the_core_can_have(tree):
    root = tree(
        {
            FILE.format(0): "345600\n",
            FILE.format(0).replace("scaling_cur_freq", "cpuinfo_max_freq"): "2035200\n",
            FILE.format(1): "345600\n",
        }
    )
    assert [c.limit for c in channels(CoreFrequency().probe(root, 1))] == [2_035_200_000, None]


@pytest.mark.parametrize(
    ("model", "warns"),
    [("Raspberry Pi 3 Model B Plus Rev 1.3\0", True), ("NVIDIA Jetson\0", False)],
)
def test_on_a_raspberry_pi_the_clock_is_called_a_request(tree, model, warns):
    root = tree({FILE.format(0): "1400000\n", "proc/device-tree/model": model})
    (channel,) = channels(CoreFrequency().probe(root, 1))
    assert ("vcgencmd" in channel.note) is warns
    assert channel.role == ("frequency_requested" if warns else "frequency")


def test_a_virtual_machine_is_told_why(tmp_path):
    found = CoreFrequency().probe(tmp_path, 1)
    assert isinstance(found, Absent)
    assert "virtual machines" in found.reason
