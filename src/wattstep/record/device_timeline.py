"""Marks of steps on the timeline of a device that runs behind the host."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from time import perf_counter_ns, sleep
from typing import Any, Final

from wattstep.schema.device_queue import DeviceQueue
from wattstep.schema.journal import Mark
from wattstep.schema.run_documents import GpuFacts
from wattstep.schema.step_memory import DEVICE
from wattstep.store.marks import MarkJournal

PATIENCE_NS: Final = 100_000  # how long an idle device is waited for
ANCHORS: Final = 5  # marks of an idle device where its clock is needed most tightly
FINISH_NS: Final = 5_000_000_000  # how long a device is waited for once the training is over
LOOK_S: Final = 0.0005  # how often it is asked meanwhile
FEW: Final = 4  # marks over which their cost is averaged
CROWDED: Final = 4096  # events that wait: more are read while a step runs
_FIRST_NS: Final = 1 << 40  # of the device's clock: two queues of a device may go back by little
_MOST_INDEX: Final = 2**32 - 1
_DEVICE, _ANCHOR = int(Mark.DEVICE), int(Mark.DEVICE_ANCHOR)


class _Stream:
    """Events of one stream that wait to be read.

    Args:
        kind: Of the marks that they become.

    Attributes:
        events: With the time of the host's mark of each, in their order.
        not_before_ns: The device had not come to the first of them then.
    """

    __slots__ = ("events", "kind", "not_before_ns")

    def __init__(self, kind: int = _DEVICE) -> None:
        self.events: deque[tuple[int, Any]] = deque()
        self.kind = kind
        self.not_before_ns = 0


class DeviceTimeline:
    """Events in a device's queue beside the marks of steps, read when the device has come to them.

    The training never waits: an event is asked for once it is there. Each becomes a mark in the
    journal, keyed by the time of the host's mark: the device's own time of it, and two times of
    the host between which the device came to it. `store.device_clock` maps the one to the other.

    Args:
        queue: Of the device.
        journal: Takes the marks.

    Attributes:
        cost_ns: What a mark costs the host, the reading of its event with it; mean of the last few
            that were made where the device was idle.

    Raises:
        OSError: The disk is full.
    """

    def __init__(self, queue: DeviceQueue, journal: MarkJournal) -> None:
        self._queue, self._journal = queue, journal
        self._code = journal.code("processor", queue.name)
        self._pending: dict[int, _Stream] = {}
        self._memory_noted = False
        self._waiting = 0  # events in all of them
        self._latest = _Stream()  # that of the mark made last
        self._beside = _Stream(_ANCHOR)  # where no work waits
        self._renamed: dict[int, int] = {}
        self._unplaced: list[int] = []  # marks that could have no event: a graph was captured
        self._last: Any = None  # the event that was read last
        self._device_ns = _FIRST_NS  # when that was
        self.cost_ns = 0
        self.name = queue.name

    def mark(self, t_ns: int) -> None:
        """The place in the device's queue that belongs to a mark of the host.

        Args:
            t_ns: The time of that mark, taken just before this call.
        """
        event = self._queue.record()
        if event is None:
            self._unplaced.append(t_ns)
            return
        number = self._queue.stream(event)
        stream = self._pending.get(number)
        if stream is None:
            stream = self._pending[number] = _Stream()
        self._latest = stream
        if self._unplaced:  # nothing was in the queue while the graph was captured
            stream.events.extend((unplaced, event) for unplaced in self._unplaced)
            self._waiting += len(self._unplaced)
            self._unplaced.clear()
        stream.events.append((t_ns, event))
        self._waiting += 1

    def facts(self) -> GpuFacts:
        """As `DeviceQueue.facts`, now."""
        return self._queue.facts()

    @property
    def crowded(self) -> bool:
        """True if many events wait to be read."""
        return self._waiting >= CROWDED

    def rename(self, moved: Mapping[int, int]) -> None:
        """Marks of the host have moved: from which time to which."""
        if moved:
            self._renamed.update(moved)

    def read(self, now_ns: int) -> None:
        """Writes down the events that the device has come to.

        Args:
            now_ns: Now, taken before this call.

        Raises:
            OSError: The disk is full.
        """
        for stream in self._pending.values():
            now_ns = self._read(stream, now_ns)
        if self._beside.events:
            self._read(self._beside, now_ns)

    def _read(self, stream: _Stream, now_ns: int) -> int:
        """Writes down what the device has come to in a stream; when it was asked last."""
        events, queue = stream.events, self._queue
        while events:
            t_ns, event = events[0]
            if not queue.reached(event):
                stream.not_before_ns = now_ns
                break
            now_ns = perf_counter_ns()
            events.popleft()
            self._waiting -= 1
            if self._last is not None and self._last is not event:
                self._device_ns += queue.between_ns(self._last, event)
                queue.release(self._last)
            self._last = event
            key = self._renamed.pop(t_ns, t_ns) if self._renamed else t_ns
            late = max(stream.not_before_ns - key, 0)
            stream.not_before_ns = 0  # of those behind it nothing is known
            self._journal.add(
                stream.kind,
                self._code,
                float(now_ns - key),
                min(late, _MOST_INDEX),
                self._device_ns,
                key,
            )
        return now_ns

    def anchor(self, times: int = 1) -> None:
        """Marks more, to which the device comes at once: they tell its clock to microseconds.

        Where it has nothing to do they are in the training's own stream, else in one beside it, in
        which no work waits. They are asked for, for `PATIENCE_NS` at most; the training's work is
        never waited for.

        Raises:
            OSError: The disk is full.
        """
        for _ in range(times):
            now = perf_counter_ns()
            until = now + PATIENCE_NS
            stream = self._beside if self._latest.events else None
            if stream is None:
                self.mark(now)
                stream = self._latest
            elif stream.events or not self._mark_beside(now):
                return
            marked = perf_counter_ns()
            cost = marked - now
            now = marked
            while stream.events and now < until:
                self._read(stream, now)
                asked, now = now, perf_counter_ns()
            if not stream.events and now > marked:
                cost += now - asked
                self.cost_ns += (cost - self.cost_ns) // FEW if self.cost_ns else cost

    def _mark_beside(self, t_ns: int) -> bool:
        """An event where no work waits; False where there can be none."""
        event = self._queue.record_beside()
        if event is None:
            return False
        self._beside.events.append((t_ns, event))
        self._waiting += 1
        return True

    def finish(self) -> None:
        """Waits for what the device still has to do, once the training is over; notes its memory.

        Not for ever: a device that hangs must not keep a process from ending.

        Raises:
            OSError: The disk is full.
        """
        now = perf_counter_ns()
        until = now + FINISH_NS
        self.mark(now)
        self.read(now)
        while self._waiting and now < until:
            sleep(LOOK_S)
            now = perf_counter_ns()
            self.read(now)
        self.anchor(ANCHORS)
        self.note_memory()

    def note_memory(self) -> None:
        """Notes the memory that the device took so far, once: what comes next is none of the training's.

        Raises:
            OSError: The disk is full.
        """
        if self._memory_noted:
            return
        self._memory_noted = True
        for category, size in self._queue.memory().items():
            self._journal.add(
                int(Mark.MEMORY), self._journal.code("memory", DEVICE + category), float(size)
            )
