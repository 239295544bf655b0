"""Child processes of wattstep: how they are started and listened to."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypedDict, TypeVar

from wattstep.errors import WattstepError

_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>
LISTEN_EVERY_S: Final = 0.5
_TOLD_S = 1.0  # after which a child that goes on is told of Ctrl-C
_ONCE_S = 5.0  # in which a signal that comes twice is one, on a busy machine, too
_START = """\
import os, sys
parent = os.getppid()
try:
    import importlib
    sys.path[:] = sys.argv.pop(1).splitlines()
    module, function = sys.argv.pop(1).split(":")
    code = getattr(importlib.import_module(module), function)()
except KeyboardInterrupt:
    code = 130
except BrokenPipeError:
    if os.getppid() == parent:
        raise
    code = 141  # who listened was killed
raise SystemExit(code)
"""


class ProgressFacts(TypedDict):
    """How far a run is, as `train.progress.Progress`."""

    stage: str
    share: float
    steps: int
    loss: float | None
    said: str
    ahead: str
    unpowered: str


class ChildNews(TypedDict, total=False):
    """A line of what a child says: how far it is, a warning, or how it ended.

    `error`, `id` and `kind` are as `WattstepError.document` has them, `run` is the folder of a run
    that was recorded, and `problem` why that ended early. A child with more to say has a subclass.
    """

    progress: ProgressFacts
    stage: str
    step: int
    day: int
    batch_size: int
    accuracy: float
    run: str
    warning: str
    error: str
    id: str
    kind: str
    problem: str | None


News = TypeVar("News", bound=ChildNews)


def refusal_news(error: WattstepError) -> ChildNews:
    """News of what ended a child that the user can mend."""
    document = error.document()
    return {"error": document["error"], "id": document["id"], "kind": document["kind"]}


def child_command(entry: str, *arguments: str) -> list[str]:
    """The command that calls `entry` ("module:function") in a child with the same import path.

    `-m` would put the user's working directory first, and a file of theirs could shadow a library;
    here the child searches exactly where the parent does. The function finds `arguments` from
    `sys.argv[1]` on; what it returns is the exit code.
    """
    paths = "\n".join(str(Path(entry or ".").absolute()) for entry in sys.path)
    return [sys.executable, "-c", _START, paths, entry, *arguments]


def _not_looking(silent_s: float) -> None:
    """For those who only listen."""


def _not_telling() -> None:
    """For those whose child gets Ctrl-C from the terminal alone."""


def obey_ctrl_c_once() -> None:
    """Has Ctrl-C raise KeyboardInterrupt, and do nothing more for some seconds, in which what was begun is ended.

    A terminal sends it to us and to who started us, who passes it on, since `kill -INT` reaches that one alone.
    """
    obeyed = -_ONCE_S

    def obey(number: int, frame: FrameType | None) -> None:
        nonlocal obeyed
        now = time.monotonic()
        if now - obeyed > _ONCE_S:
            obeyed = now
            raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, obey)


def listen(
    reading: int,
    hear: Callable[[News], None],
    look: Callable[[float], None] = _not_looking,
    every_s: float = LISTEN_EVERY_S,
    tell: Callable[[], None] = _not_telling,
) -> bool:
    """Passes on what a child says, as JSON lines on a pipe, until it ends; closes the pipe.

    Args:
        reading: Our end of the pipe; the child holds the only other one.
        hear: Told each line; one that the child's end cut off is none.
        look: Called after each news, and while none come, with the seconds since the last.
        every_s: How often it is called while none come.
        tell: Called where the child goes on for a second after Ctrl-C, to pass it on.

    Returns:
        Whether Ctrl-C came meanwhile. What the child says then still counts.
    """
    stopped, told, unread, heard = inf, False, b"", time.monotonic()
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while True:
            try:
                while b"\n" in unread:
                    line, _, unread = unread.partition(b"\n")
                    hear(json.loads(line))
                look(time.monotonic() - heard)
                if not told and time.monotonic() - stopped > _TOLD_S:
                    told = True
                    tell()
                if not readable(pipe.fileno(), every_s):
                    continue
                heard = time.monotonic()
                data = pipe.read(65536)
                if not data:
                    return stopped < inf
                unread += data
            except KeyboardInterrupt:
                stopped = min(stopped, time.monotonic())


def readable(fd: int, seconds: float) -> bool:
    """True once something can be read, or the other end is closed; False after so many seconds.

    A training may hold thousands of files open, and `select` knows descriptors below 1,024 alone.
    """
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(seconds, 0.0) * 1e3))


def outwait(
    child: subprocess.Popen[Any], tell: Callable[[], None] | None = None
) -> tuple[int, bool]:
    """The exit code of a child, which gets Ctrl-C as well and may take its time to end; whether Ctrl-C came.

    Args:
        child: The child.
        tell: Called where it goes on for a second after Ctrl-C, to pass it on.
    """
    stopped, patience = False, None
    while True:
        try:
            return child.wait(patience), stopped
        except KeyboardInterrupt:
            stopped, patience = True, None if tell is None else _TOLD_S
        except subprocess.TimeoutExpired:
            patience = None
            if tell is not None:
                tell()


class SignalsSeen:
    """Which signals a Python child has seen: it writes their numbers into a pipe, whatever it does with them.

    `kill -INT` reaches us alone where a terminal reaches the child as well, and who passes every
    signal on tells the child twice.

    Attributes:
        writing: The child's end, for `pass_fds`, and for `tell_signals` there.
    """

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)

    def close(self) -> None:
        """Closes both ends of the pipe."""
        os.close(self._reading)
        os.close(self.writing)

    def saw(self, number: int) -> bool:
        """Whether the child has seen a signal since this was last asked."""
        try:
            return number in os.read(self._reading, 1 << 20)
        except BlockingIOError:
            return False


def tell_signals(writing: int) -> None:
    """Has this process write the number of each signal that Python handles into a pipe (`SignalsSeen`)."""
    os.set_inheritable(writing, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)


def signal_name(number: int) -> str:
    """A signal as sentences name it: "signal 11 (SIGSEGV)"."""
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def ending_words(code: int) -> str:
    """How a child ended: "was killed by signal 9 (SIGKILL)", "ended with exit code 1".

    Args:
        code: As `subprocess.Popen.returncode`: below 0 for a signal.
    """
    return f"was killed by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"


def end_with(parent: int) -> None:
    """Has the kernel end this process with another, however that ends.

    Args:
        parent: The process that started this one.
    """
    import ctypes  # which commands that start no process need not load

    ctypes.CDLL(None, use_errno=True).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it ended in between
        raise SystemExit(1)


@contextmanager
def tidied_at_sigterm() -> Iterator[None]:
    """SIGTERM ends what runs in here by an exception, so that whatever is temporary is removed, and runs are closed.

    Where somebody else handles it, or in another thread than the main one, it stays as it is. A second
    one (to a whole group, and passed on) interrupts none of that.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def end(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class Terminated(SystemExit):
    """SIGTERM or SIGHUP ended us, and the child that worked for us before: whoever starts several starts no more.

    Args:
        number: Of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number

    def __str__(self) -> str:
        return f"ended by {signal_name(self.number)}"


@contextmanager
def passes_on(child: subprocess.Popen[Any]) -> Iterator[list[int]]:
    """Passes SIGTERM and SIGHUP on to a child, which decides what they do (torchrun ends ranks so).

    Yields:
        The numbers of those that came.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came  # only the main thread may handle signals
        return

    def pass_on(number: int, _: FrameType | None) -> None:
        came.append(number)
        child.send_signal(number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, pass_on)
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def ends_with_us(child: subprocess.Popen[Any]) -> Iterator[None]:
    """SIGTERM and SIGHUP end a child, which would go on without us, and us once it has ended.

    Raises:
        Terminated: One of them came.
    """
    with passes_on(child) as came:
        yield
    if came:
        raise Terminated(came[0])


def give_back_free_memory() -> None:
    """Gives back to the system what this process's allocator holds free, where the C library can (glibc's)."""
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
