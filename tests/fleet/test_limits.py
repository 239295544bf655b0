"""Limits on memory: sizes as people type them, which means is found, and that it holds in a real child."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.wording import assert_says

from wattstep.errors import InvalidValueError
from wattstep.train.child.limits import (
    Cage,
    MemoryLimit,
    beyond_machine,
    enforced,
    find_limit,
    parse_size,
    possible_homes,
)

MIB = 1024**2
# Allocates 300 MB and touches every page, after having bound itself as a training would.
GREEDY = """
import json, sys
sys.argv[1:] = [sys.argv[1]]
from wattstep.train.child import guard
guard.apply(json.loads(sys.argv[1]))
try:
    held = bytearray(b"x" * 1_000_000) * 300
except MemoryError:
    print("MemoryError")
    raise SystemExit(3)
print(len(held))
"""


def greedy(cage: Cage) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", GREEDY, json.dumps(cage.guard)],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8GiB", 8_589_934_592),
        ("512MiB", 536_870_912),
        ("8GB", 8_000_000_000),
        ("8G", 8_000_000_000),
        ("1.5 GiB", 1_610_612_736),
        ("20000000", 20_000_000),
        ("200000kb", 200_000_000),
    ],
)
def test_sizes_are_read_as_people_type_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "8 boards", "-8GiB", "8GiBs", "8i", "1MiB", "0"])
def test_what_is_no_size_or_no_room_for_a_process_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError, match="--memory-limit"):
        parse_size(text)


def test_the_means_that_this_machine_permits_holds_what_it_promises() -> None:
    limit = find_limit(200 * MIB)
    with enforced(limit) as cage:
        done = greedy(cage)
        folder = cage.folder
        kills = cage.oom_kills
        peak = cage.peak
    assert done.stdout.strip() in ("", "MemoryError")
    if limit.means == "data segments":
        assert limit.why_not
        assert done.returncode == 3
    else:
        assert done.returncode == -9
        assert kills == 1
        assert peak is not None
        assert peak <= 200 * MIB
        assert folder is not None
        assert not folder.exists()


def test_what_a_killed_sweep_left_behind_is_removed() -> None:
    limit = find_limit(200 * MIB)
    if limit.home is None:
        pytest.skip(f"no cgroup can be made here: {limit.why_not}")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    dead = Path(limit.home, f"wattstep-{gone.pid}-1")
    mine = Path(limit.home, f"wattstep-{os.getpid()}-1")
    dead.mkdir()
    mine.mkdir()
    find_limit(200 * MIB)
    assert (dead.exists(), mine.exists()) == (False, True)
    mine.rmdir()


def test_a_limit_on_data_segments_makes_the_allocation_fail() -> None:
    limit = MemoryLimit(size=200 * MIB, means="data segments", why_not="a test")
    with enforced(limit) as cage:
        done = greedy(cage)
    assert (done.returncode, done.stdout.strip()) == (3, "MemoryError")


@pytest.mark.parametrize("means", ["found", "data segments"])
def test_what_fits_under_the_limit_is_left_alone(means: str) -> None:
    limit = find_limit(600 * MIB)
    if means != "found":
        limit = MemoryLimit(size=600 * MIB, means="data segments")
    with enforced(limit) as cage:
        done = greedy(cage)
        assert cage.oom_kills in (0, None)
    assert done.stdout.strip() == "300000000"


def test_swap_is_said_to_be_bounded_only_where_the_kernel_took_that() -> None:
    limit = find_limit(200 * MIB)
    if limit.home is None:
        pytest.skip(f"no cgroup can be made here: {limit.why_not}")
    file = "memory.swap.max" if limit.means == "memory cgroup v2" else "memory.memsw.limit_in_bytes"
    with enforced(limit) as cage:
        assert cage.folder is not None
        assert limit.swapless is (cage.folder / file).exists()


def test_a_limit_above_the_machines_memory_is_named() -> None:
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    above = MemoryLimit(size=2 * installed, means="data segments")
    assert "the machine that" in (beyond_machine(above) or "")
    assert beyond_machine(MemoryLimit(size=installed // 2, means="data segments")) is None


def test_without_a_limit_there_is_nothing_to_do() -> None:
    with enforced(None) as cage:
        assert cage.guard == {}
        assert cage.oom_kills is None
        assert cage.peak is None


def test_the_record_says_which_means_and_why() -> None:
    cgroup = MemoryLimit(size=8 * 1024 * MIB, means="memory cgroup v2", home="/x", swapless=True)
    assert_says(cgroup.described, "8 GiB", "cgroup v2", "without swap")
    swaps = MemoryLimit(size=8 * 1024 * MIB, means="memory cgroup v1", home="/x")
    assert_says(swaps.described, "8 GiB", "cgroup v1", "swap not bounded")
    segments = MemoryLimit(size=512 * MIB, means="data segments", why_not="read-only file system")
    assert_says(segments.described, "512 MiB", "RLIMIT_DATA", "read-only file system")


def tree(root: Path, groups: str, mounts: str) -> Path:
    folder = root / "proc/self"
    folder.mkdir(parents=True)
    (folder / "cgroup").write_text(groups)
    (folder / "mountinfo").write_text(mounts)
    return root


def test_with_version_2_the_group_above_is_tried_as_well(tmp_path: Path) -> None:
    groups = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/shell.scope\n"
    mounts = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    root = tree(tmp_path, groups, mounts)
    app = root / "sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice"
    assert list(possible_homes(root)) == [
        ("memory cgroup v2", app / "shell.scope"),
        ("memory cgroup v2", app),
    ]


def test_with_version_1_it_is_the_hierarchy_of_the_memory_controller(tmp_path: Path) -> None:
    groups = "5:cpu,cpuacct:/other\n4:memory:/docker/abc\n0::/\n"
    mounts = (
        "30 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "31 23 0:28 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    )
    root = tree(tmp_path, groups, mounts)
    # In a container the mount begins where the container does.
    assert list(possible_homes(root)) == [("memory cgroup v1", root / "sys/fs/cgroup/memory/.")]


def test_where_no_cgroup_can_be_made_the_reason_is_kept(tmp_path: Path) -> None:
    groups = "0::/\n"
    mounts = "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    limit = find_limit(200 * MIB, tree(tmp_path, groups, mounts))
    assert limit.means == "data segments"
    assert "no such file" in limit.why_not
    assert_says(find_limit(200 * MIB, tmp_path / "empty").why_not, "no memory controller")
