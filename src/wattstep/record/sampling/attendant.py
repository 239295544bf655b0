"""Keeps the sampler and its collector at work while a run records: one that ends unasked is started again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wattstep.errors import RecordingError
from wattstep.record.sampling.collector import Collector, News
from wattstep.record.sampling.plan import Plan
from wattstep.record.sampling.sampler import Sampler
from wattstep.schema.processes import child_command

PACKER: Final = "wattstep.store.packing:main"
LOOK_S: Final = 0.25  # how often it is looked; a look takes microseconds
WAITS_S: Final = (0.0, 0.2, 0.8, 3.2, 12.8)  # before it is started again, where it ends in a row
LASTING_S: Final = 30.0  # one that lived so long did not end in a row with the one before
MOST_STARTS: Final = 100  # in a run


@dataclass
class _Patience:
    """Backoff of one child: when, and how many times, it is started again."""

    began_s: float
    in_row: int = 0
    starts: int = 0
    due_s: float | None = None  # when it is to be started again
    over: bool = False

    def is_due(self, now_s: float, told_why: bool) -> bool:
        """True if a child that ended is to be started now; one that told why would end again."""
        if not self.over and self.due_s is None:
            self.in_row = 1 if now_s - self.began_s > LASTING_S else self.in_row + 1
            self.starts += 1
            self.over = told_why or self.in_row > len(WAITS_S) or self.starts > MOST_STARTS
            self.due_s = now_s + WAITS_S[min(self.in_row, len(WAITS_S)) - 1]
        return not self.over and self.due_s is not None and now_s >= self.due_s

    def begun(self, now_s: float) -> None:
        """It was started, or could not be: what comes next is another end."""
        self.began_s, self.due_s = now_s, None


class Attendant:
    """The children that sample, in their order, and a thread that looks whether they live.

    The collector is started before the perf counters of the training are opened, which would count
    it, and the sampler has those: where the collector is started again, so is the sampler.

    Args:
        plan: Reads to make.
        folder: Folder of the journals; it exists.
        open_counters: Opens the perf counters of the training. It is given None at the beginning;
            later the processes whose time is none of the training's, and must then count those
            children of the training that are there already.
        segment: Bytes from which on a journal goes on in a new file; those before are packed. 0: never.
    """

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        open_counters: Callable[[Collection[int] | None], Sequence[int]],
        segment: int = 0,
    ) -> None:
        self._plan, self._folder, self._segment = plan, folder, segment
        self._open_counters = open_counters
        self._collector = Collector(plan, folder, segment)
        self._sampler: Sampler | None = None
        self._news: list[News] = []
        self._loss_reported = False  # that the sampler is lost
        self._lock = threading.Lock()  # of all above, while they are started again
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._attend, name="wattstep-sampling", daemon=True)

    @property
    def scheduling(self) -> str:
        """Scheduling that the sampler was granted."""
        return "" if self._sampler is None else self._sampler.scheduling

    def start(self) -> list[News]:
        """Starts both, and waits for their first rows; what fails or is late is said.

        Raises:
            RecordingError: One cannot be started.
        """
        self._collector.start()
        try:
            self._sampler = self._started_sampler(first=True)
        except BaseException:
            self._collector.stop()
            raise
        now_s = time.perf_counter()
        self._of_sampler, self._of_collector = _Patience(now_s), _Patience(now_s)
        # A recording that is played would begin anew.
        channels = (channel for read in self._plan.reads for channel in read.channels)
        self._of_collector.over = any(channel.status == "replayed" for channel in channels)
        news = self._collector.await_first_rows()
        self._thread.start()
        return news

    def news(self) -> list[News]:
        """News of either since the last call; never waits."""
        if not self._lock.acquire(blocking=False):
            return []  # one is being started again
        try:
            news, self._news = self._news, []
            return [*news, *self._of_sources()]
        finally:
            self._lock.release()

    def stop(self) -> list[News]:
        """Ends both; what is still to be said."""
        self._stopping.set()
        with self._lock:
            if self._sampler is not None:
                before = self._sampler.lost()
                if reason := before or self._sampler.stop():
                    self._lose(reason)
                self._sampler.stop()
            news, self._news = self._news, []
            return [*news, *self._collector.stop()]

    def _of_sources(self) -> list[News]:
        ended = self._collector.lost() is not None
        return [] if ended and not self._of_collector.over else self._collector.news()

    def _started_sampler(self, *, first: bool = False) -> Sampler:
        ours = self._collector.pids
        sampler = Sampler(
            self._plan,
            self._folder,
            lambda: [],
            ours,
            segment=self._segment,
            packer=child_command(PACKER) if self._segment else (),
        )
        sampler.open_counters = lambda: self._open_counters(None if first else (*ours, sampler.pid))
        sampler.start()
        return sampler

    # --- the thread -----------------------------------------------------------------------------

    def _attend(self) -> None:
        while not self._stopping.wait(LOOK_S):
            with self._lock:
                if not self._stopping.is_set():
                    self._look()

    def _look(self) -> None:
        """Starts again what ended, when that is due; says so."""
        assert self._sampler is not None
        now_s = time.perf_counter()
        reason = self._collector.lost()
        if reason is not None and self._of_collector.is_due(now_s, bool(self._collector.failed)):
            self._again(reason, "the collector", self._of_collector)
        elif (reason := self._sampler.lost()) is not None:
            if self._of_sampler.is_due(now_s, self._sampler.told_why):
                self._again(reason, "the sampler", self._of_sampler)
            elif self._of_sampler.over:
                self._lose(reason)

    def _again(self, reason: str, who: str, patience: _Patience) -> None:
        """Starts the sampler again, and before it the collector where that is `who`."""
        assert self._sampler is not None
        last_ns = self._sampler.last_sample_ns() or 0
        try:
            self._sampler.stop()
            if patience is self._of_collector:
                last_ns = self._collector.last_ns() or last_ns
                collector = Collector(self._plan, self._folder, self._segment)
                collector.start()
                self._collector.stop()
                self._collector = collector
            self._sampler = self._started_sampler()
        except RecordingError:
            pass  # it has ended again, and is looked at with the others
        else:
            until_ns = time.perf_counter_ns()
            text = (
                f"{who} was lost ({reason}) and started again: nothing was sampled for "
                f"{(until_ns - last_ns) * 1e-9:.2f} s"
            )
            self._news.append(News(sensor="sampler", text=text, gap=(last_ns, until_ns)))
        patience.begun(time.perf_counter())

    def _lose(self, reason: str) -> None:
        """The sampler stays away."""
        if not self._loss_reported:
            assert self._sampler is not None
            self._loss_reported = True
            text = f"the sampler was lost: {reason}; no samples from then on"
            lost_ns = self._sampler.last_sample_ns() or time.perf_counter_ns()
            self._news.append(News(sensor="sampler", text=text, lost_ns=lost_ns))
