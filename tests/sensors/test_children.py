from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from wattstep.record.sensors.children import Children
from wattstep.schema.channel import Absent, Present

PAGE = os.sysconf("SC_PAGE_SIZE")
FAMILY = {
    "proc/42/task/42/children": "50 \n",
    "proc/50/task/50/children": "60 \n",
    "proc/50/task/50/schedstat": "2000000000 0 0\n",
    "proc/50/statm": "900 100 5 1 0 80 0\n",
    "proc/60/task/60/children": "\n",
    "proc/60/task/60/schedstat": "500000000 0 0\n",
    "proc/60/statm": "900 20 5 1 0 80 0\n",
}


def test_children_and_their_children_belong_to_the_training(tree, measure):
    assert measure(Children().probe(tree(FAMILY), 42)) == {
        "children.cpu_time": 2.5,
        "children.count": 2,
        "children.resident_memory": 120 * PAGE,
    }


def test_a_kernel_that_lists_no_children_is_a_reason(tree):
    root = tree({"proc/42/task/42/stat": ""})
    found = Children().probe(root, 42)
    assert isinstance(found, Absent)
    assert "CONFIG_PROC_CHILDREN" in found.reason
    assert Children().probe(root, 7) == Absent(reason="there is no process 7")


def test_a_real_child_is_seen(measure):
    found = Children().probe(Path("/"), os.getpid())
    if not isinstance(found, Present):
        pytest.skip(found.reason)
    code = "print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        values = measure(found)
        process.communicate(b"\n")
    assert values["children.count"] >= 1
    assert values["children.resident_memory"] > 1_000_000
    assert values["children.cpu_time"] > 0
