"""CPU time of the training process to the nanosecond, from perf's task clock."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import sys
from collections.abc import Collection
from pathlib import Path

from wattstep.schema.channel import Absent, Channel, Present, Sensor, SensorRead

PERF_TYPE_SOFTWARE = 1
PERF_COUNT_SW_TASK_CLOCK = 1
PERF_FLAG_FD_CLOEXEC = 8
INHERIT = 1 << 1
EXCLUDE_KERNEL = 1 << 5

# By machine and width of a pointer: 32-bit programs on a 64-bit kernel use other numbers.
PERF_EVENT_OPEN = {
    ("x86_64", 64): 298,
    ("aarch64", 64): 241,
    ("aarch64", 32): 364,
    ("armv8l", 32): 364,
    ("armv7l", 32): 364,
}


class PerfEventAttr(ctypes.Structure):
    """The first published size (64 bytes) of the kernel's struct perf_event_attr."""

    _fields_ = [
        ("type", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("config", ctypes.c_uint64),
        ("sample_period", ctypes.c_uint64),
        ("sample_type", ctypes.c_uint64),
        ("read_format", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("wakeup_events", ctypes.c_uint32),
        ("bp_type", ctypes.c_uint32),
        ("config1", ctypes.c_uint64),
    ]


class TaskClock(Sensor):
    """On-CPU time of the process, its threads, and threads and children born from now on."""

    name = "process_cpu"
    description = "CPU time of the training process, exact at every tick"
    scope = "process"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Opens the counters, and closes them again."""
        if root.resolve() != Path("/"):
            return Absent(reason="perf counts on the running machine only, not in a recorded tree")
        try:
            descriptors = open_task_clocks(pid)
        except OSError as error:
            return Absent(reason=explain(error, pid))
        for descriptor in descriptors:
            os.close(descriptor)
        channel = Channel(
            name="process.cpu_time",
            unit="s",
            kind="counter",
            domain="process",
            role="process_cpu_time",
            source="perf task-clock",
            scale=1e-9,
            resolution=1e-9,
        )
        return Present(
            reads=(
                SensorRead(
                    path="perf:task-clock", parser="perf", channels=(channel,), arguments=(pid,)
                ),
            )
        )


def open_task_clocks(pid: int) -> list[int]:
    """Opens a task clock for each thread that a process has now.

    What these threads start later, threads and children alike, is counted with them. A thread
    that is born while they are being opened, by one that was not open yet, is missed.

    Returns:
        Descriptors for the caller to close; their values add up to the CPU time in ns since now.

    Raises:
        OSError: There is no such process, or the kernel refuses a counter.
    """
    descriptors: list[int] = []
    try:
        for tid in sorted(int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()):
            try:
                descriptors.append(open_task_clock(tid))
            except ProcessLookupError:  # the thread ended since it was listed
                continue
    except OSError:
        for descriptor in descriptors:
            os.close(descriptor)
        raise
    return descriptors


def open_clocks(pid: int, without: Collection[int] | None) -> list[int]:
    """As `open_task_clocks`, and of the children that the process has already.

    Args:
        pid: Of the process.
        without: Children that do not count, nor what they started; None: none count.

    Returns:
        Descriptors for the caller to close.

    Raises:
        OSError: There is no such process, or the kernel refuses a counter.
    """
    descriptors = open_task_clocks(pid)
    for child in [] if without is None else _children(pid, without):
        with contextlib.suppress(OSError):  # one that has ended since, or is another user's by now
            descriptors += open_clocks(child, without)
    return descriptors


def _children(pid: int, without: Collection[int]) -> list[int]:
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            children += map(int, (task / "children").read_text().split())
    return [child for child in children if child not in without]


def open_task_clock(tid: int) -> int:
    """Opens the task clock of one thread and of what it starts later.

    Users without rights must ask for it without kernel time (kernel.perf_event_paranoid=2). That
    satisfies the check and changes nothing: a task clock counts both (seen on Linux 6.18).

    Returns:
        A descriptor that gives 8 bytes, nanoseconds on a CPU, and closes on exec.

    Raises:
        OSError: The thread is gone (ESRCH) or the kernel refuses.
    """
    try:
        return perf_event_open(tid, INHERIT)
    except PermissionError:
        return perf_event_open(tid, INHERIT | EXCLUDE_KERNEL)


def perf_event_open(tid: int, flags: int) -> int:
    """The system call, for a task clock of one thread on any core."""
    attr = PerfEventAttr(
        type=PERF_TYPE_SOFTWARE,
        size=ctypes.sizeof(PerfEventAttr),
        config=PERF_COUNT_SW_TASK_CLOCK,
        flags=flags,
    )
    number = syscall_number(platform.machine(), 64 if sys.maxsize > 2**32 else 32)
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    any_core, no_group = ctypes.c_int(-1), ctypes.c_int(-1)
    descriptor: int = syscall(
        ctypes.c_long(number),
        ctypes.byref(attr),
        ctypes.c_int(tid),
        any_core,
        no_group,
        ctypes.c_ulong(PERF_FLAG_FD_CLOEXEC),
    )
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return descriptor


def syscall_number(machine: str, pointer_bits: int) -> int:
    """The number of perf_event_open.

    Raises:
        OSError: It is not known for this machine (ENOSYS).
    """
    try:
        return PERF_EVENT_OPEN[machine, pointer_bits]
    except KeyError:
        raise OSError(
            errno.ENOSYS, f"the number of perf_event_open is not known for {machine}"
        ) from None


def explain(error: OSError, pid: int) -> str:
    """Reason why the counters cannot be had, and what to do."""
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"there is no process {pid}"
    if isinstance(error, PermissionError):
        return (
            "the kernel, or the container, lets this user open no perf counter: "
            "sudo sysctl kernel.perf_event_paranoid=2 (containers: allow perf_event_open)"
        )
    return f"the kernel has no perf task clock ({error.strerror or error})"
