"""Verdict on a child's end: trained, out of memory, killed, crashed, refused, with its evidence."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from typing import Final

from wattstep.errors import InvalidValueError, MissingPartError, RecordingError
from wattstep.schema.oom_messages import says_no_stack, says_ran_out
from wattstep.schema.outcome import Evidence, State
from wattstep.schema.processes import signal_name
from wattstep.train.child.child import Ending
from wattstep.train.child.limits import Cage

_KERNEL_LOG: Final = Path("/dev/kmsg")
_LOG_CLOCK_S: Final = 2.0  # the log's clock and the monotonic one drift apart
_RECORD = 8192  # bytes: the longest record of the kernel's log
_FROM_OUTSIDE: Final = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_REFUSALS: Final = (None, InvalidValueError.__name__, MissingPartError.__name__)
_BEYOND_MEMORY: Final = "batch-beyond-memory"  # of `train.batch_bound`
# Nothing is recorded then, and nothing will be until somebody mends that.
_DISK_WORDS: Final = tuple(
    os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
)


def judge(
    ending: Ending, cage: Cage, output: str, began_s: float, when: str | None = None
) -> tuple[State, str, Evidence]:
    """Status, reason and evidence.

    Args:
        ending: How the child ended.
        cage: Its limit, before it is removed.
        output: Output of the child.
        began_s: Monotonic time at which it was started.
        when: When in its life it ended, as the reason says it; from the steps done where None.
    """
    number = -ending.code if ending.code < 0 else None
    evidence = Evidence(
        exit_code=ending.code if number is None else None,
        signal=number,
        said=ending.error or ending.problem or (_last_line(output) if ending.code else None),
        kernel=kernel_line(ending.pid, cage, began_s) if number == signal.SIGKILL else None,
        oom_kills=cage.oom_kills,
        cgroup_peak=cage.peak,
        last_resident=ending.last_resident,
        peak_resident=ending.peak_resident,
        steps=ending.steps,
    )
    when = _when(evidence.steps) if when is None else when
    state, reason = _status(ending, evidence, output, when, bounded=cage.limit is not None)
    return state, reason, evidence


def kernel_line(pid: int, cage: Cage, began_s: float, log: Path = _KERNEL_LOG) -> str | None:
    """The kernel's own line on killing a process for memory; None where there is none to read.

    In a container the kernel may count processes otherwise: then the name of the cgroup tells.
    """
    signs = [f"Killed process {pid} "]
    if cage.folder is not None:
        signs.append(cage.folder.name)
    lines = [text for seconds, text in _kernel_log(log) if seconds > began_s - _LOG_CLOCK_S]
    matches = [line for sign in signs for line in lines if sign in line]
    return matches[0] if matches else None


def _status(
    ending: Ending, evidence: Evidence, output: str, when: str, *, bounded: bool
) -> tuple[State, str]:
    if ending.interrupted:
        return "interrupted", "it was stopped by the user"
    lacking = _lack_of_memory(ending, evidence, output, bounded=bounded)
    if lacking is not None:
        return "out of memory", lacking + when
    if ending.hung:
        return "killed", f"it hung and was ended{when}"
    if evidence.signal is not None:
        outside = evidence.signal in _FROM_OUTSIDE
        name = signal_name(evidence.signal)
        verb = "was killed by" if outside else "crashed with"
        return "killed" if outside else "crashed", f"it {verb} {name}{when}"
    return _failed(ending, evidence.said or "")


def _lack_of_memory(
    ending: Ending, evidence: Evidence, output: str, *, bounded: bool
) -> str | None:
    """In which way memory ran out; None: it did not."""
    if ending.id == _BEYOND_MEMORY:
        return "there was no memory for one batch"
    if ending.starved is not None:
        return ending.starved
    if ending.hung:
        return "it hung with its data segments full" if ending.full else None
    if evidence.signal == signal.SIGKILL and (evidence.oom_kills or evidence.kernel):
        return "the kernel killed it: memory ran out"
    failed = bool(ending.code or ending.problem)
    if failed and (says_ran_out(evidence.said or "") or says_ran_out(output)):
        return "an allocation failed"
    if ending.code and bounded and says_no_stack(output):
        return "there was no room for a thread's stack"
    return None


def _failed(ending: Ending, message: str) -> tuple[State, str]:
    """Of one that ended by itself."""
    no_disk = bool(ending.code or ending.problem) and any(word in message for word in _DISK_WORDS)
    if ending.kind == RecordingError.__name__ or no_disk:
        return "unrecorded", message
    if ending.error is not None and ending.kind in _REFUSALS:
        return "refused", ending.error
    if ending.code or ending.problem:
        return "crashed", message or f"it ended with exit code {ending.code}"
    return "trained", ""


def _when(steps: int) -> str:
    """When in its life: the paper tells models that never start from those that crash later."""
    if not steps:
        return " before the first step was done"
    return f" after {steps} step{'s' if steps > 1 else ''}"


def _last_line(output: str) -> str | None:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:500] if lines else None


def _kernel_log(log: Path) -> list[tuple[float, str]]:
    """Records of the kernel's log as seconds since boot and text; empty where it is forbidden."""
    try:
        descriptor = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return []
    records = []
    try:
        while record := _next_record(descriptor):
            head, _, text = record.decode("utf-8", errors="replace").partition(";")
            fields = head.split(",")
            if len(fields) > 2 and fields[2].isdigit():
                records.append((int(fields[2]) * 1e-6, text.splitlines()[0] if text else ""))
    finally:
        os.close(descriptor)
    return records


def _next_record(descriptor: int) -> bytes:
    """Reads a record; b"" at the end."""
    while True:
        try:
            return os.read(descriptor, _RECORD)
        except OSError as error:
            if error.errno != errno.EPIPE:  # overwritten while we read: the next one is there
                return b""
