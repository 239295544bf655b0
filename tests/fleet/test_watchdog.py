"""Where CPU and GPU share one memory, a training ends before the machine has none left."""

from __future__ import annotations

from pathlib import Path

from tests.refusals import refused
from tests.wording import assert_says

from wattstep.train.child.child import Ending, GuardedChild
from wattstep.train.child.limits import Cage
from wattstep.train.child.verdict import judge
from wattstep.train.child.watchdog import LEAST, Watchdog, find_watchdog

MIB = 1024**2
FREE = Cage(limit=None, folder=None)


def machine(root: Path, *, total: int, available: int, jetson: bool = True) -> Path:
    """A root with so many MiB of memory."""
    (root / "proc").mkdir(parents=True, exist_ok=True)
    (root / "proc/meminfo").write_text(
        f"MemTotal:       {total * 1024} kB\nMemFree:         1024 kB\n"
        f"MemAvailable:   {available * 1024} kB\nBuffers:         1 kB\n"
    )
    if jetson:
        (root / "etc").mkdir(exist_ok=True)
        (root / "etc/nv_tegra_release").write_text("# R36 (release), REVISION: 4.3, GCID: 1\n")
    return root


def test_a_gpu_that_shares_the_memory_is_watched_with_a_reserve_of_a_twentieth(
    tmp_path: Path,
) -> None:
    orin = find_watchdog("cuda", root=machine(tmp_path / "orin", total=7620, available=5000))
    assert orin is not None
    assert (orin.reserve, orin.before) == (381 * MIB, 5000 * MIB)
    nano = find_watchdog("cuda:0", root=machine(tmp_path / "nano", total=3956, available=2000))
    assert nano is not None
    assert nano.reserve == LEAST == 256 * MIB  # a twentieth would be 198


def test_nothing_else_is_watched_unless_a_reserve_is_asked_for(tmp_path: Path) -> None:
    board = machine(tmp_path / "board", total=7620, available=5000)
    card = machine(tmp_path / "card", total=7620, available=5000, jetson=False)
    assert find_watchdog("cpu", root=board) is None
    assert find_watchdog("cuda", root=card) is None
    asked = find_watchdog("cpu", "1GiB", card)
    assert asked is not None
    assert asked.reserve == 1024 * MIB
    with refused("malformed-size", "--memory-reserve 'some'"):
        find_watchdog("cpu", "some", card)


def test_it_speaks_when_less_than_the_reserve_is_available(tmp_path: Path) -> None:
    root = machine(tmp_path, total=7620, available=5000)
    watchdog = find_watchdog("cuda", root=root)
    assert watchdog is not None
    machine(tmp_path, total=7620, available=381)
    assert watchdog.look() is None
    machine(tmp_path, total=7620, available=380)
    assert_says(watchdog.look(), "watchdog", "380 MiB", "381 MiB", "5,000 MiB")


def test_a_kernel_that_does_not_tell_is_not_watched(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 100 kB\n")
    assert find_watchdog("cuda", "1GiB", tmp_path) is None


def waiting() -> int:
    """Entry of a child that would go on for ever."""
    import os
    import sys
    import time

    os.write(int(sys.argv[1]), b'{"progress": {"steps": 3}}\n')
    time.sleep(60)
    return 0


def test_a_child_is_ended_and_its_verdict_is_that_it_did_not_fit(tmp_path: Path) -> None:
    root = machine(tmp_path, total=7620, available=5000)
    watchdog = Watchdog(reserve=381 * MIB, before=5000 * MIB, meminfo=root / "proc/meminfo")
    child = GuardedChild("tests.fleet.test_watchdog:waiting", [], FREE, watchdog=watchdog)

    def hear(news: dict[str, object]) -> None:
        machine(tmp_path, total=7620, available=200)  # as it trains, the memory goes

    ending = child.follow(hear)
    status, reason, evidence = judge(ending, FREE, "", began_s=0.0)
    assert status == "out of memory"
    assert_says(reason, "watchdog", "200 MiB", "381 MiB", "5,000 MiB", "3 steps")
    assert evidence.signal == 9


def test_one_that_the_watchdog_ended_was_not_killed_from_outside() -> None:
    ending = Ending(code=-9, starved="it did not fit: ended by the watchdog at 1 MiB available")
    assert judge(ending, FREE, "", began_s=0.0)[0] == "out of memory"
