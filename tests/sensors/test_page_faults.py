from __future__ import annotations

import mmap
import os
from pathlib import Path

from wattstep.record.sensors.page_faults import PageFaults
from wattstep.schema.channel import Absent

LINE = "42 (my (train) R) S 1 42 42 0 -1 4194304 5011 77 12 3 250 31 0 0 20 0 4 0 99\n"


def test_faults_of_the_process_whatever_it_calls_itself(tree, measure):
    found = measure(PageFaults().probe(tree({"proc/42/stat": LINE}), 42))
    assert found == {"process.minor_faults": 5011, "process.major_faults": 12}


def test_every_page_that_is_touched_first_is_a_fault(measure):
    found = PageFaults().probe(Path("/"), os.getpid())
    before = measure(found)["process.minor_faults"]
    with mmap.mmap(-1, 300 * mmap.PAGESIZE) as fresh:
        for page in range(300):
            fresh[page * mmap.PAGESIZE] = 1
        after = measure(found)["process.minor_faults"]
    assert after - before >= 300


def test_without_the_process_or_its_counts_the_reason_is_given(tree):
    root = tree({"proc/7/stat": "7 (old) S 1 7"})
    gone, short = PageFaults().probe(root, 42), PageFaults().probe(root, 7)
    assert isinstance(gone, Absent)
    assert "no process 42" in gone.reason
    assert isinstance(short, Absent)
    assert "count page faults" in short.reason
