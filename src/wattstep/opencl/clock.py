"""The clock of OpenCL events as the run's, from marks in a queue between two times of the host."""

from __future__ import annotations

import time
from typing import Any, Final, NamedTuple

import numpy as np

from wattstep.errors import DeviceFaultError
from wattstep.schema.extras import require

MARKS: Final = 16  # of an anchor: what the tightest on either side leave
DRIFT: Final = (
    500e-6  # by which clocks may go apart where their rate is not known: NTP slews so much
)


class Stamps(NamedTuple):
    """Times of an event, in ns of its own clock."""

    queued: int
    submitted: int
    started: int
    ended: int


def stamps(event: Any) -> Stamps:
    """When a command that has ended was queued by the host, submitted to the device, started and ended."""
    profile = event.profile
    return Stamps(profile.queued, profile.submit, profile.start, profile.end)


class EventClock:
    """Times of events as the run's (`schema.clock.Clock`).

    A mark was queued after the host's time before it, and has ended by the host's time after it.
    Many such bounds leave an offset that is known to microseconds, of any driver's clock; PoCL's is
    CLOCK_MONOTONIC_RAW. Between two moments with marks the offset is linear.

    Args:
        queue: In order, with profiling; it is waited for.
    """

    def __init__(self, queue: Any) -> None:
        self._at: list[int] = []  # of the events' clock
        self._offset: list[int] = []  # the run's less the events'
        self._half: list[int] = []  # by how much that may be off
        self.mark(queue)

    def mark(self, queue: Any) -> None:
        """Reads the clock once more, which takes under a millisecond.

        Raises:
            DeviceFaultError: The queue's marks have no times, or times that are not in order.
        """
        cl = require("pyopencl")
        queue.finish()
        bounds = []
        for _ in range(MARKS):
            before = time.monotonic_ns()
            event = cl.enqueue_marker(queue)
            event.wait()
            after = time.monotonic_ns()
            try:
                at = stamps(event)
            except cl.Error as error:
                raise DeviceFaultError(
                    f"{queue.device.name} tells no times of events: {error}", id="opencl-refused"
                ) from error
            bounds.append((at.queued, at.ended, before, after))
        self.add(bounds)

    def add(self, bounds: list[tuple[int, int, int, int]]) -> None:
        """Adds a moment that is known on both clocks.

        Args:
            bounds: Of marks: when each was queued and ended on the events' clock, and ours before it was
                queued and after it had ended.
        """
        low = max(before - queued for queued, _, before, _ in bounds)
        high = min(after - ended for _, ended, _, after in bounds)
        self._at.append(bounds[len(bounds) // 2][0])
        self._offset.append((low + high) // 2)
        # Bounds that exclude each other: a clock coarser than them, or one that was set meanwhile.
        self._half.append(abs(high - low) // 2 + 1)

    @property
    def rate(self) -> float:
        """As `Clock.rate`."""
        span = self._at[-1] - self._at[0]
        return 1.0 + (self._offset[-1] - self._offset[0]) / span if span > 0 else 1.0

    def map(self, t_ns: Any) -> Any:
        """As `Clock.map`."""
        offset = np.interp(self._since(t_ns), self._since(self._at), self._relative())
        beyond = (self.rate - 1.0) * self._beyond(t_ns)
        mapped = np.asarray(t_ns) + self._offset[0] + np.round(offset + beyond).astype(np.int64)
        return int(mapped) if isinstance(t_ns, int) else mapped

    def uncertainty_at(self, t_ns: Any) -> Any:
        """As `Clock.uncertainty_at`."""
        half = np.interp(self._since(t_ns), self._since(self._at), self._half)
        off = np.ceil(half + DRIFT * np.abs(self._beyond(t_ns))).astype(np.int64)
        return int(off) if isinstance(t_ns, int) else off

    def _since(self, t_ns: Any) -> Any:
        """Times of the events' clock from the first anchor on: floats hold them to the ns."""
        return (np.asarray(t_ns, np.int64) - self._at[0]).astype(np.float64)

    def _relative(self) -> Any:
        return (np.asarray(self._offset, np.int64) - self._offset[0]).astype(np.float64)

    def _beyond(self, t_ns: Any) -> Any:
        """How far times lie outside of all anchors."""
        since = self._since(t_ns)
        return since - np.clip(since, 0.0, float(self._at[-1] - self._at[0]))
