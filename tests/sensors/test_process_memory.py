from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from wattstep.records.channel import Absent, Present
from wattstep.sensors.process_memory import ProportionalMemory, ResidentMemory

PAGE = os.sysconf("SC_PAGE_SIZE")
ROLLUP = """\
55a86721c000-7ffca0299000 ---p 00000000 00:00 0                          [rollup]
Rss:                1696 kB
Pss:                 352 kB
Pss_Dirty:           116 kB
SwapPss:               0 kB
"""


def test_resident_memory_is_the_second_field_in_pages(tree, measure):
    root = tree({"proc/42/statm": "9000 1234 500 1 0 800 0\n"})
    assert measure(ResidentMemory().probe(root, 42)) == {"process.resident_memory": 1234 * PAGE}


def test_proportional_memory_is_pss_and_nothing_that_begins_alike(tree, measure):
    found = ProportionalMemory().probe(tree({"proc/42/smaps_rollup": ROLLUP}), 42)
    assert measure(found) == {"process.proportional_memory": 352 * 1024}


def test_the_dear_one_is_read_once_a_second_and_the_cheap_one_at_every_tick(tree):
    root = tree({"proc/42/smaps_rollup": ROLLUP, "proc/42/statm": "1 1 1 1 0 1 0\n"})
    cheap, dear = ResidentMemory().probe(root, 42), ProportionalMemory().probe(root, 42)
    assert isinstance(cheap, Present)
    assert isinstance(dear, Present)
    assert cheap.reads[0].least_period_s == 0
    assert dear.reads[0].least_period_s == 1


def test_a_process_that_is_gone_or_closed_is_a_reason(tmp_path):
    assert ResidentMemory().probe(tmp_path, 42) == Absent(reason="there is no process 42")
    found = ProportionalMemory().probe(tmp_path, 42)
    assert isinstance(found, Absent)
    assert "Linux 4.14" in found.reason


def test_this_process_reads_as_psutil_does(measure):
    values = measure(ResidentMemory().probe(Path("/"), os.getpid()))
    resident = psutil.Process().memory_info().rss
    assert values["process.resident_memory"] == pytest.approx(resident, rel=0.1)
