"""Starts the sampler's companion, which runs feeds, hears what becomes of each, and ends it."""

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
from wattstep.processes import child_command
from wattstep.sampling.plan import OWN, Plan, PlannedFeed
from wattstep.sampling.sampler import exit_words, last_sample_ns

CHILD = "wattstep.sampling.companion_child:main"
READY_S = 5.0  # what feeds are given for their first rows before recording goes on without them
STOP_S = 4.0
EARLY_NS = 500_000_000  # a source that ends this long before the run has left a gap


@dataclass(frozen=True, kw_only=True)
class News:
    """What became of a sensor whose rows a feed gives.

    Attributes:
        sensor: Its name.
        text: For the notes of the run.
        lost_ns: From when on nothing of it is recorded; None: it may come again.
        gap: From when to when nothing was recorded, where it has come again.
    """

    sensor: str
    text: str
    lost_ns: int | None = None
    gap: tuple[int, int] | None = None


class Companion:
    """The child process that runs the feeds of a plan; without feeds there is none.

    Args:
        plan: With the feeds.
        folder: Where the journals go; it exists.
    """

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan, self._folder = plan, folder
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._unread = b""
        self._heard: dict[int, dict[str, Any]] = {}  # the last of each feed
        self._ready = not plan.feeds
        self.failed = ""  # why it ended, in its own words
        self._started_ns = 0
        self._told: set[tuple[int, str]] = set()  # what of which feed was said

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
        if not self._plan.feeds:
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
            )
            document = {
                "folder": str(self._folder),
                "parent": os.getpid(),
                "feeds": [asdict(feed) for feed in self._plan.feeds],
            }
            self._socket.sendall(json.dumps(document).encode() + b"\n")
        except OSError as error:
            self.stop()
            raise RecordingError(
                f"the sampler's companion cannot be started: {error.strerror}"
            ) from error
        finally:
            theirs.close()

    def await_first_rows(self) -> list[News]:
        """Waits for a row of every feed, not long; what fails or is late is said."""
        end = self._started_ns * 1e-9 + READY_S
        while not self._ready and self.lost() is None and time.perf_counter() < end:
            self._hear(max(end - time.perf_counter(), 0.01))
        news = self.news()
        if not self._ready and self.lost() is None:
            late = self._sensors(n for n in range(len(self._plan.feeds)) if not self._begun(n))
            news += [
                News(sensor=name, text=f"{name} gave nothing within {READY_S:g} s: it begins later")
                for name in late
            ]
        return news

    def lost(self) -> str | None:
        """Why the child is gone, or None while it works, or where there is none."""
        if self._process is None or self._process.poll() is None:
            return None
        self._hear(0.0)
        return self.failed or f"it ended with {exit_words(self._process.returncode)}"

    def last_ns(self) -> int | None:
        """The time of the last row that is on disk, or None where there is none."""
        numbers = [number for feed in self._plan.feeds for number in feed.numbers]
        return last_sample_ns(self._folder, [self._plan.reads[n] for n in numbers])

    def news(self) -> list[News]:
        """What became of feeds since it was last asked."""
        reason = self.lost()
        if reason is not None:
            return self._all_lost(reason)
        self._hear(0.0)
        return [
            news
            for number, feed in enumerate(self._plan.feeds)
            if (news := self._news_of(number, feed)) is not None
        ]

    def _news_of(self, number: int, feed: PlannedFeed) -> News | None:
        heard = self._heard.get(number, {})
        state, reason = heard.get("state"), heard.get("reason")
        if state not in ("failing", "crashed") or (number, state) in self._told:
            return None
        if feed.sensor == OWN:  # its own clock is nothing that a reader misses
            return None
        self._told.add((number, state))
        if state == "failing":
            return News(
                sensor=feed.sensor, text=f"{feed.sensor} failed: {reason}; it was tried again"
            )
        return self._loss(
            number, f"{feed.sensor} was lost: {reason}; no samples of it from then on"
        )

    def stop(self) -> list[News]:
        """Ends the child; what is still to be said of its feeds."""
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
        """Feeds that gave nothing when the run ended."""
        found = []
        for number, feed in enumerate(self._plan.feeds):
            heard = self._heard.get(number, {})
            state, reason = heard.get("state"), heard.get("reason")
            if state in ("failing", "hanging"):
                text = f"{feed.sensor} was lost: {reason}; no samples of it from then on"
                found.append(self._loss(number, text))
            elif state == "ended" and self._since(number) < stopped_ns - EARLY_NS:
                seconds = (stopped_ns - self._since(number)) * 1e-9
                text = (
                    f"{feed.sensor} ended {seconds:.1f} s before the run: no samples from then on"
                )
                found.append(self._loss(number, text))
        return found

    def _all_lost(self, reason: str) -> list[News]:
        """The companion is gone: one line a sensor, once."""
        found = []
        for number, feed in enumerate(self._plan.feeds):
            if self._heard.get(number, {}).get("state") == "gone":
                continue
            since = self._since(number)
            self._heard[number] = {"state": "gone", "last_ns": since}
            if feed.sensor != OWN:
                text = (
                    f"{feed.sensor} was lost with the sampler's companion: {reason}; "
                    "no samples of it from then on"
                )
                found.append(News(sensor=feed.sensor, text=text, lost_ns=since))
        return found

    def _loss(self, number: int, text: str) -> News:
        return News(sensor=self._plan.feeds[number].sensor, text=text, lost_ns=self._since(number))

    def _since(self, number: int) -> int:
        """The last that is known of a feed: as it said, else its last row on disk."""
        said = self._heard.get(number, {})
        if said.get("state", "giving") not in ("starting", "giving"):
            return int(said["last_ns"] or self._started_ns)
        reads = [self._plan.reads[n] for n in self._plan.feeds[number].numbers]
        return last_sample_ns(self._folder, reads) or self._started_ns

    def _begun(self, number: int) -> bool:
        return number in self._heard and self._heard[number]["state"] != "starting"

    def _sensors(self, numbers: Iterator[int]) -> list[str]:
        return list(dict.fromkeys(self._plan.feeds[n].sensor for n in numbers))

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

    def _take(self, said: dict[str, Any]) -> None:
        if "feed" in said:
            self._heard[said["feed"]] = said
        self._ready = self._ready or "ready" in said
        self.failed = said.get("failed", self.failed)
