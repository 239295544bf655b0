from __future__ import annotations

from wattstep.record.sensors.system_memory import SystemMemory
from wattstep.schema.channel import Absent

MEMINFO = """\
MemTotal:        8000000 kB
MemFree:         1000000 kB
MemAvailable:    5000000 kB
SwapCached:            0 kB
SwapTotal:       2000000 kB
SwapFree:        1500000 kB
"""


def test_kilobytes_of_the_kernel_are_1024_bytes(tree, measure):
    assert measure(SystemMemory().probe(tree({"proc/meminfo": MEMINFO}), 1)) == {
        "system.total_memory": 8_192_000_000,
        "system.available_memory": 5_120_000_000,
        "system.swap_total": 2_048_000_000,
        "system.swap_free": 1_536_000_000,
    }


def test_without_swap_lines_the_memory_is_still_there(tree, measure):
    root = tree({"proc/meminfo": "MemTotal: 2 kB\nMemAvailable: 1 kB\n"})
    assert measure(SystemMemory().probe(root, 1)) == {
        "system.total_memory": 2048,
        "system.available_memory": 1024,
    }


def test_free_memory_does_not_stand_in_for_available(tree):
    found = SystemMemory().probe(tree({"proc/meminfo": "MemTotal: 2 kB\nMemFree: 1 kB\n"}), 1)
    assert isinstance(found, Absent)
    assert "MemAvailable" in found.reason
