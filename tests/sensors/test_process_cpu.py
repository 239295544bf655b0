from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.burning import burn

from wattstep.record.sensors.process_cpu import (
    TaskClock,
    explain,
    open_task_clock,
    open_task_clocks,
    syscall_number,
)
from wattstep.schema.channel import Absent, Present

BURN = "import time\nwhile time.process_time() < 0.1: pass"


class Clocks:
    """Task clocks of this process, whose sum in ns `read` gives."""

    def __init__(self, descriptors: list[int]) -> None:
        self.descriptors = descriptors

    def read(self) -> int:
        return sum(int.from_bytes(os.read(fd, 8), "little") for fd in self.descriptors)


@pytest.fixture
def clocks() -> Iterator[Clocks]:
    try:
        descriptors = open_task_clocks(os.getpid())
    except OSError as error:
        pytest.skip(f"perf: {error}")
    yield Clocks(descriptors)
    for descriptor in descriptors:
        os.close(descriptor)


def test_the_clock_counts_what_the_process_computes(clocks):
    # What a hypervisor steals counts for the task clock and not for the process's time: the clock
    # lies between what was certainly computed and what has passed on the wall.
    since, before, used = time.perf_counter_ns(), clocks.read(), time.process_time_ns()
    burn(0.1)
    used = time.process_time_ns() - used
    counted = clocks.read() - before
    passed = time.perf_counter_ns() - since
    assert 0.99 * used <= counted <= passed * len(clocks.descriptors)


def test_threads_born_later_count(clocks):
    before = clocks.read()
    thread = threading.Thread(target=burn, args=(0.1,))
    thread.start()
    thread.join()
    assert clocks.read() - before >= 0.095e9


def test_children_born_later_count_even_when_they_are_gone(clocks):
    before = clocks.read()
    subprocess.run([sys.executable, "-I", "-S", "-c", BURN], check=True)
    assert clocks.read() - before >= 0.095e9


def test_each_thread_that_lives_gets_a_clock():
    stop = threading.Event()
    threads = [threading.Thread(target=stop.wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        descriptors = open_task_clocks(os.getpid())
    except OSError as error:
        pytest.skip(f"perf: {error}")
    finally:
        tasks = len(list(Path("/proc/self/task").iterdir()))
        stop.set()
        for thread in threads:
            thread.join()
    for descriptor in descriptors:
        os.close(descriptor)
    assert len(descriptors) == tasks


def test_a_user_without_rights_gets_the_clock_too(unprivileged):
    paranoid = Path("/proc/sys/kernel/perf_event_paranoid")
    if not paranoid.exists() or int(paranoid.read_text()) != 2:
        pytest.skip("needs kernel.perf_event_paranoid=2")
    with unprivileged():
        try:
            descriptor = open_task_clock(threading.get_native_id())
        except PermissionError as error:
            pytest.skip(f"a container that forbids perf: {error}")
    burn(0.02)
    counted = int.from_bytes(os.read(descriptor, 8), "little")
    os.close(descriptor)
    assert counted >= 0.019e9


def test_probing_leaves_no_descriptor_open():
    before = sorted(Path("/proc/self/fd").iterdir())
    TaskClock().probe(Path("/"), os.getpid())
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_the_live_process_has_the_sensor_or_a_reason():
    found = TaskClock().probe(Path("/"), os.getpid())
    if isinstance(found, Present):
        (read,) = found.reads
        assert (read.path, read.parser, read.least_period_s) == ("perf:task-clock", "perf", 0)
        assert read.channels[0].role == "process_cpu_time"
    else:
        assert found.reason


def test_a_process_that_is_gone_is_a_reason():
    ended = subprocess.Popen([sys.executable, "-I", "-S", "-c", ""])
    ended.wait()
    found = TaskClock().probe(Path("/"), ended.pid)
    assert found == Absent(reason=f"there is no process {ended.pid}")
    with pytest.raises(ProcessLookupError):
        open_task_clock(ended.pid)


def test_a_recorded_tree_has_no_perf(tmp_path):
    assert isinstance(TaskClock().probe(tmp_path, os.getpid()), Absent)


@pytest.mark.parametrize(
    ("machine", "bits", "number"),
    [("x86_64", 64, 298), ("aarch64", 64, 241), ("armv7l", 32, 364), ("aarch64", 32, 364)],
)
def test_the_system_call_has_its_number_on_each_machine(machine, bits, number):
    assert syscall_number(machine, bits) == number


def test_a_machine_without_a_known_number_is_a_reason():
    with pytest.raises(OSError, match="riscv64") as caught:
        syscall_number("riscv64", 64)
    assert "riscv64" in explain(caught.value, 1)


def test_a_refusal_says_what_to_do():
    assert "perf_event_paranoid" in explain(PermissionError(errno.EACCES, "Permission denied"), 1)
