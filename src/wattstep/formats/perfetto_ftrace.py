"""Events of the Linux kernel in a Perfetto trace: what runs on each core, its clock, and atrace."""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wattstep.formats.event_rows import MOST_NS
from wattstep.formats.perfetto_clocks import BOOTTIME, FAR, Clocks, Longs
from wattstep.formats.perfetto_packets import words
from wattstep.formats.perfetto_series import Sampled
from wattstep.formats.perfetto_slices import BEGIN, END, Slices
from wattstep.formats.trace import NONE

_PRINT: Final = re.compile(r"([BECSFINGH])(?:\|(\d{1,9})?(?:\|(.*))?)?", re.DOTALL)
_COUNT: Final = re.compile(r"(.*)\|(-?\d{1,18})", re.DOTALL)
_CLOCKS: Final = 1 << 40  # keys of clocks of ftrace other than that of boot


class Ftrace:
    """Takes in bundles of events.

    Attributes:
        lost: How many bundles say that events before them were lost.
        processes: By thread: the process that its slices name.
    """

    def __init__(
        self, clocks: Clocks, sampled: Sampled, slices: Slices, ignored: Counter[str]
    ) -> None:
        self.clocks, self.sampled, self.slices, self.ignored = clocks, sampled, slices, ignored
        self.lost = 0
        self.processes: dict[int, int] = {}
        self._switches: defaultdict[int, tuple[array[int], array[int], array[int]]]
        self._switches = defaultdict(lambda: (array("q"), array("q"), array("q")))

    def take(self, bundle: Any) -> None:
        """Events of one core."""
        clock = BOOTTIME
        if bundle.ftrace_clock and bundle.ftrace_timestamp > 0 and bundle.boot_timestamp > 0:
            clock = _CLOCKS + bundle.ftrace_clock
            self.clocks.snapshot(
                [
                    (clock, bundle.ftrace_timestamp, 1, False),
                    (BOOTTIME, bundle.boot_timestamp, 1, False),
                ]
            )
        elif bundle.ftrace_clock:
            clock = _CLOCKS + bundle.ftrace_clock  # tied to the others elsewhere, or never
        self.lost += bundle.lost_events
        for event in bundle.event:
            if event.timestamp >= MOST_NS:
                self.ignored[FAR] += 1
            else:
                self._event(event, bundle.cpu, clock)
        if bundle.HasField("compact_sched"):
            self._compact(bundle.compact_sched, bundle.cpu, clock)

    def _event(self, event: Any, core: int, clock: int) -> None:
        kind = event.WhichOneof("event")
        if kind == "sched_switch":
            self._switch(core, clock, event.timestamp, event.sched_switch.next_pid)
        elif kind == "cpu_frequency":
            change = event.cpu_frequency
            self.sampled.add(("frequency", change.cpu_id), clock, event.timestamp, change.state)
        elif kind == "gpu_frequency":
            change = event.gpu_frequency
            self.sampled.add(("gpu frequency", change.gpu_id), clock, event.timestamp, change.state)
        elif kind == "print":
            self._atrace(event, clock)
        else:
            self.ignored[f"event of ftrace: {kind or 'of a newer kind'}"] += 1

    def _switch(self, core: int, clock: int, time: int, thread: int) -> None:
        for column, value in zip(self._switches[core], (clock, time, thread), strict=True):
            column.append(value)

    def _compact(self, compact: Any, core: int, clock: int) -> None:
        """Switches in columns, the times as steps from one to the next."""
        time = 0
        for step, thread in zip(compact.switch_timestamp, compact.switch_next_pid, strict=False):
            time += step
            if time >= MOST_NS:
                self.ignored[FAR] += 1
                break
            self._switch(core, clock, time, thread)
        odd = abs(len(compact.switch_timestamp) - len(compact.switch_next_pid))
        if odd:
            self.ignored["switch of threads that is not whole"] += odd
        if compact.waking_timestamp:
            self.ignored["event of ftrace: sched_waking"] += len(compact.waking_timestamp)

    def _atrace(self, event: Any, clock: int) -> None:
        """Slices and counters that programs print into the trace."""
        text = words(event.print.buf).rstrip("\n\0")
        match = _PRINT.fullmatch(text)
        letter, process, name = (match[1], match[2], match[3]) if match else ("", "", "")
        number = int(process) if process else NONE
        track = (
            "atrace",
            event.pid,
        )  # the end may name no process: the thread ties it to its begin
        if letter == "B" and name:
            self.processes[event.pid] = number
            self.slices.add(BEGIN, name, track, clock, event.timestamp)
        elif letter == "E" and not name:
            self.slices.add(END, "", track, clock, event.timestamp)
        elif letter == "C" and name and (count := _COUNT.fullmatch(name)):
            key = ("atrace", number, count[1])
            self.sampled.add(key, clock, event.timestamp, int(count[2]))
        else:
            kind = f"print of atrace, {letter}" if letter else "print"
            self.ignored[f"event of ftrace: {kind}"] += 1

    def busy(self) -> None:
        """Adds the time that each core was busy, in s, at each of its switches.

        Counted on the clock of ftrace, which does not jump; before the first switch nothing is
        known.
        """
        for core, columns in sorted(self._switches.items()):
            clock, time, thread = (np.array(column, np.int64) for column in columns)
            order = np.argsort(time, kind="stable")
            clock, time, thread = clock[order], time[order], thread[order]
            keys, values = clock.tolist(), busy_time(time, thread).tolist()
            for key, at, value in zip(keys, time.tolist(), values, strict=True):
                self.sampled.add(("busy", core), key, at, value)


def busy_time(times: Longs, running: Longs) -> NDArray[np.float64]:
    """Busy time of a core in s at each of its switches.

    Args:
        times: Of the switches, in ns, in order. Shape (n,).
        running: The thread that each switch put on the core; 0: none. Shape (n,).
    """
    spent = np.where(running[:-1] != 0, np.diff(times), 0)
    return np.concatenate(([0.0], np.cumsum(spent) * 1e-9))[: len(times)]
