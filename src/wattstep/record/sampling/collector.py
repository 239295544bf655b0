"""Starts the collector, which runs push sources, hears what becomes of each, and ends it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wattstep.errors import RecordingError
from wattstep.record.sampling.plan import OWN, Plan, PlannedSource
from wattstep.record.sampling.sampler import exit_words, last_sample_ns
from wattstep.schema.processes import child_command

CHILD = "wattstep.record.sampling.collector_child:main"
READY_S = 5.0  # for the first rows of push sources; then recording goes on without them
STOP_S = 4.0
EARLY_NS = 500_000_000  # a source that ends this long before the run has left a gap


@dataclass(frozen=True, kw_only=True)
class News:
    """News of a sensor whose rows a push source emits.

    Attributes:
        sensor: Its name.
        text: For the notes of the run.
        lost_ns: Time from which on nothing of it is recorded; None: it may come again.
        gap: Begin and end in ns of the time in which nothing was recorded, where it has come again.
    """

    sensor: str
    text: str
    lost_ns: int | None = None
    gap: tuple[int, int] | None = None


class Collector:
    """The child process that runs the push sources of a plan; without any there is none.

    Args:
        plan: With the push sources.
        folder: Folder of the journals; it exists.
        segment: Bytes from which on a journal goes on in a new file; 0: never.
    """

    def __init__(self, plan: Plan, folder: Path, segment: int = 0) -> None:
        self._plan, self._folder, self._segment = plan, folder, segment
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._unread = b""
        self._heard: dict[int, dict[str, Any]] = {}  # the last of each push source
        self._ready = not plan.sources
        self.failed = ""  # why it ended, in its own words
        self._started_ns = 0
        self._reported: set[tuple[int, str]] = set()  # what of which push source was said

    @property
    def pids(self) -> tuple[int, ...]:
        """The process, where there is one."""
        return () if self._process is None else (self._process.pid,)

    def start(self) -> None:
        """Starts the child and does not wait for it.

        It is started before perf counters of the training are opened: they would count it.

        Raises:
            RecordingError: It cannot be started.
        """
        if not self._plan.sources:
            return
        self._started_ns = time.perf_counter_ns()
        self._socket, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                child_command(CHILD),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=dict(os.environ),
            )
            document = {
                "folder": str(self._folder),
                "parent": os.getpid(),
                "segment": self._segment,
                "sources": [asdict(source) for source in self._plan.sources],
            }
            self._socket.sendall(json.dumps(document).encode() + b"\n")
        except OSError as error:
            self.stop()
            raise RecordingError(f"the collector cannot be started: {error.strerror}") from error
        finally:
            theirs.close()

    def await_first_rows(self) -> list[News]:
        """Waits for a row of every push source, not long; what fails or is late is said."""
        end = self._started_ns * 1e-9 + READY_S
        while not self._ready and self.lost() is None and time.perf_counter() < end:
            self._hear(max(end - time.perf_counter(), 0.01))
        news = self.news()
        if not self._ready and self.lost() is None:
            late = self._sensors(n for n in range(len(self._plan.sources)) if not self._begun(n))
            news += [
                News(sensor=name, text=f"{name} gave nothing within {READY_S:g} s: it begins later")
                for name in late
            ]
        return news

    def lost(self) -> str | None:
        """Reason why the child is gone, or None while it works, or where there is none."""
        if self._process is None or self._process.poll() is None:
            return None
        self._hear(0.0)
        return self.failed or f"it ended with {exit_words(self._process.returncode)}"

    def last_ns(self) -> int | None:
        """The time of the last row that is on disk, or None where there is none."""
        numbers = [number for source in self._plan.sources for number in source.numbers]
        return last_sample_ns(self._folder, [self._plan.reads[n] for n in numbers])

    def news(self) -> list[News]:
        """News of push sources since the last call."""
        reason = self.lost()
        if reason is not None:
            return self._all_lost(reason)
        self._hear(0.0)
        return [
            news
            for number, source in enumerate(self._plan.sources)
            if (news := self._news_of(number, source)) is not None
        ]

    def _news_of(self, number: int, source: PlannedSource) -> News | None:
        heard = self._heard.get(number, {})
        state, reason = heard.get("state"), heard.get("reason")
        if state not in ("failing", "crashed") or (number, state) in self._reported:
            return None
        if source.sensor == OWN:  # its own clock is nothing that a reader misses
            return None
        self._reported.add((number, state))
        if state == "failing":
            return News(
                sensor=source.sensor, text=f"{source.sensor} failed: {reason}; it was tried again"
            )
        return self._loss(
            number, f"{source.sensor} was lost: {reason}; no samples of it from then on"
        )

    def stop(self) -> list[News]:
        """Ends the child; what is still to be said of its push sources."""
        if self._socket is None:
            return []
        stopped_ns = time.perf_counter_ns()
        news = self.news()
        if self._process is not None and self.lost() is None:
            self._end(self._process)
            self._hear(0.0)
            reason = self.failed or exit_words(self._process.returncode)
            failed = self._process.returncode != 0
            news += self._all_lost(reason) if failed else self._last_news(stopped_ns)
        self._socket.close()
        self._socket = None
        return news

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self.failed = "it did not end when told to"

    def _last_news(self, stopped_ns: int) -> list[News]:
        """News of push sources that emitted nothing when the run ended."""
        news = []
        for number, source in enumerate(self._plan.sources):
            heard = self._heard.get(number, {})
            state, reason = heard.get("state"), heard.get("reason")
            if state in ("failing", "hanging"):
                text = f"{source.sensor} was lost: {reason}; no samples of it from then on"
                news.append(self._loss(number, text))
            elif state == "ended" and self._since(number) < stopped_ns - EARLY_NS:
                seconds = (stopped_ns - self._since(number)) * 1e-9
                text = (
                    f"{source.sensor} ended {seconds:.1f} s before the run: no samples from then on"
                )
                news.append(self._loss(number, text))
        return news

    def _all_lost(self, reason: str) -> list[News]:
        """The collector is gone: one line a sensor, once."""
        news = []
        for number, source in enumerate(self._plan.sources):
            if self._heard.get(number, {}).get("state") == "gone":
                continue
            since = self._since(number)
            self._heard[number] = {"state": "gone", "last_ns": since}
            if source.sensor != OWN:
                text = (
                    f"{source.sensor} was lost with the collector: {reason}; "
                    "no samples of it from then on"
                )
                news.append(News(sensor=source.sensor, text=text, lost_ns=since))
        return news

    def _loss(self, number: int, text: str) -> News:
        return News(
            sensor=self._plan.sources[number].sensor, text=text, lost_ns=self._since(number)
        )

    def _since(self, number: int) -> int:
        """The last that is known of a push source: as it said, else its last row on disk."""
        heard = self._heard.get(number, {})
        if heard.get("state", "emitting") not in ("starting", "emitting"):
            return int(heard["last_ns"] or self._started_ns)
        reads = [self._plan.reads[n] for n in self._plan.sources[number].numbers]
        return last_sample_ns(self._folder, reads) or self._started_ns

    def _begun(self, number: int) -> bool:
        return number in self._heard and self._heard[number]["state"] != "starting"

    def _sensors(self, numbers: Iterator[int]) -> list[str]:
        return list(dict.fromkeys(self._plan.sources[n].sensor for n in numbers))

    def _hear(self, wait_s: float) -> None:
        """Takes in what the child says, and waits for a word of it at most so long."""
        if self._socket is None:
            return
        self._socket.settimeout(wait_s)
        try:
            while part := self._socket.recv(1 << 16):
                self._unread += part
                self._socket.settimeout(0.0)
        except (TimeoutError, BlockingIOError, ConnectionResetError):
            pass
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            self._take(json.loads(line))

    def _take(self, message: dict[str, Any]) -> None:
        if "source" in message:
            self._heard[message["source"]] = message
        self._ready = self._ready or "ready" in message
        self.failed = message.get("failed", self.failed)
