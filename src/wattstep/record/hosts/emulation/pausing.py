"""Pauses of the training that stand for a lowered clock, and the process that ends a pause whatever happens."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Final

LEAST_S: Final = (
    0.5e-3  # a shorter pause costs more than it is worth: it is owed until there is more
)
STOPPED: Final = b"S"
GOES_ON: Final = b"C"


class Pauser:
    """Slows a process down by stopping it (SIGSTOP) for as long as its work would have taken more.

    CPU time t at the relative clock r takes t × (1 + share × (1/r - 1)). Before each stop a
    guardian in a session of its own is told; when this process ends within a pause, however that
    happens, the guardian lets the training go on.

    Args:
        pid: The training process. Its children are not paused.
        share: Part of its time that goes with the clock, from 0 to 1; the rest waits for memory.

    Attributes:
        paused_s: All pauses so far.

    Raises:
        OSError: The process is gone, or the kernel knows no file descriptors of processes
            (before Linux 5.3).
    """

    def __init__(self, pid: int, share: float) -> None:
        self._share, self._owed_s = share, 0.0
        self.paused_s = 0.0
        self._process = os.pidfd_open(pid)
        self._guardian = _start_guardian(self._process)

    def owe(self, busy_s: float, stretch: float) -> None:
        """So long the process was at work, at a clock by which it would have been `stretch` times slower."""
        self._owed_s += busy_s * self._share * (stretch - 1.0)

    def pay(self) -> float:
        """Pauses the process for what is owed; how long it was in s.

        Raises:
            BrokenPipeError: The guardian ended: nothing is stopped any more.
        """
        if self._owed_s < LEAST_S:
            return 0.0
        os.write(self._guardian, STOPPED)
        begin = time.monotonic_ns()
        try:
            signal.pidfd_send_signal(self._process, signal.SIGSTOP)
            time.sleep(self._owed_s)
            signal.pidfd_send_signal(self._process, signal.SIGCONT)
        except ProcessLookupError:  # it has ended
            return 0.0
        seconds = (time.monotonic_ns() - begin) * 1e-9
        os.write(self._guardian, GOES_ON)
        self._owed_s -= seconds
        self.paused_s += seconds
        return seconds

    def close(self) -> None:
        """Ends the guardian, which ends a pause that an error left open."""
        os.close(self._guardian)
        os.close(self._process)


def _start_guardian(process: int) -> int:
    """The pipe to a process that continues another one where the pipe ends within a pause."""
    reading, writing = os.pipe()
    if os.fork():
        os.close(reading)
        return writing
    try:
        os.close(writing)
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        last = GOES_ON
        while data := os.read(reading, 64):
            last = data[-1:]
        if last == STOPPED:
            signal.pidfd_send_signal(process, signal.SIGCONT)
    finally:
        os._exit(0)


def is_job_of_a_shell(pid: int, root: Path = Path("/proc")) -> bool:
    """True if an interactive shell would take a pause of the process for its job that was stopped.

    That is the leader of a group of its own in another's session with a terminal (proc(5), stat:
    fields 5 to 7).
    """
    text = (root / f"{pid}/stat").read_text(encoding="utf-8", errors="replace")
    group, session, terminal = map(int, text.rpartition(")")[2].split()[2:5])
    return terminal != 0 and group == pid != session
