"""Push sources: sensors without a file, which emit rows of a vendor's library, a command, a cable or a recording."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

DITHER = 0.05  # of the period, as the sampler's own ticks
ENDING_S = 2.0  # what a command is given to end before it is killed
LONGEST_LINE = 1 << 16

# position of the read within its push source, t_ns of the monotonic clock, errno (0: read),
# raw integers (None: failed; a MISSING among them: this channel alone has no value)
Emit = Callable[[int, int, int, Sequence[int] | None], None]


class PushSource(Protocol):
    """Gives the rows of reads that no file gives.

    It runs in the collector, an ordinary process beside the sampler, in a thread of its
    own. It is made by the function that `SensorRead.push_source` names, called with
    `SensorRead.push_settings` as keyword arguments and `period_s`, the time between rows that is
    wanted.
    """

    def run(self, emit: Emit, stop: threading.Event) -> None:
        """Gives rows until `stop` is set, then returns soon; returns early when its source ends.

        Raises:
            OSError: The source failed; the collector records why, and the other push sources go on.
        """
        ...


def ticks(period_s: float, stop: threading.Event) -> Iterator[int]:
    """Times in ns at which to read, dithered around the period; a tick that is past is lost."""
    period = max(round(period_s * 1e9), 1)
    base = time.monotonic_ns()
    while not stop.is_set():
        yield time.monotonic_ns()
        base += period
        now = time.monotonic_ns()
        if now > base + period:
            base += (now - base) // period * period
        due = base + round(random.uniform(-DITHER, DITHER) * period)
        if stop.wait(max(due - now, 0) * 1e-9):
            return


def lines(command: Sequence[str], stop: threading.Event) -> Iterator[tuple[int, bytes]]:
    """The lines that a command prints, each with the time in ns at which it came; ends the command.

    Raises:
        OSError: It cannot be started, or ended by itself with an error.
    """
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        start_new_session=True, env=dict(os.environ),
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            yield from _split(process.stdout.fileno(), stop)
            if not stop.is_set() and process.wait(ENDING_S) != 0:
                raise OSError(5, f"{command[0]} ended with {process.returncode}")
        except subprocess.TimeoutExpired:
            raise OSError(5, f"{command[0]} closed its output and did not end") from None
        finally:
            _end(process)


def _split(fd: int, stop: threading.Event) -> Iterator[tuple[int, bytes]]:
    rest = b""
    while not stop.is_set():
        if not select.select([fd], [], [], 0.2)[0]:
            continue
        part = os.read(fd, LONGEST_LINE)
        now = time.monotonic_ns()
        if not part:
            return
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            yield now, line
        rest = rest[-LONGEST_LINE:]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the command and what it has started; it has a process group of its own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        try:
            os.killpg(process.pid, number)
            process.wait(ENDING_S)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
