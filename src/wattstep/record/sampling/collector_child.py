"""The collector: runs push sources in threads, appends their rows to journals, and says what becomes of each.

It is an ordinary process beside the sampler's child: a push source may load a vendor's library,
run a command or wait for a cable, and none of that may delay a tick. It ends on SIGTERM, or when its
parent's id changes (a signal at the parent's death would come when the thread ends that started
it, which need not be the process).
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from wattstep.record.push_sources import PushSource, ticks
from wattstep.record.sampling.child import read_children
from wattstep.schema.journal import MISSING, SAMPLE_HEADER, samples_name
from wattstep.store.files import write_whole
from wattstep.store.segments import SegmentedFile

NICE = 5
LOOK_S = 0.1  # how often rows go to disk, and it is looked whether to end
ENDING_S = 1.2  # what push sources are given to end
SILENT_S, SILENT_PERIODS = 2.0, 5  # one that does not end, and has given nothing for so long, hangs
FIRST_RETRY_S, LONGEST_RETRY_S = 1.0, 30.0


class Journal:
    """Rows of int64 of one read: t_ns, errno, values; threads add, the main thread writes."""

    def __init__(self, path: Path, width: int, segment: int = 0) -> None:
        self.width = width
        self._file = SegmentedFile(path, segment)
        self._row = struct.Struct(f"<{SAMPLE_HEADER + width}q")
        self._rows: list[bytes] = []
        self._lock = threading.Lock()
        size = os.fstat(self._file.fd).st_size
        if size or self._file.number:  # of a collector that was killed, perhaps in a row
            os.ftruncate(self._file.fd, size - size % self._row.size)
            self.add(time.monotonic_ns(), errno.EOWNERDEAD, None)

    def add(self, t_ns: int, code: int, values: Sequence[int] | None) -> None:
        """Keeps one row; without values it says why there are none.

        Raises:
            struct.error: There are more or fewer values than channels, or one is beyond 64 bits.
        """
        if values is None:
            code, values = code or errno.EIO, (MISSING,) * self.width
        row = self._row.pack(t_ns, code, *values)
        with self._lock:
            self._rows.append(row)

    def flush(self) -> None:
        """Writes what has gathered, whole or not at all.

        Raises:
            OSError: The disk is full.
        """
        with self._lock:
            rows, self._rows = self._rows, []
        if rows:
            write_whole(self._file.fd, b"".join(rows))
            self._file.go_on()


class Worker(threading.Thread):
    """Thread that runs one push source.

    Attributes:
        state: "starting", "emitting", "failing" (it is tried again), "ended" (its source did),
            "crashed" or "hanging".
        reason: Cause of its failure.
        last_ns: Time of the last row that held values, or None.
    """

    def __init__(
        self, planned: Mapping[str, Any], folder: Path, segment: int, stop: threading.Event
    ) -> None:
        super().__init__(daemon=True)
        self.state, self.reason = "starting", ""
        self.last_ns: int | None = None
        self.journals = [
            Journal(folder / samples_name(number), width, segment)
            for number, width in zip(planned["numbers"], planned["widths"], strict=True)
        ]
        self._planned = planned
        self._stop_event = stop

    def run(self) -> None:
        """Runs the push source, again and again ever more seldom where its source fails."""
        wait = FIRST_RETRY_S
        while not self._stop_event.is_set():
            before = self.last_ns
            try:
                self._source().run(self._emit, self._stop_event)
                if not self._stop_event.is_set():
                    self.state = "ended"
                return
            except OSError as error:
                self._failed(error)
            wait = FIRST_RETRY_S if self.last_ns != before else wait
            self._stop_event.wait(wait)
            wait = min(2 * wait, LONGEST_RETRY_S)

    def _source(self) -> PushSource:
        module, _, function = self._planned["function"].partition(":")
        make = getattr(importlib.import_module(module), function)
        made: PushSource = make(**self._planned["settings"], period_s=self._planned["period_s"])
        return made

    def _emit(self, position: int, t_ns: int, code: int, values: Sequence[int] | None) -> None:
        self.journals[position].add(t_ns, code, values)
        if values is not None:
            self.last_ns = t_ns
        self.state = "emitting"

    def _failed(self, error: OSError) -> None:
        self.state, self.reason = "failing", error.strerror or str(error) or type(error).__name__
        self._gap(error.errno or errno.EIO)

    def crashed(self, error: BaseException | None) -> None:
        """An error that is none of its source: it is not tried again."""
        self.state, self.reason = "crashed", f"{type(error).__name__}: {error}"
        self._gap(errno.EIO)

    def _gap(self, code: int) -> None:
        for journal in self.journals:
            journal.add(time.monotonic_ns(), code, None)

    def judge(self) -> None:
        """After the end: what has given nothing for long, and does not end, hangs."""
        silence_ns = max(SILENT_PERIODS * self._planned["period_s"], SILENT_S) * 1e9
        silent = self.last_ns is None or time.monotonic_ns() - self.last_ns > silence_ns
        if self.is_alive() and silent and self.state in ("starting", "emitting"):
            self.state, self.reason = "hanging", "it hangs"

    def news(self) -> dict[str, Any]:
        """State, reason and time of the last row, as the collector's process reports them."""
        return {"state": self.state, "reason": self.reason, "last_ns": self.last_ns}


class OwnTime:
    """A push source of the collector's own CPU time, with that of the commands its push sources run."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s

    def run(self, emit: Any, stop: threading.Event) -> None:
        """Gives ns of CPU time."""
        own = Path(f"/proc/{os.getpid()}")
        listed = (own / "task" / own.name / "children").exists()
        children = read_children(str(own), ()) if listed else None  # type: ignore[no-untyped-call]
        for now in ticks(self._period_s, stop):
            used = 0 if children is None else children()[0]
            emit(0, now, 0, (time.process_time_ns() + used,))


class Collector:
    """Runs the push sources of a plan until it is told to end, its parent is gone or the disk is full."""

    def __init__(self, plan: Mapping[str, Any], channel: socket.socket) -> None:
        self._parent = plan["parent"]
        self._channel = channel
        self._ending = False
        self._stop = threading.Event()
        folder = Path(plan["folder"])
        self._workers = [
            Worker(planned, folder, plan["segment"], self._stop) for planned in plan["sources"]
        ]
        self._reported: list[dict[str, Any]] = [{} for _ in self._workers]

    def end(self, number: int, frame: FrameType | None) -> None:
        """Signal handler. An Event must not be set here: the main thread may hold its lock."""
        self._ending = True

    def run(self) -> None:
        """Looks after the push sources.

        Raises:
            OSError: The disk is full.
        """
        threading.excepthook = _crashed
        for worker in self._workers:
            worker.start()
        ready = False
        while not self._ending and os.getppid() == self._parent:
            time.sleep(LOOK_S)
            self._flush()
            for number, worker in enumerate(self._workers):
                if worker.state != self._reported[number].get("state"):
                    self._tell(number)
            if not ready and all(worker.state != "starting" for worker in self._workers):
                ready = True
                self._say({"ready": True})
        self._stop.set()
        self._await_sources()

    def _await_sources(self) -> None:
        end = time.monotonic() + ENDING_S
        for number, worker in enumerate(self._workers):
            worker.join(max(end - time.monotonic(), 0.0))
            worker.judge()
            self._tell(number)
        self._flush()

    def _flush(self) -> None:
        for worker in self._workers:
            for journal in worker.journals:
                journal.flush()

    def _tell(self, number: int) -> None:
        news = self._workers[number].news()
        self._reported[number] = news
        self._say({"source": number, **news})

    def _say(self, news: Mapping[str, Any]) -> None:
        # A parent that never listens, or is gone, must stop nothing.
        with contextlib.suppress(OSError):
            self._channel.send(json.dumps(news).encode() + b"\n")


def _crashed(arguments: threading.ExceptHookArgs) -> None:
    if isinstance(arguments.thread, Worker):
        arguments.thread.crashed(arguments.exc_value)


def _receive(channel: socket.socket) -> dict[str, Any]:
    data = b""
    while not data.endswith(b"\n"):
        part = channel.recv(1 << 16)
        if not part:
            raise SystemExit(1)
        data += part
    plan: dict[str, Any] = json.loads(data)
    return plan


def _end_commands() -> None:
    """Kills what a push source that hangs has started, and will not end; children are listed by thread."""
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            for pid in (task / "children").read_text().split():
                os.kill(int(pid), signal.SIGKILL)


def main() -> int:
    """Takes the plan over the socket that is standard input, and ends with 1 on a full disk."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICE)
    channel = socket.socket(fileno=0)
    code = 0
    try:
        collector = Collector(_receive(channel), channel)
        channel.setblocking(False)
        signal.signal(signal.SIGTERM, collector.end)
        collector.run()
    except OSError as error:
        with contextlib.suppress(OSError):
            channel.send(json.dumps({"failed": error.strerror or str(error)}).encode() + b"\n")
        code = 1
    _end_commands()
    # A thread that hangs in a library could keep the interpreter from ending.
    os._exit(code)
