from __future__ import annotations

import os
from pathlib import Path

from wattstep.record.sensors.process_threads import ThreadTimes
from wattstep.schema.channel import Absent, Present

FILES = {
    "proc/42/task/42/schedstat": "1500000000 7 3\n",
    "proc/42/task/43/schedstat": "250000000 7 3\n",
}


def test_threads_add_up_to_seconds(tree, measure):
    assert measure(ThreadTimes().probe(tree(FILES), 42)) == {"process.thread_time": 1.75}


def test_it_is_the_coarse_one_and_read_seldom(tree):
    found = ThreadTimes().probe(tree(FILES), 42)
    assert isinstance(found, Present)
    assert found.reads[0].channels[0].role == "process_cpu_time_coarse"
    assert found.reads[0].least_period_s == 0.1


def test_no_process_and_no_schedstat_are_different_reasons(tree):
    root = tree({"proc/42/task/42/stat": "42 (python)\n"})
    gone, bare = ThreadTimes().probe(root, 41), ThreadTimes().probe(root, 42)
    assert isinstance(gone, Absent)
    assert isinstance(bare, Absent)
    assert "no process 41" in gone.reason
    assert "schedstat" in bare.reason


def test_this_process_has_used_some_cpu(measure):
    found = ThreadTimes().probe(Path("/"), os.getpid())
    if isinstance(found, Present):
        assert measure(found)["process.thread_time"] > 0
