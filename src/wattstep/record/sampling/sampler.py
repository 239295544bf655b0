"""Starts the sampler's child, gets it the best scheduling that is granted, and ends it."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import random
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from wattstep.errors import RecordingError
from wattstep.record.sampling.plan import Plan
from wattstep.schema.journal import SAMPLE_HEADER, samples_name
from wattstep.schema.run_info import PlannedRead
from wattstep.store.segments import last_segments

CHILD_FILE = Path(__file__).with_name("child.py")
PATIENCE_S = 10.0  # with its start and its end
SLICE_NS = 100_000
_MOST_DESCRIPTORS = 250  # in one message: the kernel takes 253
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274, "armv7l": 380, "riscv64": 274}
# struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period (man sched_setattr)
_SCHED_ATTR = struct.Struct("<IIQiIQQQ")


class Sampler:
    """The child process that samples into a folder of journals.

    Args:
        plan: Reads to make.
        folder: Folder of the journals; it exists.
        open_counters: Opens the perf counters of the training process. It is called after the
            child was started: a counter that children inherit must not count the sampler.
        ours: Other children of the training process that are no part of it, running already.
        segment: Bytes from which on a journal goes on in a new file; 0: never.
        packer: Command of the process that packs the files before; it is given the child's id as last
            argument. None: nobody does.
        child: Arguments of Python for the child.
        patience_s: Time for which its first sample is waited for, and its end.
    """

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        open_counters: Callable[[], Sequence[int]] | None = None,
        ours: Sequence[int] = (),
        *,
        segment: int = 0,
        packer: Sequence[str] = (),
        child: Sequence[str] = (str(CHILD_FILE),),
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.plan = plan
        self._ours = tuple(ours)
        self._segment, self._packer = segment, list(packer)
        self._child = tuple(child)
        self._patience_s = patience_s
        self.scheduling = ""
        self._folder = folder
        self.open_counters = open_counters
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._reason: str | None = None  # why the child is gone
        self.told_why = False  # it said so itself: nobody killed it

    @property
    def pid(self) -> int:
        """Of the child."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Starts the child and waits for its first samples.

        Raises:
            RecordingError: It cannot be started, or does not sample.
        """
        ours, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", *self._child],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=dict(os.environ),
                start_new_session=True,  # the kernel groups by session: see DESIGN, section 6
            )
        except OSError as error:
            ours.close()
            raise RecordingError(
                f"the sampler cannot be started: {error}", id="sampler-start"
            ) from error
        finally:
            theirs.close()
        self._socket = ours
        try:
            self.scheduling = grant_scheduling(self._process.pid)
            self._send_plan()
            self._await_first_sample()
        except BaseException:
            self.stop()
            raise

    def _send_plan(self) -> None:
        assert self._process is not None
        assert self._socket is not None
        ours = [self._process.pid, *self._ours]
        entries = [{**entry, "excluded": ours} for entry in self.plan.entries]
        document = {
            "folder": str(self._folder),
            "period_ns": round(self.plan.period_s * 1e9),
            "parent": os.getpid(),
            "seed": random.SystemRandom().getrandbits(32),
            "dither": self.plan.dither,
            "segment": self._segment,
            "packer": self._packer,
            "reads": entries,
        }
        counters: Sequence[int] = ()
        if self.open_counters is not None and any(e["parser"] == "perf" for e in entries):
            counters = self.open_counters()
        try:
            for first in range(0, len(counters), _MOST_DESCRIPTORS):
                some = counters[first : first + _MOST_DESCRIPTORS]
                socket.send_fds(self._socket, [b" "], list(some))
            # What is no UTF-8 in a path goes as an escape, which the child's literals have too.
            text = json.dumps(document, ensure_ascii=False)
            self._socket.sendall(text.encode(errors="backslashreplace") + b"\n")
        except OSError as error:
            raise RecordingError(f"the sampler takes no plan: {error}") from error
        finally:
            for fd in counters:
                os.close(fd)

    def _await_first_sample(self) -> None:
        assert self._socket is not None
        self._socket.settimeout(self._patience_s)
        try:
            answer = self._socket.recv(4096).decode()
        except OSError as error:
            raise RecordingError(f"the sampler does not answer: {error}") from error
        self._socket.setblocking(False)
        if not answer.startswith("sampling"):
            reason = answer.replace("failed: ", "").strip() or "no reason given"
            raise RecordingError(f"the sampler ended at once: {reason}", id="sampler-ended")

    def lost(self) -> str | None:
        """Reason why the child is gone, or None while it samples."""
        if self._reason is None and self._process is not None and self._process.poll() is not None:
            words = self._last_words()
            self.told_why = bool(words)
            self._reason = words or f"it ended with {exit_words(self._process.returncode)}"
        return self._reason

    def last_sample_ns(self) -> int | None:
        """The time of the last sample that is on disk, or None where there is none."""
        return last_sample_ns(self._folder, self.plan.sampled)

    def _last_words(self) -> str:
        if self._socket is None:
            return ""
        try:
            message = self._socket.recv(4096).decode(errors="replace")
        except OSError:
            return ""
        return message.replace("sampling\n", "").replace("failed: ", "").strip()

    def stop(self) -> str | None:
        """Ends the child; returns why it had ended before, or None where it had not."""
        if self._socket is None:  # stopped already
            return None
        reason = self.lost()
        if self._process is not None and reason is None:
            self._process.terminate()
            try:
                self._process.wait(self._patience_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    # One that hangs in the kernel ends when its device answers, or never.
                    self._process.wait(self._patience_s)
                reason = "it did not end when told to"
            if reason is None and self._process.returncode != 0:
                reason = self._last_words() or exit_words(self._process.returncode)
        self._socket.close()
        self._socket = None
        return reason


def last_sample_ns(folder: Path, reads: Iterable[PlannedRead]) -> int | None:
    """The time of the last whole row in the journals of these reads, or None where there is none."""
    times = (
        _last_time(path, len(read.channels))
        for read in reads
        for path in last_segments(folder / samples_name(read.number))
    )
    return max((t_ns for t_ns in times if t_ns is not None), default=None)


def _last_time(path: Path, channels: int) -> int | None:
    """Time of the last whole row of a journal of samples."""
    size = 8 * (SAMPLE_HEADER + channels)
    try:
        with path.open("rb") as file:
            rows = file.seek(0, os.SEEK_END) // size
            file.seek(max(rows - 1, 0) * size)
            return int.from_bytes(file.read(8), "little") if rows else None
    except OSError:
        return None


def exit_words(code: int) -> str:
    """End of a process in words, e.g. "signal 9"."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def grant_scheduling(pid: int) -> str:
    """Asks for the scheduling that wakes the child soonest, and says what was granted.

    FIFO priority needs a privilege; a short slice needs Linux 6.12; a session of its own and a
    timer slack of 1 ns need nothing. Beside a real training on all cores FIFO was on time within
    0.1 ms in 99 of 100 ticks, the short slice within 0.1 to 2.9 ms (docs/measured.md).
    """
    try:
        # Reset on fork: the child's thread for slow reads must not run before the training.
        os.sched_setscheduler(pid, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        return "FIFO priority, own session"
    except (OSError, AttributeError):
        pass
    if _short_slice(pid):
        return "short slice, own session"
    return "own session"


def _short_slice(pid: int) -> bool:
    number = _SCHED_SETATTR.get(platform.machine())
    release = tuple(int(part) for part in platform.release().split(".")[:2] if part.isdigit())
    if number is None or release < (6, 12):
        return False
    attributes = ctypes.create_string_buffer(
        _SCHED_ATTR.pack(_SCHED_ATTR.size, 0, 0, 0, 0, SLICE_NS, 0, 0)
    )
    return bool(ctypes.CDLL(None, use_errno=True).syscall(number, pid, attributes, 0) == 0)
