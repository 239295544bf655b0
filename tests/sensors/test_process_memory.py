from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import psutil
import pytest

from wattstep.record.sampling import child
from wattstep.record.sensors.process_memory import ProportionalMemory, ResidentMemory
from wattstep.schema.channel import Absent, Present

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


def rollup(**sizes: int) -> str:
    """A smaps_rollup with these sizes in KiB."""
    lines = "".join(f"{name}: {size} kB\n" for name, size in sizes.items())
    return f"55a86721c000-7ffca0299000 ---p 00000000 00:00 0   [rollup]\n{lines}"


# 100 KiB of heap that both children share with the process, 30 more of its own; a child of 40 KiB of
# its own and one of 10 KiB; libraries: 60 KiB that all map, with strangers too, 8 more in one child.
FAMILY = {
    "proc/42/task/42/children": "50 51 \n",
    "proc/50/task/50/children": "\n",
    "proc/51/task/51/children": "\n",
    "proc/42/status": "Name:\tx\nVmRSS:\t 190 kB\nRssShmem:\t 0 kB\n",
    "proc/42/smaps_rollup": rollup(
        Rss=190, Pss=73, Pss_Anon=63, Pss_File=10, Pss_Shmem=0, Private_Clean=0,
        Private_Dirty=30, Anonymous=130,
    ),
    "proc/50/smaps_rollup": rollup(
        Rss=208, Pss=91, Pss_Anon=73, Pss_File=18, Pss_Shmem=0, Private_Clean=8,
        Private_Dirty=40, Anonymous=140,
    ),
    "proc/51/smaps_rollup": rollup(
        Rss=170, Pss=54, Pss_Anon=44, Pss_File=10, Pss_Shmem=0, Private_Clean=0,
        Private_Dirty=10, Anonymous=110,
    ),
}  # fmt: skip


def test_children_add_what_no_other_process_of_the_training_has(tree, measure):
    """40 + 10 KiB of heap (less what halves of thirds round off) and 8 KiB of a library."""
    assert measure(ProportionalMemory().probe(tree(FAMILY), 42)) == {
        "process.proportional_memory": 73 * 1024,
        "children.proportional_memory": (91 + 54) * 1024,
        "children.added_memory": (40 + 10 + 8) * 1024,
        "children.shared_memory": (208 + 170 - 58) * 1024,
    }


def test_pages_that_children_share_with_each_other_alone_count_once(tree, measure):
    """The process has let go of 60 KiB that both children still share: nobody's private pages."""
    family = dict(FAMILY)
    for pid, private in ((50, 40), (51, 10)):
        family[f"proc/{pid}/smaps_rollup"] = rollup(
            Rss=160, Pss=private + 30 + 20, Pss_Anon=private + 30, Pss_File=20, Pss_Shmem=0,
            Private_Clean=0, Private_Dirty=private, Anonymous=private + 60,
        )  # fmt: skip
    family["proc/42/smaps_rollup"] = rollup(
        Rss=90, Pss=50, Pss_Anon=30, Pss_File=20, Pss_Shmem=0, Private_Clean=0, Private_Dirty=30,
        Anonymous=30,
    )  # fmt: skip
    values = measure(ProportionalMemory().probe(tree(family), 42))
    assert values["children.added_memory"] == (40 + 10 + 60) * 1024


def test_old_kernels_that_do_not_split_proportional_sizes_tell_private_pages(tree, measure):
    family = {
        path: "".join(
            line for line in text.splitlines(keepends=True) if not line.startswith("Pss_")
        )
        for path, text in FAMILY.items()
    }
    values = measure(ProportionalMemory().probe(tree(family), 42))
    assert values["children.added_memory"] == (40 + 8 + 10) * 1024


def test_a_child_that_ends_meanwhile_is_left_out(tree, measure):
    family = dict(FAMILY)
    del family["proc/51/smaps_rollup"]
    family["proc/50/smaps_rollup"] = ""
    values = measure(ProportionalMemory().probe(tree(family), 42))
    assert values["process.proportional_memory"] == 73 * 1024
    assert values["children.added_memory"] == values["children.shared_memory"] == 0


def forking(monkeypatch, files: Path, then: Iterator[str]) -> None:
    """Whenever the process's sizes were read, its children are the next ones of `then`."""
    read_sizes = child.read_sizes

    def read(path: str) -> dict[str, int]:
        sizes = read_sizes(path)
        if (
            "/42/" in path
            and path.endswith("rollup")
            and (children := next(then, None)) is not None
        ):
            (files / "proc/42/task/42/children").write_text(children)
        return sizes

    monkeypatch.setattr(child, "read_sizes", read)


def test_sizes_from_before_and_after_a_fork_are_not_added_up(tree, measure, monkeypatch):
    """Three children where two were: the sizes are those of one moment, 58 KiB as ever."""
    files = tree({**FAMILY, "proc/42/task/42/children": "50 \n"})
    forking(monkeypatch, files, iter(["50 51 \n"]))
    values = measure(ProportionalMemory().probe(files, 42))
    assert values["children.added_memory"] == (40 + 10 + 8) * 1024


def test_children_that_come_and_go_faster_than_they_are_read_tell_nothing(
    tree, measure, monkeypatch
):
    files = tree(FAMILY)
    forking(monkeypatch, files, cycle(["50 \n", "50 51 \n"]))
    assert measure(ProportionalMemory().probe(files, 42)) == {}


def test_forked_children_add_their_own_pages_to_a_real_process(measure):
    """Two children share 64 MB with this process and write 32 MB each of their own."""
    found = ProportionalMemory().probe(Path("/"), os.getpid())
    if not isinstance(found, Present) or len(found.reads[0].channels) < 2:
        pytest.skip("the kernel does not tell")
    code = (
        "import os, sys\n"
        "shared = bytearray(os.urandom(1) * 64_000_000)\n"
        "kept = []\n"
        "for _ in range(2):\n"
        "    down, up = os.pipe()\n"
        "    if not os.fork():\n"
        "        own = bytearray(b'x' * 32_000_000)\n"
        "        os.write(up, b'.')\n"
        "        sys.stdin.read()\n"
        "        os._exit(0)\n"
        "    os.read(down, 1)\n"
        "print(flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        values = measure(ProportionalMemory().probe(Path("/"), process.pid))
        process.communicate()
    assert values["children.added_memory"] == pytest.approx(64e6, rel=0.05)
    assert values["children.shared_memory"] > 120e6


def test_the_dear_one_is_read_once_a_second_and_the_cheap_one_twenty_times(tree):
    root = tree({"proc/42/smaps_rollup": ROLLUP, "proc/42/statm": "1 1 1 1 0 1 0\n"})
    cheap, dear = ResidentMemory().probe(root, 42), ProportionalMemory().probe(root, 42)
    assert isinstance(cheap, Present)
    assert isinstance(dear, Present)
    assert cheap.reads[0].least_period_s == 0.1
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
