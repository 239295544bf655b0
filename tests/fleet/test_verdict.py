"""What the end of a child says, from its exit code, its words and the kernel's."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.wording import assert_says

from wattstep.train.child.child import Ending
from wattstep.train.child.limits import Cage, MemoryLimit
from wattstep.train.child.verdict import judge, kernel_line

FREE = Cage(limit=None, folder=None)
BOUNDED = Cage(limit=MemoryLimit(size=2**28, means="data segments"), folder=None)


def verdict(ending: Ending, output: str = "", cage: Cage = FREE) -> tuple[str, str]:
    status, reason, _ = judge(ending, cage, output, began_s=0.0)
    return status, reason


def test_a_run_that_ended_well_was_trained() -> None:
    assert verdict(Ending(code=0, steps=5)) == ("trained", "")


@pytest.mark.parametrize(
    "output",
    [
        "RuntimeError: [enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate "
        "memory: you tried to allocate 268435456 bytes.",
        "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc",
        "MemoryError",
        "ImportError: libx.so: failed to map segment from shared object: Cannot allocate memory",
        "OpenBLAS error: Memory allocation still failed after 10 retries, giving up.",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB",
    ],
)
def test_what_allocators_say_is_out_of_memory(output: str) -> None:
    status, reason = verdict(Ending(code=1, steps=3), output)
    assert status == "out of memory"
    assert_says(reason, "allocation failed", "3 steps")


def test_what_the_child_says_of_memory_counts_as_well() -> None:
    ending = Ending(code=2, error="memory ran out: try a smaller batch")
    status, reason = verdict(ending)
    assert status == "out of memory"
    assert_says(reason, "allocation failed", "the first step")


def test_a_batch_that_was_never_drawn_is_out_of_memory_too() -> None:
    ending = Ending(code=2, error="--batch 9", kind="InvalidValueError", id="batch-beyond-memory")
    status, reason = verdict(ending)
    assert status == "out of memory"
    assert_says(reason, "no memory", "one batch", "the first step")


def test_no_room_for_a_thread_is_memory_only_under_a_limit() -> None:
    output = "RuntimeError: can't start new thread"
    assert verdict(Ending(code=1), output, BOUNDED)[0] == "out of memory"
    assert verdict(Ending(code=1), output)[0] == "crashed"


def test_signals_from_outside_are_not_crashes() -> None:
    status, reason = verdict(Ending(code=-signal.SIGTERM, steps=1))
    assert status == "killed"
    assert_says(reason, "signal 15 (SIGTERM)", "1 step")
    status, reason = verdict(Ending(code=-signal.SIGSEGV, steps=2))
    assert status == "crashed"
    assert_says(reason, "signal 11 (SIGSEGV)", "2 steps")


def test_a_setting_that_the_workload_cannot_take_is_refused_in_its_words() -> None:
    ending = Ending(code=2, error="lenet needs a batch of at least 2", kind="InvalidValueError")
    assert verdict(ending) == ("refused", ending.error)


def test_a_run_that_ended_early_or_with_a_traceback_crashed() -> None:
    ended_early = Ending(code=0, problem="the sampler is gone")
    assert verdict(ended_early) == ("crashed", ended_early.problem)
    assert verdict(Ending(code=1), "Traceback\nKeyError: 'x'\n") == ("crashed", "KeyError: 'x'")


def test_where_nothing_could_be_recorded_it_runs_again() -> None:
    ending = Ending(code=2, error="cannot record into x: Permission denied", kind="RecordingError")
    assert verdict(ending) == ("unrecorded", ending.error)
    full = "the disk is full (No space left on device); the journals are kept in x"
    assert verdict(Ending(code=0, problem=full))[0] == "unrecorded"
    words = "Traceback\nOSError: [Errno 28] No space left on device\n"
    assert verdict(Ending(code=1), words)[0] == "unrecorded"
    # A sampler for which there is no memory is no matter of the disk.
    lacking = "the sampler cannot be started: [Errno 12] Cannot allocate memory"
    assert verdict(Ending(code=2, error=lacking, kind="RecordingError"))[0] == "out of memory"


def test_one_that_hangs_with_its_segments_full_ran_out_of_memory() -> None:
    full = Ending(code=-9, hung=True, full=True)
    assert verdict(full, cage=BOUNDED)[0] == "out of memory"
    status, reason = verdict(Ending(code=-9, hung=True, steps=4))
    assert status == "killed"
    assert_says(reason, "it hung", "4 steps")


def test_the_kernels_line_is_found_by_process_or_cgroup_and_not_an_older_one() -> None:
    lines = (
        "6,1,1000000,-;Out of memory: Killed process 42 (python) long ago",
        "6,2,90000000,-;oom-kill:oom_memcg=/a/wattstep-1-2,task=python,pid=7,uid=0",
        "6,3,90000001,-;Memory cgroup out of memory: Killed process 42 (python)",
    )
    # /dev/kmsg gives a record a read, as a datagram socket or a packet pipe does.
    script = (
        "import os, sys\n"
        "reading, writing = os.pipe2(os.O_DIRECT)\n"
        f"for line in {lines!r}: os.write(writing, line.encode())\n"
        "from pathlib import Path\n"
        "from wattstep.train.child.limits import Cage\n"
        "from wattstep.train.child.verdict import kernel_line\n"
        "os.close(writing)\n"
        "log = Path(f'/proc/self/fd/{reading}')\n"
        "print(kernel_line(42, Cage(limit=None, folder=Path(sys.argv[1])), 80.0, log))\n"
    )

    def found(folder: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", script, folder], capture_output=True, text=True, check=True
        ).stdout.strip()

    assert found("/x").endswith("Killed process 42 (python)")


def test_where_the_kernels_log_is_forbidden_there_is_no_line(tmp_path: Path) -> None:
    assert kernel_line(1, FREE, 0.0, tmp_path / "nothing") is None
